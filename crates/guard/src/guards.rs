//! The guards in force: maps, programs and links, pinned in one directory of the BPF file system.
//!
//! Whoever changes guards holds a lock (flock(2)) on the directory. It appears complete, by a rename, and disappears by one, so
//! a process that is killed in between leaves nothing behind that is in force.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process;
use std::time::Duration;

use namegate_core::name::display::shown;
use namegate_sys::bpf::{BpfMap, open_pinned};
use namegate_sys::process::fd_info;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::statfs::{BPF_FS_MAGIC, statfs};
use nix::time::{ClockId, clock_gettime};
use serde::Serialize;

use super::note::GuardNote;
use super::program::{HOOKS, LoadError, Program, RECORDED, link_pin, set_table};
use super::table::{self, DEVICES_SIZE, GuardScope, SLOTS, decode_devices, encode_devices, read_table};

/// Where systemd mounts the BPF file system.
const BPF_FILE_SYSTEM: &str = "/sys/fs/bpf";

/// The directory of the pins. The file system allows no dots in names.
const PINS: &str = "namegate";

/// How directories are called that are not yet, or not any more, in force; the id of their process follows.
const STAGING: &str = "namegate-staging-";

/// A directory beside the pins that the one reader of events locks.
const READER: &str = "reader";

/// Why the guards cannot be read or changed.
#[derive(Debug)]
pub enum GuardError {
    /// There is no BPF file system.
    NoFileSystem(PathBuf),
    /// Somebody other than root can change the directory of the pins.
    Unsafe(PathBuf),
    /// Another version of the program loaded the guards.
    OtherVersion(PathBuf),
    /// The programs cannot be loaded.
    Load(LoadError),
    /// All slots are in use.
    Full,
    /// Another process reads the events.
    HasReader,
    /// Something cannot be done with a pin.
    Io(&'static str, PathBuf, io::Error),
}

impl fmt::Display for GuardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoFileSystem(path) => write!(
                f,
                "no BPF file system is mounted at {0}. Run: mount -t bpf -o mode=0700 bpf {0}",
                shown(path)
            ),
            Self::Unsafe(path) => {
                write!(f, "{} does not belong to root alone: somebody else made it. Remove it", shown(path))
            }
            Self::OtherVersion(path) => write!(
                f,
                "another version of namegate loaded the guards in {0}. Turn them off with that version, or remove {0}, \
                 and turn them on again",
                shown(path)
            ),
            Self::Load(error) => write!(f, "{error}"),
            Self::Full => write!(f, "{SLOTS} guards are on, and there can be no more"),
            Self::HasReader => f.write_str("another process reads the events of the guards"),
            Self::Io(what, path, error) => write!(f, "cannot {what} {}: {error}", shown(path)),
        }
    }
}

impl std::error::Error for GuardError {}

impl From<LoadError> for GuardError {
    fn from(error: LoadError) -> Self {
        Self::Load(error)
    }
}

/// What a guard has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GuardCounts {
    /// Names that were refused.
    pub refused: u64,
    /// Names that were reported and allowed.
    pub audited: u64,
    /// Of both, those whose event found no room.
    #[serde(rename = "lost_events")]
    pub lost: u64,
}

#[derive(Clone, Debug)]
pub struct SlotGuard {
    pub slot: u32,
    /// Its own number, which no other guard gets.
    pub id: u64,
    /// Whether it has ended, because its file system was unmounted.
    pub has_ended: bool,
    /// Where it applies.
    pub scope: GuardScope,
    /// What [`super::note`] wrote about it.
    pub note: Vec<u8>,
    /// What it has counted.
    pub counts: GuardCounts,
    /// Of the lost events, those that a reader has recorded.
    pub recorded: u64,
}

impl SlotGuard {
    /// The path that it was turned on with; `None` if another version wrote it.
    pub fn path(&self) -> Option<PathBuf> {
        let note = GuardNote::from_bytes(&self.note).ok()?;
        Some(OsString::from_vec(note.path.base64.0).into())
    }
}

