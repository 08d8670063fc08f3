//! Mode `encode`: what a client writes is what it lists, and the source has only names that the policy allows.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::Command;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::names::{errno, listed};
use namegate_testkit::metrics::scraped;
use namegate_testkit::mounted::TestMount;

fn encoding(args: &[&str]) -> Option<TestMount> {
    TestMount::new(&[&["--profile", "windows", "--mode", "encode"], args].concat())
}

/// The sorted names, as a listing has them.
fn sorted(names: &[&str]) -> Vec<Vec<u8>> {
    let mut names: Vec<_> = names.iter().map(|name| name.as_bytes().to_vec()).collect();
    names.sort();
    names
}

/// A directory, listed without and with attributes.
fn seen(dir: &Path) -> Vec<Vec<u8>> {
    let names = listed(dir);
    let with_attributes =
        Command::new("ls").args(["-1A", "--zero", "--file-type"]).arg(dir).output().unwrap();
    assert_eq!(with_attributes.stdout.split(|&byte| byte == 0).count(), names.len() + 1);
    names
}

/// Creates `name` in `dir` in every possible way, one directory each. Returns the directories.
fn create_everyhow(dir: &Path, name: &str) -> Vec<&'static str> {
    let rename_with = |flags, new: &Path| {
        fs::create_dir(dir.join("old")).unwrap();
        renameat2(AT_FDCWD, &dir.join("old"), AT_FDCWD, new, flags).unwrap();
    };
    let ways: [(&str, &dyn Fn(&Path)); 8] = [
        ("create", &|new| drop(File::create(new).unwrap())),
        ("create-new", &|new| fs::write(new, "content").unwrap()),
        ("mkdir", &|new| fs::create_dir(new).unwrap()),
        ("mknod", &|new| mkfifo(new, Mode::S_IRWXU).unwrap()),
        ("symlink", &|new| symlink("a:b", new).unwrap()),
        ("link", &|new| fs::hard_link(dir.join("other"), new).unwrap()),
        ("rename", &|new| rename_with(RenameFlags::empty(), new)),
        ("noreplace", &|new| rename_with(RenameFlags::RENAME_NOREPLACE, new)),
    ];
    fs::write(dir.join("other"), "").unwrap();
    for (way, create) in ways {
        fs::create_dir(dir.join(way)).unwrap();
        create(&dir.join(way).join(name));
    }
    ways.map(|(way, _)| way).to_vec()
}

#[test]
fn what_a_client_writes_is_what_it_lists_and_the_source_has_what_is_valid() {
    let Some(mounted) = encoding(&[]) else { return };
    let (mnt, backing) = (mounted.mnt(), mounted.backing());
    for (at, (given, stored)) in [
        ("a:b?", "a：b？"),
        ("end.", "end．"),
        ("space ", "space␠"),
        ("tab\there", "tab␉here"),
        ("a：b", "a‛：b"),
        ("‛", "‛‛"),
        ("plain", "plain"),
    ]
    .into_iter()
    .enumerate()
    {
        let dir = mnt.join(at.to_string());
        fs::create_dir(&dir).unwrap();
        for way in create_everyhow(&dir, given) {
            let (of_client, in_backing) = (dir.join(way), backing.join(at.to_string()).join(way));
            assert_eq!(listed(&in_backing), [stored.as_bytes()], "{way} of {given:?}");
            assert_eq!(seen(&of_client), [given.as_bytes()], "{way} of {given:?}");
            assert_eq!(errno(File::create_new(of_client.join(given))), Errno::EEXIST);
            if stored != given {
                assert_eq!(errno(fs::symlink_metadata(of_client.join(stored))), Errno::ENOENT, "{stored}");
            }
            let inode = |path: &Path, name: &str| fs::symlink_metadata(path.join(name)).unwrap().ino();
            assert_eq!(inode(&of_client, given), inode(&in_backing, stored));
        }
        assert_eq!(fs::read(dir.join("create-new").join(given)).unwrap(), b"content");
        assert_eq!(fs::read_link(dir.join("symlink").join(given)).unwrap(), Path::new("a:b"), "content");
        let directory = dir.join("mkdir").join(given);
        let cwd = Command::new("pwd").arg("-P").current_dir(&directory).output().unwrap();
        assert_eq!(cwd.stdout, [directory.canonicalize().unwrap().as_os_str().as_bytes(), b"\n"].concat());
    }
}

