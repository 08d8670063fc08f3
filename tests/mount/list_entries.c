/* list-entries DIR SEEKS [stat]: lists a directory, seeks to SEEKS of its entries, and prints how many there are. Reads the attributes of
 * each if `stat` is given. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
static char names[50000][64];
static long places[50000];
int main(int argc, char **argv) {
    struct dirent *entry;
    DIR *dir = opendir(argv[1]);
    int count = 0, wrong = 0;
    if (!dir || chdir(argv[1])) return perror(argv[1]), 1;
    for (;;) {
        long place = telldir(dir);
        errno = 0;
        entry = readdir(dir);
        if (!entry || count == 50000) break;
        strncpy(names[count], entry->d_name, 63);
        places[count++] = place;
        if (argc > 3) {
            struct stat found;
            if (lstat(entry->d_name, &found)) return perror(entry->d_name), 1;
        }
    }
    printf("%d entries of %d bits, then %s\n", count, (int)sizeof(void *) * 8, strerror(errno));
    /* In the open directory, and in another one. */
    for (int round = 0; round < 2; round++) {
        for (int at = count - 1; at >= 0; at -= 1 + count / atoi(argv[2])) {
            seekdir(dir, places[at]);
            entry = readdir(dir);
            if (!entry || strncmp(entry->d_name, names[at], 63)) wrong++;
        }
        closedir(dir);
        dir = opendir(".");
    }
    printf("%d found elsewhere\n", wrong);
    return 0;
}
