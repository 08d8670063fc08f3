//! Times that the kernel does not maintain by itself: of mapped files, of changed flags, and access times
//! on a noatime mount.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use namegate_sys::iflags;
use nix::fcntl::AT_FDCWD;
use nix::sys::stat::{UtimensatFlags, utimensat};
use nix::sys::time::TimeSpec;

use namegate_testkit::mounted::{TestMount, can_mount, has_no_passthrough, prepare, transport};

const OLD: TimeSpec = TimeSpec::new(1000, 0);

fn make_old(path: &Path) {
    utimensat(AT_FDCWD, path, &OLD, &OLD, UtimensatFlags::NoFollowSymlink).unwrap();
}

/// A mount on which the kernel caches attributes for as long as a test takes.
fn that_keeps_attributes() -> Option<TestMount> {
    TestMount::new(&["--attr-timeout", "600", "--entry-timeout", "600"])
}

#[test]
fn a_file_changed_by_mmap_shows_its_times_at_once_despite_cached_attributes() {
    if has_no_passthrough() {
        return println!(
            "SKIPPED: contents go through the server, which hears of a change when the page is written"
        );
    }
    let Some(mounted) = that_keeps_attributes() else { return };
    let path = mounted.mnt().join("mapped");
    // The standard library cannot map files.
    let script = r#"
import mmap, os, sys
path = sys.argv[1]
times = lambda: (os.stat(path).st_mtime_ns, os.stat(path).st_ctime_ns)
def changed(what, before):
    now = times()
    assert now[0] > before[0] and now[1] > before[1], (what, before, now)
    return now
with open(path, "wb") as file:
    file.write(bytes(65536))
os.utime(path, (1000, 1000))
before = times()
# What was kept before the file was opened.
with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
    mapped[0] = 1
    before = changed("while it is mapped", before)
os.utime(path, (1000, 1000))
before = times()
file = open(path, "r+b")
mapped = mmap.mmap(file.fileno(), 0)
times()
mapped[8192] = 1
mapped.flush()
before = changed("after msync", before)
mapped.close()
file.close()
os.utime(path, (1000, 1000))
before = times()
file = open(path, "r+b")
mapped = mmap.mmap(file.fileno(), 0)
times()
mapped[16384] = 1
mapped.close()
file.close()
changed("after close", before)
"#;
    let Ok(output) = Command::new("python3").args(["-c", script]).arg(&path).output() else {
        return println!("SKIPPED: no python3 to map files with");
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_time_that_is_set_after_a_write_through_memory_stays() {
    let script = r#"
import mmap, os, sys
path = sys.argv[1]
mtime = lambda: int(os.stat(path).st_mtime)
open(path, "wb").write(bytes(65536))
for by_descriptor in (True, False):
    fd = os.open(path, os.O_RDWR)
    mapped = mmap.mmap(fd, 65536)
    mapped[0] = mapped[8192] = mapped[65535] = 1
    os.utime(fd if by_descriptor else path, (1000, 1000))
    print(mtime())
    mapped.close()
    os.close(fd)
    print(mtime())
# The map outlives its descriptor.
fd = os.open(path, os.O_RDWR)
mapped = mmap.mmap(fd, 65536)
os.close(fd)
mapped[1] = 1
os.utime(path, (1000, 1000))
mapped.close()
print(mtime())
# A change after that is a change.
fd = os.open(path, os.O_RDWR)
mapped = mmap.mmap(fd, 65536)
os.utime(path, (1000, 1000))
mapped[4096] = 1
mapped.close()
os.close(fd)
print(mtime() > 1000, sum(open(path, "rb").read()))
"#;
    for mounted in TestMount::both_ways() {
        let shown = mounted.same(|dir| {
            let Ok(output) = Command::new("python3").args(["-c", script]).arg(dir.join("mapped")).output()
            else {
                return "SKIPPED: no python3 to map files with".to_owned();
            };
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        });
        assert!(shown.starts_with("1000\n") || shown.starts_with("SKIPPED"), "{shown}");
    }
}

#[test]
fn setting_flags_updates_the_change_time_at_once() {
    let Some(mounted) = that_keeps_attributes() else { return };
    for (name, is_dir) in [("file", false), ("dir", true)] {
        let (path, there) = (mounted.mnt().join(name), mounted.backing().join(name));
        if is_dir { fs::create_dir(&path) } else { fs::write(&path, "") }.unwrap();
        let Ok(flags) = iflags::get(fs::File::open(&there).unwrap()) else {
            return println!("SKIPPED: files in the temporary directory have no flags");
        };
        let ctime = |path: &Path| fs::metadata(path).map(|all| (all.ctime(), all.ctime_nsec())).unwrap();
        let before = ctime(&path);
        sleep(Duration::from_millis(20));
        /// `FS_NODUMP_FL` of linux/fs.h.
        const NODUMP: u32 = 0x40;
        iflags::set(fs::File::open(&path).unwrap(), flags | NODUMP).unwrap();
        assert!(ctime(&path) > before, "{name}");
        assert_eq!(ctime(&path), ctime(&there), "{name}");
    }
}

#[test]
fn a_noatime_mount_updates_no_access_time() {
    if !can_mount() {
        return;
    }
    let dir = prepare();
    let backing = dir.path().join("backing");
    fs::create_dir(backing.join("dir")).unwrap();
    fs::create_dir_all(backing.join("below")).unwrap();
    fs::write(backing.join("file"), "content").unwrap();
    fs::write(backing.join("program"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(backing.join("program"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("file", backing.join("link")).unwrap();
    let places = |dir: &Path| (dir.join("backing"), dir.join("mnt"));
    let mounted = TestMount::of(dir, places, &["-o", "noatime"]);
    let names = ["file", "program", "dir", "link"];
    let read = |root: &Path| {
        names.map(|name| {
            let path = root.join(name);
            make_old(&backing.join(name));
            match name {
                "file" => drop(fs::read(&path).unwrap()),
                "program" => assert!(Command::new(&path).status().unwrap().success()),
                "dir" => assert_eq!(fs::read_dir(&path).unwrap().count(), 0),
                _ => drop(fs::read_link(&path).unwrap()),
            }
            (name, fs::symlink_metadata(backing.join(name)).unwrap().atime() > 1000)
        })
    };
    assert_eq!(read(&mounted.mnt()), names.map(|name| (name, false)));
    assert!(
        read(&backing).iter().any(|(_, is_newer)| *is_newer),
        "the temporary directory is mounted noatime, which hides a difference"
    );
    assert!(fs::write(mounted.mnt().join("new"), "").is_ok());
}

#[test]
fn a_file_shows_when_it_was_created() {
    if transport() == "fuser" {
        return println!("SKIPPED: fuser does not know STATX");
    }
    let Some(mounted) = TestMount::new(&[]) else { return };
    fs::write(mounted.mnt().join("file"), "content").unwrap();
    for name in ["file", ""] {
        let created = |dir: &Path| fs::symlink_metadata(dir.join(name)).unwrap().created();
        match (created(&mounted.backing()), created(&mounted.mnt())) {
            (Ok(expected), shown) => assert_eq!(shown.ok(), Some(expected), "{name}"),
            (Err(error), _) => println!("SKIPPED: the file system records no time of creation: {error}"),
        }
    }
}
