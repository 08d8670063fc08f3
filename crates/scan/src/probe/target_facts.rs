//! What can be read of a target without trying: its file system and what is free on it.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use namegate_core::policy::profile::{Profile, by_name};
use namegate_sys::iflags::is_casefolded;
use namegate_sys::mounts::{self, MountEntry};
use namegate_sys::{iflags, stat};
use nix::sys::statvfs::fstatvfs;

use super::trial_dir::{PREFIX, each_name};

/// The longest path that Linux accepts, without the NUL at its end.
const PATH_MAX: usize = 4095;

/// At most so many directories of earlier probes are named.
const MAX_LEFTOVERS: usize = 10;

/// `FS_ENCRYPT_FL` of linux/fs.h: names in this directory are encrypted.
const ENCRYPTED: u32 = 0x800;

/// What is read of a target.
#[derive(Debug)]
pub struct TargetFacts {
    /// The directory, an absolute path without links.
    pub path: PathBuf,
    /// The mount that has it; `None` without /proc.
    pub mount: Option<MountEntry>,
    pub is_read_only: bool,
    /// The longest name in bytes, as the file system states it.
    pub stated_name_max: Option<usize>,
    /// Whether the directory has the flag that it ignores case; `None` where there are no such flags.
    pub casefold_flag: Option<bool>,
    /// Whether the directory has the flag that its names are encrypted.
    pub encrypted_flag: Option<bool>,
    pub free_bytes: u64,
    /// `None` where inodes are not counted.
    pub free_inodes: Option<u64>,
    /// Bytes that a path below the directory can have.
    pub path_bytes_left: usize,
    /// What probes that were killed have left there, or what others use now.
    pub leftovers: Vec<OsString>,
}

impl TargetFacts {
    pub fn read(path: &Path, dir: &OwnedFd) -> io::Result<Self> {
        let path = path.canonicalize()?;
        let counts = fstatvfs(dir)?;
        let table = mounts::mounts().unwrap_or_default();
        let by_id = stat::mount_of(dir).and_then(|id| table.iter().find(|mount| mount.id == id));
        let mount = by_id.or_else(|| mounts::holding(&table, &path)).cloned();
        let separator = usize::from(path != Path::new("/"));
        Ok(Self {
            is_read_only: mount.as_ref().is_some_and(MountEntry::is_read_only),
            mount,
            stated_name_max: usize::try_from(counts.name_max()).ok().filter(|&max| max > 0),
            casefold_flag: is_casefolded(dir).ok(),
            encrypted_flag: iflags::get(dir).ok().map(|flags| flags & ENCRYPTED != 0),
            free_bytes: counts.blocks_available().saturating_mul(counts.fragment_size()),
            free_inodes: Some(counts.files_available()).filter(|_| counts.files() > 0),
            path_bytes_left: PATH_MAX.saturating_sub(path.as_os_str().len() + separator),
            leftovers: Vec::new(),
            path,
        })
    }

    /// Looks for directories of earlier probes.
    pub fn find_leftovers(&mut self, dir: &OwnedFd) {
        let leftovers = &mut self.leftovers;
        // A directory that cannot be read to its end may have more; names are tried in it all the same.
        let _ = each_name(dir, &mut |name| {
            if name.starts_with(PREFIX.as_bytes()) && leftovers.len() < MAX_LEFTOVERS {
                leftovers.push(OsString::from_vec(name.to_vec()));
            }
        });
    }

    /// The type of the file system, such as `ext4`.
    pub fn kind(&self) -> &str {
        self.mount.as_ref().map_or("", |mount| &mount.kind)
    }

    /// The profile that fits the type of the file system.
    pub fn profile(&self) -> &'static Profile {
        let name = match self.kind() {
            "vfat" | "msdos" | "exfat" | "fuse.exfat" | "fuse.fusefat" => "exfat",
            "ntfs" | "ntfs3" | "fuseblk" | "fuse.ntfs-3g" => "windows",
            "cifs" | "smb3" => "smb",
            "hfs" | "hfsplus" | "apfs" => "macos",
            "ecryptfs" => "ecryptfs",
            "fuse.cryptomator" => "cryptomator",
            "iso9660" => "joliet",
            "udf" => "udf",
            _ if self.casefold_flag == Some(true) => "ext4-casefold",
            _ => "utf8",
        };
        by_name(name).expect("a test holds that there are these profiles")
    }

    /// Whether disks of this type are read by Windows, which refuses more names than Linux does there.
    pub fn is_for_windows(&self) -> bool {
        matches!(self.profile().name, "exfat" | "windows" | "smb")
    }
}
