//! Set-id bits: every way to change a file, by all kinds of callers, natively and through mounts. The kernel is the
//! oracle: the result through the mount must be that of the source.

#![allow(unsafe_code, reason = "what is written by way of memory is written by mmap(2)")]

use std::fmt::{self, Display};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, copy_file_range, fallocate, splice};
use nix::unistd::pipe;

use namegate_testkit::acting::act_as;
use namegate_testkit::metrics::scraped;
use namegate_testkit::mounted::{TestMount, has_no_passthrough, open_to_all, transport};

/// Owner and group of the file.
const OWNER: u32 = 1234;
const GROUP: u32 = 2345;

/// The callers: user, group, supplementary groups.
const CALLERS: [(&str, u32, u32, &[u32]); 7] = [
    ("the owner, in the group", OWNER, GROUP, &[]),
    ("the owner, in the group by a supplementary one", OWNER, 999, &[77, GROUP]),
    ("the owner, not in the group", OWNER, 999, &[77]),
    ("somebody else in the group", 4321, GROUP, &[]),
    ("somebody else in the group by a supplementary one", 4321, 999, &[77, GROUP]),
    ("somebody else", 4321, 999, &[]),
    ("root", 0, 0, &[]),
];

/// Modes with and without group execute, for writers who are the owner, in the group, or neither.
const MODES: [u32; 14] = [
    0o2755, 0o2711, 0o2745, 0o2644, 0o4755, 0o6755, 0o6711, 0o6745, 0o2777, 0o2767, 0o4777, 0o6777, 0o6767,
    0o2666,
];

#[repr(align(4096))]
struct Block([u8; 4096]);

/// The file to change: its path, and the open file if it was opened early.
struct Subject<'a> {
    path: &'a Path,
    early: Option<&'a File>,
    from: &'a File,
}

impl Subject<'_> {
    /// Runs `work` with the file: the one opened early, or one opened now.
    fn open<T>(&self, flags: i32, work: impl FnOnce(&File) -> Result<T, Errno>) -> Result<(), Errno> {
        match self.early {
            Some(file) => work(file).map(drop),
            None => work(&opened(self.path, flags)?).map(drop),
        }
    }
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap())
}

fn opened(path: &Path, flags: i32) -> Result<File, Errno> {
    OpenOptions::new().write(true).custom_flags(flags).open(path).map_err(|error| errno(&error))
}

fn done(result: std::io::Result<()>) -> Result<(), Errno> {
    result.map_err(|error| errno(&error))
}

