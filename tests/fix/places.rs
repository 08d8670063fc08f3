//! Unusual file systems and missing permissions.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use namegate_core::name::escape::escape;
use namegate_fix::apply::ApplyOptions;
use namegate_fix::original_name_xattr::ATTRIBUTE;
use namegate_testkit::program::status;
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::unistd::geteuid;

use crate::program::{messages, namegate};
use crate::tree::{
    OPTIONS, Recorder, apply_plan, make, make_tree, names, plan, resume_plan, snapshot, text, undo_journal,
};

/// A file system mounted on a directory; unmounted on drop.
struct TestMount(PathBuf);

impl Drop for TestMount {
    fn drop(&mut self) {
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

/// Mounts a tmpfs on the new directory `point`; `None`, after a message, if that is not possible.
fn tmpfs(point: &Path, options: &str) -> Option<TestMount> {
    fs::create_dir_all(point).unwrap();
    if !geteuid().is_root() {
        println!("SKIPPED: mounting needs root");
        return None;
    }
    match mount(Some("none"), point, Some("tmpfs"), MsFlags::empty(), Some(options)) {
        Ok(()) => Some(TestMount(point.to_path_buf())),
        Err(error) => {
            println!("SKIPPED: no tmpfs with {options} can be mounted: {error}");
            None
        }
    }
}

#[test]
fn a_tree_on_tmpfs_is_renamed_and_restored() {
    let dir = tempfile::tempdir().unwrap();
    let Some(mounted) = tmpfs(&dir.path().join("tmpfs"), "size=1m") else { return };
    make(&mounted.0, &[b"d\xE9/", b"d\xE9/f\xFF", b"link -> d\xE9/f\xFF", b"a", b"b"]);
    let plan = plan(&mounted.0, &[(b"d\xE9", "d"), (b"d\xE9/f\xFF", "f"), (b"a", "b"), (b"b", "a")]);
    let before = snapshot(&mounted.0);
    let journal = dir.path().join("journal");
    let options = ApplyOptions { keep_times: true, ..OPTIONS };
    let tally = apply_plan(&plan, &journal, options, &Recorder::default()).unwrap();
    assert_eq!((tally.renamed, tally.retargeted, tally.remaining), (4, 1, 0));
    assert_eq!(undo_journal(&journal, &Recorder::default()).unwrap().remaining, 0);
    assert_eq!(names(&snapshot(&mounted.0)), names(&before));
}

#[test]
fn a_read_only_file_system_is_refused_before_the_run_starts() {
    let dir = tempfile::tempdir().unwrap();
    let Some(mounted) = tmpfs(&dir.path().join("tmpfs"), "size=1m") else { return };
    make(&mounted.0, &[b"a\xFF"]);
    let plan = plan(&mounted.0, &[(b"a\xFF", "a")]);
    fs::write(dir.path().join("plan"), text(&plan)).unwrap();
    let flags = MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
    mount(None::<&str>, &mounted.0, None::<&str>, flags, None::<&str>).unwrap();
    let journal = dir.path().join("journal");
    let output = namegate(dir.path())
        .args(["fix", "apply", "--yes", "--journal"])
        .args([&journal, &dir.path().join("plan")])
        .output()
        .unwrap();
    assert_eq!(status(&output), 2);
    assert!(messages(&output).contains("the file system is mounted read-only"), "{}", messages(&output));
    assert!(!journal.exists(), "no empty journal is left behind");
}

#[test]
fn a_full_disk_under_the_journal_stops_before_the_renames() {
    let dir = tempfile::tempdir().unwrap();
    let Some(small) = tmpfs(&dir.path().join("small"), "size=64k") else { return };
    let (_tree, root) = make_tree(&[]);
    let olds: Vec<Vec<u8>> =
        (0..600).map(|number| [number.to_string().as_bytes(), b"\xE9"].concat()).collect();
    let news: Vec<String> = (0..600).map(|number| format!("new {number}")).collect();
    let wanted: Vec<(&[u8], &str)> = olds.iter().zip(&news).map(|(old, new)| (&old[..], &new[..])).collect();
    olds.iter().for_each(|old| fs::write(root.join(OsStr::from_bytes(old)), old).unwrap());
    let plan = plan(&root, &wanted);
    let before = snapshot(&root);
    let journal = small.0.join("journal");
    let options = ApplyOptions { batch_size: 50, ..OPTIONS };
    let error = apply_plan(&plan, &journal, options, &Recorder::default()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    let renamed = snapshot(&root).keys().filter(|name| name.starts_with(b"new")).count();
    assert!(renamed > 0 && renamed < 600, "{renamed}");
    // Every rename is in the journal, so with free space the run can be resumed or undone.
    mount(None::<&str>, &small.0, None::<&str>, MsFlags::MS_REMOUNT, Some("size=4m")).unwrap();
    let tally = resume_plan(&plan, &journal, options, &Recorder::default()).unwrap();
    assert_eq!(
        (tally.already as usize, tally.renamed as usize, tally.remaining),
        (renamed, 600 - renamed, 0)
    );
    assert_eq!(undo_journal(&journal, &Recorder::default()).unwrap().remaining, 0);
    assert_eq!(names(&snapshot(&root)), names(&before));
    // A disk without space for the first line: nothing is renamed.
    let filled = vec![0; 8 << 20];
    let _ = fs::write(small.0.join("filler"), filled);
    let other = small.0.join("other");
    assert!(apply_plan(&plan, &other, options, &Recorder::default()).is_err());
    assert!(!other.exists());
    assert_eq!(names(&snapshot(&root)), names(&before));
}

#[test]
fn file_systems_mounted_in_a_tree_are_changed_only_on_request() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("tree");
    let Some(mounted) = tmpfs(&root.join("mnt"), "size=1m") else { return };
    make(&mounted.0, &[b"f\xFF"]);
    make(&root, &[b"g\xFF"]);
    let plan = plan(&root, &[(b"mnt/f\xFF", "f"), (b"g\xFF", "g"), (b"mnt", "point")]);
    let recorder = Recorder::default();
    let tally = apply_plan(&plan, &dir.path().join("journal"), OPTIONS, &recorder).unwrap();
    assert_eq!((tally.renamed, recorder.remaining().len()), (1, 2));
    assert!(recorder.remaining()[0].1.contains("is on another file system"), "{recorder:?}");
    assert!(recorder.remaining()[1].1.contains("busy"), "a mount point keeps its name: {recorder:?}");
    // Requested on the command line.
    fs::write(dir.path().join("plan"), text(&plan)).unwrap();
    let output = namegate(dir.path())
        .args(["fix", "apply", "--yes", "--cross-file-systems"])
        .arg(dir.path().join("plan"))
        .output()
        .unwrap();
    assert_eq!(status(&output), 1, "{}", messages(&output));
    assert!(mounted.0.join("f").exists());
    let output = namegate(dir.path()).args(["fix", "undo", "--last", "--yes"]).output().unwrap();
    assert_eq!(status(&output), 0, "{}", messages(&output));
    assert!(mounted.0.join(OsStr::from_bytes(b"f\xFF")).exists());
}

#[test]
fn links_out_of_the_tree_are_not_followed() {
    let (dir, root) = make_tree(&[b"d/", b"d/f\xFF"]);
    let plan = plan(&root, &[(b"d/f\xFF", "f")]);
    // The directory is moved out of the tree and replaced by a link to it.
    fs::rename(root.join("d"), dir.path().join("outside")).unwrap();
    symlink(dir.path().join("outside"), root.join("d")).unwrap();
    let recorder = Recorder::default();
    apply_plan(&plan, &dir.path().join("journal"), OPTIONS, &recorder).unwrap();
    assert_eq!(recorder.remaining().len(), 1);
    assert!(recorder.remaining()[0].1.contains("cannot open its directory"), "{recorder:?}");
    assert!(dir.path().join("outside").join(OsStr::from_bytes(b"f\xFF")).exists());
}

#[test]
fn a_user_without_privileges_renames_what_is_theirs_and_reads_no_more_than_renaming_needs() {
    if !geteuid().is_root() {
        return println!("SKIPPED: becoming another user needs root");
    }
    let (dir, root) = make_tree(&[
        b"own\xFF",
        b"blind/",
        b"blind/x\xFF",
        b"foreign/",
        b"foreign/y\xFF",
        b"link -> own\xFF",
    ]);
    let plan = plan(&root, &[(b"own\xFF", "own"), (b"blind/x\xFF", "x"), (b"foreign/y\xFF", "y")]);
    let file = dir.path().join("plan");
    fs::write(&file, text(&plan)).unwrap();
    const NOBODY: u32 = 65534;
    for path in ["", "blind"] {
        chown(root.join(path), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    // A directory that the user can change but not read.
    fs::set_permissions(root.join("blind"), fs::Permissions::from_mode(0o300)).unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let run = |args: &[&OsStr]| {
        let mut command = namegate(dir.path());
        command.arg("fix").args(args).uid(NOBODY).gid(NOBODY);
        command.output().unwrap()
    };
    // chown has changed the change times, so the plan is made again.
    let plan =
        crate::tree::plan(&root, &[(b"own\xFF", "own"), (b"blind/x\xFF", "x"), (b"foreign/y\xFF", "y")]);
    fs::write(&file, text(&plan)).unwrap();
    let output = run(&[OsStr::new("apply"), OsStr::new("--yes"), file.as_os_str()]);
    assert_eq!(status(&output), 1, "{}", messages(&output));
    assert!(messages(&output).contains("Permission denied"), "{}", messages(&output));
    assert!(root.join("own").exists() && root.join("blind/x").exists());
    assert!(root.join("foreign").join(OsStr::from_bytes(b"y\xFF")).exists());
    assert_eq!(fs::read_link(root.join("link")).unwrap().to_str(), Some("own"));
    let journals: Vec<_> = fs::read_dir(dir.path().join("namegate/journals")).unwrap().collect();
    let journal = journals[0].as_ref().unwrap().metadata().unwrap();
    assert_eq!((journals.len(), journal.mode() & 0o777, journal.uid()), (1, 0o600, NOBODY));
    let output = run(&[OsStr::new("undo"), OsStr::new("--last"), OsStr::new("--yes")]);
    assert_eq!(status(&output), 0, "{}", messages(&output));
    assert!(root.join(OsStr::from_bytes(b"own\xFF")).exists());
}

#[test]
fn the_original_name_is_stored_in_an_attribute_if_possible_and_removed_by_undo() {
    let (dir, root) = make_tree(&[b"f\xFF", b"d\xFF/", b"l\xFF -> nowhere", b"kept\xFF", b"taken\xFF"]);
    let attribute = |name: &[u8]| {
        let file = fs::File::open(root.join(OsStr::from_bytes(name))).unwrap();
        let mut value = vec![0; 256];
        let len = namegate_sys::xattr::get(&file, OsStr::new(ATTRIBUTE), &mut value);
        len.map(|len| value[..len].to_vec())
    };
    {
        let file = fs::File::open(root.join(OsStr::from_bytes(b"kept\xFF"))).unwrap();
        match namegate_sys::xattr::set(&file, OsStr::new(ATTRIBUTE), b"from long ago", 0) {
            Ok(()) => {}
            Err(error) => return println!("SKIPPED: no attributes in the temporary directory: {error}"),
        }
    }
    let wanted: &[(&[u8], &str)] =
        &[(b"f\xFF", "f"), (b"d\xFF", "d"), (b"l\xFF", "l"), (b"kept\xFF", "kept"), (b"taken\xFF", "taken")];
    let plan = plan(&root, wanted);
    fs::write(root.join("taken"), "in the way").unwrap();
    let journal = dir.path().join("journal");
    let options = ApplyOptions { keep_original: true, ..OPTIONS };
    let tally = apply_plan(&plan, &journal, options, &Recorder::default()).unwrap();
    assert_eq!(tally.not_kept.values().sum::<u64>(), 1, "the link cannot have one: {:?}", tally.not_kept);
    assert_eq!((attribute(b"f"), attribute(b"d")), (Ok(b"f\xFF".to_vec()), Ok(b"d\xFF".to_vec())));
    assert_eq!(attribute(b"kept"), Ok(b"from long ago".to_vec()), "the first name is the original one");
    assert_eq!(
        attribute(b"taken\xFF"),
        Err(Errno::ENODATA),
        "a file that keeps its name has no original name"
    );
    undo_journal(&journal, &Recorder::default()).unwrap();
    for name in [&b"f\xFF"[..], b"d\xFF"] {
        assert_eq!(attribute(name), Err(Errno::ENODATA));
    }
    assert_eq!(attribute(b"kept\xFF"), Ok(b"from long ago".to_vec()));
}

/// A mount of namegate; unmounted on drop.
struct Gate {
    server: Child,
    _mounted: TestMount,
}

impl Drop for Gate {
    fn drop(&mut self) {
        let _ = umount2(&self._mounted.0, MntFlags::MNT_DETACH);
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn gate(source: &Path, point: &Path, args: &[&str]) -> Option<Gate> {
    if !geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        println!("SKIPPED: mounting needs root and /dev/fuse");
        return None;
    }
    let device = fs::metadata(point).unwrap().dev();
    let mut command = Command::new(env!("CARGO_BIN_EXE_namegate"));
    command.arg("mount").args([source, point]).args(args).stderr(Stdio::null());
    let server = command.spawn().unwrap();
    let gate = Gate { server, _mounted: TestMount(point.to_path_buf()) };
    let begun = Instant::now();
    while fs::metadata(point).map_or(true, |meta| meta.dev() == device) {
        assert!(begun.elapsed() < Duration::from_secs(60), "the mount does not appear");
        std::thread::sleep(Duration::from_millis(5));
    }
    Some(gate)
}

#[test]
fn names_are_repaired_through_a_mount_and_ill_formed_names_are_not_restored() {
    let (dir, root) = make_tree(&[b"caf\xE9.txt", b"d\xFF/", b"d\xFF/x\xFE", b"a", b"b", b"link -> d\xFF"]);
    let point = dir.path().join("mnt");
    fs::create_dir(&point).unwrap();
    let Some(_gate) = gate(&root, &point, &[]) else { return };
    let before = snapshot(&root);
    // The mount shows ill-formed names escaped.
    let [cafe, d, x] = [&b"caf\xE9.txt"[..], b"d\xFF", b"x\xFE"].map(|name| escape(name).into_owned());
    let in_d = format!("{d}/{x}");
    let wanted: &[(&[u8], &str)] = &[
        (cafe.as_bytes(), "café.txt"),
        (d.as_bytes(), "d"),
        (in_d.as_bytes(), "x"),
        (b"a", "b"),
        (b"b", "a"),
    ];
    let plan = plan(&point, wanted);
    let journal = dir.path().join("journal");
    let recorder = Recorder::default();
    let tally = apply_plan(&plan, &journal, OPTIONS, &recorder).unwrap();
    assert_eq!((recorder.remaining(), tally.renamed), (Vec::new(), 5));
    assert!(root.join("café.txt").exists() && root.join("d/x").exists());
    // Restoring an ill-formed name would create it, which the mount refuses.
    let recorder = Recorder::default();
    let tally = undo_journal(&journal, &recorder).unwrap();
    assert_eq!((tally.restored, tally.remaining), (2, 3));
    // The mount answers EINVAL, like a file system without RENAME_NOREPLACE.
    assert!(
        recorder.remaining().iter().all(|(_, reason)| reason.starts_with("the file system rejects the name")),
        "{recorder:?}"
    );
    let after = snapshot(&root);
    assert_eq!(after.len(), before.len(), "nothing is lost");
    assert!(after.contains_key(&b"d/x"[..]) && after.contains_key(&b"a"[..]));
}

/// Applies renames, each to a name that the directory considers equal to the old one, and undoes them.
fn assert_renamed_to_aliases(seen: &Path, backing: &Path, wanted: &[(&[u8], &str)]) {
    let plan = plan(seen, wanted);
    let before = snapshot(backing);
    let dir = tempfile::tempdir().unwrap();
    let journal = dir.path().join("journal");
    let recorder = Recorder::default();
    let tally = apply_plan(&plan, &journal, OPTIONS, &recorder).unwrap();
    assert_eq!((recorder.remaining(), tally.renamed), (Vec::new(), wanted.len() as u64));
    let after = snapshot(backing);
    assert_eq!(after.len(), before.len());
    for (old, new) in wanted {
        assert_eq!(after[new.as_bytes()].ino, before[*old].ino, "{new}");
    }
    let tally = apply_plan(&plan, &dir.path().join("second"), OPTIONS, &Recorder::default()).unwrap();
    assert_eq!((tally.renamed, tally.already), (0, wanted.len() as u64), "a second run has nothing to do");
    let recorder = Recorder::default();
    undo_journal(&journal, &recorder).unwrap();
    assert_eq!(recorder.remaining(), []);
    assert_eq!(names(&snapshot(backing)), names(&before));
}

#[test]
fn a_file_can_be_renamed_to_a_name_that_the_mount_considers_equal() {
    let (dir, root) = make_tree(&["re\u{301}sume\u{301}".as_bytes(), "u\u{308}".as_bytes(), b"plain"]);
    let point = dir.path().join("mnt");
    fs::create_dir(&point).unwrap();
    let Some(_gate) = gate(&root, &point, &["--normalize", "nfc", "--on-mismatch", "match"]) else { return };
    let wanted: &[(&[u8], &str)] = &[
        ("re\u{301}sume\u{301}".as_bytes(), "r\u{E9}sum\u{E9}"),
        ("u\u{308}".as_bytes(), "\u{FC}"),
        (b"plain", "simple"),
    ];
    assert_renamed_to_aliases(&point, &root, wanted);
}

#[test]
fn a_file_can_be_renamed_to_a_name_that_differs_only_in_ignored_case() {
    let dir = tempfile::tempdir().unwrap();
    let Some(mounted) = tmpfs(&dir.path().join("tmpfs"), "size=1m,casefold") else { return };
    let folded = mounted.0.join("folded");
    fs::create_dir(&folded).unwrap();
    let flagged = Command::new("chattr").arg("+F").arg(&folded).status();
    if !flagged.is_ok_and(|status| status.success()) {
        return println!("SKIPPED: chattr cannot make a directory that ignores case");
    }
    make(&folded, &[b"readme", b"TEST", b"other"]);
    assert_renamed_to_aliases(
        &folded,
        &folded,
        &[(b"readme", "README"), (b"TEST", "test"), (b"other", "new")],
    );
}
