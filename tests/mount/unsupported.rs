//! What FUSE does not support, and what programs can do instead: the list in docs/semantics/LIMITS.md.

use std::fs;
use std::process::Command;

use namegate_testkit::mounted::TestMount;

/// Prints what it does instead on standard output, and what is not supported on standard error.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
static const char *result(long returned) { return returned < 0 ? strerrorname_np(errno) : "works"; }
#define SAY(what, call) fprintf(stderr, "%s: %s\n", what, result(call))

/* The result of a read in a ring with IOPOLL. */
static int polled(int file) {
    static char block[4096] __attribute__((aligned(4096)));
    struct io_uring_params p = {.flags = IORING_SETUP_IOPOLL};
    int ring = syscall(SYS_io_uring_setup, 1, &p);
    if (ring < 0) return -1;
    char *sq = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
    char *cq = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_CQ_RING);
    struct io_uring_sqe *sqe = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
    *sqe = (struct io_uring_sqe){.opcode = IORING_OP_READ, .fd = file, .addr = (long)block, .len = sizeof block};
    *(unsigned *)(sq + p.sq_off.array) = 0;
    __atomic_store_n((unsigned *)(sq + p.sq_off.tail), 1, __ATOMIC_RELEASE);
    if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, 0, 0) < 0) return -1;
    int found = ((struct io_uring_cqe *)(cq + p.cq_off.cqes))->res;
    close(ring);
    return found < 0 ? errno = -found, -1 : found;
}

int main(int argc, char **argv) {
    char buffer[4096] = {0}, *swap = calloc(1, 1 << 20);
    struct iovec two = {"AB", 2}, in = {buffer, 2};
    struct statx attributes;
    int appending, other, direct, events, flags, immutable = FS_IMMUTABLE_FL;
    struct fiemap map = {.fm_length = 4096};
    if (chdir(argv[1])) return perror(argv[1]), 1;
    appending = open("file", O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);
    write(appending, "0123456789", 10);
    /* RWF_NOAPPEND */
    SAY("RWF_NOAPPEND", pwritev2(appending, &two, 1, 0, 0x20));
    fprintf(stderr, "size after RWF_NOAPPEND: %ld\n", (long)lseek(appending, 0, SEEK_END));
    fcntl(appending, F_SETFL, 0);
    pwrite(appending, "CD", 2, 0);
    fprintf(stderr, "size without O_APPEND: %ld\n", (long)lseek(appending, 0, SEEK_END));
    ftruncate(appending, 10);
    other = open("file", O_RDWR);
    pwrite(other, "EF", 2, 0);
    pread(other, buffer, 60, 0);
    printf("another descriptor: %s\n", buffer + 2);
    /* RWF_DONTCACHE */
    SAY("RWF_DONTCACHE", pwritev2(other, &two, 1, 0, 0x80));
    printf("DONTNEED: %d, %d\n", fdatasync(other), posix_fadvise(other, 0, 0, POSIX_FADV_DONTNEED));
    SAY("RWF_NOWAIT", preadv2(other, &in, 1, 0, RWF_NOWAIT));
    ftruncate(other, 3 * 4096);
    SAY("COLLAPSE_RANGE", fallocate(other, FALLOC_FL_COLLAPSE_RANGE, 4096, 4096));
    SAY("INSERT_RANGE", fallocate(other, FALLOC_FL_INSERT_RANGE, 4096, 4096));
    SAY("UNSHARE_RANGE", fallocate(other, FALLOC_FL_UNSHARE_RANGE, 0, 4096));
    SAY("FIEMAP", ioctl(other, FS_IOC_FIEMAP, &map));
    SAY("FICLONE", ioctl(open("clone", O_RDWR | O_CREAT, 0600), FICLONE, other));
    direct = open("file", O_RDONLY | O_DIRECT);
    SAY("IOPOLL", polled(direct));
    ioctl(other, FS_IOC_SETFLAGS, &immutable);
    statx(other, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &attributes);
    fprintf(stderr, "immutable by statx: %d\n", !!(attributes.stx_attributes & STATX_ATTR_IMMUTABLE));
    ioctl(other, FS_IOC_GETFLAGS, &flags);
    printf("immutable by flags: %d\n", !!(flags & FS_IMMUTABLE_FL));
    flags &= ~FS_IMMUTABLE_FL;
    ioctl(other, FS_IOC_SETFLAGS, &flags);
    write(open("swap", O_RDWR | O_CREAT, 0600), swap, 1 << 20);
    if (!system("mkswap -q swap")) {
        SAY("swapon", swapon("swap", 0));
        swapoff("swap");
    }
    events = fanotify_init(FAN_CLASS_NOTIF | FAN_REPORT_DFID_NAME, 0);
    SAY("mark of the file system", fanotify_mark(events, FAN_MARK_ADD | FAN_MARK_FILESYSTEM, FAN_CREATE, AT_FDCWD, "."));
    events = fanotify_init(FAN_CLASS_NOTIF | FAN_REPORT_DFID_NAME | FAN_NONBLOCK, 0);
    printf("mark of a directory: %d\n", fanotify_mark(events, FAN_MARK_ADD, FAN_CREATE | FAN_ONDIR, AT_FDCWD, "."));
    mkdir("new", 0700);
    printf("event: %d\n", read(events, buffer, sizeof buffer) > 0);
    return 0;
}
"#;

/// What the page says of a mount.
const UNSUPPORTED: &str = "\
RWF_NOAPPEND: works
size after RWF_NOAPPEND: 12
size without O_APPEND: 14
RWF_DONTCACHE: EOPNOTSUPP
RWF_NOWAIT: EOPNOTSUPP
COLLAPSE_RANGE: EOPNOTSUPP
INSERT_RANGE: EOPNOTSUPP
UNSHARE_RANGE: EOPNOTSUPP
FIEMAP: EOPNOTSUPP
FICLONE: EOPNOTSUPP
IOPOLL: EOPNOTSUPP
immutable by statx: 0
swapon: EINVAL
mark of the file system: ENODEV
";

#[test]
fn what_fuse_does_not_support_is_done_in_another_way() {
    // RWF_NOAPPEND is that old.
    if namegate_sys::release::running().is_none_or(|running| running < (6, 9, 0)) {
        return println!("SKIPPED: this kernel does not know all of these calls");
    }
    for mounted in TestMount::both_ways() {
        let (source, program) = (mounted.run_directory().join("p.c"), mounted.run_directory().join("p"));
        fs::write(&source, PROGRAM).unwrap();
        let compiled = Command::new("gcc").args(["-w", "-o"]).args([&program, &source]).status();
        if !compiled.is_ok_and(|status| status.success()) {
            return println!("SKIPPED: no gcc");
        }
        let mnt = mounted.mnt();
        mounted.same(|dir| {
            let output = Command::new(&program).arg(dir).output().unwrap();
            let unsupported = String::from_utf8(output.stderr).unwrap();
            match dir == mnt {
                true => assert_eq!(unsupported, UNSUPPORTED),
                false => println!("{}:\n{unsupported}", dir.display()),
            }
            String::from_utf8(output.stdout).unwrap()
        });
    }
}
