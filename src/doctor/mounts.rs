//! Mounts: those of namegate whose server is dead, and file systems that return names in another encoding.
//!
//! Sources: mount(8) on vfat, iso9660, ntfs and jfs; mount.cifs(8); hfsplus.rst and hfs.rst of the kernel (`nls`).

use namegate_core::name::display::{display, shown};
use namegate_sys::mounts::{MountEntry, parse};
use nix::errno::Errno;
use nix::sys::statfs::statfs;

use super::{Diagnosis, Machine};

pub(super) fn checks(machine: &Machine) -> Vec<Diagnosis> {
    const ID: &str = "mounts";
    let table = match machine.read("proc/self/mountinfo") {
        Ok(table) => parse(&table),
        Err(error) => return vec![Diagnosis::unknown(ID, format!("/proc/self/mountinfo: {error}"))],
    };
    let mut checks: Vec<Diagnosis> = table.iter().filter_map(charset).collect();
    if machine.is_live() {
        checks.extend(table.iter().filter(|mount| mount.kind == "fuse.namegate").map(server));
    }
    if checks.is_empty() {
        checks.push(Diagnosis::ok(
            "name-encodings",
            "all mounted file systems return names unchanged or in UTF-8",
        ));
    }
    checks
}

/// Reports a file system that returns names in another encoding than UTF-8.
fn charset(mount: &MountEntry) -> Option<Diagnosis> {
    let options = || mount.options.split(|&byte| byte == b',');
    if options().any(|option| option == b"utf8" || option == b"utf8=1") {
        return None;
    }
    let named = options().find_map(|option| {
        option
            .strip_prefix(b"iocharset=")
            .or_else(|| option.strip_prefix(b"nls="))
            .map(<[u8]>::to_ascii_lowercase)
    })?;
    if matches!(named.as_slice(), b"utf8" | b"utf-8" | b"none") {
        return None;
    }
    let option = match mount.kind.as_str() {
        "hfsplus" | "ntfs" | "ntfs3" => "nls=utf8",
        "vfat" | "msdos" => "utf8",
        _ => "iocharset=utf8",
    };
    Some(Diagnosis::warn(
        "name-encodings",
        format!(
            "{} ({}) returns names in {}",
            shown(&mount.point),
            display(mount.kind.as_bytes()),
            display(&named)
        ),
        format!(
            "mount it with -o {option}: names that this encoding cannot represent are shown with `?` or not at all"
        ),
    ))
}

/// Reports whether the server of a mount still answers.
fn server(mount: &MountEntry) -> Diagnosis {
    const ID: &str = "servers";
    match statfs(&mount.point) {
        Err(Errno::ENOTCONN) => Diagnosis::fail(
            ID,
            format!("the server of {} is dead", shown(&mount.point)),
            "mount it again, which replaces it, or unmount it: umount -l MOUNTPOINT, fusermount3 -uz MOUNTPOINT",
        ),
        _ => Diagnosis::ok(ID, format!("{} is served", shown(&mount.point))),
    }
}