/// The guards in force.
#[derive(Debug)]
pub struct Guards {
    dir: PathBuf,
    lock: Flock<File>,
    tables: BpfMap,
    devices: BpfMap,
    counters: BpfMap,
    recorded: BpfMap,
}

impl Guards {
    /// Opens and locks the guards in force; `None` if there are none.
    ///
    /// # Errors
    /// [`GuardError`].
    pub fn open() -> Result<Option<Self>, GuardError> {
        let dir = Path::new(BPF_FILE_SYSTEM).join(PINS);
        loop {
            let opened = match File::open(&dir) {
                Ok(opened) => opened,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return file_system().map(|_| None);
                }
                Err(error) => return Err(GuardError::Io("open", dir, error)),
            };
            check_owner(&dir, &opened)?;
            let lock = Flock::lock(opened, FlockArg::LockExclusive)
                .map_err(|(_, errno)| GuardError::Io("lock", dir.clone(), errno.into()))?;
            // Somebody may have turned the last guard off, and another one on, before we had the lock.
            let is_there =
                fs::metadata(&dir).is_ok_and(|now| lock.metadata().is_ok_and(|own| own.ino() == now.ino()));
            if !is_there {
                continue;
            }
            let open = |name: &str| {
                BpfMap::open(&dir.join(name)).map_err(|e| match e.kind() {
                    io::ErrorKind::NotFound => GuardError::OtherVersion(dir.clone()),
                    _ => GuardError::Io("open", dir.join(name), e),
                })
            };
            let (tables, devices, counters) = (open("guards")?, open("devices")?, open("counters")?);
            let recorded = open(RECORDED)?;
            if devices.value_size() != DEVICES_SIZE || counters.value_size() != 24 {
                return Err(GuardError::OtherVersion(dir));
            }
            return Ok(Some(Self { dir, lock, tables, devices, counters, recorded }));
        }
    }

    /// Opens the guards, and loads the program if there are none.
    ///
    /// # Errors
    /// [`GuardError`].
    pub fn open_or_load() -> Result<Self, GuardError> {
        loop {
            if let Some(guards) = Self::open()? {
                return Ok(guards);
            }
            let dir = Path::new(BPF_FILE_SYSTEM).join(PINS);
            let staging = Staging::new()?;
            let mut program = Program::new(&staging.0)?;
            program.load()?;
            program.attach_and_pin(&staging.0)?;
            let reader = staging.0.join(READER);
            DirBuilder::new().mode(0o700).create(&reader).map_err(|e| GuardError::Io("make", reader, e))?;
            match fs::rename(&staging.0, &dir) {
                // Another process was faster: its guards are used.
                Err(error) if error.raw_os_error() == Some(Errno::ENOTEMPTY as i32) => {}
                Err(error) => return Err(GuardError::Io("make", dir, error)),
                Ok(()) => {}
            }
        }
    }

    /// The guards, in the order of their slots.
    ///
    /// # Errors
    /// [`GuardError`].
    pub fn list(&self) -> Result<Vec<SlotGuard>, GuardError> {
        let devices = self.devices()?;
        let used = (0..SLOTS).zip(devices).filter(|(_, device)| *device != 0);
        used.map(|(slot, _)| {
            let read = || -> io::Result<(Vec<u8>, Vec<u8>)> {
                let table = self.tables.get_map(slot)?;
                Ok((table.get(0)?, self.recorded.get(slot)?))
            };
            let (bytes, recorded) = read().map_err(|e| GuardError::Io("read", self.dir.join("guards"), e))?;
            if bytes.len() != table::SIZE as usize {
                return Err(GuardError::OtherVersion(self.dir.clone()));
            }
            let head = read_table(&bytes).ok_or_else(|| GuardError::OtherVersion(self.dir.clone()))?;
            let recorded = u64::from_ne_bytes(*recorded.first_chunk().expect("one counter"));
            let (counts, note) = (self.counts(slot)?, head.note.to_vec());
            let (id, scope, has_ended) = (head.id, head.scope, head.has_ended);
            Ok(SlotGuard { slot, id, has_ended, scope, note, counts, recorded })
        })
        .collect()
    }

    fn counts(&self, slot: u32) -> Result<GuardCounts, GuardError> {
        let counts = self.counters.get(slot);
        let counts = counts.map_err(|e| GuardError::Io("read", self.dir.join("counters"), e.into()))?;
        let count = |at: usize| u64::from_ne_bytes(*counts[8 * at..].first_chunk().expect("three counters"));
        Ok(GuardCounts { refused: count(0), audited: count(1), lost: count(2) })
    }

    /// A number for a new guard. Whoever has these guards open has the lock: nobody gets the same one.
    pub fn new_id(&self) -> u64 {
        clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(0, |now| Duration::from(now).as_nanos() as u64)
    }

    /// Turns a guard on in the place of one of the same directory, or in a free slot, with its `table`, which is encoded for `device`.
    ///
    /// # Errors
    /// [`GuardError`].
    pub fn set(&self, before: Option<&SlotGuard>, device: u32, table: &[u8]) -> Result<(), GuardError> {
        let failed = |e: io::Error| GuardError::Io("change", self.dir.join("guards"), e);
        match before {
            Some(guard) => set_table(&self.tables, guard.slot, table).map_err(failed),
            None => {
                let slot = free_slot(&self.devices()?, &self.list()?).ok_or(GuardError::Full)?;
                // A guard that has ended can have it.
                self.set_device(slot, 0)?;
                self.counters.set(slot, &[0; 24]).map_err(|e| failed(e.into()))?;
                self.set_recorded(slot, 0)?;
                // The table first: a slot with a device is in force.
                set_table(&self.tables, slot, table).map_err(failed)?;
                self.set_device(slot, device)
            }
        }
    }

    /// Notes how many lost events of the guard in `slot` are recorded.
    ///
    /// # Errors
    /// [`GuardError`].
    pub fn set_recorded(&self, slot: u32, lost: u64) -> Result<(), GuardError> {
        let set = self.recorded.set(slot, &lost.to_ne_bytes());
        set.map_err(|e| GuardError::Io("change", self.dir.join(RECORDED), e.into()))
    }

    /// Turns the guard in `slot` off, and returns what it has counted to its end.
    ///
    /// # Errors
    /// [`GuardError`].
    pub fn remove(&self, slot: u32) -> Result<GuardCounts, GuardError> {
        self.set_device(slot, 0)?;
        // Returns when no program uses the table any more.
        self.tables.remove(slot).map_err(|e| GuardError::Io("change", self.dir.join("guards"), e.into()))?;
        self.counts(slot)
    }

    /// Unloads programs and maps if there is no guard.
    ///
    /// # Errors
    /// [`GuardError`].
    pub fn unload_if_unused(&self) -> Result<(), GuardError> {
        if self.devices()?.iter().any(|device| *device != 0) {
            return Ok(());
        }
        let staging = Staging::path();
        fs::rename(&self.dir, &staging).map_err(|e| GuardError::Io("remove", self.dir.clone(), e))?;
        remove_pins(&staging).map_err(|e| GuardError::Io("remove", staging, e))
    }

    /// How many times the kernel did not run a program because it was already running on that processor, which kernels before
    /// 6.2 do where they can be preempted. `None` for a hook without program.
    pub fn missed(&self) -> Vec<(&'static str, Option<u64>)> {
        let missed = |hook: &str| {
            open_pinned(&self.dir.join(link_pin(hook))).ok()?;
            let program = open_pinned(&self.dir.join(hook)).ok()?;
            Some(fd_info(program, "recursion_misses").ok()?.unwrap_or(0))
        };
        HOOKS.into_iter().map(|hook| (hook, missed(hook))).collect()
    }

    /// The pin of the events, and the lock of their one reader.
    ///
    /// # Errors
    /// [`GuardError::HasReader`], or as opening says.
    pub fn events(&self) -> Result<(PathBuf, Flock<File>), GuardError> {
        let reader = self.dir.join(READER);
        let opened = File::open(&reader).map_err(|e| GuardError::Io("open", reader, e))?;
        let lock = Flock::lock(opened, FlockArg::LockExclusiveNonblock).map_err(|_| GuardError::HasReader)?;
        Ok((self.dir.join("events"), lock))
    }

    /// The inode of the directory, which tells these guards from later ones.
    ///
    /// # Errors
    /// As stat(2) says.
    pub fn inode(&self) -> io::Result<u64> {
        Ok(self.lock.metadata()?.ino())
    }

    fn devices(&self) -> Result<Vec<u32>, GuardError> {
        let bytes =
            self.devices.get(0).map_err(|e| GuardError::Io("read", self.dir.join("devices"), e.into()))?;
        Ok(decode_devices(&bytes))
    }

    fn set_device(&self, slot: u32, device: u32) -> Result<(), GuardError> {
        let mut devices = self.devices()?;
        devices[slot as usize] = device;
        self.devices
            .set(0, &encode_devices(&devices))
            .map_err(|e| GuardError::Io("change", self.dir.join("devices"), e.into()))
    }
}

