//! Space that is reserved for root or limited by quotas: a user fills a file system in every possible way.
//!
//! The kernel is the oracle: through the mount a user must get no more than without it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use namegate_sys::xattr;
use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, copy_file_range, fallocate};
use nix::mount::{MntFlags, umount2};
use nix::sys::statvfs::statvfs;
use tempfile::TempDir;

use crate::duration;
use namegate_testkit::acting::act_as;
use namegate_testkit::mounted::{TestMount, can_mount, open_to_all, prepare};
use namegate_testkit::wait_until;

/// An ordinary user.
const USER: u32 = 4711;

const MIB: u64 = 1 << 20;

/// The size of the file system, and of the reserve.
const SIZE: u64 = 8 * MIB;
const KEPT_PERCENT: u64 = 20;

/// What file systems use themselves while a file grows, which varies from time to time.
const SLACK: u64 = 128 << 10;

/// A separate ext4; dropping it unmounts and removes it.
struct Disk {
    place: PathBuf,
    _dir: TempDir,
    /// Free space while it is empty.
    empty: u64,
}

impl Disk {
    /// Creates the file system; `None`, after a message, if that is not possible.
    fn new(features: &[&str], options: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        open_to_all(dir.path());
        let (image, place) = (dir.path().join("image"), dir.path().join("disk"));
        File::create(&image).unwrap().set_len(SIZE).unwrap();
        fs::create_dir(&place).unwrap();
        let kept = KEPT_PERCENT.to_string();
        let mut make = Command::new("mkfs.ext4");
        make.args(["-q", "-F", "-b", "4096", "-m", &kept, "-N", "3000", "-O", "^has_journal"])
            .args(features)
            .arg(&image);
        let mut mount = Command::new("mount");
        mount.args(["-o", options]).args([&image, &place]);
        for mut command in [make, mount] {
            match command.output() {
                Ok(output) if output.status.success() => {}
                Ok(output) => {
                    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
                    println!("SKIPPED: {command:?}: {}", messages.lines().next().unwrap_or_default());
                    return None;
                }
                Err(error) => {
                    println!("SKIPPED: {command:?}: {error}");
                    return None;
                }
            }
        }
        open_to_all(&place);
        let mut disk = Self { place, _dir: dir, empty: 0 };
        disk.empty = disk.free();
        Some(disk)
    }

    fn free(&self) -> u64 {
        // Space of a removed file may not be free yet.
        File::open(&self.place).and_then(|dir| nix::unistd::syncfs(&dir).map_err(Into::into)).unwrap();
        let stat = statvfs(&self.place).unwrap();
        stat.blocks_free() * stat.fragment_size()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = umount2(&self.place, MntFlags::MNT_DETACH);
    }
}

/// A file of the user. `mode` decides how its contents are written: with a set-id bit through the server.
fn file(dir: &Path, name: &str, mode: u32) -> Result<File, Errno> {
    let path = dir.join(name);
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(mode).open(path);
    file.map_err(errno)
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap())
}

/// Repeats the step until the file system is full.
fn until_full(mut step: impl FnMut(u64) -> Result<(), Errno>) {
    for i in 0.. {
        match step(i) {
            Ok(()) => {}
            Err(Errno::ENOSPC | Errno::EDQUOT) => return,
            Err(other) => panic!("step {i}: {other}"),
        }
    }
}

fn write_all(file: &File, data: &[u8], at: u64) -> Result<(), Errno> {
    file.write_all_at(data, at).map_err(|error| match error.raw_os_error() {
        Some(raw) => Errno::from_raw(raw),
        // None of its bytes was written.
        None => Errno::ENOSPC,
    })
}

const PLAIN: u32 = 0o644;
/// Set-group-id without group execute stays when its owner, a member of the group, writes.
const SERVED: u32 = 0o2644;

fn write(dir: &Path, mode: u32) {
    let file = file(dir, "file", mode).unwrap();
    let data = vec![7; 100_000];
    until_full(|i| write_all(&file, &data, i * 100_000));
    // Then the rest, in single blocks.
    until_full(|i| write_all(&file, &data[..4096], (1 << 30) + i * 4096));
    let _ = file.sync_all();
}

fn write_into_holes(dir: &Path, mode: u32) {
    let file = file(dir, "file", mode).unwrap();
    file.set_len(1 << 30).unwrap();
    until_full(|i| write_all(&file, &[7; 4096], i * 8192));
    let _ = file.sync_all();
}

