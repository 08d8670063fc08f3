//! The mount table. Source: proc_pid_mountinfo(5).

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountEntry {
    /// The identifier of the mount, as long as it exists.
    pub id: u64,
    pub point: PathBuf,
    /// The device number of the file system, such as `8:1`. After an unmount another file system can get the same number.
    pub device: String,
    /// Its type, such as `ext4` or `fuse.namegate`.
    pub kind: String,
    /// The directory of the file system that is mounted there; `/` is its root.
    pub root: PathBuf,
    /// The flags of the mount, such as `rw,nosuid`.
    pub flags: Vec<u8>,
    /// Its source, as the file system names it: a device, a directory, a server.
    pub source: Vec<u8>,
    /// The options of the file system, such as `rw,iocharset=utf8`.
    pub options: Vec<u8>,
}

impl MountEntry {
    /// Reports whether the root of the file system is mounted there, and not a part of it.
    pub fn is_whole(&self) -> bool {
        self.root == Path::new("/")
    }

    /// Returns the user whose FUSE mount it is: the option `user_id`, which nobody but root can choose (fuse.rst in the kernel's
    /// documentation).
    pub fn fuse_owner(&self) -> Option<u32> {
        let uid =
            self.options.split(|&byte| byte == b',').find_map(|option| option.strip_prefix(b"user_id="))?;
        std::str::from_utf8(uid).ok()?.parse().ok()
    }

    /// Reports whether nothing can be written: by the mount, or by the file system, which may have become read-only after an error.
    pub fn is_read_only(&self) -> bool {
        let mut words =
            self.flags.split(|&byte| byte == b',').chain(self.options.split(|&byte| byte == b','));
        words.any(|word| word == b"ro" || word == b"emergency_ro")
    }

    /// Reports whether only the kernel creates names in this file system.
    pub fn is_kernels(&self) -> bool {
        const KINDS: [&str; 20] = [
            "proc",
            "sysfs",
            "cgroup",
            "cgroup2",
            "devpts",
            "debugfs",
            "tracefs",
            "securityfs",
            "configfs",
            "fusectl",
            "pstore",
            "bpf",
            "efivarfs",
            "binfmt_misc",
            "nsfs",
            "rpc_pipefs",
            "selinuxfs",
            "autofs",
            "nfsd",
            "cpuset",
        ];
        KINDS.contains(&self.kind.as_str())
    }
}

/// Returns all mounts in the namespace of this process, in the order of mounting.
///
/// # Errors
/// /proc cannot be read.
pub fn mounts() -> io::Result<Vec<MountEntry>> {
    fs::read("/proc/self/mountinfo").map(|table| parse(&table))
}

/// Parses a mount table, in its order; invalid lines are skipped.
pub fn parse(table: &[u8]) -> Vec<MountEntry> {
    table.split(|&b| b == b'\n').filter_map(line).collect()
}

/// Returns the mounts below `dir`, an absolute path without links, one for each mount point.
pub fn below<'m>(mounts: &'m [MountEntry], dir: &Path) -> Vec<&'m MountEntry> {
    let mut found: Vec<&MountEntry> = Vec::new();
    for mount in mounts.iter().filter(|mount| mount.point != dir && mount.point.starts_with(dir)) {
        // A mount hides an earlier one at the same place.
        found.retain(|other| other.point != mount.point);
        found.push(mount);
    }
    found
}

/// Returns the topmost mount at `place`, an absolute path without links: the last one mounted there.
pub fn covering<'m>(mounts: &'m [MountEntry], place: &Path) -> Option<&'m MountEntry> {
    mounts.iter().rfind(|mount| mount.point == place)
}

/// Returns the mount that contains `path`, an absolute path without links.
pub fn holding<'m>(mounts: &'m [MountEntry], path: &Path) -> Option<&'m MountEntry> {
    // Of several mounts at one place the last is visible.
    mounts
        .iter()
        .filter(|mount| path.starts_with(&mount.point))
        .max_by_key(|mount| mount.point.as_os_str().len())
}

