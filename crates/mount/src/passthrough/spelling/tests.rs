use std::fs;
use std::sync::atomic::AtomicUsize;
use std::time::{SystemTime, UNIX_EPOCH};

use namegate_core::gate::{Gate, Intent, Mode};
use namegate_core::name::normalize::Form;
use namegate_core::policy::{Normalization, OnMismatch, Policy};
use tempfile::TempDir;

use super::*;
use crate::passthrough::{Caller, NewEntry, PassthroughSettings};

/// The equivalence of a gate, with a count of the keys that were computed: one for each entry of a directory that is read.
#[derive(Debug)]
struct Counting {
    gate: Gate,
    keys: AtomicUsize,
}

impl NameEquivalence for Counting {
    fn key<'n>(&self, name: &'n OsStr) -> Cow<'n, OsStr> {
        self.keys.fetch_add(1, Relaxed);
        self.gate.key(name)
    }

    fn has_other_spellings(&self, name: &OsStr) -> bool {
        self.gate.has_other_spellings(name)
    }

    fn admitted(&self, stored: &OsStr) -> Option<Admitted<'static>> {
        Some(self.gate.show(stored)?.admitted.into_owned())
    }
}

struct Tree {
    dir: TempDir,
    tree: Passthrough,
    equivalence: Arc<Counting>,
}

const ROOT: NodeId = NodeId::ROOT;

impl Tree {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let source = fs::File::open(dir.path()).unwrap();
        let normalization = Normalization { form: Form::Nfc, on_mismatch: OnMismatch::Match };
        let policy = Policy::builder().normalization(normalization).build().unwrap();
        let gate = Gate::new(Arc::new(policy), Mode::Enforcing);
        let equivalence = Arc::new(Counting { gate, keys: AtomicUsize::new(0) });
        let tree = Passthrough::new(
            source.into(),
            PassthroughSettings { cached_fds: 4, ..PassthroughSettings::default() },
        )
        .unwrap();
        Self { dir, tree, equivalence }
    }

    fn equivalence(&self) -> Arc<dyn NameEquivalence> {
        self.equivalence.clone()
    }

    fn write(&self, name: &str) {
        fs::write(self.dir.path().join(name), "").unwrap();
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.dir.path().join(name)).unwrap();
    }

    fn name<'n>(&self, name: &'n str) -> Admitted<'n> {
        self.equivalence.gate.admit(Intent::Address, OsStr::new(name)).unwrap()
    }

    fn finds(&self, name: &str) -> bool {
        match self.tree.lookup_equivalent(&self.equivalence(), ROOT, &self.name(name)) {
            Ok((entry, _)) => {
                self.tree.forget(entry.node, 1);
                true
            }
            Err(error) => {
                assert_eq!(error, Errno::ENOENT);
                false
            }
        }
    }

    fn mkdir(&self, name: &str) -> Result<LookupEntry> {
        let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
        let myself = Caller { uid, gid, pid: 0, group: None, umask: 0, uses_alias: false };
        let mkdir =
            |name: &Admitted<'_>| self.tree.make(&myself, ROOT, name, NewEntry::Directory { mode: 0o700 });
        self.tree.change_equivalent(Some(&self.equivalence()), ROOT, &self.name(name), mkdir)
    }

    fn rmdir(&self, name: &str) -> Result<()> {
        self.tree.change_equivalent(Some(&self.equivalence()), ROOT, &self.name(name), |name| {
            self.tree.rmdir(0, ROOT, name)
        })
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.tree.change_two_equivalent(
            Some(&self.equivalence()),
            (ROOT, &self.name(from)),
            (ROOT, &self.name(to)),
            true,
            |from, to| self.tree.rename(&super::super::tests::myself(), ROOT, from, ROOT, to, 0),
        )
    }

    /// Number of keys that `work` computes.
    fn keys(&self, work: impl FnOnce()) -> usize {
        let before = self.equivalence.keys.load(Relaxed);
        work();
        self.equivalence.keys.load(Relaxed) - before
    }

    fn index(&self) -> Option<(Vec<String>, bool)> {
        let slot = self.tree.spellings.slot(ROOT);
        let index = slot.lock();
        let index = index.as_ref()?;
        Some((index.names.iter().map(|name| name.to_str().unwrap().into()).collect(), index.is_settled))
    }

    /// Marks the index as read when the directory had not changed for a long time.
    fn settle(&self) {
        let slot = self.tree.spellings.slot(ROOT);
        slot.lock().as_mut().unwrap().is_settled = true;
    }
}

#[test]
fn a_directory_is_read_only_for_a_name_that_is_not_there_as_given_and_could_be_spelt_otherwise() {
    let t = Tree::new();
    for name in ["plain", "é", "日本", "u\u{308}"] {
        t.write(name);
    }
    let cheap = t.keys(|| {
        assert!(t.finds("plain") && t.finds("é") && t.finds("日本") && t.finds("u\u{308}"));
        assert!(!t.finds("absent") && !t.finds("無"));
        assert!(t.finds("e\u{301}"), "there under its key");
        assert!(t.index().is_none());
    });
    assert_eq!(cheap, 0);
    // `.` and `..` are among the entries, and the one that is found is compared.
    assert_eq!(t.keys(|| assert!(t.finds("ü"))), 7);
    assert_eq!(t.index().unwrap().0, ["u\u{308}"]);
}