/// The slot for a new guard, among those with these devices: a free one, or that of a guard that has ended.
pub(crate) fn free_slot(devices: &[u32], guards: &[SlotGuard]) -> Option<u32> {
    let free = devices.iter().position(|device| *device == 0).map(|slot| slot as u32);
    free.or_else(|| guards.iter().find(|guard| guard.has_ended).map(|guard| guard.slot))
}

/// The inode of the directory of the guards in force; `None` if there are none.
pub fn inode_in_force() -> Option<u64> {
    fs::metadata(Path::new(BPF_FILE_SYSTEM).join(PINS)).ok().map(|dir| dir.ino())
}

/// Loads the programs and attaches one of them, for a moment and with no guard. What fails is what a guard would fail of.
///
/// # Errors
/// [`GuardError`].
pub fn try_to_load() -> Result<(), GuardError> {
    let staging = Staging::new()?;
    let mut program = Program::new(&staging.0)?;
    program.load()?;
    program.attach(HOOKS[0])?;
    Ok(())
}

fn file_system() -> Result<&'static Path, GuardError> {
    let path = Path::new(BPF_FILE_SYSTEM);
    match statfs(path) {
        Ok(found) if found.filesystem_type() == BPF_FS_MAGIC => Ok(path),
        _ => Err(GuardError::NoFileSystem(path.into())),
    }
}

