//! Kills the process at every possible point; the run must then be resumable, and undoable.

use std::collections::HashSet;
use std::fmt::Display;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::{self, ThreadId};

use namegate_fix::apply::ApplyOptions;
use namegate_fix::progress::{ChangeObserver, KillPoint, Remaining};
use namegate_scan::progress::Observer;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::tree::{
    EntryContent, OPTIONS, Recorder, Snapshot, apply_plan, begin, inventory, make, make_tree, names, plan,
    resume_plan, snapshot, text, undo_journal,
};
use crate::whole_plan::Plan;
use namegate_testkit::random::Random;

/// Environment variable with the task of the child: `apply|resume|undo KILL_POINT KEEP_TIMES BATCH_SIZE DIRECTORY`.
const TASK: &str = "NAMEGATE_TEST_CRASH";

const TREE: &[&[u8]] = &[
    b"d\xE9/",
    b"d\xE9/e\xFF/",
    b"d\xE9/e\xFF/f\xFE",
    b"d\xE9/e\xFF/g",
    b"d\xE9/a",
    b"d\xE9/b",
    b"d\xE9/c",
    b"s",
    b"t",
    b"hard = t",
    b"chain1",
    b"chain2",
    b"link -> d\xE9/e\xFF/f\xFE",
    b"link2 -> d\xE9/e\xFF",
    b"link3 -> d\xE9/a",
    b"stays",
];

const RENAMES: &[(&[u8], &str)] = &[
    (b"d\xE9", "dé"),
    (b"d\xE9/e\xFF", "e"),
    (b"d\xE9/e\xFF/f\xFE", "f"),
    (b"d\xE9/a", "b"),
    (b"d\xE9/b", "c"),
    (b"d\xE9/c", "a"),
    (b"s", "t"),
    (b"t", "s"),
    (b"chain1", "chain2"),
    (b"chain2", "chain3"),
    (b"link", "Link"),
];

/// Kills the process at the kill point with the number `at`.
struct KillAt {
    points: AtomicU64,
    at: u64,
    /// The file that gets the length of the journal after each sync.
    synced: PathBuf,
}

impl ChangeObserver for KillAt {
    fn reached(&self, point: KillPoint) {
        if let KillPoint::Synced(len) = point {
            fs::write(&self.synced, len.to_string()).unwrap();
        }
        if self.points.fetch_add(1, Relaxed) == self.at {
            kill(Pid::this(), Signal::SIGKILL).unwrap();
        }
    }

    fn remains(&self, remaining: &Remaining) {
        panic!("{remaining:?}");
    }
}

impl Observer for KillAt {
    fn problem(&self, problem: &dyn Display) {
        panic!("{problem}");
    }
}

/// How a plan is applied: with times and original names or not, in batches of so many renames.
#[derive(Clone, Copy)]
struct Style {
    keep_times: bool,
    batch_size: usize,
}

const PLAIN: Style = Style { keep_times: false, batch_size: 2 };

const KEEPING: Style = Style { keep_times: true, batch_size: 2 };

/// All renames are intentions of one batch, so the process dies before and after each of them.
const ONE_BATCH: Style = Style { keep_times: false, batch_size: 100 };

impl Style {
    fn options(self) -> ApplyOptions<'static> {
        let Self { keep_times, batch_size } = self;
        ApplyOptions { keep_times, keep_original: keep_times, batch_size, ..OPTIONS }
    }
}

#[test]
#[ignore = "other tests start this one, as the process that is killed"]
fn child() {
    let Ok(task) = std::env::var(TASK) else { return };
    let [what, at, keep_times, batch_size, dir]: [&str; 5] =
        task.splitn(5, ' ').collect::<Vec<_>>().try_into().unwrap();
    let dir = Path::new(dir);
    let plan = Plan::parse(&fs::read(dir.join("plan")).unwrap()).unwrap();
    let killer = KillAt { points: AtomicU64::new(0), at: at.parse().unwrap(), synced: dir.join("synced") };
    let style = Style { keep_times: keep_times == "true", batch_size: batch_size.parse().unwrap() };
    let (journal, options) = (dir.join("journal"), style.options());
    match what {
        "apply" => drop(apply_plan(&plan, &journal, options, &killer).unwrap()),
        "resume" => drop(resume_plan(&plan, &journal, options, &killer).unwrap()),
        _ => drop(undo_journal(&journal, &killer).unwrap()),
    }
}

/// Runs a child and returns whether it was killed; otherwise it has finished.
fn is_killed(what: &str, at: u64, style: Style, dir: &Path) -> bool {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "--ignored", "crash::child"]);
    let Style { keep_times, batch_size } = style;
    let task = format!("{what} {at} {keep_times} {batch_size} {}", dir.display());
    let output = command.env(TASK, task).output().unwrap();
    assert!(
        output.status.success() || output.status.signal() == Some(9),
        "{what} {at}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    !output.status.success()
}

