//! One entry under many spellings: `--on-mismatch convert` and `match`.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::thread;

use namegate_core::name::normalize::{Form, to_form};
use namegate_sys::xattr;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use nix::sys::signal::Signal;
use nix::sys::stat::{Mode, SFlag, mknod};

use crate::names::{conformance, errno, listed};
use namegate_testkit::mounted::TestMount;
use namegate_testkit::normalization_test::{rows, test_file};
use namegate_testkit::wait_until;

pub const NFC: &str = "\u{E9}";
pub const NFD: &str = "e\u{301}";
pub const NONE: Errno = Errno::UnknownErrno;

pub fn mounted(form: &str, on_mismatch: &str) -> Option<TestMount> {
    TestMount::new(&["--normalize", form, "--on-mismatch", on_mismatch])
}

pub fn ino(path: &Path) -> u64 {
    fs::symlink_metadata(path).unwrap().ino()
}

/// The errno of renameat2 for two paths.
pub fn renamed(from: &Path, to: &Path, flags: RenameFlags) -> Errno {
    renameat2(AT_FDCWD, from, AT_FDCWD, to, flags).err().unwrap_or(NONE)
}

/// A fourth of the rows passes one of four mounts, of both forms and both ways; of the 11,172 Hangul syllables, which are composed by
/// arithmetic, not by tables, a sixteenth. With NAMEGATE_TEST_EVERY, as in scripts/test --all, every row passes all four.
#[test]
fn rows_of_the_normalization_test_hold_through_a_mount() {
    let Some(text) = test_file() else { return };
    let mounts = [("convert", Form::Nfc), ("convert", Form::Nfd), ("match", Form::Nfd), ("match", Form::Nfc)];
    thread::scope(|scope| {
        for (share, (on_mismatch, form)) in mounts.into_iter().enumerate() {
            let text = &text;
            scope.spawn(move || every_row(text, form, on_mismatch, share));
        }
    });
}

/// Tries the rows that are the share of this mount.
fn every_row(text: &str, form: Form, on_mismatch: &str, share: usize) {
    let takes_all = std::env::var_os("NAMEGATE_TEST_EVERY").is_some();
    let is_tried = |at: usize, source: &str| {
        let mut points = source.chars();
        let is_syllable = points.next().is_some_and(|point| ('\u{AC00}'..='\u{D7A3}').contains(&point));
        let of = if is_syllable && points.next().is_none() { 64 } else { 16 };
        takes_all || at % of == share
    };
    let Some(mounted) = mounted(form.as_str(), on_mismatch) else { return };
    let (mnt, backing) = (mounted.mnt(), mounted.backing());
    let other = mnt.join("other");
    let number = |path: &Path| fs::symlink_metadata(path).map(|found| found.ino());
    let mut count = 0;
    for (at, (_, [source, nfc, nfd, nfkc, nfkd], line)) in rows(text).enumerate() {
        if !is_tried(at, &source) {
            continue;
        }
        let can_be_named = |name: &str| !name.contains(['/', '\0']) && name != "." && name != "..";
        let mut spellings = vec![&nfc, &source, &nfd];
        spellings.dedup();
        if !spellings.iter().all(|name| can_be_named(name)) {
            continue;
        }
        let said = |name: &str, what: &str| format!("{form} {on_mismatch}, {what} {name:?}: {line}");
        let given = mnt.join(&nfc);
        let stored = if on_mismatch == "convert" { to_form(&nfc, form).into_owned() } else { nfc.clone() };
        for (turn, name) in spellings.into_iter().enumerate() {
            let path = mnt.join(name);
            // Success also shows that the removal by the previous spelling worked.
            File::create_new(&given).expect(line);
            let made = fs::symlink_metadata(backing.join(&stored)).expect(line).ino();
            let opened = File::open(&path).expect(line);
            assert_eq!(opened.metadata().unwrap().ino(), made, "{}", said(name, "opened"));
            drop(opened);
            if turn == 0 {
                let compatible = [&nfkc, &nfkd].into_iter().filter(|name| can_be_named(name));
                for name in compatible.filter(|name| to_form(name, Form::Nfd) != nfd) {
                    let found = errno(number(&mnt.join(name)));
                    assert_eq!(found, Errno::ENOENT, "{}", said(name, "another name"));
                }
            }
            fs::rename(&path, &other).expect(line);
            fs::rename(&other, &path).expect(line);
            assert_eq!(number(&given).ok(), Some(made), "{}", said(name, "looked up"));
            fs::remove_file(&path).expect(line);
        }
        count += 1;
    }
    assert_eq!(listed(&backing), [b""; 0]);
    assert!(count > if takes_all { 19_000 } else { 650 }, "{count} rows were tried");
}

