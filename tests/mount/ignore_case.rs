//! Names without regard to case: `--ignore-case`.

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use namegate_sys::iflags;
use nix::errno::Errno;
use nix::fcntl::{OFlag, RenameFlags, openat, renameat};
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;

use crate::names::{errno, listed};
use crate::normalize::{NONE, ino, renamed};
use namegate_testkit::mounted::TestMount;
use namegate_testkit::wait_until;

fn mounted() -> Option<TestMount> {
    TestMount::new(&["--ignore-case"])
}

fn names(dir: &Path) -> Vec<String> {
    listed(dir).into_iter().map(|name| String::from_utf8(name).unwrap()).collect()
}

#[test]
fn an_entry_keeps_its_name_and_is_found_in_any_case() {
    let Some(mounted) = mounted() else { return };
    let (mnt, backing) = (mounted.mnt(), mounted.backing());
    fs::create_dir(mnt.join("Docs")).unwrap();
    fs::write(mnt.join("DOCS/ReadMe.txt"), "content").unwrap();
    assert_eq!(names(&mnt.join("docs")), ["ReadMe.txt"]);
    assert_eq!(names(&backing.join("Docs")), ["ReadMe.txt"]);
    for path in ["docs/readme.TXT", "Docs/README.txt", "dOCS/../DOCS/ReadMe.txt"] {
        assert_eq!(fs::read_to_string(mnt.join(path)).unwrap(), "content", "{path}");
        assert_eq!(ino(&mnt.join(path)), ino(&backing.join("Docs/ReadMe.txt")), "{path}");
    }
    OpenOptions::new().create(true).append(true).open(mnt.join("docs/README.TXT")).unwrap();
    assert_eq!(names(&backing.join("Docs")), ["ReadMe.txt"]);
    fs::rename(mnt.join("docs/README.TXT"), mnt.join("DOCS/Other")).unwrap();
    fs::write(mnt.join("docs/new"), "new").unwrap();
    fs::rename(mnt.join("docs/NEW"), mnt.join("Docs/OTHER")).unwrap();
    assert_eq!(names(&backing.join("Docs")), ["Other"], "the entry that is replaced keeps its name");
    assert_eq!(fs::read_to_string(mnt.join("Docs/Other")).unwrap(), "new");
    fs::remove_file(mnt.join("DOCS/other")).unwrap();
    fs::remove_dir(mnt.join("dOcS")).unwrap();
    assert_eq!(names(&backing), [""; 0]);
}

/// Each name is fresh, so that the kernel has never seen another spelling of it.
#[test]
fn creating_another_spelling_meets_the_entry() {
    let Some(mounted) = mounted() else { return };
    let mnt = mounted.mnt();
    fs::write(mnt.join("file"), "").unwrap();
    type Create = fn(&Path, &Path) -> Errno;
    let ways: [(&str, Create); 6] = [
        ("mkdir", |_, new| errno(fs::create_dir(new))),
        ("symlink", |_, new| errno(symlink("target", new))),
        ("link", |file, new| errno(fs::hard_link(file, new))),
        ("open", |_, new| errno(File::create_new(new))),
        ("no replacement", |file, new| renamed(file, new, RenameFlags::RENAME_NOREPLACE)),
        ("bind", |_, new| errno(UnixListener::bind(new))),
    ];
    for (way, create) in ways {
        for is_listed in [false, true] {
            let name = format!("{way} {is_listed}");
            fs::write(mnt.join(&name), "").unwrap();
            if is_listed {
                assert!(names(&mnt).contains(&name));
            }
            let expected = if way == "bind" { Errno::EADDRINUSE } else { Errno::EEXIST };
            assert_eq!(create(&mnt.join("file"), &mnt.join(name.to_uppercase())), expected, "{name}");
        }
    }
}

