/* What name-cost and case-cost have in common: the clock, and the kernel's caches of names. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static long long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

/* Has the kernel drop its cached names; ends the program if that is not allowed. */
static void drop_names(void)
{
    static int caches;
    if (!caches)
        caches = open("/proc/sys/vm/drop_caches", O_WRONLY);
    if (write(caches, "2", 1) != 1)
        exit(2);
}
