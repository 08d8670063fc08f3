/* name-cost DIR LENGTH [warm]: creates, renames and removes files in DIR whose names have LENGTH bytes, and prints how many nanoseconds these
 * calls took, each on the average of the fastest of several rounds: open(2) with O_CREAT, lstat(2) of a name that the kernel has dropped
 * from its cache, lstat(2) of one that does not exist, rename(2), unlink(2). */
#include "cost.h"
#include <string.h>

enum { FILES = 200, ROUNDS = 15, LONGEST = 255, CALLS = 5 };

static int call(int which, const char *name, const char *other)
{
    struct stat found;
    switch (which) {
    case 0:
        return open(name, O_CREAT | O_EXCL | O_WRONLY, 0600);
    case 1:
        return lstat(name, &found);
    case 2:
        return lstat(other, &found) < 0 && errno == ENOENT ? 0 : -1;
    case 3:
        return rename(name, other);
    default:
        return unlink(other);
    }
}

int main(int argc, char **argv)
{
    static char names[FILES][LONGEST + 1], others[FILES][LONGEST + 1];
    int length = argc >= 3 ? atoi(argv[2]) : 0, results[FILES];
    long long best[CALLS];
    if (length < 8 || length > LONGEST || chdir(argv[1]))
        return 2;
    for (int i = 0; i < FILES; i++) {
        char number[9];
        snprintf(number, sizeof number, "%08d", i);
        memset(names[i], 'a', length);
        memcpy(names[i] + length - 8, number, 8);
        memcpy(others[i], names[i], length);
        others[i][0] = 'b';
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int which = 0; which < CALLS; which++) {
            if (which == 1 && argc == 3)
                drop_names();
            long long begun = now();
            for (int i = 0; i < FILES; i++)
                results[i] = call(which, names[i], others[i]);
            long long took = now() - begun;
            for (int i = 0; i < FILES; i++)
                if (results[i] < 0 || (which == 0 && close(results[i]))) {
                    perror(names[i]);
                    return 1;
                }
            if (round == 0 || took < best[which])
                best[which] = took;
        }
    }
    for (int which = 0; which < CALLS; which++)
        printf("%lld%c", best[which] / FILES, which + 1 < CALLS ? ' ' : '\n');
    return 0;
}