#[test]
fn a_rename_that_changes_only_case_does_it() {
    let Some(mounted) = mounted() else { return };
    let (mnt, backing) = (mounted.mnt(), mounted.backing());
    for round in 0..200 {
        for is_dir in [false, true] {
            let name = format!("Name {round} {is_dir}");
            let (lower, upper) = (name.to_lowercase(), name.to_uppercase());
            if is_dir {
                fs::create_dir(mnt.join(&name)).unwrap();
            } else {
                fs::write(mnt.join(&name), "content").unwrap();
            }
            let made = ino(&backing.join(&name));
            // Sometimes the kernel has cached the one name, sometimes the other was looked up too.
            if round % 2 == 0 {
                assert_eq!(ino(&mnt.join(&name)), made);
            }
            if round % 3 == 0 {
                assert_eq!(ino(&mnt.join(&lower)), made);
            }
            for (from, to) in [(&name, &lower), (&lower, &upper), (&upper, &name), (&name, &lower)] {
                fs::rename(mnt.join(from), mnt.join(to)).unwrap();
                assert_eq!(names(&backing), [to.as_str()], "from {from}");
                assert!([&name, &lower, &upper].iter().all(|name| ino(&mnt.join(name)) == made));
            }
            // From a name that is neither.
            fs::rename(mnt.join(&upper), mnt.join(&name)).unwrap();
            assert_eq!(names(&backing), [name.as_str()]);
            let remove = if is_dir { fs::remove_dir } else { fs::remove_file };
            remove(mnt.join(&upper)).unwrap();
            assert!([&name, &lower, &upper].iter().all(|name| !mnt.join(name).exists()));
        }
    }
}

#[test]
fn a_directory_is_renamed_without_a_look_at_the_new_name() {
    for timeout in ["0", "60"] {
        let Some(mounted) = TestMount::new(&["--ignore-case", "--entry-timeout", timeout]) else { return };
        let (mnt, backing) = (mounted.mnt(), mounted.backing());
        for name in ["Documents", "Pictures"] {
            let (lower, upper) = (name.to_lowercase(), name.to_uppercase());
            fs::create_dir_all(mnt.join(name).join("Inner")).unwrap();
            // Also below a directory that has another name there, and if something works in it.
            let inside = held(&mnt.join(name).join("Inner"));
            fs::rename(mnt.join(&lower).join("Inner"), mnt.join(&lower).join("INNER")).unwrap();
            assert_eq!(names(&backing.join(name)), ["INNER"], "timeout {timeout}");
            fs::rename(mnt.join(name), mnt.join(&lower)).unwrap();
            fs::rename(mnt.join(&lower), mnt.join(&upper)).unwrap();
            assert_eq!(names(&backing), [upper]);
            fs::create_dir(format!("/proc/self/fd/{}/new", inside.as_raw_fd())).unwrap();
            assert_eq!(names(&mnt.join(&lower).join("inner")), ["new"]);
            fs::remove_dir_all(mnt.join(name)).unwrap();
        }
    }
}

#[test]
fn a_rename_below_directories_in_another_case_is_made() {
    let Some(mounted) = mounted() else { return };
    let (mnt, backing) = (mounted.mnt(), mounted.backing());
    for round in 0..4 {
        let top = format!("Top{round}");
        fs::create_dir_all(mnt.join(&top).join("One/Two/Three")).unwrap();
        fs::write(mnt.join(&top).join("One/Two/Three/File"), "").unwrap();
        let there = backing.join(&top).join("One/Two/Three");
        let top = mnt.join(top.to_uppercase());
        fs::rename(top.join("one/two/three/FILE"), top.join("ONE/TWO/THREE/file")).unwrap();
        assert_eq!(names(&there), ["file"]);
        fs::rename(top.join("oNE/tWO/tHREE/FILE"), top.join("OnE/TwO/ThReE/other")).unwrap();
        assert_eq!(names(&there), ["other"]);
        fs::rename(top.join("oNe/tWo/tHrEe"), top.join("onE/twO/THREE")).unwrap();
        assert_eq!(names(there.parent().unwrap()), ["THREE"]);
    }
}

