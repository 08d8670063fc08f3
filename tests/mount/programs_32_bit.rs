//! Programs of 32 bits, built without support for large files: they cannot read offsets and inode numbers that do not fit.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use namegate_sys::directory;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::unistd::{Whence, lseek};

use crate::handles::ended;
use namegate_testkit::mounted::{TestMount, can_mount, prepare};

/// Lists a directory, seeks to some of its entries, and shows how many there are. Reads the attributes of each if `stat` is given.
const PROGRAM: &str = include_str!("list_entries.c");

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
    let Some(mounted) = TestMount::new(&[]) else { return };
    let programs = [program(&mounted.run_directory(), true), program(&mounted.run_directory(), false)];
    const DIRECTORIES: [(&str, usize); 3] = [("empty", 0), ("few", 3), ("many", 2000)];
    for (name, count) in DIRECTORIES {
        for root in [mounted.plain(), mounted.backing()] {
            fs::create_dir(root.join(name)).unwrap();
            (0..count).for_each(|i| fs::write(root.join(name).join(format!("a file {i}")), "").unwrap());
        }
    }
    for args in [&["500", "stat"][..], &["500"], &["500"]] {
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

/// Files of a directory on an ext4 with the seed of the test, by their hashes: two with one hash; two with one and a third with the next one;
/// three with one.
const PAIRS: [&str; 12] = [
    "f141350", "f133570", "f196542", "f138769", "f29681", "f99714", "f102134", "f177516", "f20193",
    "f169104", "f50103", "f1753",
];
const NEIGHBOURS: [&str; 6] = ["f4056888", "f981424", "f4242555", "f1277550", "f3452245", "f3150213"];
const TRIPLES: [&str; 6] = ["f3996872", "f4535805", "f3260132", "f1262373", "f701151", "f3754930"];

/// The names of a directory from the offset `place` on, each with its offset.
fn entries_at(dir: &Path, mut place: i64) -> Vec<(String, i64)> {
    let dir = fs::File::open(dir).unwrap();
    lseek(&dir, place, Whence::SeekSet).unwrap();
    let (mut entries, mut buffer) = (Vec::new(), [0; 32 * 1024]);
    loop {
        let read = directory::read(&dir, &mut buffer).unwrap();
        let mut rest = &buffer[..read];
        while let Some((entry, len)) = directory::first(rest) {
            entries.push((entry.name.to_str().unwrap().to_owned(), place));
            (place, rest) = (entry.next, &rest[len..]);
        }
        if read == 0 {
            return entries;
        }
    }
}

#[test]
fn entries_with_one_hash_are_listed_by_programs_of_32_bits() {
    if !can_mount() {
        return;
    }
    let dir = prepare();
    let image = dir.path().join("image");
    fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
    let seed = "hash_seed=01020304-0506-0708-090a-0b0c0d0e0f10";
    let made = Command::new("mkfs.ext4").args(["-q", "-N", "8000", "-E", seed]).arg(&image).status();
    let backing = dir.path().join("backing");
    let attach =
        || Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&backing).status().unwrap().success();
    if !made.is_ok_and(|status| status.success()) || !attach() {
        return println!("SKIPPED: no ext4 on a loop device");
    }
    let mounted = TestMount::of(dir, |dir| (dir.join("backing"), dir.join("mnt")), &[]);
    let programs = [program(&mounted.run_directory(), true), program(&mounted.run_directory(), false)];
    let fill = |name: &str, ties: &[&str]| {
        let dir = mounted.backing().join(name);
        fs::create_dir(&dir).unwrap();
        let others = (0..2000).map(|i| format!("other {i}"));
        others
            .chain(ties.iter().map(|&name| name.to_owned()))
            .for_each(|name| drop(fs::File::create(dir.join(name)).unwrap()));
    };
    fill("pairs", &PAIRS);
    fill("more", &[&NEIGHBOURS[..], &TRIPLES].concat());
    for program in programs.iter().flatten() {
        let shown = output(program, &["5000"], &mounted.mnt().join("pairs"));
        assert!(
            shown.starts_with("2014 entries of ") && shown.ends_with("Success\n0 found elsewhere\n"),
            "{shown}"
        );
    }
    if let Some(program) = &programs[1] {
        let shown = output(program, &["5000"], &mounted.mnt().join("more"));
        assert_eq!(shown, "2014 entries of 64 bits, then Success\n0 found elsewhere\n");
    }
    // The place of an entry stays when the one before it, which has the same hash, is removed.
    let pairs = mounted.mnt().join("pairs");
    let places = entries_at(&pairs, 0);
    for neighbours in places.windows(2) {
        let [(first, _), (second, place)] = neighbours else { unreachable!() };
        if [first, second].iter().all(|name| PAIRS.contains(&name.as_str())) {
            fs::remove_file(pairs.join(first)).unwrap();
            assert_eq!(&entries_at(&pairs, *place)[0].0, second);
        }
    }
    let dir = ended(mounted);
    umount2(&dir.path().join("backing"), MntFlags::MNT_DETACH).unwrap();
}

#[test]
fn programs_of_32_bits_read_attributes_on_file_systems_below() {
    let Some(mounted) = TestMount::new(&[]) else { return };
    let Some(program) = program(&mounted.run_directory(), true) else { return };
    let below = mounted.backing().join("below");
    fs::create_dir(&below).unwrap();
    mount(Some("below"), &below, Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
    (0..20).for_each(|i| fs::write(below.join(format!("{i}")), "").unwrap());
    let shown = output(&program, &["500", "stat"], &mounted.mnt().join("below"));
    umount2(&below, MntFlags::MNT_DETACH).unwrap();
    assert!(shown.starts_with("22 entries of 32 bits, then Success"), "{shown}");
}
