//! What the kernel caches of an entry that has several spellings: names, and directories in use.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{OFlag, RenameFlags, openat};
use nix::sys::stat::{Mode, fstat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use crate::names::listed;
use crate::normalize::{NFC, NFD, NONE, ino, mounted, renamed};
use namegate_testkit::mounted::TestMount;

#[test]
fn two_spellings_of_one_entry_never_disagree_about_its_existence() {
    for (form, names) in [("nfc", [NFC, NFD]), ("nfd", ["\u{212A}", "K"]), ("nfkc", ["file", "\u{FB01}le"])] {
        for on_mismatch in ["convert", "match"] {
            let Some(mounted) = mounted(form, on_mismatch) else { return };
            never_disagree(&mounted, names, &format!("{form} {on_mismatch}"));
        }
    }
    for table in ["ntfs", "apfs"] {
        let Some(mounted) = TestMount::new(&[&format!("--ignore-case={table}")]) else { return };
        never_disagree(&mounted, ["README.txt", "Readme.TXT"], table);
    }
}

/// The kernel must not cache an outdated answer for any spelling.
fn never_disagree(mounted: &TestMount, names: [&str; 2], rule: &str) {
    let (mnt, backing) = (mounted.mnt(), mounted.backing());
    let both = names.map(|name| mnt.join(name));
    let agree = |expected: bool, when: &str| {
        // Listing fills the kernel's cache, too.
        for entry in fs::read_dir(&mnt).unwrap() {
            assert!(entry.unwrap().metadata().is_ok());
        }
        for path in both.iter().chain(both.iter().rev()) {
            let found = fs::symlink_metadata(path).map(drop);
            assert_eq!(found.is_ok(), expected, "{when}, {rule}: {path:?}");
        }
    };
    for is_dir in [false, true] {
        let make = |path: &Path| if is_dir { fs::create_dir(path) } else { File::create_new(path).map(drop) };
        let remove = |path: &Path| if is_dir { fs::remove_dir(path) } else { fs::remove_file(path) };
        let other = mnt.join("other");
        for (one, two) in [(0, 1), (1, 0), (0, 0)].map(|(one, two)| (&both[one], &both[two])) {
            agree(false, "at first");
            make(one).unwrap();
            agree(true, "made");
            remove(two).unwrap();
            agree(false, "removed");
            // An entry removed by one spelling is created by the other (openzfs/zfs#13980).
            make(two).unwrap();
            agree(true, "made again");
            fs::rename(one, &other).unwrap();
            agree(false, "renamed away");
            // The kernel may have cached the lookup of `other`, but not under its new name.
            assert!(other.exists());
            fs::rename(&other, two).unwrap();
            assert_eq!(both.iter().filter(|path| path.exists()).count(), 2, "renamed back");
            remove(one).unwrap();
            agree(false, "removed after it was renamed");
            for number in 0..2 {
                // Names that have not been renamed before.
                let fresh = mnt.join(format!("fresh {is_dir} {number} {}", one.as_os_str().len()));
                make(&fresh).unwrap();
                fs::rename(&fresh, one).unwrap();
                assert!(one.exists());
                remove(two).unwrap();
                agree(false, "renamed and removed");
            }
            // By a name that was renamed before, and to which an entry comes that the kernel has cached elsewhere.
            let dir = mnt.join("dir");
            fs::create_dir(&dir).unwrap();
            for (number, is_exchanged) in [(0, None), (1, Some(false)), (2, Some(true))] {
                let fresh = dir.join(format!("fresh {number}"));
                make(&fresh).unwrap();
                assert!(fresh.exists());
                match is_exchanged {
                    None => fs::rename(&fresh, &other).unwrap(),
                    Some(is_swapped) => {
                        make(&other).unwrap();
                        let (from, to) = if is_swapped { (&other, &fresh) } else { (&fresh, &other) };
                        assert_eq!(renamed(from, to, RenameFlags::RENAME_EXCHANGE), NONE);
                        remove(&fresh).unwrap();
                    }
                }
                fs::rename(&other, one).unwrap();
                remove(two).unwrap();
                agree(false, "renamed twice and removed");
            }
            fs::remove_dir(&dir).unwrap();
            // Exchanged with an entry that has only one spelling.
            let fresh = mnt.join(format!("exchanged {is_dir} {}", one.as_os_str().len()));
            make(one).unwrap();
            make(&fresh).unwrap();
            assert_eq!(renamed(one, &fresh, RenameFlags::RENAME_EXCHANGE), NONE);
            assert!(one.exists());
            remove(two).unwrap();
            agree(false, "exchanged and removed");
            make(two).unwrap();
            assert_eq!(renamed(&fresh, two, RenameFlags::RENAME_EXCHANGE), NONE);
            remove(one).unwrap();
            agree(false, "exchanged the other way and removed");
            remove(&fresh).unwrap();
        }
        // Changed directly.
        for stored in names {
            // More than the resolution of time stamps (see the next test).
            sleep(Duration::from_millis(20));
            make(&backing.join(stored)).unwrap();
            agree(true, "made directly");
            sleep(Duration::from_millis(20));
            fs::rename(backing.join(stored), backing.join("elsewhere")).unwrap();
            agree(false, "renamed directly");
            sleep(Duration::from_millis(20));
            fs::rename(backing.join("elsewhere"), backing.join(stored)).unwrap();
            agree(true, "renamed back directly");
            sleep(Duration::from_millis(20));
            remove(&backing.join(stored)).unwrap();
            agree(false, "removed directly");
        }
    }
    assert_eq!(listed(&backing), [b""; 0]);
}

/// Starts a shell in `dir`; the returned function makes it run `script`.
fn sitting_in(dir: &Path, script: &str) -> impl FnOnce() -> String + use<> {
    let script = format!("read _; {script}");
    let mut shell = Command::new("sh")
        .args(["-c", &script])
        .current_dir(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    move || {
        shell.stdin.take().unwrap().write_all(b"\n").unwrap();
        let output = shell.wait_with_output().unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }
}

#[test]
fn a_client_in_a_directory_is_not_disturbed_by_other_spellings_of_it() {
    for on_mismatch in ["convert", "match"] {
        let Some(mounted) = mounted("nfc", on_mismatch) else { return };
        let (nfc, nfd) = (mounted.mnt().join(NFC), mounted.mnt().join(NFD));
        let work = "echo 1 > made && cat made && ls && rm made && /bin/pwd";

        // Look it up under another spelling: the kernel has one dentry for a directory, which gets the other name.
        fs::create_dir_all(nfd.join("sub")).unwrap();
        let (go_on, deeper) =
            (sitting_in(&nfd, work), sitting_in(&nfd.join("sub"), "ls -d ../sub; /bin/pwd"));
        let open = File::open(&nfd).unwrap();
        assert_eq!(ino(&nfc), open.metadata().unwrap().ino());
        assert!(nfc.join("sub").exists() && nfd.join("sub").exists());
        assert_eq!(go_on(), format!("1\nmade\nsub\n{}\n", nfd.display()));
        assert_eq!(deeper(), format!("../sub\n{}\n", nfd.join("sub").display()));

        // Rename it under another spelling.
        let (go_on, moved) = (sitting_in(&nfd, work), mounted.mnt().join("moved"));
        fs::rename(&nfc, &moved).unwrap();
        assert!(!nfd.exists() && !nfc.exists());
        assert_eq!(go_on(), format!("1\nmade\nsub\n{}\n", moved.display()));
        let inside = openat(&open, "sub", OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty()).unwrap();
        assert_eq!(fstat(&inside).unwrap().st_ino, ino(&moved.join("sub")));

        // Remove it under another spelling.
        fs::rename(&moved, &nfd).unwrap();
        unlinkat(&open, "sub", UnlinkatFlags::RemoveDir).unwrap();
        let go_on = sitting_in(&nfd, "ls; echo 1 > made; cd ..; ls");
        fs::remove_dir(&nfc).unwrap();
        assert!(!nfd.exists() && !nfc.exists());
        let said = go_on();
        assert!(!said.contains("made\n"), "{said}");
        let refused = openat(&open, "new", OFlag::O_CREAT | OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::S_IRUSR);
        assert_eq!(refused.err(), Some(Errno::ENOENT));
        // A new directory with the same name is another directory.
        fs::create_dir(&nfc).unwrap();
        fs::write(nfd.join("in the new one"), "").unwrap();
        assert_eq!(listed(&nfc), [b"in the new one"]);
    }
}
