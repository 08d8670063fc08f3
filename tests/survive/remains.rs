//! What remains when a server is killed, and what cannot be combined.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nix::fcntl::{OFlag, open};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::{Mode, fstat};

use crate::{kill_server, server_of, surviving};
use namegate_testkit::mounted::{TestMount, can_mount, is_mounted, prepare};
use namegate_testkit::wait_until;

#[test]
fn open_files_and_directories_remain_without_names_too() {
    let mounts = [surviving(&[]), surviving(&["--no-passthrough"])];
    let overlay = || TestMount::of_overlay_with(&["--survive"]);
    for mounted in mounts.into_iter().flatten().chain(overlay()) {
        let mnt = mounted.mnt();
        fs::create_dir(mnt.join("removed")).unwrap();
        let removed =
            open(&mnt.join("removed"), OFlag::O_RDONLY | OFlag::O_DIRECTORY, Mode::empty()).unwrap();
        fs::remove_dir(mnt.join("removed")).unwrap();
        let mut file = File::create_new(mnt.join("file")).unwrap();
        file.write_all(b"before ").unwrap();
        fs::remove_file(mnt.join("file")).unwrap();
        let read_only = mnt.join("open");
        fs::write(&read_only, "content").unwrap();
        let mut reader = File::open(&read_only).unwrap();
        let ino = reader.metadata().unwrap().ino();
        let mut listing = fs::read_dir(&mnt).unwrap();
        for _ in 0..3 {
            kill_server(&mounted);
            assert_eq!(fstat(&removed).unwrap().st_nlink, 0);
            file.write_all(b"after ").unwrap();
        }
        assert_eq!(file.metadata().unwrap().len(), 25);
        let mut content = String::new();
        reader.read_to_string(&mut content).unwrap();
        assert_eq!((content.as_str(), fs::metadata(&read_only).unwrap().ino()), ("content", ino));
        assert_eq!(listing.by_ref().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>(), ["open"]);
    }
}

#[test]
fn numbers_of_file_systems_below_remain_and_new_ones_are_small_and_different() {
    let Some(mounted) = surviving(&[]) else { return };
    let below = mounted.backing().join("below");
    fs::create_dir(&below).unwrap();
    mount(Some("below"), &below, Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
    // They are kept as long as the kernel knows the files.
    let open = |name: u32| {
        let file = mounted.mnt().join(format!("below/{name}"));
        fs::OpenOptions::new().append(true).create(true).open(file).unwrap()
    };
    let number = |file: &File| file.metadata().unwrap().ino();
    let mut files: Vec<File> = (0..20).map(open).collect();
    let mut numbers: Vec<u64> = files.iter().map(number).collect();
    for round in 1..3 {
        kill_server(&mounted);
        files.extend((round * 20..(round + 1) * 20).map(open));
        numbers.extend(files[numbers.len()..].iter().map(number));
        let again: Vec<u64> = (0..files.len() as u32).map(|name| number(&open(name))).collect();
        assert_eq!(numbers, again);
    }
    drop(files);
    umount2(&below, MntFlags::MNT_DETACH).unwrap();
    let different: BTreeSet<u64> = numbers.into_iter().filter(|&number| number <= u32::MAX.into()).collect();
    assert_eq!(different.len(), 60);
}

#[test]
fn the_mode_that_was_set_by_hand_and_the_control_socket_remain() {
    let Some(mounted) = surviving(&[]) else { return };
    let namegate = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_namegate"));
        command.args(args).arg(mounted.mnt()).env("NAMEGATE_RUNTIME_DIR", mounted.run_directory());
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let bad = mounted.mnt().join(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"caf\xE9"));
    assert!(File::create(&bad).is_err());
    let mut set = Command::new(env!("CARGO_BIN_EXE_namegate"));
    set.args(["mode", "permissive"]).arg(mounted.mnt()).env("NAMEGATE_RUNTIME_DIR", mounted.run_directory());
    assert!(set.status().unwrap().success());
    kill_server(&mounted);
    File::create(&bad).unwrap();
    wait_until("an answer at the control socket", || namegate(&["status"]).contains("permissive"));
}

