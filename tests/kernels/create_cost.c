/* create-cost DIR LENGTH: creates files in DIR whose names have LENGTH bytes, and prints how many nanoseconds one open(2) with O_CREAT
 * took on the average of the fastest of several rounds. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FILES = 200, ROUNDS = 15, LONGEST = 255 };

static long long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

int main(int argc, char **argv)
{
    static char names[FILES][LONGEST + 1];
    int length = argc == 3 ? atoi(argv[2]) : 0, fds[FILES];
    if (length < 8 || length > LONGEST || chdir(argv[1]))
        return 2;
    for (int i = 0; i < FILES; i++) {
        memset(names[i], 'a', length);
        char number[9];
        snprintf(number, sizeof number, "%08d", i);
        memcpy(names[i] + length - 8, number, 8);
    }
    long long best = -1;
    for (int round = 0; round < ROUNDS; round++) {
        long long begun = now();
        for (int i = 0; i < FILES; i++)
            fds[i] = open(names[i], O_CREAT | O_EXCL | O_WRONLY, 0600);
        long long took = now() - begun;
        for (int i = 0; i < FILES; i++)
            if (fds[i] < 0 || close(fds[i]) || unlink(names[i])) {
                perror(names[i]);
                return 1;
            }
        if (best < 0 || took < best)
            best = took;
    }
    printf("%lld\n", best / FILES);
    return 0;
}