#[test]
fn a_rename_below_directories_of_the_same_name_is_made() {
    let Some(mounted) = mounted() else { return };
    let (mnt, backing) = (mounted.mnt(), mounted.backing());
    for round in 0..60 {
        let name = format!("Name{round}");
        let cases = [name.clone(), name.to_lowercase(), name.to_uppercase()];
        // As many directories above have the name.
        let [depth, above, from, to] = [round % 4, round / 4 % 3, round % 3, (round + 1 + round / 30) % 3];
        let (stored, dir) =
            ([name.as_str()].repeat(depth).join("/"), [cases[above].as_str()].repeat(depth).join("/"));
        fs::create_dir_all(mnt.join(&stored)).unwrap();
        match round / 8 % 2 {
            0 => fs::write(mnt.join(&stored).join(&name), "").unwrap(),
            _ => fs::create_dir(mnt.join(&stored).join(&name)).unwrap(),
        }
        let [from, to] = [&cases[from], &cases[to]];
        let [from_path, to_path] = [from, to].map(|name| Path::new(&dir).join(name));
        match round % 5 {
            0 => renameat(held(&mnt), &from_path, held(&mnt), &to_path).unwrap(),
            _ => fs::rename(mnt.join(&from_path), mnt.join(&to_path)).unwrap(),
        }
        let there = names(&backing.join(&stored));
        assert!(there.contains(to), "round {round}: {dir}/{from} to {to}: {there:?}");
        assert_eq!(there.len(), if depth == 0 { round + 1 } else { 1 }, "round {round}: {there:?}");
    }
}

#[test]
fn a_rename_is_made_right_after_one_that_failed_below_the_same_name() {
    let Some(mounted) = mounted() else { return };
    let (mnt, backing) = (mounted.mnt(), mounted.backing());
    symlink(".", mnt.join("link")).unwrap();
    for round in 0..4 {
        let name = format!("Name{round}");
        let upper = name.to_uppercase();
        fs::create_dir(mnt.join(&name)).unwrap();
        // Where a link leads, the path of a directory does not say which name is the last one.
        let inside = mnt.join("link").join(&upper);
        assert_eq!(errno(fs::rename(inside.join(&name), inside.join(&upper))), Errno::ENOENT);
        fs::rename(mnt.join(&name), mnt.join(&upper)).unwrap();
        assert!(names(&backing).contains(&upper), "round {round}: {:?}", names(&backing));
    }
}

#[test]
fn a_directory_is_not_renamed_into_itself_in_any_case() {
    let Some(mounted) = mounted() else { return };
    let mnt = mounted.mnt();
    fs::create_dir_all(mnt.join("A/B")).unwrap();
    for (from, to) in [("A", "a/x"), ("a", "A/x"), ("a", "A/b/x"), ("A/B", "a/b/y"), ("a/b", "A/B/a")] {
        let renamed = fs::rename(mnt.join(from), mnt.join(to));
        assert_eq!(errno(renamed), Errno::EINVAL, "{from} to {to}");
    }
    for (from, to) in [("A/B", "a"), ("a/b", "A"), ("A/b", "A")] {
        assert_eq!(errno(fs::rename(mnt.join(from), mnt.join(to))), Errno::ENOTEMPTY, "{from} to {to}");
    }
}

fn held(path: &Path) -> File {
    OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path).unwrap()
}

#[test]
fn what_is_held_by_another_spelling_is_the_entry() {
    let Some(mounted) = mounted() else { return };
    let (mnt, backing) = (mounted.mnt(), mounted.backing());
    for round in 0..20 {
        let (name, other) = (format!("Dir{round}"), format!("dIR{round}"));
        fs::create_dir(mnt.join(&name)).unwrap();
        fs::write(mnt.join(&name).join("File"), "content").unwrap();
        let dir = held(&mnt.join(&other));
        assert_eq!(
            ino(Path::new(&format!("/proc/self/fd/{}/.", dir.as_raw_fd()))),
            ino(&backing.join(&name))
        );
        let file = openat(&dir, "fILE", OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty()).unwrap();
        let mut said = String::new();
        let again = File::open(format!("/proc/self/fd/{}", file.as_raw_fd()));
        again.unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(said, "content");
        openat(&dir, "new", OFlag::O_CREAT | OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::S_IRUSR).unwrap();
        assert_eq!(names(&backing.join(&name)), ["File", "new"]);
        fs::remove_dir_all(mnt.join(name.to_uppercase())).unwrap();
        assert_eq!(names(&backing), [""; 0]);
    }
}