/// Parses one line of the table: fields, any number of optional ones, a hyphen, then type, source and options of the file system.
fn line(line: &[u8]) -> Option<MountEntry> {
    let mut fields = line.split(|&b| b == b' ');
    let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let device = String::from_utf8_lossy(fields.nth(1)?).into_owned();
    let root = OsString::from_vec(unescaped(fields.next()?)).into();
    let point = OsString::from_vec(unescaped(fields.next()?)).into();
    let flags = fields.next()?.to_vec();
    let mut own = fields.skip_while(|field| *field != b"-").skip(1);
    let kind = String::from_utf8_lossy(own.next()?).into_owned();
    let (source, options) = (unescaped(own.next()?), unescaped(own.next()?));
    Some(MountEntry { id, point, device, kind, root, flags, source, options })
}

/// Decodes a field: space, tab, line feed and backslash are written as a backslash and three octal digits.
pub fn unescaped(field: &[u8]) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), field);
    while let [first, behind @ ..] = rest {
        let octal = (*first == b'\\').then(|| behind.first_chunk::<3>()).flatten();
        let value = octal.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(value.unwrap_or(*first));
        rest = if value.is_some() { &behind[3..] } else { behind };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read_with_its_escapes_and_optional_fields() {
        let table = b"27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
            36 27 98:0 /mnt1 /mnt/a\\040b\\134c rw master:1 propagate_from:2 - vfat /dev/sda rw\n\
            37 27 98:1 / /mnt rw - tmpfs none rw\n\
            38 36 98:2 / /mnt/a\\040b\\134c rw - exfat /dev/sdb rw\nnonsense\n";
        let mounts = parse(table);
        assert_eq!(mounts.iter().map(|m| m.id).collect::<Vec<_>>(), [27, 36, 37, 38]);
        assert_eq!(mounts.iter().map(|m| m.is_whole()).collect::<Vec<_>>(), [true, false, true, true]);
        let place = Path::new("/mnt/a b\\c");
        assert_eq!((mounts[1].point.as_path(), mounts[1].kind.as_str()), (place, "vfat"));
        let kinds = |found: Vec<&MountEntry>| found.iter().map(|m| m.kind.clone()).collect::<Vec<_>>();
        assert_eq!(kinds(below(&mounts, Path::new("/"))), ["tmpfs", "exfat"]);
        assert_eq!(kinds(below(&mounts, Path::new("/mnt"))), ["exfat"]);
        assert_eq!(
            covering(&mounts, place).map(|m| m.device.as_str()),
            Some("98:2"),
            "the last one covers the others"
        );
        assert_eq!(covering(&mounts, Path::new("/mnt/a")), None);
        let on = |path: &Path| holding(&mounts, path).map(|m| (m.kind.as_str(), m.source.as_slice()));
        assert_eq!(on(&place.join("x")), Some(("exfat", &b"/dev/sdb"[..])), "the last one covers the others");
        assert_eq!(on(Path::new("/mnt2")), Some(("ext4", &b"/dev/vda"[..])));
        assert_eq!((mounts[1].options.as_slice(), mounts[1].device.as_str()), (&b"rw"[..], "98:0"));
        assert!(mounts.iter().all(|mount| !mount.is_read_only()));
        let read_only = |flags: &str, options: &str| {
            parse(format!("27 1 254:0 / / {flags} - ext4 /dev/vda {options}").as_bytes())[0].is_read_only()
        };
        assert!(read_only("rw,relatime", "ro,errors=remount-ro") && read_only("ro,nosuid", "rw"));
        assert!(!read_only("rw,nosuid", "rw,errors=remount-ro"));
        assert_eq!(unescaped(br"\40 \777\08\134"), br"\40 \777\08\");
    }
}
