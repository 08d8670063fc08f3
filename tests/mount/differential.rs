//! The same random operations on a plain directory and through a mount: results, errno, attributes and contents must agree.
//!
//! There are only a few names, so that operations hit the same entries. `NAMEGATE_SEED` repeats a run, and `NAMEGATE_TEST_OPERATIONS` says
//! how many there are.
//!
//! If a name has several spellings, the plain directory is a model: it stores all of them as NFC, and names are
//! compared in that form.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use namegate_core::name::normalize::{Form, to_form};
use namegate_sys::{open::again, xattr};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, FallocateFlags, OFlag, RenameFlags, copy_file_range, fallocate, renameat2};
use nix::sys::signal::Signal;
use nix::sys::stat::{Mode, SFlag, UtimensatFlags, mknod, utimensat};
use nix::sys::time::TimeSpec;
use nix::unistd::{Whence, lseek, mkfifo};

use namegate_testkit::metrics::scraped;
use namegate_testkit::mounted::{TestMount, has_no_passthrough, prepare, transport};
use namegate_testkit::program::program;

/// Number of operations in a test, unless `NAMEGATE_TEST_OPERATIONS` says another.
const OPERATIONS: usize = 6000;
/// Number of operations between two comparisons of the whole trees.
const STRIDE: usize = 250;
const NAMES: &[&str] = &["a", "b", "\u{E9}", "日本"];
/// Three names: composed and decomposed, two orders of marks, two code points of one ideograph.
const SPELLINGS: &[&str] =
    &["a", "\u{E9}", "e\u{301}", "x\u{301}\u{323}", "x\u{323}\u{301}", "\u{8C48}", "\u{F900}"];
/// Three names in some cases; the model stores them in the case of their first.
const CASES: &[&str] = &["a", "A", "\u{E9}", "\u{C9}", "e\u{301}", "\u{df}", "SS", "sS"];
/// What a mount in mode `encode` stores otherwise, and what it stores instead.
const ENCODED: &[&str] = &["a:b", "a：b", "a‛：b", "x.", "x．", "?", "\t", "‛"];
/// Names in two spellings each, encoded or with a quote.
const ENCODED_SPELLINGS: &[&str] =
    &["\u{E9}:", "e\u{301}:", "\u{E9}：", "e\u{301}：", "?\u{E9}", "?e\u{301}"];
const SLOTS: usize = 3;

