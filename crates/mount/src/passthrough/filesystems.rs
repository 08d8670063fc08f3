//! What file systems do, by their numbers (statfs(2)).

use nix::sys::statfs::{BTRFS_SUPER_MAGIC, EXT4_SUPER_MAGIC, FUSE_SUPER_MAGIC, FsType, TMPFS_MAGIC};

/// From linux/magic.h; nix defines it for the GNU C library only.
const NFS_SUPER_MAGIC: FsType = FsType(0x6969);

/// From linux/magic.h; nix defines it for the GNU C library only.
pub(super) const XFS_SUPER_MAGIC: FsType = FsType(0x5846_5342);

/// From linux/magic.h.
const F2FS_SUPER_MAGIC: FsType = FsType(0xF2F5_2010);
const UBIFS_SUPER_MAGIC: FsType = FsType(0x2405_1905);

/// From linux/magic.h and fs/smb of the kernel.
pub(super) const SMB_MAGICS: [FsType; 2] = [FsType(0xFF53_4D42), FsType(0xFE53_4D42)];

/// Whether opening a file obeys O_CREAT and O_EXCL after the file was created. The kernel opens a backing file with the flags of
/// the client, in a reply to FUSE_CREATE with these two. The SMB client sends them to its server, which answers that the file
/// exists, and open(2) fails with EIO.
pub(super) fn creates_twice(kind: FsType) -> bool {
    SMB_MAGICS.contains(&kind)
}

/// File systems on which this kernel alone checks permissions. They include all that reserve blocks for root: ext2 to ext4, F2FS,
/// UBIFS.
pub(super) fn is_local(kind: FsType) -> bool {
    closes_silently(kind) || [F2FS_SUPER_MAGIC, UBIFS_SUPER_MAGIC].contains(&kind)
}

/// Local file systems on which close(2) reports no errors: they have no `flush` operation.
pub(super) fn closes_silently(kind: FsType) -> bool {
    [EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC, TMPFS_MAGIC].contains(&kind)
}

/// Network and user-space file systems. The numbers are from linux/magic.h or from the sources of the file system.
pub(super) fn is_remote(kind: FsType) -> bool {
    const OTHERS: [u32; 9] = [
        0xFF53_4D42, // CIFS
        0xFE53_4D42, // SMB 2 and later
        0x0102_1997, // 9P
        0x00C3_6400, // Ceph
        0x5346_414F, // AFS (openafs)
        0x6B41_4653, // AFS (linux)
        0x7375_7245, // Coda
        0x0BD0_0BD0, // Lustre
        0x786F_4256, // vboxsf
    ];
    // The type is as wide as a word, and some numbers have the highest of 32 bits set.
    let is_other = |&other: &u32| kind.0 as u32 == other;
    kind == NFS_SUPER_MAGIC || kind == FUSE_SUPER_MAGIC || OTHERS.iter().any(is_other)
}

/// From linux/magic.h, and the number of fs/afs, which is in no header.
const AFS_SUPER_MAGIC: FsType = FsType(0x5346_414F);
const AFS_FS_MAGIC: FsType = FsType(0x6B41_4653);

/// Whether a file system renames a file that is removed while a descriptor refers to its entry, even an `O_PATH` one
/// (nfs_sillyrename and afs_sillyrename of the kernel, by d_count of the entry). A descriptor that the server keeps open
/// would leave such names behind.
pub(super) fn renames_removed(kind: FsType) -> bool {
    [NFS_SUPER_MAGIC, AFS_SUPER_MAGIC, AFS_FS_MAGIC].contains(&kind)
}
