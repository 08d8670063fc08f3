//! A user at work, and what has come of it.

use std::ffi::OsStr;
use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Instant;

use namegate_sys::xattr;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, Flock, FlockArg, OFlag, RenameFlags, copy_file_range, renameat2};
use nix::sys::stat::Mode;
use nix::unistd::{Gid, Uid, setfsgid, setfsuid};

use super::model::{Content, Entry, FileId, Model};
use super::{Counts, Outcome};

/// Few, so that operations meet.
const NAMES: &[&str] =
    &["a", "b", "caf\u{E9}", "cafe\u{301}", "\u{65E5}\u{672C}\u{8A9E}", "x y", "-", "long", "\u{1F600}"];
/// None of these is UTF-8.
const BAD_NAMES: &[&[u8]] =
    &[b"caf\xE9", b"\xC0\xAF", b"\xED\xA0\x80", b"a\xFF", b"\xF4\x90\x80\x80", b"\x80"];
const MOST_ENTRIES: usize = 150;
const MOST_BYTES: usize = 48 * 1024;
const NOTE: &str = "user.note";
const PROGRAM: &str = "program";

/// `splitmix64`: any generator serves whose run can be repeated.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        // Short ones mostly.
        let most = if self.below(4) == 0 { most } else { most / 64 };
        let (len, first) = (self.below(most + 1), self.below(256));
        (0..len).map(|i| (first + i * 7) as u8).collect()
    }
}

pub struct Client {
    root: PathBuf,
    shared: PathBuf,
    directory: String,
    uid: u32,
    random: Random,
    model: Model,
    has_notes: bool,
}

/// An error unless both are the same.
fn same<T: PartialEq + Debug>(what: &str, path: &Path, found: T, believed: T) -> Outcome<()> {
    if found == believed {
        return Ok(());
    }
    Err(format!("{what} of {}: {found:?} where {believed:?} was believed", path.display()).into())
}

fn told<T>(what: &str, path: &Path, result: io::Result<T>) -> Outcome<T> {
    result.map_err(|error| format!("{what} of {}: {error}", path.display()).into())
}

/// An error unless it failed with `errno`.
fn refused<T>(what: &str, path: &Path, result: io::Result<T>, errno: Errno) -> Outcome<()> {
    same(what, path, result.err().and_then(|error| error.raw_os_error()), Some(errno as i32))
}

fn held(path: &Path) -> nix::Result<std::os::fd::OwnedFd> {
    nix::fcntl::open(path, OFlag::O_PATH | OFlag::O_NOFOLLOW, Mode::empty())
}

fn note(path: &Path) -> Outcome<Option<Vec<u8>>> {
    let mut value = [0; 64];
    match xattr::get(&held(path)?, OsStr::new(NOTE), &mut value) {
        Ok(len) => Ok(Some(value[..len].to_vec())),
        Err(Errno::ENODATA) => Ok(None),
        Err(errno) => Err(format!("the note of {}: {errno}", path.display()).into()),
    }
}

impl Client {
    /// The thread that makes it acts as the user `uid` from then on.
    pub fn new(mnt: &Path, number: u32, uid: u32, seed: u64) -> Outcome<Self> {
        let (directory, root) = (number.to_string(), mnt.join(number.to_string()));
        setfsgid(Gid::from_raw(uid));
        setfsuid(Uid::from_raw(uid));
        let random = Random(seed.wrapping_add(u64::from(number) << 32));
        let shared = mnt.join("shared");
        let mut client = Self { root, shared, directory, uid, random, model: Model::new(), has_notes: true };
        let program = client.root.join(PROGRAM);
        fs::copy("/bin/true", &program)?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
        let metadata = fs::metadata(&program)?;
        same("the owner", &program, (metadata.uid(), metadata.gid()), (uid, uid))?;
        let content = Content { bytes: fs::read("/bin/true")?, mode: 0o755, ino: metadata.ino(), note: None };
        client.model.add_file(PROGRAM.into(), content);
        match xattr::set(&held(&program)?, OsStr::new("user.trial"), b"", 0) {
            Ok(()) => {}
            Err(Errno::EOPNOTSUPP) => client.has_notes = false,
            Err(errno) => return Err(errno.into()),
        }
        Ok(client)
    }