/// xorshift64*: the same sequence for the same seed. Names are taken from `names`.
struct Random {
    state: u64,
    names: &'static [&'static str],
}

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        (self.state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % bound
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    fn path(&mut self) -> PathBuf {
        let depth = self.of(&[1, 1, 2, 2, 3]);
        (0..depth).map(|_| self.of(self.names)).collect()
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Mkdir(PathBuf, u32),
    Rmdir(PathBuf),
    Unlink(PathBuf),
    Open { path: PathBuf, flags: i32, mode: u32, slot: usize },
    Close(usize),
    Write { slot: usize, offset: u64, len: usize },
    Read { slot: usize, offset: u64 },
    SetLen { slot: usize, len: u64 },
    Fallocate { slot: usize, mode: FallocateFlags, offset: i64, len: i64 },
    Seek { slot: usize, offset: i64, whence: i32 },
    Copy { from: usize, to: usize, offset: i64 },
    Stat(usize),
    Sync(usize),
    Truncate(PathBuf, i64),
    Rename(PathBuf, PathBuf, u32),
    Link(PathBuf, PathBuf),
    Symlink(PathBuf, PathBuf),
    Readlink(PathBuf),
    Mknod(PathBuf, SFlag, u64),
    Mkfifo(PathBuf, u32),
    Chmod(PathBuf, u32),
    Chown(PathBuf, u32, u32),
    Utimens(PathBuf, i64, i64),
    List(PathBuf),
    Metadata(PathBuf),
    SetXattr(PathBuf, usize, i32),
    GetXattr(PathBuf),
    RemoveXattr(PathBuf),
}

impl Operation {
    fn random(random: &mut Random) -> Self {
        let slot = random.below(SLOTS);
        let mode = random.of(&[0o644, 0o600, 0o4755, 0o2770, 0o1777, 0]);
        let offset = random.of(&[0, 1, 4095, 4096, 10_000, 100_000]);
        match random.below(34) {
            0..=2 => Self::Mkdir(random.path(), mode),
            3 => Self::Rmdir(random.path()),
            4 | 5 => Self::Unlink(random.path()),
            6..=9 => {
                let access = random.of(&[libc::O_RDWR, libc::O_RDWR, libc::O_RDONLY, libc::O_WRONLY]);
                let other =
                    random.of(&[0, libc::O_TRUNC, libc::O_APPEND, libc::O_NOFOLLOW, libc::O_DIRECTORY]);
                let create = random.of(&[libc::O_CREAT, libc::O_CREAT, libc::O_CREAT | libc::O_EXCL, 0]);
                // The entry may be a FIFO, which must not block the test.
                Self::Open {
                    path: random.path(),
                    flags: access | other | create | libc::O_NONBLOCK,
                    mode,
                    slot,
                }
            }
            10 => Self::Close(slot),
            11..=13 => Self::Write { slot, offset, len: random.of(&[1, 100, 5000]) },
            14 => Self::Read { slot, offset },
            15 => Self::SetLen { slot, len: offset },
            16 => {
                use FallocateFlags as F;
                let punch = F::FALLOC_FL_PUNCH_HOLE | F::FALLOC_FL_KEEP_SIZE;
                let mode = random.of(&[F::empty(), F::FALLOC_FL_KEEP_SIZE, F::FALLOC_FL_ZERO_RANGE, punch]);
                Self::Fallocate { slot, mode, offset: offset as i64, len: random.of(&[0, 1, 8192]) }
            }
            17 => Self::Seek {
                slot,
                offset: offset as i64,
                whence: random.of(&[libc::SEEK_DATA, libc::SEEK_HOLE, libc::SEEK_END]),
            },
            18 => Self::Copy { from: slot, to: random.below(SLOTS), offset: offset as i64 },
            19 => Self::Stat(slot),
            20 => Self::Sync(slot),
            21 => Self::Truncate(random.path(), offset as i64),
            22..=24 => {
                let flags = [0, 0, libc::RENAME_NOREPLACE, libc::RENAME_EXCHANGE, libc::RENAME_WHITEOUT];
                Self::Rename(random.path(), random.path(), random.of(&flags))
            }
            25 => Self::Link(random.path(), random.path()),
            26 => Self::Symlink(random.path(), random.path()),
            27 => match random.below(3) {
                0 => Self::Readlink(random.path()),
                1 => Self::Mkfifo(random.path(), mode),
                _ => {
                    let kind = random.of(&[SFlag::S_IFREG, SFlag::S_IFCHR, SFlag::S_IFSOCK, SFlag::S_IFBLK]);
                    Self::Mknod(random.path(), kind, random.of(&[0, nix::sys::stat::makedev(60, 0x12345)]))
                }
            },
            28 => Self::Chmod(random.path(), mode),
            29 => Self::Chown(random.path(), random.of(&[0, 1000]), random.of(&[0, 1000])),
            30 => Self::Utimens(
                random.path(),
                random.of(&[-5, 0, 1_000_000_000, 5_000_000_000]),
                random.of(&[0, 999_999_999]),
            ),
            31 => Self::List(random.path()),
            32 => Self::Metadata(random.path()),
            _ => match random.below(3) {
                0 => Self::SetXattr(
                    random.path(),
                    random.below(200),
                    random.of(&[0, libc::XATTR_CREATE, libc::XATTR_REPLACE]),
                ),
                1 => Self::GetXattr(random.path()),
                _ => Self::RemoveXattr(random.path()),
            },
        }
    }
}

/// The result of an operation, as text that can be compared.
type Said = Result<String, Errno>;

fn plain<T>(result: io::Result<T>) -> Result<T, Errno> {
    result.map_err(|error| error.raw_os_error().map_or(Errno::UnknownErrno, Errno::from_raw))
}

fn done<T>(result: io::Result<T>) -> Said {
    plain(result).map(|_| String::new())
}

/// The path in the spelling of the model.
fn canonical(path: &Path) -> PathBuf {
    let is_case = |name: &str| CASES[1..].contains(&name) && name != "\u{E9}" && name != "e\u{301}";
    let one = |part: std::path::Component<'_>| {
        let name = part.as_os_str().to_str().unwrap();
        let name = if is_case(name) { name.to_lowercase().replace('\u{df}', "ss") } else { name.into() };
        to_form(&name, Form::Nfc).into_owned()
    };
    path.components().map(one).collect()
}