#[test]
fn the_conformance_names_pass_a_normalizing_mount() {
    for (on_mismatch, expected) in [("convert", "convert"), ("refuse", "reject"), ("match", "preserve")] {
        for form in ["nfc", "nfd"] {
            let Some(mounted) = mounted(form, on_mismatch) else { return };
            let args = ["--policy", "strict", "--norm", form, "--norm-policy", expected];
            let Some(said) = conformance(&mounted, &args) else { return };
            assert!(said.contains(" failed 0 "), "{form} {on_mismatch}: {said}");
        }
    }
}

#[test]
fn a_second_spelling_reaches_the_existing_entry() {
    for on_mismatch in ["convert", "match"] {
        let Some(mounted) = mounted("nfc", on_mismatch) else { return };
        let (mnt, backing) = (mounted.mnt(), mounted.backing());
        fs::write(mnt.join("file"), "moved").unwrap();
        // One entry was created through the mount, the other existed in the other form.
        for (first, second) in [(NFC, NFD), (NFD, NFC)] {
            fs::write(backing.join(first), "content").unwrap();
            let new = mnt.join(second);
            let mut both = [b"file", first.as_bytes()];
            both.sort();
            let node = |kind| mknod(&new, kind, Mode::S_IRUSR, 0).err().unwrap_or(NONE);
            for (how, errno) in [
                ("create exclusively", errno(File::create_new(&new))),
                ("mkdir", errno(fs::create_dir(&new))),
                ("mkfifo", node(SFlag::S_IFIFO)),
                ("mknod", node(SFlag::S_IFREG)),
                ("bind", errno(UnixListener::bind(&new))),
                ("symlink", errno(symlink("target", &new))),
                ("link", errno(fs::hard_link(mnt.join("file"), &new))),
                ("rename", renamed(&mnt.join("file"), &new, RenameFlags::RENAME_NOREPLACE)),
            ] {
                let expected = if how == "bind" { Errno::EADDRINUSE } else { Errno::EEXIST };
                assert_eq!(errno, expected, "{how}, {on_mismatch}, {first:?}");
            }
            let mut open = fs::OpenOptions::new().append(true).create(true).open(&new).unwrap();
            open.write_all(b" and more").unwrap();
            assert_eq!(fs::read_to_string(mnt.join(first)).unwrap(), "content and more");
            assert_eq!(listed(&backing), both);
            assert_eq!(listed(&mnt), listed(&backing), "stored names are listed");

            // The entry keeps its stored name: replacing it under the new one would not be atomic.
            fs::rename(mnt.join("file"), &new).unwrap();
            assert_eq!(listed(&backing), [first.as_bytes()]);
            assert_eq!(fs::read_to_string(mnt.join(first)).unwrap(), "moved");
            assert_eq!(fs::read_to_string(&new).unwrap(), "moved");

            fs::write(mnt.join("file"), "exchanged").unwrap();
            assert_eq!(renamed(&mnt.join("file"), &new, RenameFlags::RENAME_EXCHANGE), NONE);
            assert_eq!(fs::read_to_string(mnt.join(first)).unwrap(), "exchanged");
            assert_eq!(listed(&backing), both);
            fs::remove_file(&new).unwrap();
        }
    }
}

#[test]
fn converting_changes_names_and_nothing_else() {
    let Some(mounted) = mounted("nfc", "convert") else { return };
    let (mnt, backing) = (mounted.mnt(), mounted.backing());
    let name = |text: &str| format!("{NFD}{text}");
    fs::write(mnt.join(name("file")), "").unwrap();
    fs::create_dir(mnt.join(name("dir"))).unwrap();
    symlink(name("target"), mnt.join(name("link"))).unwrap();
    fs::hard_link(mnt.join(name("file")), mnt.join(name("linked"))).unwrap();
    nix::unistd::mkfifo(&mnt.join(name("fifo")), Mode::S_IRUSR).unwrap();
    fs::write(mnt.join("plain"), "").unwrap();
    fs::rename(mnt.join("plain"), mnt.join(name("renamed"))).unwrap();
    let stored = ["dir", "fifo", "file", "link", "linked", "renamed"];
    assert_eq!(listed(&backing), stored.map(|text| format!("{NFC}{text}").into_bytes()));
    assert_eq!(fs::read_link(mnt.join(name("link"))).unwrap(), Path::new(&name("target")));
    let file = File::open(mnt.join(name("file"))).unwrap();
    let attribute = name("user.");
    let attribute = OsStr::new(attribute.strip_prefix(NFD).unwrap()).to_owned();
    let attribute = [attribute.as_bytes(), NFD.as_bytes()].concat();
    xattr::set(&file, OsStr::from_bytes(&attribute), NFD.as_bytes(), 0).unwrap();
    let mut names = [0; 64];
    let len = xattr::list(&File::open(backing.join(format!("{NFC}file"))).unwrap(), &mut names).unwrap();
    assert_eq!(&names[..len - 1], attribute);
}