#[test]
fn the_holder_passes_signals_on_and_ends_with_the_server() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let Some(mut mounted) = surviving(&[]) else { return };
        kill_server(&mounted);
        fs::metadata(mounted.mnt()).unwrap();
        mounted.signal(signal);
        let (status, said) = mounted.ended();
        assert!(status.success(), "{status}: {said}");
        assert!(
            said.contains("previous server died (SIGKILL); taking over")
                && fs::read_dir(mounted.mnt()).unwrap().count() == 0,
            "{said}"
        );
    }
    // An unmount ends both.
    let Some(mut mounted) = surviving(&[]) else { return };
    let server = server_of(&mounted);
    namegate_testkit::mounted::unmount(&mounted.mnt());
    assert!(mounted.ended().0.success());
    assert!(!Path::new(&format!("/proc/{server}")).exists());
}

#[test]
fn a_server_that_dies_or_is_upgraded_as_it_is_told_to_end_is_followed_by_one_that_unmounts() {
    for number in 0..10 {
        let Some(mut mounted) = surviving(&[]) else { return };
        // At a different moment each time, up to the start of the next server or program.
        let pause = || std::thread::sleep(Duration::from_millis(number * 4));
        if number % 2 == 0 {
            mounted.signal(Signal::SIGUSR2);
            pause();
            mounted.signal(Signal::SIGTERM);
        } else {
            let server = server_of(&mounted);
            kill(server, Signal::SIGKILL).unwrap();
            pause();
            mounted.signal(Signal::SIGTERM);
        }
        let (status, said) = mounted.ended();
        assert!(status.success(), "round {number}: {status}: {said}");
        assert!(!is_mounted(&mounted.mnt()), "round {number}: {said}");
    }
    // The other order: it dies before it has unmounted.
    let Some(mut mounted) = surviving(&[]) else { return };
    let server = server_of(&mounted);
    kill(server, Signal::SIGSTOP).unwrap();
    mounted.signal(Signal::SIGTERM);
    kill(server, Signal::SIGKILL).unwrap();
    let (status, said) = mounted.ended();
    assert!(status.success() && !is_mounted(&mounted.mnt()), "{status}: {said}");
}

#[test]
fn what_does_not_survive_is_refused_with_the_reason() {
    if !can_mount() {
        return;
    }
    let dir = prepare();
    let audit = dir.path().join("mnt/audit").display().to_string();
    for (args, why) in [
        (&["--transport", "fuser"][..], "--transport dev"),
        (&["--locks", "backing"], "--locks kernel"),
        (&["--audit", &audit], "must not be in the mount"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_namegate"));
        command.arg("mount").arg(dir.path().join("backing")).arg(dir.path().join("mnt")).arg("--survive");
        let output = command.args(args).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(why), "{args:?}: {said}");
    }
}

#[test]
fn handles_of_files_remain_with_a_key_and_without() {
    use namegate_sys::handle;
    for args in [&[][..], &["--export"]] {
        let Some(mounted) = surviving(args) else { return };
        let mnt = mounted.mnt();
        fs::create_dir_all(mnt.join("deep/er")).unwrap();
        fs::write(mnt.join("deep/er/file"), "content").unwrap();
        let handle_of = |path: &Path| {
            handle::at(File::open(path.parent().unwrap()).unwrap(), path.file_name().unwrap()).unwrap().0
        };
        let names = ["deep/er/file", "deep/er", "deep"];
        let handles = names.map(|name| handle_of(&mnt.join(name)));
        for _ in 0..3 {
            kill_server(&mounted);
            // The kernel forgets the inodes, or most of them.
            fs::write("/proc/sys/vm/drop_caches", "2").unwrap();
            // Without a key, a file in a part of a file system is found only while the kernel knows its name in the source.
            let unsure = usize::from(args.is_empty());
            for (name, handle) in names.iter().zip(&handles).skip(unsure) {
                let found = handle::open(File::open(&mnt).unwrap(), handle, OFlag::O_PATH).unwrap();
                let stored = fs::metadata(mounted.backing().join(name)).unwrap().ino();
                assert_eq!(fstat(&found).unwrap().st_ino, stored, "{name} {args:?}");
                assert_eq!(handle_of(&mnt.join(name)), *handle, "{name} {args:?}");
            }
        }
    }
}
