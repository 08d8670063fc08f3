/* case-cost DIR COUNT: makes COUNT files in DIR, and prints how many nanoseconds lstat(2) takes, on the average of the fastest of several rounds,
 * for exact names, for names in another case, and for names that do not exist, all of them dropped from the kernel's cache before. The second is
 * `-` where case counts. */
#include "cost.h"
#include <ctype.h>

enum { NAMES = 200, ROUNDS = 7, KINDS = 3, LONGEST = 64 };

static void spell(char *name, int number, int kind)
{
    snprintf(name, LONGEST, "%s-%07d-Final.txt", kind == 2 ? "Absent" : "Report", number);
    for (; kind == 1 && *name; name++)
        *name = isupper(*name) ? tolower(*name) : toupper(*name);
}

int main(int argc, char **argv)
{
    static char names[NAMES][LONGEST];
    int count = argc == 3 ? atoi(argv[2]) : 0;
    long long best[KINDS] = {0};
    struct stat found;
    if (count < NAMES || chdir(argv[1]))
        return 2;
    for (int i = 0; i < count; i++) {
        spell(names[0], i, 0);
        if (mknod(names[0], S_IFREG | 0600, 0)) {
            perror(names[0]);
            return 1;
        }
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int kind = 0; kind < KINDS; kind++) {
            for (int i = 0; i < NAMES; i++)
                spell(names[i], (i * (count / NAMES) + round * 31) % count, kind);
            int there = 0;
            drop_names();
            long long begun = now();
            for (int i = 0; i < NAMES; i++)
                there += lstat(names[i], &found) == 0;
            long long took = now() - begun;
            if (kind == 0 ? there != NAMES : kind == 2 && there)
                return 1;
            if (kind == 1 && there == 0)
                best[kind] = -1;
            else if (round == 0 || took < best[kind])
                best[kind] = took;
        }
    }
    for (int kind = 0; kind < KINDS; kind++) {
        if (best[kind] < 0)
            printf("-");
        else
            printf("%lld", best[kind] / NAMES);
        putchar(kind + 1 < KINDS ? ' ' : '\n');
    }
    return 0;
}