/// A tree with its plan beside it.
struct Case {
    dir: tempfile::TempDir,
    root: PathBuf,
    plan: Plan,
    before: Snapshot,
}

impl Case {
    fn new() -> Self {
        Self::with(TREE, RENAMES)
    }

    fn with(tree: &[&[u8]], renames: &[(&[u8], &str)]) -> Self {
        let (dir, root) = make_tree(tree);
        let plan = plan(&root, renames);
        fs::write(dir.path().join("plan"), text(&plan)).unwrap();
        Self { before: snapshot(&root), dir, root, plan }
    }

    fn journal(&self) -> PathBuf {
        self.dir.path().join("journal")
    }

    /// Asserts that the whole plan was applied.
    fn assert_done(&self, context: &str) {
        let after = snapshot(&self.root);
        for (now, old) in [
            (&b"d\xC3\xA9/e/f"[..], &b"d\xE9/e\xFF/f\xFE"[..]),
            (b"d\xC3\xA9/e/g", b"d\xE9/e\xFF/g"),
            (b"d\xC3\xA9/b", b"d\xE9/a"),
            (b"d\xC3\xA9/c", b"d\xE9/b"),
            (b"d\xC3\xA9/a", b"d\xE9/c"),
            (b"t", b"s"),
            (b"s", b"t"),
            (b"hard", b"hard"),
            (b"chain2", b"chain1"),
            (b"chain3", b"chain2"),
            (b"stays", b"stays"),
        ] {
            let entry = after.get(now).unwrap_or_else(|| panic!("{context}: {}", now.escape_ascii()));
            assert_eq!(entry.ino, self.before[old].ino, "{context}: {}", now.escape_ascii());
        }
        assert_eq!(after.len(), self.before.len(), "{context}: there are no other entries");
        assert_eq!(inventory(&after), inventory(&self.before), "{context}");
        for (link, target) in [("Link", "dé/e/f"), ("link2", "dé/e"), ("link3", "dé/b")] {
            let found = fs::read_link(self.root.join(link)).unwrap();
            assert_eq!(found.as_os_str().as_bytes(), target.as_bytes(), "{context}: {link}");
        }
    }

    fn assert_as_before(&self, keep_times: bool, context: &str) {
        let now = snapshot(&self.root);
        assert_eq!(names(&now), names(&self.before), "{context}");
        if keep_times {
            for (path, entry) in &self.before {
                assert_eq!(now[path].mtime, entry.mtime, "{context}: {}", path.escape_ascii());
            }
        }
    }

    fn finish(&self, style: Style) {
        let recorder = Recorder::default();
        resume_plan(&self.plan, &self.journal(), style.options(), &recorder).unwrap();
        assert_eq!(recorder.remaining(), []);
    }

    fn undo(&self) {
        let recorder = Recorder::default();
        undo_journal(&self.journal(), &recorder).unwrap();
        assert_eq!(recorder.remaining(), []);
    }
}

#[test]
fn a_run_killed_at_any_point_can_be_resumed_and_undone() {
    for style in [PLAIN, KEEPING, ONE_BATCH] {
        let mut at = 0;
        loop {
            let context = format!("batches of {}, killed at point {at}", style.batch_size);
            let ended = Case::new();
            if !is_killed("apply", at, style, ended.dir.path()) {
                ended.assert_done("not killed");
                break;
            }
            assert_eq!(inventory(&without_temporary(&ended)), inventory(&ended.before), "{context}");
            if at < 2 {
                // The journal may be empty, and nothing was renamed.
                ended.assert_as_before(true, &context);
                at += 1;
                continue;
            }
            ended.finish(style);
            ended.assert_done(&context);
            ended.undo();
            ended.assert_as_before(style.keep_times, &context);
            let taken_back = Case::new();
            assert!(is_killed("apply", at, style, taken_back.dir.path()));
            taken_back.undo();
            taken_back.assert_as_before(style.keep_times, &context);
            at += 1;
        }
        assert!(at > if style.batch_size > RENAMES.len() { 25 } else { 35 }, "only {at} points");
    }
}

/// Names in which a backslash was a separator.
const SEPARATED: &[&[u8]] =
    &[b"a\\b\\c", b"a\\d", b"old/", b"old\\x", b"e\xFF\\f", b"sub/", b"sub/a\\b", b"link -> a\\d", b"stays"];

const MOVES: &[(&[u8], &str)] = &[
    (b"sub/a\\b", "a/b"),
    (b"a\\b\\c", "a/b/c"),
    (b"a\\d", "a/d"),
    (b"e\xFF\\f", "e/f"),
    (b"old\\x", "old/x"),
];