/// A way to change a file.
type Change = fn(&Subject<'_>) -> Result<(), Errno>;

/// Changes of the content by a descriptor, which the kernel makes by itself in a file that it reads and writes by itself, and
/// those for which it sends requests.
const WRITES: [(&str, Change); 5] = [
    ("write", |subject| subject.open(0, |mut file| done(file.write_all(b"x")))),
    ("pwrite", |subject| subject.open(0, |file| done(file.write_all_at(b"x", 5000)))),
    ("append", |subject| subject.open(libc::O_APPEND, |mut file| done(file.write_all(b"x")))),
    ("direct write", |subject| {
        subject.open(libc::O_DIRECT, |file| match file.write_at(&Block([1; 4096]).0, 0) {
            // The file was opened without O_DIRECT, or does not support it.
            Ok(_) => Ok(()),
            Err(error) => Err(errno(&error)),
        })
    }),
    ("splice", |subject| {
        subject.open(0, |file| {
            let (reader, writer) = pipe()?;
            nix::unistd::write(&writer, b"content")?;
            splice(&reader, None, file, None, 7, nix::fcntl::SpliceFFlags::empty())
        })
    }),
];

const REQUESTS: [(&str, Change); 5] = [
    ("ftruncate", |subject| subject.open(0, |file| done(file.set_len(3)))),
    ("ftruncate to more", |subject| subject.open(0, |file| done(file.set_len(1 << 20)))),
    ("fallocate", |subject| subject.open(0, |file| fallocate(file, FallocateFlags::empty(), 0, 9999))),
    ("punch a hole", |subject| {
        let mode = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        subject.open(0, |file| fallocate(file, mode, 0, 5))
    }),
    ("copy_file_range", |subject| {
        subject.open(0, |file| copy_file_range(subject.from, Some(&mut 0), file, Some(&mut 0), 7))
    }),
];

/// Changes by the path.
const BY_PATH: [(&str, Change); 11] = [
    ("open with O_TRUNC", |subject| opened(subject.path, libc::O_TRUNC).map(drop)),
    ("create what is there", |subject| opened(subject.path, libc::O_TRUNC | libc::O_CREAT).map(drop)),
    ("truncate", |subject| nix::unistd::truncate(subject.path, 3)),
    ("write through memory", |subject| write_mapped(subject.path)),
    ("chown to nobody else", |subject| nix::unistd::chown(subject.path, None, None)),
    ("chown to the owner", |subject| done(chown(subject.path, Some(OWNER), None))),
    ("chown to another", |subject| done(chown(subject.path, Some(4321), None))),
    ("chgrp to its group", |subject| done(chown(subject.path, None, Some(GROUP)))),
    ("chgrp to another", |subject| done(chown(subject.path, None, Some(77)))),
    ("chmod 2775", |subject| done(fs::set_permissions(subject.path, fs::Permissions::from_mode(0o2775)))),
    ("chmod 6745", |subject| done(fs::set_permissions(subject.path, fs::Permissions::from_mode(0o6745)))),
];

fn write_mapped(path: &Path) -> Result<(), Errno> {
    let file = OpenOptions::new().read(true).write(true).open(path).map_err(|error| errno(&error))?;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping of a page that the file has (every file here holds seven bytes) is written, synced and unmapped.
    unsafe {
        let page = libc::mmap(std::ptr::null_mut(), 4096, protection, libc::MAP_SHARED, file.as_raw_fd(), 0);
        if page == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        page.cast::<u8>().write_volatile(b'x');
        assert_eq!(libc::msync(page, 4096, libc::MS_SYNC), 0);
        assert_eq!(libc::munmap(page, 4096), 0);
    }
    Ok(())
}

/// When the file is opened, and what was done with it before its bits were set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Time {
    /// It was never open before.
    Late,
    /// It was open before, and is closed again: the kernel may read and write it by itself.
    LateAgain,
    /// It was opened before the bits were set.
    Early,
}

/// chown(2) without ids by others than the owner. The kernel refuses it if it would clear bits. Through a mount it does not
/// distinguish this from a write, so nothing is changed and nothing is refused.
fn is_chown_of_nothing(name: &str, caller: usize) -> bool {
    name == "chown to nobody else" && ![OWNER, 0].contains(&CALLERS[caller].1)
}

/// The result of a change.
#[derive(PartialEq, Eq)]
struct Outcome {
    result: Result<(), Errno>,
    /// The mode where the change was made.
    mode: u32,
    /// The mode in the backing tree.
    mode_behind: u32,
}

impl Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:o}, {:o} in the backing tree, {:?}", self.mode, self.mode_behind, self.result)
    }
}

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

