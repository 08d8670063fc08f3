//! Programs of 32 bits, built without support for large files: they cannot read offsets and inode numbers that do not fit.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use nix::mount::{MntFlags, MsFlags, mount, umount2};

use crate::mounted::{Mounted, transport};

/// Lists a directory, seeks to each entry, and shows how many there are. Reads the attributes of each if `stat` is given.
const PROGRAM: &str = r#"
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
        if (argc > 2) {
            struct stat found;
            if (lstat(entry->d_name, &found)) return perror(entry->d_name), 1;
        }
    }
    printf("%d entries of %d bits, then %s\n", count, (int)sizeof(void *) * 8, strerror(errno));
    /* In the open directory, and in another one. */
    for (int round = 0; round < 2; round++) {
        for (int at = count - 1; at >= 0; at -= 1 + count / 500) {
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
"#;

/// The program for 32 bits, or for those of this machine; `None`, after a message, without a compiler.
fn program(dir: &Path, is_small: bool) -> Option<PathBuf> {
    let (source, program) = (dir.join("program.c"), dir.join(if is_small { "program32" } else { "program" }));
    fs::write(&source, PROGRAM).unwrap();
    let options: &[&str] = if is_small { &["-m32", "-w", "-o"] } else { &["-w", "-o"] };
    match Command::new("gcc").args(options).args([&program, &source]).output() {
        Ok(output) if output.status.success() => Some(program),
        _ => {
            println!("SKIPPED: no gcc with libraries for 32 bits (gcc-multilib)");
            None
        }
    }
}

fn output(program: &Path, args: &[&str], dir: &Path) -> String {
    let output = Command::new(program).arg(dir).args(args).output().unwrap();
    assert!(output.status.success(), "{}: {}", dir.display(), String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn programs_of_32_bits_list_directories_and_seek_in_them() {
    let Some(mounted) = Mounted::new(&[]) else { return };
    let programs = [program(&mounted.run_directory(), true), program(&mounted.run_directory(), false)];
    const DIRECTORIES: [(&str, usize); 3] = [("empty", 0), ("few", 3), ("many", 2000)];
    for (name, count) in DIRECTORIES {
        for root in [mounted.plain(), mounted.backing()] {
            fs::create_dir(root.join(name)).unwrap();
            (0..count).for_each(|i| fs::write(root.join(name).join(format!("a file {i}")), "").unwrap());
        }
    }
    for args in [&["stat"][..], &[], &[]] {
        for (name, count) in DIRECTORIES {
            for program in programs.iter().flatten() {
                let shown = mounted.same(|dir| output(program, args, &dir.join(name)));
                let ends = format!("{} entries of ", count + 2);
                assert!(
                    shown.starts_with(&ends) && shown.ends_with("Success\n0 found elsewhere\n"),
                    "{shown}"
                );
            }
        }
        // Long enough for the kernel to cache a listing.
        sleep(Duration::from_millis(3200));
    }
}

#[test]
fn programs_of_32_bits_read_attributes_on_file_systems_below() {
    if transport() == "fuser" {
        return println!("SKIPPED: fuser has one number for both nodes and inodes");
    }
    let Some(mounted) = Mounted::new(&[]) else { return };
    let Some(program) = program(&mounted.run_directory(), true) else { return };
    let below = mounted.backing().join("below");
    fs::create_dir(&below).unwrap();
    mount(Some("below"), &below, Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
    (0..20).for_each(|i| fs::write(below.join(format!("{i}")), "").unwrap());
    let shown = output(&program, &["stat"], &mounted.mnt().join("below"));
    umount2(&below, MntFlags::MNT_DETACH).unwrap();
    assert!(shown.starts_with("22 entries of 32 bits, then Success"), "{shown}");
}