#[test]
fn moves_that_are_killed_at_any_point_are_resumed_and_undone_with_their_directories() {
    let case = || Case::with(SEPARATED, MOVES);
    let assert_moved = |case: &Case, context: &str| {
        let now = snapshot(&case.root);
        for (old, new) in MOVES {
            let new = if old.starts_with(b"sub/") { format!("sub/{new}") } else { (*new).to_owned() };
            assert_eq!(now[new.as_bytes()].ino, case.before[*old].ino, "{context}: {new}");
        }
        assert_eq!(now.len(), case.before.len() + 4, "{context}: four directories were made");
        assert_eq!(fs::read_link(case.root.join("link")).unwrap().as_os_str(), "a/d", "{context}");
    };
    for style in [PLAIN, KEEPING, ONE_BATCH] {
        for at in 2.. {
            let context = format!("batches of {}, killed at point {at}", style.batch_size);
            let ended = case();
            let is_killed_here = is_killed("apply", at, style, ended.dir.path());
            if is_killed_here {
                ended.finish(style);
            }
            assert_moved(&ended, &context);
            ended.undo();
            ended.assert_as_before(false, &context);
            let (taken_back, repeated) = (case(), case());
            is_killed("apply", at, style, taken_back.dir.path());
            taken_back.undo();
            taken_back.assert_as_before(false, &context);
            apply_plan(&repeated.plan, &repeated.journal(), style.options(), &Recorder::default()).unwrap();
            let is_undo_killed = is_killed("undo", at, style, repeated.dir.path());
            repeated.undo();
            repeated.assert_as_before(false, &context);
            if !is_killed_here && !is_undo_killed {
                assert!(at > 15, "only {at} points");
                break;
            }
        }
    }
}

#[test]
fn the_next_run_removes_what_a_killed_run_has_left() {
    let is_left = |case: &Case| {
        fs::read_dir(&case.root)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .any(|path| path.is_dir() && path.file_name().unwrap().as_bytes().starts_with(b".namegate-"))
    };
    let mut count = 0;
    for at in 2.. {
        let case = Case::new();
        if !is_killed("apply", at, ONE_BATCH, case.dir.path()) {
            break;
        }
        let left = fs::read_dir(&case.root).unwrap().map(|entry| entry.unwrap().path());
        let is_empty = left
            .filter(|path| path.file_name().unwrap().as_bytes().starts_with(b".namegate-") && path.is_dir())
            .all(|path| fs::read_dir(path).unwrap().count() == 0);
        if is_empty && is_left(&case) {
            count += 1;
            fs::write(case.root.join("other"), "").unwrap();
            let next = plan(&case.root, &[(b"other", "another")]);
            let journal = case.dir.path().join("next");
            apply_plan(&next, &journal, OPTIONS, &Recorder::default()).unwrap();
            assert!(!is_left(&case), "killed at point {at}");
            case.finish(ONE_BATCH);
        }
    }
    assert!(count > 1, "{count} runs left an empty directory");
}

/// The tree without the private directory for new links, and without a link in it that was not moved to its name yet.
fn without_temporary(case: &Case) -> Snapshot {
    let mut now = snapshot(&case.root);
    now.retain(|path, entry| {
        let is_temporary = path.starts_with(b".namegate-");
        !(is_temporary && matches!(entry.what, EntryContent::Link(_) | EntryContent::Directory))
    });
    now
}

#[test]
fn an_undo_killed_at_any_point_can_be_repeated() {
    for style in [PLAIN, KEEPING, ONE_BATCH] {
        let mut at = 0;
        loop {
            let case = Case::new();
            apply_plan(&case.plan, &case.journal(), style.options(), &Recorder::default()).unwrap();
            let is_killed = is_killed("undo", at, style, case.dir.path());
            case.undo();
            case.assert_as_before(style.keep_times, &format!("killed at point {at}"));
            at += 1;
            if !is_killed {
                break;
            }
        }
        assert!(at > if style.batch_size > RENAMES.len() { 25 } else { 35 }, "only {at} points");
    }
}

#[test]
fn runs_and_undos_that_are_killed_repeatedly_finish() {
    for seed in 0..12 {
        let mut random = Random(seed);
        let case = Case::new();
        let mut what = "apply";
        while is_killed(what, 2 + random.below(12) as u64, KEEPING, case.dir.path()) {
            what = "resume";
        }
        case.assert_done(&format!("seed {seed}"));
        while is_killed("undo", 2 + random.below(12) as u64, KEEPING, case.dir.path()) {}
        case.assert_as_before(true, &format!("seed {seed}"));
    }
}