fn write_mapped(dir: &Path, mode: u32) {
    let file = file(dir, "file", mode).unwrap();
    file.set_len(SIZE + MIB).unwrap();
    drop(file);
    // In a separate process: without space the writer gets SIGBUS.
    let script = "import mmap, os, sys
os.setgroups([])
os.setgid(4711)
os.setuid(4711)
with open(sys.argv[1], 'r+b') as file:
    mapped = mmap.mmap(file.fileno(), 0)
    for at in range(0, len(mapped), 4096):
        mapped[at] = 7
    mapped.flush()";
    let status = Command::new("python3").args(["-c", script]).arg(dir.join("file")).output();
    if status.is_err() {
        println!("SKIPPED: writing through memory needs python3");
    }
}

fn allocate(dir: &Path, mode: u32) {
    let file = file(dir, "file", mode).unwrap();
    for step in [MIB, 4096] {
        until_full(|i| {
            fallocate(
                &file,
                FallocateFlags::FALLOC_FL_KEEP_SIZE,
                (step * i) as i64 + ((step == 4096) as i64) * (1 << 30),
                step as i64,
            )
        });
    }
}

fn copy(dir: &Path, mode: u32) {
    let (from, to) = (file(dir, "from", mode).unwrap(), file(dir, "to", mode).unwrap());
    write_all(&from, &vec![7; MIB as usize], 0).unwrap();
    for len in [MIB as usize, 4096] {
        let base = if len == 4096 { 1 << 30 } else { 0 };
        until_full(|i| {
            let mut at = base + i as i64 * len as i64;
            match copy_file_range(&from, Some(&mut 0), &to, Some(&mut at), len)? {
                0 => Err(Errno::ENOSPC),
                _ => Ok(()),
            }
        });
    }
    let _ = to.sync_all();
}

fn link_far(dir: &Path, _: u32) {
    let target = "x".repeat(4000);
    until_full(|i| symlink(&target, dir.join(i.to_string())).map_err(errno));
}

fn make_directories(dir: &Path, _: u32) {
    until_full(|i| DirBuilder::new().mode(0o755).create(dir.join(i.to_string())).map_err(errno));
}

fn set_attributes(dir: &Path, _: u32) {
    until_full(|i| {
        let file = file(dir, &i.to_string(), PLAIN)?;
        // All are different: equal ones would share a block.
        let value: Vec<u8> = i.to_ne_bytes().into_iter().cycle().take(3500).collect();
        xattr::set(&file, "user.a".as_ref(), &value, 0)
    });
}

/// Fills the disk, and then a directory with long names: `name` gives an entry a second or another name.
fn grow_directory(dir: &Path, name: impl Fn(&Path, &Path) -> std::io::Result<()>) {
    let target = dir.join("grows");
    fs::create_dir(&target).unwrap();
    for i in 0..600 {
        file(dir, &i.to_string(), PLAIN).unwrap();
    }
    fs::create_dir(dir.join("full")).unwrap();
    write(&dir.join("full"), PLAIN);
    let mut i = 0;
    until_full(|_| {
        i += 1;
        if i == 600 {
            return Err(Errno::ENOSPC);
        }
        name(&dir.join(i.to_string()), &target.join(format!("{i:0250}"))).map_err(errno)
    });
}

fn rename(dir: &Path, _: u32) {
    grow_directory(dir, |from, to| fs::rename(from, to));
}

fn hard_link(dir: &Path, _: u32) {
    grow_directory(dir, |from, to| fs::hard_link(from, to));
}