#[test]
fn entries_are_replaced_exchanged_and_removed_by_the_names_of_the_client() {
    let Some(mounted) = encoding(&[]) else { return };
    let (mnt, backing) = (mounted.mnt(), mounted.backing());
    for round in 0..3 {
        fs::write(mnt.join("what?"), "first").unwrap();
        fs::write(mnt.join("temporary"), "second").unwrap();
        fs::rename(mnt.join("temporary"), mnt.join("what?")).unwrap();
        assert_eq!(fs::read(mnt.join("what?")).unwrap(), b"second", "round {round}");
        fs::write(mnt.join("what？"), "fullwidth").unwrap();
        let exchange = RenameFlags::RENAME_EXCHANGE;
        renameat2(AT_FDCWD, &mnt.join("what?"), AT_FDCWD, &mnt.join("what？"), exchange).unwrap();
        assert_eq!(fs::read(mnt.join("what?")).unwrap(), b"fullwidth");
        assert_eq!(fs::read(backing.join("what‛？")).unwrap(), b"second");
        assert_eq!(seen(&mnt), sorted(&["what?", "what？"]));
        assert_eq!(listed(&backing), sorted(&["what？", "what‛？"]));
        let whiteout = RenameFlags::RENAME_WHITEOUT;
        renameat2(AT_FDCWD, &mnt.join("what?"), AT_FDCWD, &mnt.join("which?"), whiteout).unwrap();
        assert_eq!(seen(&mnt), sorted(&["what?", "what？", "which?"]));
        for name in ["what?", "what？", "which?"] {
            fs::remove_file(mnt.join(name)).unwrap();
            assert_eq!(errno(fs::metadata(mnt.join(name))), Errno::ENOENT);
        }
        fs::create_dir(mnt.join("dir*")).unwrap();
        fs::write(mnt.join("dir*/a|b"), "").unwrap();
        assert_eq!(listed(&backing.join("dir＊")), ["a｜b".as_bytes()]);
        fs::remove_dir_all(mnt.join("dir*")).unwrap();
        assert!(listed(&backing).is_empty());
    }
}

#[test]
fn what_other_programs_have_encoded_is_shown_decoded() {
    for (set, stored) in [
        ("rclone", "a：b？"),
        ("sfm", "a\u{F022}b\u{F025}"),
        ("sfu", "a\u{F03A}b\u{F03F}"),
        ("catia", "a÷b¿"),
    ] {
        let Some(mounted) = encoding(&["--substitutes", set]) else { return };
        let (mnt, backing) = (mounted.mnt(), mounted.backing());
        fs::write(backing.join(stored), set).unwrap();
        assert_eq!(seen(&mnt), [b"a:b?"], "{set}");
        assert_eq!(fs::read(mnt.join("a:b?")).unwrap(), set.as_bytes());
        fs::rename(mnt.join("a:b?"), mnt.join("b:")).unwrap();
        fs::rename(mnt.join("b:"), mnt.join("a:b?")).unwrap();
        assert_eq!(listed(&backing), [stored.as_bytes()]);
    }
}

#[test]
fn what_the_mount_would_store_otherwise_is_shown_escaped_and_can_be_used() {
    for existing in ["escape", "show", "hide"] {
        let Some(mounted) = encoding(&["--existing", existing]) else { return };
        let (mnt, backing) = (mounted.mnt(), mounted.backing());
        for (name, shown) in
            [("a:b", "a␦3Ab"), ("x‛y", "x␦E2␦80␦9By"), ("␦3A", "␦E2␦90␦A63A"), ("．", "␦EF␦BC␦8E")]
        {
            fs::write(backing.join(name), name).unwrap();
            assert_eq!(seen(&mnt), [shown.as_bytes()], "--existing {existing}");
            assert_eq!(fs::read(mnt.join(shown)).unwrap(), name.as_bytes());
            assert_eq!(errno(File::create_new(mnt.join(shown))), Errno::EEXIST);
            assert_eq!(errno(fs::metadata(mnt.join(name))), Errno::ENOENT, "{name} has no second name");
            fs::rename(mnt.join(shown), mnt.join("good")).unwrap();
            assert_eq!(listed(&backing), [b"good"]);
            assert_eq!(errno(fs::rename(mnt.join("good"), mnt.join(shown))), Errno::EINVAL, "an escape");
            fs::remove_file(mnt.join("good")).unwrap();
        }
        // Beside the name as this mount stores it.
        fs::write(backing.join("a:b"), "literal").unwrap();
        fs::write(mnt.join("a:b"), "encoded").unwrap();
        assert_eq!(seen(&mnt), sorted(&["a:b", "a␦3Ab"]));
        let long = ":".repeat(255);
        fs::write(backing.join(&long), "long").unwrap();
        let shown = listed(&mnt).into_iter().find(|name| name.len() > 200).unwrap();
        assert_eq!(fs::read(mnt.join(OsStr::from_bytes(&shown))).unwrap(), b"long");
    }
}