/// A directory and the open files below it.
struct Side<'c> {
    root: PathBuf,
    is_model: bool,
    open: [Option<File>; SLOTS],
    /// Waits until the server has exactly this many open files: it is notified only after close(2) has returned.
    close: &'c dyn Fn(usize),
}

const ATTRIBUTE: &str = "user.test";

impl<'c> Side<'c> {
    fn new(root: PathBuf, is_model: bool) -> Self {
        Self { root, is_model, open: [None, None, None], close: &|_| () }
    }

    fn at(&self, path: &Path) -> PathBuf {
        if self.is_model { self.root.join(canonical(path)) } else { self.root.join(path) }
    }

    fn slot(&self, slot: usize) -> Result<&File, Errno> {
        self.open[slot].as_ref().ok_or(Errno::EBADF)
    }

    fn held(&self, path: &Path) -> Result<File, Errno> {
        let flags = libc::O_PATH | libc::O_NOFOLLOW;
        plain(OpenOptions::new().read(true).custom_flags(flags).open(self.at(path)))
    }

    fn perform(&mut self, operation: &Operation) -> Said {
        use Operation as O;
        let none = |()| String::new();
        match operation {
            O::Mkdir(path, mode) => {
                nix::unistd::mkdir(&self.at(path), Mode::from_bits_truncate(*mode)).map(none)
            }
            O::Rmdir(path) => done(fs::remove_dir(self.at(path))),
            O::Unlink(path) => done(fs::remove_file(self.at(path))),
            O::Open { path, flags, mode, slot } => {
                let mode = Mode::from_bits_truncate(*mode);
                let path = self.at(path);
                // Without O_CLOEXEC, programs that other tests start would keep the file open.
                let flags = OFlag::from_bits_truncate(*flags) | OFlag::O_CLOEXEC;
                let fd = nix::fcntl::open(&path, flags, mode);
                // No driver has these numbers (60: for local use, admin-guide/devices.txt), and a mount with nodev needs none.
                let is_device = || fs::metadata(&path).is_ok_and(|found| is_device(&found));
                let fd =
                    fd.map_err(
                        |errno| if errno == Errno::ENXIO && is_device() { Errno::EACCES } else { errno },
                    )?;
                let file = File::from(fd);
                let said = attributes(&plain(file.metadata())?);
                self.open[*slot] = Some(file);
                Ok(said)
            }
            O::Close(slot) => {
                self.open[*slot] = None;
                Ok(String::new())
            }
            O::Write { slot, offset, len } => {
                let data: Vec<u8> = (0..*len).map(|i| (i * 7 + *offset as usize) as u8 | 1).collect();
                plain(self.slot(*slot)?.write_at(&data, *offset)).map(|n| n.to_string())
            }
            O::Read { slot, offset } => {
                let mut buffer = vec![0; 6000];
                let len = plain(self.slot(*slot)?.read_at(&mut buffer, *offset))?;
                Ok(format!("{:?}", &buffer[..len]))
            }
            O::SetLen { slot, len } => done(self.slot(*slot)?.set_len(*len)),
            O::Fallocate { slot, mode, offset, len } => {
                fallocate(self.slot(*slot)?, *mode, *offset, *len).map(none)
            }
            O::Seek { slot, offset, whence } => {
                let whence = match *whence {
                    libc::SEEK_DATA => Whence::SeekData,
                    libc::SEEK_HOLE => Whence::SeekHole,
                    _ => Whence::SeekEnd,
                };
                // The offsets of data and holes depend on what was written back so far, and directories have their own
                // answers: compare only the success, and the end of files.
                let file = self.slot(*slot)?;
                let found = lseek(file, *offset, whence);
                let is_stable = matches!(whence, Whence::SeekEnd) && !plain(file.metadata())?.is_dir();
                if is_stable { found.map(|at| at.to_string()) } else { Ok(String::new()) }
            }
            O::Copy { from, to, offset } => {
                let (from, to) = (self.slot(*from)?, self.slot(*to)?);
                let (mut start, mut end) = (0, *offset);
                copy_file_range(from, Some(&mut start), to, Some(&mut end), 5000).map(|n| n.to_string())
            }
            O::Stat(slot) => Ok(attributes(&plain(self.slot(*slot)?.metadata())?)),
            O::Sync(slot) => done(self.slot(*slot)?.sync_all()),
            O::Truncate(path, len) => nix::unistd::truncate(&self.at(path), *len).map(none),
            O::Rename(from, to, flags) => {
                let flags = RenameFlags::from_bits_truncate(*flags);
                renameat2(AT_FDCWD, &self.at(from), AT_FDCWD, &self.at(to), flags).map(none)
            }
            O::Link(from, to) => done(fs::hard_link(self.at(from), self.at(to))),
            // The target is content, which the model needs in its own spelling.
            O::Symlink(target, path) => done(symlink(canonical(target), self.at(path))),
            O::Readlink(path) => plain(fs::read_link(self.at(path))).map(|target| format!("{target:?}")),
            O::Mknod(path, kind, device) => {
                mknod(&self.at(path), *kind, Mode::from_bits_truncate(0o640), *device).map(none)
            }
            O::Mkfifo(path, mode) => mkfifo(&self.at(path), Mode::from_bits_truncate(*mode)).map(none),
            O::Chmod(path, mode) => {
                // Set-id bits that an open file gets are cleared by writes of root, too: see docs/semantics/FILES.md.
                let is_open = |found: &fs::Metadata| {
                    let same = |file: &File| file.metadata().is_ok_and(|open| open.ino() == found.ino());
                    found.is_file() && self.open.iter().flatten().any(same)
                };
                let is_open = fs::metadata(self.at(path)).is_ok_and(|found| is_open(&found));
                let mode = if is_open { mode & !0o6000 } else { *mode };
                if mode & 0o6000 != 0 {
                    let is_file = |file: &&File| file.metadata().is_ok_and(|found| found.is_file());
                    (self.close)(self.open.iter().flatten().filter(is_file).count());
                }
                done(fs::set_permissions(self.at(path), fs::Permissions::from_mode(mode)))
            }
            O::Chown(path, uid, gid) => done(lchown(self.at(path), Some(*uid), Some(*gid))),
            O::Utimens(path, seconds, nanoseconds) => {
                let (path, time) = (self.at(path), TimeSpec::new(*seconds, *nanoseconds));
                utimensat(AT_FDCWD, &path, &time, &time, UtimensatFlags::NoFollowSymlink)?;
                let found = plain(fs::symlink_metadata(path))?;
                // A hard link to a symbolic link may have been followed since, which updates its access time.
                Ok(format!("{}.{}", found.mtime(), found.mtime_nsec()))
            }
            O::List(path) => {
                let mut names: Vec<_> = plain(fs::read_dir(self.at(path)))?
                    .map(|entry| plain(entry).map(|entry| canonical(entry.file_name().as_ref())))
                    .collect::<Result<_, _>>()?;
                names.sort();
                Ok(format!("{names:?}"))
            }
            O::Metadata(path) => Ok(attributes(&plain(fs::symlink_metadata(self.at(path)))?)),
            O::SetXattr(path, len, flags) => {
                let value = vec![b'v'; *len];
                xattr::set(&self.held(path)?, ATTRIBUTE.as_ref(), &value, *flags).map(none)
            }
            O::GetXattr(path) => {
                let mut value = [0; 300];
                let len = xattr::get(&self.held(path)?, ATTRIBUTE.as_ref(), &mut value)?;
                let names = xattr::list(&self.held(path)?, &mut [])?;
                Ok(format!("{len} of {names}"))
            }
            O::RemoveXattr(path) => xattr::remove(&self.held(path)?, ATTRIBUTE.as_ref()).map(none),
        }
    }