/// Everybody may be allowed to make directories where it is.
fn check_owner(path: &Path, dir: &File) -> Result<(), GuardError> {
    let meta = dir.metadata().map_err(|e| GuardError::Io("open", path.into(), e))?;
    match meta.uid() == 0 && meta.mode() & 0o022 == 0 {
        true => Ok(()),
        false => Err(GuardError::Unsafe(path.into())),
    }
}

/// A directory of pins that nobody uses yet. What is in it goes with it.
struct Staging(PathBuf);

impl Staging {
    fn path() -> PathBuf {
        Path::new(BPF_FILE_SYSTEM).join(format!("{STAGING}{}", process::id()))
    }

    /// Makes one, and removes those of processes that were killed.
    fn new() -> Result<Self, GuardError> {
        for entry in fs::read_dir(file_system()?).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let id = name.to_str().and_then(|name| name.strip_prefix(STAGING));
            let is_left = id.is_some_and(|id| !Path::new("/proc").join(id).exists());
            let is_ours = entry.metadata().is_ok_and(|meta| meta.uid() == 0);
            if is_left && is_ours {
                // What stays is in force nowhere.
                let _ = remove_pins(&entry.path());
            }
        }
        let path = Self::path();
        DirBuilder::new().mode(0o700).create(&path).map_err(|e| GuardError::Io("make", path.clone(), e))?;
        Ok(Self(path))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // Nothing is left of one that was renamed.
        let _ = remove_pins(&self.0);
    }
}

/// Removes a directory of pins: links first, so that programs end before their maps go.
fn remove_pins(dir: &Path) -> io::Result<()> {
    for hook in HOOKS {
        let _ = fs::remove_file(dir.join(link_pin(hook)));
    }
    fs::remove_dir_all(dir)
}