#[test]
fn a_settled_index_holds_until_the_directory_changes() {
    let t = Tree::new();
    t.write("u\u{308}");
    assert!(t.finds("ü"));
    assert_eq!(t.index(), Some((vec!["u\u{308}".into()], false)), "it has just been changed");
    t.settle();
    let compared = t.keys(|| assert!(t.finds("ü") && !t.finds("ö") && !t.finds("o\u{308}")));
    assert_eq!(compared, 1);
    t.write("o\u{308}");
    assert!(t.finds("ö"));
    t.settle();
    t.remove("u\u{308}");
    assert!(!t.finds("ü"));
    t.settle();
    // A change that does not show in the times of the directory: an indexed entry that is missing is looked for again.
    fs::rename(t.dir.path().join("o\u{308}"), t.dir.path().join("u\u{308}")).unwrap();
    let slot = t.tree.spellings.slot(ROOT);
    slot.lock().as_mut().unwrap().stamp =
        DirectoryStamp::read(fs::File::open(t.dir.path()).unwrap()).unwrap();
    drop(slot);
    assert!(!t.finds("ö"));
    assert!(t.finds("ü"));
}

#[test]
fn an_index_that_is_not_settled_is_read_again_in_time() {
    let t = Tree::new();
    t.write("u\u{308}");
    assert!(t.finds("ü"));
    let slot = t.tree.spellings.slot(ROOT);
    slot.lock().as_mut().unwrap().cost = Duration::from_secs(3600);
    assert_eq!(t.keys(|| assert!(!t.finds("ö"))), 0);
    slot.lock().as_mut().unwrap().cost = Duration::ZERO;
    assert_eq!(t.keys(|| assert!(!t.finds("ö"))), 3);
}

#[test]
fn a_directory_that_is_changed_through_here_again_and_again_is_read_once_in_the_time_that_names_are_kept() {
    let t = Tree::new();
    t.write("u\u{308}");
    let work = || {
        for i in 0..20 {
            let name = format!("é{i}");
            assert!(!t.finds(&name));
            t.mkdir(&name).unwrap();
            t.rmdir(&name).unwrap();
            std::thread::sleep(Duration::from_millis(2));
        }
    };
    // Reading an empty directory takes some microseconds.
    assert!(t.keys(work) > 20 * 3, "it is read again and again");
    t.tree.hold_spellings(Duration::from_secs(3600));
    // One key for each change.
    assert_eq!(t.keys(work), 40);
    // A change that was not made through this mount is noticed all the same.
    t.write("o\u{308}");
    assert!(t.finds("ö"));
}

#[test]
fn a_directory_that_was_left_alone_is_settled_when_it_is_read() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    let at = |seconds| is_settled((seconds, 0));
    assert!(at(now - 10) && at(0) && at(-5));
    assert!(!at(now) && !at(now - 2));
    assert!(!at(now + 3600) && !at(i64::MAX), "of a clock that is ahead");
}

#[test]
fn own_changes_are_carried_forward_without_reading_the_directory_again() {
    let t = Tree::new();
    t.write("u\u{308}");
    assert!(t.finds("ü"));
    let slot = t.tree.spellings.slot(ROOT);
    // Otherwise the directory would be read again in between.
    slot.lock().as_mut().unwrap().cost = Duration::from_secs(3600);
    let keys = t.keys(|| {
        t.mkdir("plain").unwrap();
        t.mkdir("o\u{308}").unwrap();
        assert_eq!(t.mkdir("ö").err(), Some(Errno::EEXIST));
        t.mkdir("ä").unwrap();
        assert!(t.finds("ö") && t.finds("ü") && t.finds("a\u{308}"));
        t.rename("ö", "e\u{301}").unwrap();
        assert!(!t.finds("ö") && t.finds("é"));
        t.rmdir("é").unwrap();
        assert!(!t.finds("é") && !t.finds("e\u{301}"));
    });
    // One for each entry that was changed, two for a rename, and one for each that was found in the index.
    assert_eq!(keys, 7 + 6);
    assert_eq!(t.index(), Some((vec!["u\u{308}".into()], false)));
    // A change that was not made through this mount drops the index.
    t.write("o\u{308}");
    t.mkdir("more").unwrap();
    assert_eq!(t.index(), None);
    assert!(t.finds("ö"));
}

#[test]
fn what_is_kept_is_bounded_and_what_is_too_much_is_found_all_the_same() {
    let mut t = Tree::new();
    t.tree.spellings.limits = IndexLimits { directories: 3, bytes: 1200 };
    let subdirs: Vec<_> = (0..6).map(|i| t.mkdir(&format!("{i}")).unwrap().node).collect();
    let find = |t: &Tree, parent, name: &str| {
        t.tree.lookup_equivalent(&t.equivalence(), parent, &t.name(name)).is_ok()
    };
    for (i, &node) in subdirs.iter().enumerate() {
        for n in 0..4 {
            t.write(&format!("{i}/{n}u\u{308}"));
        }
        assert!(find(&t, node, "3ü"));
        let kept = t.tree.spellings.kept.lock();
        assert!(kept.directories.len() <= 3 && kept.bytes <= 1200, "{kept:?}");
        assert!(kept.directories.contains_key(&node), "the last one is kept");
        assert_eq!(kept.bytes, kept.directories.values().map(|slot| slot.bytes).sum::<usize>());
    }
    for n in 0..30 {
        t.write(&format!("0/{n} o\u{308}"));
    }
    for n in 0..30 {
        assert!(find(&t, subdirs[0], &format!("{n} ö")), "{n}");
    }
    assert!(!find(&t, subdirs[0], "30 ö"));
}