    /// Describes everything below the root.
    fn everything(&self) -> String {
        let mut said = String::new();
        let mut rest = vec![self.root.clone()];
        while let Some(dir) = rest.pop() {
            let mut entries: Vec<_> =
                fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
            entries.sort_by_key(|path| canonical(path));
            for path in entries {
                let metadata = fs::symlink_metadata(&path).unwrap();
                let shown = canonical(path.strip_prefix(&self.root).unwrap());
                write!(said, "{} {} ", shown.display(), attributes(&metadata)).unwrap();
                if metadata.is_dir() {
                    rest.push(path);
                } else if metadata.is_symlink() {
                    write!(said, "{:?}", fs::read_link(&path).unwrap()).unwrap();
                } else if metadata.is_file() {
                    let content = fs::read(&path).unwrap();
                    let sum =
                        content.iter().fold(0u64, |sum, &b| sum.wrapping_mul(31).wrapping_add(b.into()));
                    write!(said, "{sum:x}").unwrap();
                }
                said.push('\n');
            }
        }
        said
    }
}

fn is_device(metadata: &fs::Metadata) -> bool {
    metadata.file_type().is_char_device() || metadata.file_type().is_block_device()
}

/// The attributes that two files created in the same way have in common.
fn attributes(metadata: &fs::Metadata) -> String {
    let kind = metadata.file_type();
    let size = if kind.is_dir() { 0 } else { metadata.len() };
    let device = if is_device(metadata) { metadata.rdev() } else { 0 };
    format!(
        "{:o} {}:{} links {} size {size} device {device:x}",
        metadata.mode(),
        metadata.uid(),
        metadata.gid(),
        metadata.nlink()
    )
}

