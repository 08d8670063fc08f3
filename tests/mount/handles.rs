//! Kernel file handles of a mount: they lead to their files after the kernel has forgotten them, and nowhere else.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use namegate_sys::handle::{self, KernelHandle};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::control::status;
use namegate_testkit::mounted::{TestMount, can_mount, open_to_all, prepare, transport, unmount};

/// The directories for a mount with file handles; `None`, after a message, if it cannot have them.
pub fn prepare_for_handles() -> Option<TempDir> {
    if !can_mount() {
        return None;
    }
    if transport() != "dev" {
        println!("SKIPPED: handles are served over the transport dev alone");
        return None;
    }
    Some(prepare())
}

/// The directories for a mount, with `backing` on a file system of its own; `None`, after a message, if there is none of this kind.
fn disk(kind: &str) -> Option<TempDir> {
    let dir = prepare_for_handles()?;
    let image = dir.path().join("image");
    // The smallest XFS has 300 MB.
    File::create(&image).unwrap().set_len(600 << 20).unwrap();
    let make = Command::new(format!("mkfs.{kind}")).arg("-q").arg(&image).status();
    if !make.is_ok_and(|status| status.success()) || !attach(dir.path()) {
        println!("SKIPPED: no {kind} on a loop device");
        return None;
    }
    open_to_all(&dir.path().join("backing"));
    Some(dir)
}

fn attach(dir: &Path) -> bool {
    let mut mount = Command::new("mount");
    mount.args(["-o", "loop"]).arg(dir.join("image")).arg(dir.join("backing"));
    mount.status().unwrap().success()
}

/// A mount of `source`, a directory below that of the test.
fn mounted(dir: TempDir, source: &str, args: &[&str]) -> TestMount {
    TestMount::of(dir, |dir| (dir.join(source), dir.join("mnt")), args)
}

/// The directories of a mount after its end.
pub fn ended(mut mounted: TestMount) -> TempDir {
    unmount(&mounted.mnt());
    assert_eq!(mounted.ended().0.code(), Some(0));
    mounted.into_dir()
}

pub fn handle_of(path: &Path) -> KernelHandle {
    let parent = File::open(path.parent().unwrap()).unwrap();
    handle::at(parent, path.file_name().unwrap()).unwrap().0
}

pub fn open(mnt: &Path, handle: &KernelHandle, flags: OFlag) -> Result<File, Errno> {
    handle::open(File::open(mnt).unwrap(), handle, flags | OFlag::O_NOFOLLOW).map(File::from)
}

/// The handle of the mount for a file that no client has seen, as fs/fuse/inode.c encodes it: made from the file in the source.
fn forged(stored: &Path) -> KernelHandle {
    let ino = fs::symlink_metadata(stored).unwrap().ino();
    let generation = handle_of(stored).generation().unwrap();
    let words = [(ino >> 32) as u32, ino as u32, generation];
    KernelHandle::from_parts(0x81, &words.map(u32::to_ne_bytes).concat()).unwrap()
}

pub fn path_of(file: &File) -> PathBuf {
    fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap()
}