#[test]
fn a_change_made_directly_is_seen_under_every_spelling() {
    let Some(mounted) = mounted("nfc", "match") else { return };
    let (mnt, backing) = (mounted.mnt(), mounted.backing());
    // In each round the index of spellings was read a moment ago and updated by the server's own changes. On a file system
    // with fine time stamps (multigrain, Linux 6.13) every change is seen at once; with coarse ones it may take a moment.
    for round in 0..200 {
        let (nfd, nfc) = (format!("{NFD}{round}"), format!("{NFC}{round}"));
        assert!(!mnt.join(&nfc).exists());
        File::create_new(mnt.join(format!("{NFD} by {round}"))).unwrap();
        File::create_new(backing.join(&nfd)).unwrap();
        wait_until("the sight of a new file", || mnt.join(&nfc).exists());
        assert_eq!(ino(&mnt.join(&nfc)), ino(&backing.join(&nfd)), "round {round}");
        if round % 2 == 0 {
            fs::remove_file(backing.join(&nfd)).unwrap();
            assert!(!mnt.join(&nfc).exists(), "round {round}");
        }
    }
}

#[test]
fn a_removed_file_stays_open_when_its_other_spelling_is_created() {
    let Some(mounted) = mounted("nfc", "match") else { return };
    let (nfc, nfd) = (mounted.mnt().join(NFC), mounted.mnt().join(NFD));
    fs::write(&nfc, "old").unwrap();
    let mut old = File::open(&nfd).unwrap();
    fs::remove_file(&nfd).unwrap();
    fs::write(&nfd, "new").unwrap();
    assert_eq!(fs::read_to_string(&nfc).unwrap(), "new");
    let mut said = String::new();
    old.read_to_string(&mut said).unwrap();
    assert_eq!((said.as_str(), old.metadata().unwrap().nlink()), ("old", 0));
    // A hard link with another name, not another spelling.
    fs::hard_link(&nfc, mounted.mnt().join("x")).unwrap();
    assert_eq!(fs::metadata(&nfc).unwrap().nlink(), 2);
    fs::remove_file(&nfc).unwrap();
    assert_eq!(fs::metadata(mounted.mnt().join("x")).unwrap().nlink(), 1);
    assert!(!nfd.exists());
}

#[test]
fn an_entry_that_is_renamed_to_its_own_other_spelling_gets_it() {
    for on_mismatch in ["convert", "match"] {
        let Some(mounted) = mounted("nfc", on_mismatch) else { return };
        let (nfc, nfd) = (mounted.mnt().join(NFC), mounted.mnt().join(NFD));
        for is_dir in [false, true] {
            let backing = mounted.backing().join(NFD);
            if is_dir {
                fs::create_dir(&backing).unwrap()
            } else {
                fs::write(&backing, "").unwrap()
            }
            for (from, to, stored) in [(&nfd, &nfc, NFC), (&nfc, &nfd, NFD), (&nfd, &nfc, NFC)] {
                let before = listed(&mounted.backing());
                assert_eq!(renamed(from, to, RenameFlags::RENAME_NOREPLACE), Errno::EEXIST);
                assert_eq!(renamed(from, to, RenameFlags::RENAME_EXCHANGE), NONE);
                assert_eq!(listed(&mounted.backing()), before);
                assert_eq!(renamed(from, to, RenameFlags::empty()), NONE);
                let stored = if on_mismatch == "convert" { NFC } else { stored };
                assert_eq!(listed(&mounted.backing()), [stored.as_bytes()]);
                assert!(nfc.exists() && nfd.exists());
            }
            if is_dir { fs::remove_dir(&nfd).unwrap() } else { fs::remove_file(&nfd).unwrap() }
        }
    }
}