#[test]
fn random_operations_do_the_same_as_on_a_plain_directory() {
    let Some((mounted, port)) = scraped(&[]) else { return };
    let close = |left| mounted.wait_for_open_files(port, left);
    compare(&mounted.plain(), (&mounted.mnt(), &close), Some(Source::keeping(mounted.backing())), NAMES);
}

#[test]
fn random_operations_do_the_same_as_on_a_plain_directory_if_names_are_encoded() {
    let Some((mounted, port)) = scraped(&["--profile", "windows", "--mode", "encode"]) else { return };
    let close = |left| mounted.wait_for_open_files(port, left);
    compare(&mounted.plain(), (&mounted.mnt(), &close), None, ENCODED);
    let scan = Command::new(program()).args(["scan", "--profile", "windows"]).arg(mounted.backing()).output();
    assert_eq!(scan.unwrap().status.code(), Some(0), "the source has only valid names");
}

#[test]
fn random_operations_do_the_same_in_any_spelling() {
    for on_mismatch in ["match", "convert"] {
        let args = ["--normalize", "nfc", "--on-mismatch", on_mismatch];
        let Some((mounted, port)) = scraped(&args) else { return };
        let close = |left| mounted.wait_for_open_files(port, left);
        let source = match on_mismatch {
            "convert" => Source { dir: mounted.backing(), stores: canonical },
            _ => Source::keeping(mounted.backing()),
        };
        compare_for(operations() / 4, &mounted.plain(), (&mounted.mnt(), &close), Some(source), SPELLINGS);
        let args = [&args[..], &["--profile", "windows", "--mode", "encode"]].concat();
        let Some((mounted, port)) = scraped(&args) else { return };
        let close = |left| mounted.wait_for_open_files(port, left);
        compare_for(operations() / 4, &mounted.plain(), (&mounted.mnt(), &close), None, ENCODED_SPELLINGS);
    }
}

#[test]
fn random_operations_do_the_same_in_any_case() {
    let Some((mounted, port)) = scraped(&["--ignore-case=apfs"]) else { return };
    let close = |left| mounted.wait_for_open_files(port, left);
    compare(&mounted.plain(), (&mounted.mnt(), &close), Some(Source::keeping(mounted.backing())), CASES);
}

#[test]
fn random_operations_do_the_same_if_contents_go_through_the_server() {
    // The kernel does not read and write files of a stacked file system, such as a mount of namegate, by itself.
    let Some(below) = TestMount::new(&[]) else { return };
    let mut above = TestMount::of(prepare(), |dir| (below.mnt(), dir.join("mnt")), &[]);
    compare(&above.plain(), (&above.mnt(), &|_| ()), Some(Source::keeping(below.backing())), NAMES);
    above.signal(Signal::SIGTERM);
    let (_, said) = above.ended();
    // The reason is logged unless it was asked for.
    let reasons = said.matches("file contents go through this process").count();
    assert_eq!(reasons, usize::from(!has_no_passthrough()), "{said}");
}

/// The source of a mount whose names are those of the clients.
struct Source {
    dir: PathBuf,
    /// The path that a new one is stored as.
    stores: fn(&Path) -> PathBuf,
}

impl Source {
    fn keeping(dir: PathBuf) -> Self {
        Self { dir, stores: Path::to_path_buf }
    }

