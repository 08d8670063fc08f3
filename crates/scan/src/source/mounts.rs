//! File systems that change names.

use namegate_sys::mounts::MountEntry;

/// Describes how a file system changes names, as far as its type tells.
pub fn habit(mount: &MountEntry) -> Option<&'static str> {
    Some(match mount.kind.as_str() {
        "vfat" | "msdos" | "exfat" => "ignores case",
        "ntfs" | "ntfs3" => "keeps names as UTF-16, and Windows ignores their case",
        "hfs" | "hfsplus" => "stores names decomposed (a kind of NFD), and ignores case by default",
        "apfs" => "ignores normalization, and case by default",
        "cifs" | "smb3" => "is on a server that may ignore case and map reserved characters (mount.cifs(8))",
        "iso9660" => "may show names that were mapped (mount(8))",
        "zfs" => "may normalize names, ignore case, or refuse names that are not UTF-8 (zfsprops(7))",
        _ => return None,
    })
}