#[test]
fn the_length_of_a_name_is_checked_as_stored_and_longer_spellings_reach_it() {
    // 200 bytes that are 300 bytes in the form (openzfs/zfs#9965).
    let (short, long) = (NFC.repeat(100), NFD.repeat(100));
    for (form, on_mismatch) in [("nfd", "match"), ("nfc", "match"), ("nfc", "convert")] {
        let Some(mounted) = mounted(form, on_mismatch) else { return };
        let (mnt, backing) = (mounted.mnt(), mounted.backing());
        fs::write(mnt.join(&short), "content").unwrap();
        assert_eq!(fs::read_to_string(mnt.join(&short)).unwrap(), "content");
        assert_eq!(fs::read_to_string(mnt.join(&long)).unwrap(), "content", "{form} {on_mismatch}");
        assert_eq!(listed(&backing), [short.as_bytes()]);
        fs::rename(mnt.join(&long), mnt.join("short")).unwrap();
        assert_eq!(errno(File::open(mnt.join(&short))), Errno::ENOENT);
        let back = errno(fs::rename(mnt.join("short"), mnt.join(&long)));
        // As given it is too long to be stored.
        let expected = if on_mismatch == "match" { Errno::ENAMETOOLONG } else { Errno::from_raw(0) };
        assert_eq!(back, expected, "{form} {on_mismatch}");
    }
    let Some(mounted) = mounted("nfd", "convert") else { return };
    assert_eq!(errno(File::create(mounted.mnt().join(&short))), Errno::ENAMETOOLONG, "its form does not fit");
    let fits = format!("{}{}", NFC.repeat(85), "");
    fs::write(mounted.mnt().join(&fits), "").unwrap();
    assert_eq!(listed(&mounted.backing()), [NFD.repeat(85).as_bytes()]);
    // An entry from before the mount stays reachable.
    fs::write(mounted.backing().join(&short), "old").unwrap();
    assert_eq!(fs::read_to_string(mounted.mnt().join(&short)).unwrap(), "old");
    assert_eq!(fs::read_to_string(mounted.mnt().join(&long)).unwrap(), "old");
    fs::remove_file(mounted.mnt().join(&long)).unwrap();
    assert!(!mounted.backing().join(&short).exists());
}

#[test]
fn two_clients_that_create_two_spellings_at_once_create_one_entry() {
    let Some(mounted) = mounted("nfc", "match") else { return };
    let barrier = Barrier::new(2);
    let made: Vec<Vec<PathBuf>> = thread::scope(|scope| {
        let clients = [NFC, NFD].map(|spelling| {
            let (mnt, barrier) = (mounted.mnt(), &barrier);
            scope.spawn(move || {
                let mut made = Vec::new();
                for round in 0..300 {
                    let path = mnt.join(format!("{spelling}{round}"));
                    barrier.wait();
                    let result = match round % 3 {
                        0 => File::create_new(&path).map(drop),
                        1 => fs::create_dir(&path),
                        _ => symlink("target", &path),
                    };
                    match result {
                        Ok(()) => made.push(path),
                        Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EEXIST), "{path:?}"),
                    }
                }
                made
            })
        });
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    assert_eq!(made.iter().map(Vec::len).sum::<usize>(), 300, "one of two comes first");
    assert_eq!(listed(&mounted.backing()).len(), 300);
}

#[test]
fn names_that_are_not_utf8_have_one_spelling_and_are_shown_as_configured() {
    for existing in ["escape", "show", "hide"] {
        let args = ["--normalize", "nfc", "--on-mismatch", "match", "--existing", existing];
        let Some(mounted) = TestMount::new(&args) else { return };
        let (mnt, backing) = (mounted.mnt(), mounted.backing());
        let bad = OsStr::from_bytes(b"e\xCC\x81\xE9");
        fs::write(backing.join(bad), "bad").unwrap();
        fs::write(backing.join(NFD), "good").unwrap();
        assert_eq!(fs::read_to_string(mnt.join(NFC)).unwrap(), "good");
        let seen = match existing {
            "escape" => Some(OsStr::new("e\u{301}\u{2426}E9")),
            "show" => Some(bad),
            _ => None,
        };
        let mut expected = vec![NFD.as_bytes().to_vec()];
        expected.extend(seen.map(|name| name.as_bytes().to_vec()));
        expected.sort();
        assert_eq!(listed(&mnt), expected);
        if let Some(name) = seen {
            assert_eq!(fs::read_to_string(mnt.join(name)).unwrap(), "bad");
            assert_eq!(errno(File::open(mnt.join("\u{E9}\u{2426}E9"))), Errno::ENOENT);
            // A valid name that exists in another spelling is replaced like any other.
            fs::rename(mnt.join(name), mnt.join(NFC)).unwrap();
            assert_eq!(listed(&backing), [NFD.as_bytes()]);
            assert_eq!(fs::read_to_string(mnt.join(NFC)).unwrap(), "bad");
        }
    }
}

#[test]
fn a_mount_that_converts_warns_of_programs_that_compare_listings() {
    for (on_mismatch, warnings) in [("convert", 1), ("match", 0)] {
        let Some(mut mounted) = mounted("nfc", on_mismatch) else { return };
        mounted.signal(Signal::SIGTERM);
        let (status, said) = mounted.ended();
        assert_eq!(
            (status.code(), said.matches("find other names than they wrote").count()),
            (Some(0), warnings),
            "{said}"
        );
    }
}