    /// The name by which the entry `path` is stored.
    fn stored(&self, path: &Path) -> Option<OsString> {
        let find = |dir: PathBuf, part: &OsStr| {
            let mut entries = fs::read_dir(&dir).ok()?.map(|entry| entry.unwrap().file_name());
            Some(dir.join(entries.find(|name| canonical(name.as_ref()) == canonical(part.as_ref()))?))
        };
        path.iter().try_fold(self.dir.clone(), find)?.file_name().map(Into::into)
    }
}

fn operations() -> usize {
    let number = std::env::var("NAMEGATE_TEST_OPERATIONS");
    number.map_or(OPERATIONS, |number| number.parse().expect("NAMEGATE_TEST_OPERATIONS is a number"))
}

fn compare(
    plain: &Path,
    mounted: (&Path, &dyn Fn(usize)),
    source: Option<Source>,
    names: &'static [&'static str],
) {
    compare_for(operations(), plain, mounted, source, names);
}

/// Performs the same operations on `plain`, in the spelling of the model, and on `mnt`, whose source is `source` if it has the same names.
/// `close` waits until the server of `mnt` has exactly this many open files.
fn compare_for(
    operations: usize,
    plain: &Path,
    (mnt, close): (&Path, &dyn Fn(usize)),
    source: Option<Source>,
    names: &'static [&'static str],
) {
    let seed = match std::env::var("NAMEGATE_SEED") {
        Ok(seed) => seed.parse().expect("NAMEGATE_SEED is a number"),
        Err(_) => SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64 | 1,
    };
    println!("NAMEGATE_SEED={seed}");
    let mut random = Random { state: seed, names };
    let mut here = Side::new(plain.into(), true);
    let mut there = Side { close, ..Side::new(mnt.into(), false) };
    let (mut worked, mut repeated, mut last) = (0, 0, Vec::new());
    for count in 1..=operations {
        let operation = Operation::random(&mut random);
        let expected = here.perform(&operation);
        let mut found = there.perform(&operation);
        if found != expected && names != NAMES && there.open.iter().any(Option::is_some) {
            // A file that is open by its own name, and was removed by another one, is found for some milliseconds, or until the thread that
            // drops the name gets a processor; for less than the timeout of the name.
            repeated += 1;
            for _ in 0..5 {
                std::thread::sleep(Duration::from_millis(100));
                found = there.perform(&operation);
                if found == expected {
                    break;
                }
            }
        }
        worked += usize::from(expected.is_ok());
        last.push(format!(
            "{operation:?}: {}",
            expected.as_ref().map_or_else(|e| e.to_string(), |_| "done".into())
        ));
        let recent = || last[last.len().saturating_sub(12)..].join("\n");
        assert_eq!(found, expected, "operation {count} of seed {seed}, the last of\n{}", recent());
        if let (Operation::Rename(from, to, 0), Ok(_), Some(source)) = (&operation, &found, &source)
            && canonical(from) == canonical(to)
            && from.file_name() != to.file_name()
            // Over `fuser` it has no effect: docs/semantics/NAMES.md.
            && transport() != "fuser"
        {
            let expected = (source.stores)(to).file_name().map(Into::into);
            assert_eq!(
                source.stored(to),
                expected,
                "operation {count} of seed {seed}, the last of\n{}",
                recent()
            );
        }
        if count % STRIDE == 0 {
            let (expected, found) = (here.everything(), there.everything());
            assert_eq!(found, expected, "after operation {count} of seed {seed}, the last of\n{}", recent());
            assert_eq!(there.everything(), expected, "listed again, after operation {count} of seed {seed}");
            if let Some(Source { dir, .. }) = &source {
                let behind = Side::new(dir.clone(), false).everything();
                assert_eq!(behind, expected, "in the backing tree, after operation {count} of seed {seed}");
            }
        }
    }
    assert!(repeated <= operations / 100, "{repeated} operations were repeated");
    assert!(worked > operations / 10, "only {worked} of {operations} operations did anything");
    // Open by O_PATH, then open again: as the portal of a file manager does.
    let file = mnt.join("last");
    fs::write(&file, "x").unwrap();
    let held = there.held(Path::new("last")).unwrap();
    fs::remove_file(&file).unwrap();
    assert_eq!(held.metadata().unwrap().nlink(), 0);
    assert_eq!(io::read_to_string(File::from(again(&held, OFlag::O_RDONLY).unwrap())).unwrap(), "x");
}
