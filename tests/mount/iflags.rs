//! Inode flags: chattr(1) through the mount, and the effect of the flags.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, chown};
use std::path::Path;

use namegate_sys::iflags;
use nix::errno::Errno;

use namegate_testkit::acting::act_as;
use namegate_testkit::mounted::TestMount;

// linux/fs.h
const APPEND: u32 = 0x20;
const IMMUTABLE: u32 = 0x10;
const JOURNAL_DATA: u32 = 0x4000;
const NODUMP: u32 = 0x40;

fn get(path: &Path) -> nix::Result<u32> {
    iflags::get(File::open(path).unwrap())
}

fn set(path: &Path, flags: u32) -> nix::Result<()> {
    iflags::set(File::open(path).unwrap(), flags)
}

/// A mount whose backing files have flags.
fn with_flags() -> Option<TestMount> {
    let mounted = TestMount::new(&[])?;
    match get(&mounted.backing()) {
        Ok(_) => Some(mounted),
        Err(errno) => {
            println!("SKIPPED: files in the temporary directory have no flags: {errno}");
            None
        }
    }
}

#[test]
fn the_flags_of_files_and_directories_are_read_and_set_by_their_owner_alone() {
    let Some(mounted) = with_flags() else { return };
    let (file, dir) = (mounted.mnt().join("file"), mounted.mnt().join("dir"));
    fs::write(&file, "").unwrap();
    fs::create_dir(&dir).unwrap();
    for (path, name) in [(&file, "file"), (&dir, "dir")] {
        chown(path, Some(1234), Some(1234)).unwrap();
        let (there, before) = (mounted.backing().join(name), get(path).unwrap());
        assert_eq!(Ok(before), get(&there));
        let by_stranger = act_as(1235, 1234, &[], 0, || set(path, before | NODUMP));
        let by_owner = act_as(1234, 1234, &[], 0, || set(path, before | NODUMP));
        assert_eq!((by_stranger, by_owner), (Err(Errno::EPERM), Ok(())), "{name}");
        assert_eq!(get(&there), Ok(before | NODUMP), "{name}");
        let extended = iflags::get_extended(File::open(path).unwrap());
        assert_eq!(extended, iflags::get_extended(File::open(&there).unwrap()));
        iflags::set_extended(File::open(path).unwrap(), &[0; 28]).unwrap();
        assert_eq!(get(&there), Ok(before), "{name}");
        // These need capabilities; ownership is not sufficient.
        for flag in [IMMUTABLE, APPEND, JOURNAL_DATA] {
            let refused = act_as(1234, 1234, &[], 0, || set(path, before | flag));
            assert!(
                matches!(refused, Err(Errno::EPERM | Errno::EOPNOTSUPP)),
                "{name}, {flag:x}: {refused:?}"
            );
        }
        assert_eq!(get(&there), Ok(before), "{name}");
    }
}

#[test]
fn immutable_and_append_only_files_are_protected_through_the_mount() {
    let Some(mounted) = with_flags() else { return };
    let path = mounted.mnt().join("log");
    fs::write(&path, "content").unwrap();
    let ino = fs::metadata(&path).unwrap().ino();
    let plain = get(&path).unwrap();
    let refused =
        |result: std::io::Result<()>| result.unwrap_err().raw_os_error() == Some(Errno::EPERM as i32);
    let write = |flags| OpenOptions::new().write(true).custom_flags(flags).open(&path).map(drop);
    set(&path, plain | APPEND).unwrap();
    let overwriting = write(0);
    let appending = OpenOptions::new().append(true).open(&path).unwrap().write_all_at(b"more", 0);
    let removed = fs::remove_file(&path);
    set(&path, plain | IMMUTABLE).unwrap();
    let (written, renamed) = (write(libc::O_APPEND), fs::rename(&path, mounted.mnt().join("other")));
    // Before any assertion, so that the directory can be removed in any case.
    set(&path, plain).unwrap();
    appending.unwrap();
    for (what, result) in
        [("overwrite", overwriting), ("remove", removed), ("write", written), ("rename", renamed)]
    {
        assert!(refused(result), "{what}");
    }
    assert_eq!(fs::read_to_string(mounted.backing().join("log")).unwrap(), "contentmore");
    assert_eq!(fs::metadata(&path).unwrap().ino(), ino);
}