/// Creates a file in `dir`, which is `behind` in the backing tree, sets the bits of `mode` last, and lets `caller` change it.
/// Unless the file is opened early, `close` is called when it is closed, before its bits are set.
fn change(
    (dir, behind, from): (&Path, &Path, &File),
    close: impl Fn(),
    time: Time,
    mode: u32,
    caller: usize,
    how: Change,
) -> Outcome {
    let (_, uid, gid, groups) = CALLERS[caller];
    let path = dir.join("file");
    fs::write(&path, "content").unwrap();
    chown(&path, Some(OWNER), Some(GROUP)).unwrap();
    open_to_all(&path);
    let act = |work: &(dyn Fn() -> Result<Option<File>, Errno> + Sync)| act_as(uid, gid, groups, 0, work);
    let file = match time {
        Time::Late => None,
        Time::LateAgain | Time::Early => act(&|| opened(&path, 0).map(Some)).unwrap(),
    };
    let early = file.filter(|_| time == Time::Early);
    if early.is_none() {
        close();
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    let result = act(&|| how(&Subject { path: &path, early: early.as_ref(), from }).map(|()| None)).map(drop);
    let outcome = Outcome { result, mode: mode_of(&path), mode_behind: mode_of(&behind.join("file")) };
    drop(early);
    fs::remove_file(&path).unwrap();
    outcome
}

/// The step of a third of the combinations. Neither the number of modes nor that of callers is a multiple of three, so each mode and each
/// caller is among them for every change.
const A_THIRD: usize = 3;

/// How many combinations there are for each that is tried. The run over the default transport tries all. The others only have to
/// deliver the same flags and ids to the same code.
fn step() -> usize {
    if transport() == "dev" && !has_no_passthrough() { 1 } else { A_THIRD }
}

/// Tries the combinations in a directory of the source and through the mount. If the kernel reads and writes files by itself,
/// the mount serves its metrics at `port`.
fn compare(mounted: &TestMount, port: Option<u16>, step: usize) {
    let native = mounted.backing().join("native");
    let through = mounted.mnt().join("through");
    let behind = mounted.backing().join("through");
    [&native, &through].into_iter().for_each(|dir| {
        fs::create_dir(dir).unwrap();
        open_to_all(dir);
    });
    fs::write(native.join("from"), "content").unwrap();
    fs::write(through.join("from"), "content").unwrap();
    let sources = [File::open(native.join("from")).unwrap(), File::open(through.join("from")).unwrap()];
    let (mut tried, mut cleared, mut wrong) = (0, 0, Vec::new());
    for time in [Time::Late, Time::LateAgain, Time::Early] {
        let by_path = BY_PATH.iter().filter(|_| time != Time::Early).map(|&(name, how)| (name, how, false));
        let requests = REQUESTS.iter().map(|&(name, how)| (name, how, false));
        let writes = WRITES.iter().map(|&(name, how)| (name, how, true));
        for (name, how, is_write) in writes.chain(requests).chain(by_path) {
            let combinations = MODES.iter().flat_map(|mode| (0..CALLERS.len()).map(move |c| (mode, c)));
            for (&mode, caller) in combinations.step_by(step) {
                let expected = change((&native, &native, &sources[0]), || (), time, mode, caller, how);
                let mut found = change((&through, &behind, &sources[1]), || (), time, mode, caller, how);
                // The server is notified of the last close late, and until then the file counts as open, as
                // if it was opened early. So combinations that differ are tried again, after waiting for the server.
                if let Some(port) = port
                    && found != expected
                    && time != Time::Early
                    && is_write
                {
                    let closed = || mounted.wait_for_open_files(port, 1);
                    found = change((&through, &behind, &sources[1]), closed, time, mode, caller, how);
                }
                if is_chown_of_nothing(name, caller) {
                    found.result = expected.result;
                }
                tried += 1;
                // The kernel writes by itself to a file that was open before the bits were set, and does not distinguish writers.
                if is_write && port.is_some() && time == Time::Early && found != expected {
                    assert_eq!(found.result, expected.result);
                    assert_eq!(found.mode, mode & 0o777, "{name} of {mode:o} by {}", CALLERS[caller].0);
                    cleared += 1;
                } else if found != expected {
                    let who = CALLERS[caller].0;
                    wrong
                        .push(format!("{time:?}, {name} of {mode:o} by {who}: {found}, natively {expected}"));
                }
            }
        }
    }
    println!("{tried} combinations, {} differ, {cleared} lost bits that stay natively", wrong.len());
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn set_id_bits_are_cleared_and_kept_as_on_the_file_system_itself() {
    if let Some((mounted, port)) = scraped(&[]) {
        compare(&mounted, Some(port), step());
    }
}

#[test]
fn set_id_bits_are_cleared_and_kept_if_contents_go_through_the_server() {
    if let Some(mounted) = TestMount::of_overlay() {
        compare(&mounted, None, step());
    }
}

#[test]
fn set_id_bits_are_cleared_and_kept_without_a_sandbox() {
    if let Some((mounted, port)) = scraped(&["--no-sandbox"]) {
        compare(&mounted, Some(port), A_THIRD);
    }
}