    pub fn work_until(&mut self, end: Instant, counts: &Counts) -> Outcome<()> {
        while Instant::now() < end && !counts.is_over.load(Ordering::Relaxed) {
            if self.step()? {
                counts.refused.fetch_add(1, Ordering::Relaxed);
            }
            counts.done.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn at(&self, path: &Path) -> PathBuf {
        self.root.join(path)
    }

    /// An entry for which `fits`, if there is one. Never the program, which stays.
    fn any(&mut self, fits: impl Fn(&Path, &Entry) -> bool) -> Option<(PathBuf, Entry)> {
        let is_free = |path: &Path| path != Path::new(PROGRAM);
        let fitting = || self.model.entries.iter().filter(|(path, entry)| is_free(path) && fits(path, entry));
        let count = fitting().count();
        let chosen = self.random.below(count.max(1));
        let (path, entry) = self
            .model
            .entries
            .iter()
            .filter(|(path, entry)| is_free(path) && fits(path, entry))
            .nth(chosen)?;
        Some((path.clone(), entry.clone()))
    }

    fn any_file(&mut self) -> Option<(PathBuf, FileId)> {
        match self.any(|_, entry| matches!(entry, Entry::File(_)))? {
            (path, Entry::File(id)) => Some((path, id)),
            _ => None,
        }
    }

    /// A path in some directory; it may exist.
    fn any_path(&mut self) -> PathBuf {
        let dir = self.any(|path, entry| *entry == Entry::Dir && path.components().count() < 5);
        let name = match NAMES[self.random.below(NAMES.len())] {
            "long" => "l\u{E4}ng".repeat(50),
            name => format!("{name}{}", self.random.below(4)),
        };
        dir.map(|(path, _)| path).unwrap_or_default().join(name)
    }

    /// One operation at random. Whether it was one that had to be refused.
    fn step(&mut self) -> Outcome<bool> {
        let is_full = self.model.entries.len() > MOST_ENTRIES;
        match self.random.below(22) {
            0..=5 if is_full => self.remove(),
            0..=2 => self.create(),
            3 => self.make_dir(),
            4 => self.make_link(),
            5 => self.link(),
            6 => self.remove(),
            7 => self.rename(),
            8 => self.exchange(),
            9..=10 => self.write(),
            11 => self.truncate(),
            12..=13 => self.read(),
            14 => self.look(),
            15 => self.list(),
            16 => self.note(),
            17 => self.change_mode(),
            18 => self.copy(),
            19 => self.use_without_name(),
            20 => self.share(),
            _ => return self.offend().map(|()| true),
        }
        .map(|()| false)
    }

    fn create(&mut self) -> Outcome<()> {
        let (path, bytes) = (self.any_path(), self.random.bytes(MOST_BYTES));
        let mode = [0o600, 0o644, 0o666][self.random.below(3)];
        let at = self.at(&path);
        let made = OpenOptions::new().write(true).create_new(true).mode(mode).open(&at);
        if self.model.entries.contains_key(&path) {
            return refused("creation", &at, made, Errno::EEXIST);
        }
        let file = told("creation", &at, made)?;
        told("writing", &at, file.write_all_at(&bytes, 0))?;
        let metadata = file.metadata()?;
        // The umask of this process is as it was inherited.
        let content = Content { bytes, mode: metadata.mode() & 0o777, ino: metadata.ino(), note: None };
        self.model.add_file(path, content);
        Ok(())
    }

    fn make_dir(&mut self) -> Outcome<()> {
        let path = self.any_path();
        let at = self.at(&path);
        let made = fs::create_dir(&at);
        if self.model.entries.contains_key(&path) {
            return refused("mkdir", &at, made, Errno::EEXIST);
        }
        told("mkdir", &at, made)?;
        self.model.entries.insert(path, Entry::Dir);
        Ok(())
    }

    fn make_link(&mut self) -> Outcome<()> {
        let (path, mut target) = (self.any_path(), self.random.bytes(1000));
        target.retain(|&byte| byte != 0);
        target.push(b'/');
        let (at, target) = (self.at(&path), PathBuf::from(OsStr::from_bytes(&target)));
        let made = symlink(&target, &at);
        if self.model.entries.contains_key(&path) {
            return refused("symlink", &at, made, Errno::EEXIST);
        }
        told("symlink", &at, made)?;
        self.model.entries.insert(path, Entry::Link(target));
        Ok(())
    }

    fn link(&mut self) -> Outcome<()> {
        let (Some((from, id)), path) = (self.any_file(), self.any_path()) else { return Ok(()) };
        let at = self.at(&path);
        let made = fs::hard_link(self.at(&from), &at);
        if self.model.entries.contains_key(&path) {
            return refused("link", &at, made, Errno::EEXIST);
        }
        told("link", &at, made)?;
        self.model.entries.insert(path, Entry::File(id));
        Ok(())
    }

    fn remove(&mut self) -> Outcome<()> {
        let Some((path, entry)) = self.any(|path, _| path != Path::new("")) else { return Ok(()) };
        let at = self.at(&path);
        match entry {
            Entry::Dir if self.model.is_empty(&path) => told("rmdir", &at, fs::remove_dir(&at))?,
            Entry::Dir => return refused("rmdir", &at, fs::remove_dir(&at), Errno::ENOTEMPTY),
            _ => told("unlink", &at, fs::remove_file(&at))?,
        }
        self.model.remove(&path);
        refused("lookup", &at, fs::symlink_metadata(&at), Errno::ENOENT)
    }

    fn rename(&mut self) -> Outcome<()> {
        let Some((from, entry)) = self.any(|path, _| path != Path::new("")) else { return Ok(()) };
        let to = self.any_path();
        let done = fs::rename(self.at(&from), self.at(&to));
        let at = self.at(&to);
        match (&entry, self.model.entries.get(&to)) {
            _ if from == to => told("rename", &at, done),
            _ if to.starts_with(&from) => refused("rename", &at, done, Errno::EINVAL),
            _ if from.starts_with(&to) => refused("rename", &at, done, Errno::ENOTEMPTY),
            (Entry::Dir, Some(Entry::Dir)) if !self.model.is_empty(&to) => {
                refused("rename", &at, done, Errno::ENOTEMPTY)
            }
            (Entry::Dir, Some(Entry::File(_) | Entry::Link(_))) => {
                refused("rename", &at, done, Errno::ENOTDIR)
            }
            (Entry::File(_) | Entry::Link(_), Some(Entry::Dir)) => {
                refused("rename", &at, done, Errno::EISDIR)
            }
            // Two names of one file: rename(2) leaves both.
            (Entry::File(one), Some(Entry::File(two))) if one == two => told("rename", &at, done),
            _ => {
                told("rename", &at, done)?;
                self.model.rename(&from, &to);
                Ok(())
            }
        }
    }

    fn exchange(&mut self) -> Outcome<()> {
        let not_root = |path: &Path, _: &Entry| path != Path::new("");
        let (Some((one, _)), Some((two, _))) = (self.any(not_root), self.any(not_root)) else {
            return Ok(());
        };
        if one.starts_with(&two) || two.starts_with(&one) {
            return Ok(());
        }
        let at = self.at(&one);
        let done = renameat2(AT_FDCWD, &at, AT_FDCWD, &self.at(&two), RenameFlags::RENAME_EXCHANGE);
        told("exchange", &at, done.map_err(io::Error::from))?;
        self.model.exchange(&one, &two);
        Ok(())
    }

    fn write(&mut self) -> Outcome<()> {
        let (Some((path, id)), bytes) = (self.any_file(), self.random.bytes(MOST_BYTES / 4)) else {
            return Ok(());
        };
        let at = self.at(&path);
        let Some(content) = self.model.files.get_mut(&id) else { return Ok(()) };
        let appends = self.random.below(2) == 0 && content.bytes.len() < MOST_BYTES;
        let offset = if appends { content.bytes.len() } else { self.random.below(MOST_BYTES) };
        let file = told("opening", &at, OpenOptions::new().write(true).append(appends).open(&at))?;
        told("writing", &at, file.write_all_at(&bytes, offset as u64))?;
        let end = offset + bytes.len();
        if !bytes.is_empty() && content.bytes.len() < end {
            content.bytes.resize(end, 0);
        }
        if !bytes.is_empty() {
            content.bytes[offset..end].copy_from_slice(&bytes);
        }
        Ok(())
    }

    fn truncate(&mut self) -> Outcome<()> {
        let (Some((path, id)), size) = (self.any_file(), self.random.below(MOST_BYTES)) else {
            return Ok(());
        };
        let at = self.at(&path);
        told(
            "truncation",
            &at,
            OpenOptions::new().write(true).open(&at).and_then(|file| file.set_len(size as u64)),
        )?;
        if let Some(content) = self.model.files.get_mut(&id) {
            content.bytes.resize(size, 0);
        }
        Ok(())
    }

    fn read(&mut self) -> Outcome<()> {
        let Some((path, id)) = self.any_file() else { return Ok(()) };
        let (at, content) = (self.at(&path), &self.model.files[&id]);
        let file = told("opening", &at, File::open(&at))?;
        let locked = Flock::lock(file, FlockArg::LockSharedNonblock).map_err(|(_, errno)| errno)?;
        let mut found = vec![0; content.bytes.len() + 1];
        let len = told("reading", &at, locked.read_at(&mut found, 0))?;
        same("the content", &at, &found[..len] == content.bytes.as_slice(), true)
    }

    fn look(&mut self) -> Outcome<()> {
        let Some((path, entry)) = self.any(|_, _| true) else { return Ok(()) };
        let at = self.at(&path);
        if self.random.below(20) == 0 {
            // It is mapped to be run.
            let program = self.root.join(PROGRAM);
            same(
                "the run",
                &program,
                told("running", &program, Command::new(&program).status())?.success(),
                true,
            )?;
        }
        self.is_as_believed(&at, &entry)
    }

    /// What is at `at`, on either side of the mount, is what `entry` says.
    fn is_as_believed(&self, at: &Path, entry: &Entry) -> Outcome<()> {
        let metadata = told("lstat", at, fs::symlink_metadata(at))?;
        same("the owner", at, metadata.uid(), self.uid)?;
        match entry {
            Entry::Dir => same("being a directory", at, metadata.is_dir(), true),
            Entry::Link(target) => same("the target", at, &told("readlink", at, fs::read_link(at))?, target),
            Entry::File(id) => {
                let content = &self.model.files[id];
                let found = (metadata.size(), metadata.nlink(), metadata.ino(), metadata.mode() & 0o777);
                let believed =
                    (content.bytes.len() as u64, self.model.names_of(*id), content.ino, content.mode);
                same("size, links, number and mode", at, found, believed)
            }
        }
    }

    fn list(&mut self) -> Outcome<()> {
        let Some((path, _)) = self.any(|_, entry| *entry == Entry::Dir) else { return Ok(()) };
        self.lists_as_believed(&self.at(&path), &path)
    }

    fn lists_as_believed(&self, at: &Path, path: &Path) -> Outcome<()> {
        let mut found = Vec::new();
        for entry in told("listing", at, fs::read_dir(at))? {
            found.push(told("listing", at, entry)?.file_name());
        }
        found.sort();
        let mut believed: Vec<_> =
            self.model.children(path).filter_map(|child| child.file_name().map(OsStr::to_owned)).collect();
        believed.sort();
        same("the entries", at, found, believed)
    }

    fn note(&mut self) -> Outcome<()> {
        if !self.has_notes {
            return Ok(());
        }
        let (Some((path, id)), value) = (self.any_file(), self.random.bytes(48)) else { return Ok(()) };
        let at = self.at(&path);
        let Some(content) = self.model.files.get_mut(&id) else { return Ok(()) };
        same("the note", &at, note(&at)?, content.note.clone())?;
        if self.random.below(3) == 0 {
            let removed = xattr::remove(&held(&at)?, OsStr::new(NOTE));
            let expected = content.note.take().map(|_| ()).ok_or(Errno::ENODATA);
            return same("taking the note away", &at, removed, expected);
        }
        let set = xattr::set(&held(&at)?, OsStr::new(NOTE), &value, 0);
        told("the new note", &at, set.map_err(io::Error::from))?;
        content.note = Some(value);
        Ok(())
    }

    fn change_mode(&mut self) -> Outcome<()> {
        let (Some((path, id)), mode) = (self.any_file(), [0o600, 0o640, 0o755][self.random.below(3)]) else {
            return Ok(());
        };
        let at = self.at(&path);
        told("chmod", &at, fs::set_permissions(&at, fs::Permissions::from_mode(mode)))?;
        if let Some(content) = self.model.files.get_mut(&id) {
            content.mode = mode;
        }
        Ok(())
    }

    fn copy(&mut self) -> Outcome<()> {
        let (Some((from, id)), Some((to, target))) = (self.any_file(), self.any_file()) else {
            return Ok(());
        };
        if id == target {
            return Ok(());
        }
        let at = self.at(&to);
        let source = told("opening", &at, File::open(self.at(&from)))?;
        let sink = told("opening", &at, OpenOptions::new().write(true).open(&at))?;
        let bytes = self.model.files[&id].bytes.clone();
        let (mut read, mut written) = (0, 0);
        while (read as usize) < bytes.len() {
            let left = bytes.len() - read as usize;
            let copied = copy_file_range(&source, Some(&mut read), &sink, Some(&mut written), left);
            same("progress", &at, told("copying", &at, copied.map_err(io::Error::from))? > 0, true)?;
        }
        if let Some(content) = self.model.files.get_mut(&target) {
            let len = content.bytes.len().max(bytes.len());
            content.bytes.resize(len, 0);
            content.bytes[..bytes.len()].copy_from_slice(&bytes);
        }
        Ok(())
    }

    /// A file that is removed while it is open.
    fn use_without_name(&mut self) -> Outcome<()> {
        let (path, bytes) = (self.any_path(), self.random.bytes(MOST_BYTES));
        if self.model.entries.contains_key(&path) {
            return Ok(());
        }
        let at = self.at(&path);
        let made = OpenOptions::new().read(true).write(true).create_new(true).open(&at);
        let file = told("creation", &at, made)?;
        told("unlink", &at, fs::remove_file(&at))?;
        told("writing", &at, file.write_all_at(&bytes, 10))?;
        let mut found = vec![0; bytes.len()];
        told("reading", &at, file.read_exact_at(&mut found, 10))?;
        same("what has no name", &at, (found == bytes, file.metadata()?.nlink()), (true, 0))
    }

    /// Something in the directory that all clients share, where every name may have come or gone meanwhile.
    fn share(&mut self) -> Outcome<()> {
        let [one, two] = [0; 2].map(|_| self.shared.join(NAMES[self.random.below(NAMES.len())]));
        let done = match self.random.below(6) {
            0 => OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o666)
                .open(&one)
                .and_then(|file| file.write_all_at(b"shared", 0)),
            1 => fs::rename(&one, &two),
            2 => fs::remove_file(&one),
            3 => fs::hard_link(&one, &two),
            4 => fs::read(&one).map(drop),
            _ => fs::symlink_metadata(&one).map(drop),
        };
        match done.as_ref().err().and_then(io::Error::raw_os_error).map(Errno::from_raw) {
            // Another client's file, whose mode the umask has cut.
            None | Some(Errno::ENOENT | Errno::EEXIST | Errno::EACCES) => Ok(()),
            // The kernel links nobody else's files (fs.protected_hardlinks).
            Some(Errno::EPERM) => Ok(()),
            Some(_) => told("sharing", &one, done),
        }
    }

    /// A name that must not come in.
    fn offend(&mut self) -> Outcome<()> {
        let bad = BAD_NAMES[self.random.below(BAD_NAMES.len())];
        let beside = self.any_path();
        let at = self.at(&beside).with_file_name(OsStr::from_bytes(bad));
        let file = self.any_file();
        match (self.random.below(6), file) {
            (0, _) => refused("creation", &at, File::create(&at), Errno::EILSEQ),
            (1, _) => refused("mkdir", &at, fs::create_dir(&at), Errno::EILSEQ),
            (2, _) => refused("symlink", &at, symlink("x", &at), Errno::EILSEQ),
            (3, Some((path, _))) => refused("rename", &at, fs::rename(self.at(&path), &at), Errno::EILSEQ),
            (4, Some((path, _))) => refused("link", &at, fs::hard_link(self.at(&path), &at), Errno::EILSEQ),
            _ => refused("lookup", &at, fs::symlink_metadata(&at), Errno::ENOENT),
        }
    }

    /// Compares the backing tree with what is believed, and returns how many entries there are.
    pub fn compare(&self, backing: &Path) -> Outcome<usize> {
        let root = backing.join(&self.directory);
        for (path, entry) in &self.model.entries {
            let at = root.join(path);
            self.is_as_believed(&at, entry)?;
            match entry {
                Entry::Dir => self.lists_as_believed(&at, path)?,
                Entry::Link(_) => {}
                Entry::File(id) => {
                    let content = &self.model.files[id];
                    same("the content", &at, fs::read(&at)? == content.bytes, true)?;
                    if self.has_notes {
                        same("the note", &at, note(&at)?, content.note.clone())?;
                    }
                }
            }
        }
        Ok(self.model.entries.len())
    }
}

/// Compares both sides of the directory that all share.
pub fn compare_shared(mnt: &Path, backing: &Path) -> Outcome<()> {
    let entries = |side: &Path| -> Outcome<Vec<_>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(side.join("shared"))? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            found.push((entry.file_name(), metadata.ino(), metadata.nlink(), fs::read(entry.path())?));
        }
        found.sort();
        Ok(found)
    };
    same("what is shared", mnt, entries(mnt)?, entries(backing)?)
}