/// A way to fill the file system of a directory.
type Way = (&'static str, u32, fn(&Path, u32));

const WAYS: [Way; 15] = [
    ("write", PLAIN, write),
    ("write through the server", SERVED, write),
    ("write into holes", PLAIN, write_into_holes),
    ("write into holes through the server", SERVED, write_into_holes),
    ("mmap", PLAIN, write_mapped),
    ("mmap through the server", SERVED, write_mapped),
    ("fallocate", PLAIN, allocate),
    ("fallocate through the server", SERVED, allocate),
    ("copy_file_range", PLAIN, copy),
    ("copy_file_range through the server", SERVED, copy),
    ("symlink", PLAIN, link_far),
    ("mkdir", PLAIN, make_directories),
    ("setxattr", PLAIN, set_attributes),
    ("rename", PLAIN, rename),
    ("link", PLAIN, hard_link),
];

/// Returns how much space is left on `disk` after the user has filled it in `dir`.
fn space_left(disk: &Disk, dir: &Path, (_, mode, fill): Way) -> u64 {
    let dir = dir.join("of-user");
    act_as(USER, USER, &[], 0, || {
        fs::create_dir(&dir).unwrap();
        fill(&dir, mode);
    });
    let left = disk.free();
    fs::remove_dir_all(&dir).unwrap();
    // Nobody waits for the last close through a mount.
    wait_until("that what was removed is free again", || disk.free() + SLACK >= disk.empty);
    left
}

fn serve(disk: &Disk, args: &[&str]) -> TestMount {
    TestMount::of(prepare(), |dir| (disk.place.clone(), dir.join("mnt")), args)
}

#[test]
fn a_user_takes_no_blocks_that_are_reserved_for_root() {
    if !can_mount() {
        return;
    }
    for args in [&[][..], &["--no-sandbox"][..]] {
        let Some(disk) = Disk::new(&[], "loop") else { return };
        let reserved = SIZE * KEPT_PERCENT / 100;
        let native = WAYS.map(|way| space_left(&disk, &disk.place, way));
        let mounted = serve(&disk, args);
        let (begin, mut fills, mut taken) = (Instant::now(), 0, Vec::new());
        loop {
            for (way, native) in WAYS.into_iter().zip(native) {
                let left = space_left(&disk, &mounted.mnt(), way);
                fills += 1;
                if left + SLACK < native {
                    let kib = (native - left) >> 10;
                    taken.push(format!(
                        "{}: {kib} KiB more than natively ({} KiB left)",
                        way.0,
                        native >> 10
                    ));
                }
            }
            if begin.elapsed() >= duration() {
                break;
            }
        }
        println!(
            "{fills} fills in {} ways, {} took reserved blocks ({} KiB are reserved)",
            WAYS.len(),
            taken.len(),
            reserved >> 10
        );
        assert!(taken.is_empty(), "{args:?}:\n{}", taken.join("\n"));
    }
}

#[test]
fn root_takes_reserved_blocks_through_the_server_as_without_it() {
    if !can_mount() {
        return;
    }
    let Some(disk) = Disk::new(&[], "loop") else { return };
    let mounted = serve(&disk, &[]);
    let path = mounted.mnt().join("file");
    File::create(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(SERVED)).unwrap();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    until_full(|i| fallocate(&file, FallocateFlags::empty(), (i * MIB) as i64, MIB as i64));
    assert!(disk.free() < SIZE * KEPT_PERCENT / 100 / 2, "fallocate: {} are left", disk.free());
    file.set_len(0).unwrap();
    // The file system gives blocks away again when its journal has the truncation.
    file.sync_all().unwrap();
    until_full(|i| write_all(&file, &[7; 100_000], i * 100_000));
    assert!(disk.free() < SIZE * KEPT_PERCENT / 100 / 2, "write: {} are left", disk.free());
}

#[test]
fn a_user_takes_no_more_than_their_quota() {
    const LIMIT: u64 = 2 * MIB;
    if !can_mount() {
        return;
    }
    for args in [&[][..], &["--no-sandbox"][..]] {
        // A kernel without CONFIG_QFMT_V2 cannot mount such a file system.
        let Some(disk) = Disk::new(&["-O", "quota"], "loop,usrquota") else { return };
        let (user, limit) = (USER.to_string(), (LIMIT >> 10).to_string());
        let limits = ["-u", &user, "0", &limit, "0", "0"];
        match Command::new("setquota").args(limits).arg(&disk.place).status() {
            Ok(status) if status.success() => {}
            other => return println!("SKIPPED: setquota: {other:?}"),
        }
        let before = disk.free();
        let mounted = serve(&disk, args);
        for way in WAYS {
            let used = before.saturating_sub(space_left(&disk, &mounted.mnt(), way));
            println!("{}: {} KiB of {} KiB", way.0, used >> 10, LIMIT >> 10);
            assert!(used <= LIMIT + SLACK, "{}: {used}", way.0);
        }
    }
}

#[test]
fn writes_of_a_user_do_not_fail_for_lack_of_permission() {
    // The other side: a descriptor outlives the permission to open the file, and needs none to change it.
    let Some(mounted) = TestMount::new(&[]) else { return };
    for mode in [PLAIN, SERVED] {
        let path = mounted.mnt().join(format!("file-{mode:o}"));
        fs::write(&path, "content").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode | 0o666)).unwrap();
        act_as(USER, USER, &[], 0, || {
            let mut file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
            act_as(0, 0, &[], 0, || fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap());
            file.write_all(b"x").unwrap();
            file.set_len(100).unwrap();
            fallocate(&file, FallocateFlags::empty(), 0, 9999).unwrap();
            assert_eq!(copy_file_range(&file, Some(&mut 0), &file, Some(&mut 5000), 7), Ok(7));
            file.sync_all().unwrap();
        });
    }
}