#[test]
fn twins_stay_two_entries_and_another_spelling_means_the_first() {
    let Some(mounted) = mounted() else { return };
    let (mnt, backing) = (mounted.mnt(), mounted.backing());
    for name in ["Twin", "twin", "tWIN"] {
        fs::write(backing.join(name), name).unwrap();
    }
    assert_eq!(names(&mnt), ["Twin", "tWIN", "twin"]);
    for (asked, found) in [("Twin", "Twin"), ("twin", "twin"), ("tWIN", "tWIN"), ("tWiN", "Twin")] {
        assert_eq!(fs::read_to_string(mnt.join(asked)).unwrap(), found);
    }
    // The one that is stored in capital letters comes first.
    fs::write(backing.join("TWIN"), "TWIN").unwrap();
    wait_until("another first", || fs::read_to_string(mnt.join("tWiN")).unwrap() == "TWIN");
    fs::remove_file(mnt.join("tWiN")).unwrap();
    fs::remove_file(mnt.join("Twin")).unwrap();
    assert_eq!(fs::read_to_string(mnt.join("TWiN")).unwrap(), "tWIN");
    assert_eq!(renamed(&mnt.join("twin"), &mnt.join("tWIN"), RenameFlags::empty()), NONE);
    assert_eq!(
        (names(&backing), fs::read_to_string(mnt.join("x").with_file_name("TWIN")).unwrap()),
        (vec!["tWIN".into()], "twin".into())
    );
}

#[test]
fn a_direct_change_is_seen_in_every_case_as_fast_as_in_its_own() {
    let Some(mounted) = mounted() else { return };
    let (mnt, backing) = (mounted.mnt(), mounted.backing());
    for round in 0..100 {
        let name = format!("Name{round}");
        assert!(!mnt.join(name.to_uppercase()).exists());
        fs::write(backing.join(&name), "").unwrap();
        wait_until("a new file", || mnt.join(name.to_uppercase()).exists());
        assert_eq!(ino(&mnt.join(name.to_lowercase())), ino(&backing.join(&name)));
        fs::rename(backing.join(&name), backing.join(format!("Other{round}"))).unwrap();
        assert!(!mnt.join(name.to_uppercase()).exists(), "round {round}");
        assert!(mnt.join(format!("oTHER{round}")).exists());
    }
}

#[test]
fn the_log_says_where_twins_are_listed() {
    let Some(mut mounted) = TestMount::new(&["--ignore-case", "--verbose"]) else { return };
    mounted.signal(Signal::SIGTERM);
    let (status, said) = mounted.ended();
    assert_eq!((status.code(), said.matches("--profile windows` lists").count()), (Some(0), 1), "{said}");
}

#[test]
fn directories_say_that_they_ignore_case_and_their_flags_can_be_set() {
    // linux/fs.h
    const CASEFOLD: u32 = 0x4000_0000;
    const NODUMP: u32 = 0x40;
    let Some(mounted) = mounted() else { return };
    let (mnt, backing) = (mounted.mnt(), mounted.backing());
    fs::create_dir(mnt.join("dir")).unwrap();
    fs::write(mnt.join("file"), "").unwrap();
    let flags = |path: &Path| iflags::get(File::open(path).unwrap());
    let Ok(stored) = flags(&backing.join("dir")) else {
        println!("SKIPPED: files in the temporary directory have no flags");
        return;
    };
    assert_eq!(flags(&mnt.join("dir")), Ok(stored | CASEFOLD));
    assert_eq!(flags(&mnt.join("file")), flags(&backing.join("file")));
    // As chattr(1) does: what was read, and one more.
    iflags::set(File::open(mnt.join("dir")).unwrap(), stored | CASEFOLD | NODUMP).unwrap();
    assert_eq!(flags(&backing.join("dir")), Ok(stored | NODUMP));
    assert_eq!(flags(&mnt.join("dir")), Ok(stored | CASEFOLD | NODUMP));
    // What the kernel does not know in it, it refuses to set.
    let dir = File::open(mnt.join("dir")).unwrap();
    let extended = iflags::get_extended(&dir).unwrap();
    iflags::set_extended(&dir, &extended).unwrap();
    assert_eq!(flags(&backing.join("dir")), Ok(stored | NODUMP));
}
