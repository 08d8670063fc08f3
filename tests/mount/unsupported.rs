//! What programs can do instead where FUSE does not support a call: the list in docs/SEMANTICS.md.

use std::fs;
use std::process::Command;

use crate::mounted::Mounted;

const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
int main(int argc, char **argv) {
    char buffer[4096] = {0};
    struct iovec two = {"AB", 2};
    int appending, other, events;
    if (chdir(argv[1])) return perror(argv[1]), 1;
    appending = open("file", O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);
    write(appending, "0123456789", 10);
    /* RWF_NOAPPEND */
    fprintf(stderr, "RWF_NOAPPEND: %zd, %m\n", pwritev2(appending, &two, 1, 0, 0x20));
    ftruncate(appending, 10);
    other = open("file", O_RDWR);
    pwrite(other, "EF", 2, 0);
    pread(other, buffer, 60, 0);
    printf("another descriptor: %s\n", buffer + 2);
    /* RWF_DONTCACHE */
    errno = 0;
    fprintf(stderr, "RWF_DONTCACHE: %zd, %m\n", pwritev2(other, &two, 1, 0, 0x80));
    printf("DONTNEED: %d, %d\n", fdatasync(other), posix_fadvise(other, 0, 0, POSIX_FADV_DONTNEED));
    events = fanotify_init(FAN_CLASS_NOTIF | FAN_REPORT_DFID_NAME, 0);
    errno = 0;
    fprintf(stderr, "mark of the file system: %d, %m\n",
        fanotify_mark(events, FAN_MARK_ADD | FAN_MARK_FILESYSTEM, FAN_CREATE, AT_FDCWD, "."));
    events = fanotify_init(FAN_CLASS_NOTIF | FAN_REPORT_DFID_NAME | FAN_NONBLOCK, 0);
    printf("mark of a directory: %d\n", fanotify_mark(events, FAN_MARK_ADD, FAN_CREATE | FAN_ONDIR, AT_FDCWD, "."));
    mkdir("new", 0700);
    printf("event: %d\n", read(events, buffer, sizeof buffer) > 0);
    return 0;
}
"#;

#[test]
fn what_fuse_does_not_support_is_done_in_another_way() {
    for mounted in Mounted::both_ways() {
        let (source, program) = (mounted.run_directory().join("p.c"), mounted.run_directory().join("p"));
        fs::write(&source, PROGRAM).unwrap();
        let compiled = Command::new("gcc").args(["-w", "-o"]).args([&program, &source]).status();
        if !compiled.is_ok_and(|status| status.success()) {
            return println!("SKIPPED: no gcc");
        }
        mounted.same(|dir| {
            let output = Command::new(&program).arg(dir).output().unwrap();
            println!("{}:\n{}", dir.display(), String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        });
    }
}