#[test]
fn names_that_are_invalid_even_if_encoded_are_refused_and_what_is_encoded_is_only_counted() {
    let records = tempfile::NamedTempFile::new().unwrap();
    let audit = records.path().to_str().unwrap();
    let args = ["--profile", "windows", "--mode", "encode", "--check-targets", "--audit", audit];
    let Some((mut mounted, port)) = scraped(&args) else { return };
    let mnt = mounted.mnt();
    for (name, expected) in [
        (&b"caf\xE9"[..], Errno::EILSEQ),
        (b"a:\xFF", Errno::EILSEQ),
        (b"con", Errno::EINVAL),
        (b"aux.a:b", Errno::EINVAL),
        ("a␦3Ab".as_bytes(), Errno::EINVAL),
        (&[b'?'; 86], Errno::ENAMETOOLONG),
    ] {
        let (new, shown) = (mnt.join(OsStr::from_bytes(name)), name.escape_ascii());
        assert_eq!(errno(File::create(&new)), expected, "{shown}");
        assert_eq!(errno(fs::create_dir(&new)), expected, "{shown}");
    }
    assert_eq!(errno(symlink("a:b", mnt.join("link"))), Errno::EINVAL, "a target is content");
    assert!(listed(&mounted.backing()).is_empty());
    fs::create_dir(mnt.join("a:b")).unwrap();
    fs::create_dir(mnt.join("a：b")).unwrap();
    let metrics = mounted.metrics(port);
    let counted: Vec<_> =
        metrics.iter().filter(|(series, count)| series.contains("encoded") && **count > 0.0).collect();
    let series = "namegate_encoded_total{op=\"mkdir\",rule=\"reserved-character\"}".to_owned();
    assert_eq!(counted, [(&series, &1.0)]);
    mounted.signal(Signal::SIGTERM);
    let (_, said) = mounted.ended();
    assert!(said.contains("caf\\xE9") && !said.contains("a：b"), "{said}");
    let records = fs::read_to_string(audit).unwrap();
    assert_eq!(records.matches("\"outcome\":\"refused\"").count(), 13, "{records}");
    assert_eq!(records.lines().count(), 13, "{records}");
}

#[test]
fn a_policy_that_excludes_the_substitutes_is_an_error() {
    let namegate = |args: &[&str]| Command::new(env!("CARGO_BIN_EXE_namegate")).args(args).output().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (source, file) = (dir.path().to_str().unwrap(), dir.path().join("share.toml"));
    for (options, table, why) in [
        (&["--profile", "windows", "--normalize", "nfkc"][..], "rclone", "not stable in nfkc"),
        (
            &["--profile", "windows", "--normalize", "nfc", "--on-mismatch", "convert"],
            "catia",
            "not stable in nfc",
        ),
        (&["--profile", "posix"], "sfm", "refuses the substitutes of sfm"),
        (&["--profile", "utf8"], "sfm", "refuses no character"),
    ] {
        let args =
            [&["mount", source, source, "--check", "--mode", "encode", "--substitutes", table], options];
        let output = namegate(&args.concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(why), "{said}");
    }
    let text = "source = \"/a\"\nmountpoint = \"/b\"\n[policy]\nprofiles = [\"posix\"]\n[mount]\nmode = \"encode\"\n";
    fs::write(&file, text).unwrap();
    let output = namegate(&["config", "check", file.to_str().unwrap()]);
    assert!(
        !output.status.success() && String::from_utf8_lossy(&output.stdout).contains("rclone"),
        "{output:?}"
    );
    let Some(mounted) = TestMount::new(&["--profile", "posix"]) else { return };
    let mut command = Command::new(env!("CARGO_BIN_EXE_namegate"));
    command.args(["mode", "encode"]).arg(mounted.mnt()).env("NAMEGATE_RUNTIME_DIR", mounted.run_directory());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("refuses the substitutes"), "{said}");
    assert_eq!(errno(File::create(mounted.mnt().join("a:b"))), Errno::EINVAL, "the mode is as before");
}
