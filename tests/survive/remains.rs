//! What remains when a server is killed, and what cannot be combined.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use nix::fcntl::{OFlag, open};
use nix::sys::signal::Signal;
use nix::sys::stat::{Mode, fstat};

use crate::mounted::{Mounted, can_mount, prepare, wait_until};
use crate::{kill_server, server_of, surviving};

#[test]
fn open_files_and_directories_remain_without_names_too() {
    let mounts = [surviving(&[]), surviving(&["--no-passthrough"])];
    let overlay = || Mounted::of_overlay_with(&["--survive"]);
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
            said.contains("was ended by SIGKILL") && fs::read_dir(mounted.mnt()).unwrap().count() == 0,
            "{said}"
        );
    }
    // An unmount ends both.
    let Some(mut mounted) = surviving(&[]) else { return };
    let server = server_of(&mounted);
    crate::mounted::unmount(&mounted.mnt());
    assert!(mounted.ended().0.success());
    assert!(!std::path::Path::new(&format!("/proc/{server}")).exists());
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
        (&["--normalize", "nfc", "--on-mismatch", "match"], "--on-mismatch refuse"),
        (&["--audit", &audit], "must not be in the mount"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_namegate"));
        command.arg("mount").arg(dir.path().join("backing")).arg(dir.path().join("mnt")).arg("--survive");
        let output = command.args(args).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(why), "{args:?}: {said}");
    }
}