#[test]
fn a_power_failure_loses_nothing_that_the_journal_records() {
    // Everything after the last sync may be lost: the journal is cut at any later byte.
    for at in 2..30 {
        for part in 0..6 {
            let case = Case::new();
            if !is_killed("apply", at, PLAIN, case.dir.path()) {
                return assert!(at > 35, "only {at} points");
            }
            let synced: usize = fs::read_to_string(case.dir.path().join("synced")).unwrap().parse().unwrap();
            let whole = fs::read(case.journal()).unwrap();
            let cut = synced + (whole.len() - synced) * part / 5;
            fs::write(case.journal(), &whole[..cut]).unwrap();
            let context = format!("killed at point {at}, cut at {cut} of {}", whole.len());
            if part % 2 == 0 {
                case.finish(PLAIN);
                case.assert_done(&context);
            }
            case.undo();
            case.assert_as_before(false, &context);
        }
    }
}

#[test]
fn resuming_repeats_renames_that_a_power_failure_lost() {
    let case = Case::new();
    apply_plan(&case.plan, &case.journal(), OPTIONS, &Recorder::default()).unwrap();
    // The journal says that everything was done, but the file system has lost the last renames and the target of the link.
    fs::rename(case.root.join("t"), case.root.join("aside")).unwrap();
    fs::rename(case.root.join("s"), case.root.join("t")).unwrap();
    fs::rename(case.root.join("aside"), case.root.join("s")).unwrap();
    fs::rename(case.root.join("chain2"), case.root.join("chain1")).unwrap();
    case.finish(PLAIN);
    case.assert_done("lost");
    fs::rename(case.root.join("dé"), case.root.join(std::ffi::OsStr::from_bytes(b"d\xE9"))).unwrap();
    case.undo();
    case.assert_as_before(false, "lost");
}

/// Counts the threads that rename.
#[derive(Default)]
struct RenamingThreads(Mutex<HashSet<ThreadId>>);

impl Observer for RenamingThreads {}

impl ChangeObserver for RenamingThreads {
    fn reached(&self, point: KillPoint) {
        if point == KillPoint::Changed {
            self.0.lock().unwrap().insert(thread::current().id());
        }
    }
}

#[test]
fn a_batch_that_several_threads_execute_is_resumed_and_undone_after_a_kill() {
    let files = |prefix: &str, suffix: &str| -> Vec<String> {
        (0..2400).map(|number| format!("{prefix}{}/{number}{suffix}", number % 4)).collect()
    };
    let (old, new) = (files("d", "_"), files("d", "-"));
    let directories = (0..4).map(|number| format!("d{number}/"));
    let entries: Vec<String> = directories.chain(old.iter().cloned()).collect();
    let (dir, root) = make_tree(&entries.iter().map(String::as_bytes).collect::<Vec<_>>());
    let pairs = old.iter().zip(&new).map(|(old, new)| (old.as_bytes(), &new[3..]));
    let plan = plan(&root, &pairs.collect::<Vec<_>>());
    fs::write(dir.path().join("plan"), text(&plan)).unwrap();
    let (before, journal) = (snapshot(&root), dir.path().join("journal"));
    let renamed = |root: &Path| new.iter().filter(|path| root.join(path).exists()).count();
    let style = Style { keep_times: false, batch_size: 16_384 };
    for killed_at in [None, Some(700), Some(2100)] {
        let threads = RenamingThreads::default();
        match killed_at {
            None => drop(apply_plan(&plan, &journal, style.options(), &threads).unwrap()),
            Some(at) => {
                assert!(is_killed("apply", at, style, dir.path()));
                assert!((500..2399).contains(&renamed(&root)), "{at}: {}", renamed(&root));
                resume_plan(&plan, &journal, style.options(), &threads).unwrap();
            }
        }
        assert_eq!(renamed(&root), new.len(), "{killed_at:?}");
        undo_journal(&journal, &threads).unwrap();
        assert_eq!(names(&snapshot(&root)), names(&before), "{killed_at:?}");
        if thread::available_parallelism().is_ok_and(|count| count.get() > 1) {
            assert!(threads.0.lock().unwrap().len() > 1, "{killed_at:?}");
        }
        fs::remove_file(&journal).unwrap();
    }
}

#[test]
fn two_runs_cannot_write_one_journal() {
    let case = Case::new();
    let journal = begin(&case.plan, &case.journal(), OPTIONS, &Recorder::default()).unwrap();
    let refused = namegate_fix::journal::Journal::resume(&case.journal()).unwrap_err();
    assert!(refused.to_string().contains("another process"), "{refused}");
    assert!(begin(&case.plan, &case.journal(), OPTIONS, &Recorder::default()).is_err(), "nor create it");
    drop(journal);
    assert!(namegate_fix::journal::Journal::resume(&case.journal()).is_ok());
    make(&case.root, &[b"new"]);
}