#[test]
fn handles_lead_to_their_files_after_caches_are_dropped_and_after_the_mount_is_made_again() {
    for kind in ["ext4", "xfs", "btrfs"] {
        let Some(dir) = disk(kind) else { continue };
        let mut served = mounted(dir, "backing", &[]);
        let mnt = served.mnt();
        fs::create_dir_all(mnt.join("deep/er")).unwrap();
        fs::write(mnt.join("deep/er/file"), "content").unwrap();
        fs::write(mnt.join("top"), "at the top").unwrap();
        fs::hard_link(mnt.join("top"), mnt.join("deep/second")).unwrap();
        symlink("nowhere", mnt.join("link")).unwrap();
        nix::unistd::mkfifo(&mnt.join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        // The deepest ones first: nothing has been looked up before.
        let names = ["deep/er/file", "deep/er", "deep", "link", "fifo", "top", "deep/second"];
        let handles = names.map(|name| handle_of(&mnt.join(name)));
        for round in 0..3 {
            if round == 0 {
                // Dentries and inodes.
                fs::write("/proc/sys/vm/drop_caches", "2").unwrap();
            } else {
                let dir = ended(served);
                if round == 2 {
                    unmount(&dir.path().join("backing"));
                    assert!(attach(dir.path()));
                }
                served = mounted(dir, "backing", &[]);
            }
            for (name, handle) in names.iter().zip(&handles) {
                let at = format!("{name} on {kind}, round {round}");
                let held = open(&mnt, handle, OFlag::O_PATH).unwrap_or_else(|errno| panic!("{at}: {errno}"));
                let stored = fs::symlink_metadata(served.backing().join(name)).unwrap();
                assert_eq!(held.metadata().unwrap().ino(), stored.ino(), "{at}");
                if stored.is_dir() {
                    assert_eq!(path_of(&held), mnt.join(name), "{at}");
                }
            }
            let mut file = open(&mnt, &handles[0], OFlag::O_RDWR | OFlag::O_APPEND).unwrap();
            let mut content = String::new();
            file.read_to_string(&mut content).unwrap();
            assert_eq!(content, format!("content{}", "!".repeat(round)));
            file.write_all(b"!").unwrap();
            let entries =
                fs::read_dir(path_of(&open(&mnt, &handles[1], OFlag::O_DIRECTORY).unwrap())).unwrap();
            assert_eq!(entries.map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>(), ["file"]);
        }
        assert_eq!(fs::read_to_string(served.backing().join("deep/er/file")).unwrap(), "content!!!");
    }
}

#[test]
fn handles_lead_to_their_files_after_the_server_is_killed_and_after_an_upgrade() {
    for (kind, args) in
        ["ext4", "xfs", "btrfs"].into_iter().flat_map(|kind| [(kind, None), (kind, Some("--export"))])
    {
        let Some(dir) = disk(kind) else { continue };
        let args: Vec<&str> = ["--survive"].into_iter().chain(args).collect();
        let served = mounted(dir, "backing", &args);
        let mnt = served.mnt();
        fs::create_dir_all(mnt.join("deep/er")).unwrap();
        fs::write(mnt.join("deep/er/file"), "content").unwrap();
        symlink("nowhere", mnt.join("link")).unwrap();
        let names = ["deep/er/file", "deep/er", "deep", "link"];
        let handles = names.map(|name| handle_of(&mnt.join(name)));
        fs::write(mnt.join("removed"), "").unwrap();
        let removed = handle_of(&mnt.join("removed"));
        fs::remove_file(mnt.join("removed")).unwrap();
        for step in ["kill", "upgrade", "kill"] {
            let at = format!("{kind} {args:?}, {step}");
            if step == "kill" {
                let before = status(&served)["pid"].as_i64().unwrap();
                kill(Pid::from_raw(i32::try_from(before).unwrap()), Signal::SIGKILL).unwrap();
            } else {
                let mut upgrade = Command::new(env!("CARGO_BIN_EXE_namegate"));
                upgrade.arg("upgrade").arg(&mnt).env("NAMEGATE_RUNTIME_DIR", served.run_directory());
                let output = upgrade.output().unwrap();
                assert!(output.status.success(), "{at}: {}", String::from_utf8_lossy(&output.stderr));
            }
            fs::write("/proc/sys/vm/drop_caches", "2").unwrap();
            for (name, handle) in names.iter().zip(&handles) {
                let held =
                    open(&mnt, handle, OFlag::O_PATH).unwrap_or_else(|errno| panic!("{at}: {name}: {errno}"));
                let stored = fs::symlink_metadata(served.backing().join(name)).unwrap();
                assert_eq!(held.metadata().unwrap().ino(), stored.ino(), "{at}: {name}");
                assert_eq!(handle_of(&mnt.join(name)), *handle, "{at}: {name}");
            }
            assert_eq!(open(&mnt, &removed, OFlag::O_PATH).unwrap_err(), Errno::ESTALE, "{at}");
            let mut content = String::new();
            open(&mnt, &handles[0], OFlag::O_RDONLY).unwrap().read_to_string(&mut content).unwrap();
            assert_eq!(content, "content", "{at}");
        }
    }
}

#[test]
fn the_handle_of_a_removed_file_does_not_lead_to_the_next_one_with_its_number() {
    for kind in ["ext4", "xfs"] {
        let Some(dir) = disk(kind) else { continue };
        let served = mounted(dir, "backing", &[]);
        let mnt = served.mnt();
        fs::write(mnt.join("old"), "old").unwrap();
        let (old, ino) = (handle_of(&mnt.join("old")), fs::metadata(mnt.join("old")).unwrap().ino());
        fs::remove_file(mnt.join("old")).unwrap();
        let served = mounted(ended(served), "backing", &[]);
        assert_eq!(open(&mnt, &old, OFlag::O_RDONLY).unwrap_err(), Errno::ESTALE, "{kind}: it is gone");
        let next = (0..5000).map(|n| mnt.join(format!("next {n}"))).find(|path| {
            fs::write(path, "next").unwrap();
            fs::metadata(path).unwrap().ino() == ino
        });
        let Some(next) = next else {
            println!("SKIPPED: {kind} does not use the number again");
            continue;
        };
        let new = handle_of(&next);
        assert_ne!(old, new);
        let served = mounted(ended(served), "backing", &[]);
        assert_eq!(open(&mnt, &old, OFlag::O_RDONLY).unwrap_err(), Errno::ESTALE, "{kind}: another file");
        let mut content = String::new();
        open(&mnt, &new, OFlag::O_RDONLY).unwrap().read_to_string(&mut content).unwrap();
        assert_eq!(content, "next", "{kind}");
        // The same while the file with that number is in the table of the server.
        assert_eq!(open(&mnt, &old, OFlag::O_RDONLY).unwrap_err(), Errno::ESTALE, "{kind}: another file");
        drop(served);
    }
}

#[test]
fn a_made_up_handle_leads_to_nothing_outside_of_the_source() {
    for kind in ["ext4", "xfs", "btrfs"] {
        let Some(dir) = disk(kind) else { continue };
        let (source, outside) = (dir.path().join("backing/source"), dir.path().join("backing/outside"));
        fs::create_dir_all(source.join("dir/sub")).unwrap();
        fs::create_dir_all(outside.join("dir")).unwrap();
        let (inner, secret) = (source.join("dir/file"), outside.join("dir/secret"));
        fs::write(&inner, "inner").unwrap();
        fs::write(&secret, "secret").unwrap();
        fs::create_dir(dir.path().join("backing/source2")).unwrap();
        let served = mounted(dir, "backing/source", &[]);
        let mnt = served.mnt();
        let opened = |path: &Path| open(&mnt, &forged(path), OFlag::O_PATH).map(|file| path_of(&file));
        // No client has looked it up, but the kernel has its name in the cache, also if another test drops what is not in use.
        let cached = [&inner, &secret].map(|path| File::open(path).unwrap());
        assert!(opened(&inner).is_ok(), "{kind}");
        let beyond = [secret.clone(), outside.join("dir"), outside.clone(), source.with_file_name("source2")];
        for path in beyond.iter().map(PathBuf::as_path).chain([source.parent().unwrap()]) {
            assert_eq!(opened(path), Err(Errno::ESTALE), "{kind}: {}", path.display());
        }
        drop(cached);
        // A directory that is moved out of the source leaves it for good.
        let moved = handle_of(&mnt.join("dir/sub"));
        fs::rename(source.join("dir"), outside.join("moved")).unwrap();
        let dir = ended(served);
        unmount(&dir.path().join("backing"));
        assert!(attach(dir.path()));
        fs::create_dir_all(source.join("new/sub")).unwrap();
        fs::write(source.join("new/file"), "").unwrap();
        let served = mounted(dir, "backing/source", &[]);
        assert_eq!(open(&mnt, &moved, OFlag::O_PATH).unwrap_err(), Errno::ESTALE, "{kind}");
        let opened = |path: &Path| open(&mnt, &forged(path), OFlag::O_PATH).map(|file| path_of(&file));
        assert_eq!(opened(&source.join("new/sub")), Ok(mnt.join("new/sub")), "{kind}");
        drop(served);
    }
}

#[test]
fn a_handle_leads_to_a_directory_with_a_bad_name_as_long_as_it_is_shown() {
    let Some(dir) = disk("ext4") else { return };
    let stored = dir.path().join("backing").join(OsStr::from_bytes(b"caf\xE9"));
    fs::create_dir_all(stored.join("sub")).unwrap();
    let mut served = mounted(dir, "backing", &[]);
    let mnt = served.mnt();
    let entries: Vec<_> = fs::read_dir(&mnt).unwrap().map(|entry| entry.unwrap().path()).collect();
    let shown = entries.into_iter().find(|path| !path.ends_with("lost+found")).unwrap();
    assert!(shown.to_str().is_some(), "it is escaped");
    let sub = handle_of(&shown.join("sub"));
    for (existing, expected) in [("escape", Ok(shown.join("sub"))), ("hide", Err(Errno::ESTALE))] {
        served = mounted(ended(served), "backing", &["--existing", existing]);
        let opened = open(&mnt, &sub, OFlag::O_PATH).map(|file| path_of(&file));
        assert_eq!(opened, expected, "{existing}");
    }
}

#[test]
fn with_a_key_handles_of_all_files_of_a_part_of_a_file_system_stay_valid_and_no_others_are() {
    const KEY: &str = "trusted.namegate.export";
    for kind in ["ext4", "xfs", "btrfs"] {
        let Some(dir) = disk(kind) else { continue };
        let backing = dir.path().join("backing");
        let [source, other] = ["source", "other"].map(|name| backing.join(name));
        for path in [&source, &other] {
            fs::create_dir_all(path.join("dir")).unwrap();
            fs::write(path.join("dir/file"), path.as_os_str().as_bytes()).unwrap();
        }
        let key_of = |path: &Path| {
            let mut value = [0; 64];
            let file = File::open(path).unwrap();
            let len = namegate_sys::xattr::get(&file, OsStr::new(KEY), &mut value).ok()?;
            Some(value[..len].to_vec())
        };
        let served = mounted(dir, "backing/source", &["--export"]);
        let mnt = served.mnt();
        let key = key_of(&source).unwrap();
        assert_eq!((key.len(), key_of(&other)), (16, None), "{kind}");
        // What copies all attributes that are listed (rsync -X) must not copy the key.
        namegate_sys::xattr::set(&File::open(&source).unwrap(), OsStr::new("trusted.other"), b"1", 0)
            .unwrap();
        let listed = |path: &Path| {
            let mut names = [0; 256];
            let len = namegate_sys::xattr::list(&File::open(path).unwrap(), &mut names).unwrap();
            let names = String::from_utf8(names[..len].to_vec()).unwrap();
            [KEY, "trusted.other"].map(|name| names.split('\0').any(|listed| listed == name))
        };
        assert_eq!((listed(&source), listed(&mnt)), ([true, true], [false, true]), "{kind}");
        let handles = ["dir/file", "dir"].map(|name| handle_of(&mnt.join(name)));
        let again = |served: TestMount, source: &str| {
            let dir = ended(served);
            unmount(&dir.path().join("backing"));
            assert!(attach(dir.path()));
            mounted(dir, source, &["--export"])
        };
        let served = again(served, "backing/source");
        assert_eq!(key_of(&source), Some(key.clone()), "{kind}: the key stays");
        let mut content = String::new();
        open(&mnt, &handles[0], OFlag::O_RDONLY).unwrap().read_to_string(&mut content).unwrap();
        assert_eq!(Path::new(&content), source, "{kind}");
        assert_eq!(path_of(&open(&mnt, &handles[1], OFlag::O_PATH).unwrap()), mnt.join("dir"), "{kind}");
        // Whoever knows number and generation of a file, but not the key.
        for path in ["source/dir/file", "source/dir", "other/dir/file", "other/dir", "other"] {
            let opened = open(&mnt, &forged(&backing.join(path)), OFlag::O_PATH);
            assert_eq!(opened.map(|file| path_of(&file)), Err(Errno::ESTALE), "{kind}: {path}");
        }
        // With the same key in another source, too.
        namegate_sys::xattr::set(&File::open(&other).unwrap(), OsStr::new(KEY), &key, 0).unwrap();
        let served = again(served, "backing/other");
        for handle in &handles {
            assert_eq!(open(&mnt, handle, OFlag::O_PATH).unwrap_err(), Errno::ESTALE, "{kind}");
        }
        drop(served);
    }
}

#[test]
fn a_source_whose_files_are_not_found_by_number_is_not_exported() {
    if !can_mount() {
        return;
    }
    let dir = prepare();
    let refused = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_namegate"));
        command.arg("mount").args(["backing", "mnt"].map(|name| dir.path().join(name)));
        let output = command.arg("--export").args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let said = refused(&["--transport", "fuser"]);
    assert!(said.contains("--export needs --transport dev"), "{said}");
    let backing = dir.path().join("backing");
    let layers = tempfile::tempdir().unwrap();
    let [lower, upper, work] = ["lower", "upper", "work"].map(|name| layers.path().join(name));
    [&lower, &upper, &work].iter().for_each(|path| fs::create_dir(path).unwrap());
    let of = |path: &Path| path.display().to_string();
    let overlay = format!("lowerdir={},upperdir={},workdir={}", of(&lower), of(&upper), of(&work));
    for (kind, options) in [("tmpfs", ""), ("overlay", &overlay)] {
        if let Err(errno) = mount(Some(kind), &backing, Some(kind), MsFlags::empty(), Some(options)) {
            println!("SKIPPED: no {kind} can be mounted: {errno}");
            continue;
        }
        let said = refused(&[]);
        umount2(&backing, MntFlags::MNT_DETACH).unwrap();
        assert!(said.contains("cannot open files by their inode numbers"), "{kind}: {said}");
    }
}
