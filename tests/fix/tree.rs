//! Test trees, plans for them, and snapshots.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use namegate_core::policy::Confidence;
use namegate_files::json::Base64;
use namegate_fix::apply::{ApplyOptions, ApplyTally, apply};
use namegate_fix::entry::look_up;
use namegate_fix::journal::{Journal, JournalHeader, VERSION};
use namegate_fix::plan::{
    FileKind, InodeTime, PlanDirectory, PlanHeader, PlanRoot, Rename, Retarget, SeenBirth, SeenEntry,
    TargetPart, components,
};
use namegate_fix::progress::{ChangeObserver, Remaining};
use namegate_fix::roots::PlanRoots;
use namegate_fix::stored_plan::StoredPlan;
use namegate_fix::undo::{UndoTally, undo};
use namegate_scan::progress::Observer;

use crate::whole_plan::Plan;

/// One entry, with everything that a rename must not change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    pub ino: u64,
    pub what: EntryContent,
    pub mtime: (i64, i64),
}

/// The type and content of an entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryContent {
    Directory,
    File(Vec<u8>),
    Link(Vec<u8>),
    Special,
}

/// Everything below `root`, by path.
pub type Snapshot = BTreeMap<Vec<u8>, Entry>;

pub fn snapshot(root: &Path) -> Snapshot {
    let mut found = Snapshot::new();
    read(root, b"", &mut found);
    found
}

fn read(dir: &Path, prefix: &[u8], found: &mut Snapshot) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().as_bytes();
        let key = if prefix.is_empty() { name.to_vec() } else { [prefix, b"/", name].concat() };
        let meta = fs::symlink_metadata(&path).unwrap();
        let what = match meta.file_type() {
            kind if kind.is_dir() => EntryContent::Directory,
            kind if kind.is_symlink() => {
                EntryContent::Link(fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec())
            }
            kind if kind.is_fifo() => EntryContent::Special,
            _ => EntryContent::File(fs::read(&path).unwrap()),
        };
        let mtime = (meta.mtime(), meta.mtime_nsec());
        if what == EntryContent::Directory {
            read(&path, &key, found);
        }
        assert!(found.insert(key, Entry { ino: meta.ino(), what, mtime }).is_none());
    }
}

/// The snapshot without attributes that may change: times of directories, and inode numbers of links.
pub fn names(snapshot: &Snapshot) -> BTreeMap<Vec<u8>, (Option<u64>, EntryContent)> {
    let name = |(path, entry): (&Vec<u8>, &Entry)| {
        let ino = (!matches!(entry.what, EntryContent::Link(_))).then_some(entry.ino);
        (path.clone(), (ino, entry.what.clone()))
    };
    snapshot.iter().map(name).collect()
}

/// All entries regardless of their paths. None may ever be lost.
pub fn inventory(snapshot: &Snapshot) -> Vec<(Option<u64>, Option<EntryContent>)> {
    let belonging = |entry: &Entry| match &entry.what {
        // A retargeted link is a new inode with another target.
        EntryContent::Link(_) => (None, None),
        what => (Some(entry.ino), Some(what.clone())),
    };
    let mut all: Vec<_> = snapshot.values().map(belonging).collect();
    all.sort();
    all
}

/// Creates the entries of `lines` below `root`: `dir/`, `file`, `link -> target`, `name = other` for a hard link.
pub fn make(root: &Path, lines: &[&[u8]]) {
    for line in lines {
        let split = |by: &[u8]| {
            let at = line.windows(by.len()).position(|window| window == by)?;
            Some((&line[..at], &line[at + by.len()..]))
        };
        let path = |name: &[u8]| root.join(OsStr::from_bytes(name));
        if let Some((name, target)) = split(b" -> ") {
            symlink(OsStr::from_bytes(target), path(name)).unwrap();
        } else if let Some((name, other)) = split(b" = ") {
            fs::hard_link(path(other), path(name)).unwrap();
        } else if let Some(name) = line.strip_suffix(b"/") {
            fs::create_dir_all(path(name)).unwrap();
        } else {
            fs::write(path(line), [b"content of ", *line].concat()).unwrap();
        }
    }
}

/// A plan that gives each path below `root` its new name, and retargets links to entries below the directory of the link.
pub fn plan(root: &Path, renames: &[(&[u8], &str)]) -> Plan {
    let root = fs::canonicalize(root).unwrap();
    let mut directories = HashMap::<Vec<u8>, Arc<PlanDirectory>>::new();
    let mut make_tree = |path: &[u8]| {
        let full = root.join(OsStr::from_bytes(path));
        let parent = full.parent().unwrap().to_path_buf();
        let key = parent.as_os_str().as_bytes().to_vec();
        let directory = directories.entry(key.clone()).or_insert_with(|| {
            let inode = fs::metadata(&parent).unwrap().ino();
            Arc::new(PlanDirectory { path: key, inode, handle: None })
        });
        let meta = fs::symlink_metadata(&full).unwrap();
        let ctime = InodeTime { seconds: meta.ctime(), nanoseconds: meta.ctime_nsec() as u32 };
        let kind = FileKind::from_mode(meta.mode()).unwrap();
        let birth = meta.created().ok().map(|_| birth(&full));
        let entry = SeenEntry { inode: meta.ino(), ctime, kind, birth };
        (Arc::clone(directory), full.file_name().unwrap().as_bytes().to_vec(), entry)
    };
    let mut ids = HashMap::new();
    let mut records = Vec::new();
    for (number, (path, new)) in renames.iter().enumerate() {
        let (directory, old, entry) = make_tree(path);
        let id = number as u64 + 1;
        ids.insert(path.to_vec(), (id, new.as_bytes()));
        records.push(Rename {
            id,
            directory,
            old,
            new: (*new).to_owned(),
            entry,
            reasons: Vec::new(),
            confidence: Confidence::Certain,
            reading: "test".into(),
            evidence: None,
            alternatives: Vec::new(),
        });
    }
    let mut retargets = Vec::new();
    for (path, entry) in snapshot(&root) {
        let EntryContent::Link(target) = entry.what else { continue };
        let mut at = path[..path.iter().rposition(|&byte| byte == b'/').unwrap_or(0)].to_vec();
        let mut after = Vec::new();
        for (component, name) in components(&target).enumerate() {
            at = if at.is_empty() { name.to_vec() } else { [&at, &b"/"[..], name].concat() };
            if let Some((rename, _)) = ids.get(&at) {
                after.push(TargetPart { rename: *rename, component });
            }
        }
        if !after.is_empty() && !target.starts_with(b"/") {
            let (directory, name, entry) = make_tree(&path);
            let mut retarget =
                Retarget { directory, name, entry, old_target: target.clone(), new_target: target, after };
            let names: HashMap<u64, &[u8]> = ids.values().copied().collect();
            retarget.new_target = retarget.target(|id| names.get(&id).copied());
            retargets.push(retarget);
        }
    }
    let inode = fs::metadata(&root).unwrap().ino();
    let header = PlanHeader {
        roots: vec![PlanRoot { path: root.as_os_str().as_bytes().to_vec(), inode }],
        ..PlanHeader::default()
    };
    let plan = Plan { header, renames: records, retargets, skipped: Vec::new() };
    // The plan survives writing and parsing.
    assert_eq!(Plan::parse(text(&plan).as_bytes()).unwrap(), plan);
    plan
}

/// The birth time and the content of an entry, as statx(2) returns them.
fn birth(path: &Path) -> SeenBirth {
    let dir = fs::File::open(path.parent().unwrap()).unwrap();
    let stat = look_up(&dir, path.file_name().unwrap().as_bytes()).unwrap().unwrap();
    SeenBirth { born: stat.btime.unwrap().into(), mtime: stat.mtime.into(), size: stat.size }
}

/// The plan as the text of a file.
pub fn text(plan: &Plan) -> String {
    let retargets = plan.retargets.iter().map(Retarget::to_line);
    let renames = plan.renames.iter().map(Rename::to_line);
    let lines = [plan.header.to_line()].into_iter().chain(renames).chain(retargets);
    lines.map(|line| line + "\n").collect()
}

/// Records the names and reasons of entries that remain.
#[derive(Debug, Default)]
pub struct Recorder(Mutex<Vec<(Vec<u8>, String)>>);

impl Recorder {
    /// The records, sorted.
    pub fn remaining(&self) -> Vec<(Vec<u8>, String)> {
        let mut remaining = self.0.lock().unwrap().clone();
        remaining.sort();
        remaining
    }
}

impl Observer for Recorder {}

impl ChangeObserver for Recorder {
    fn remains(&self, remaining: &Remaining) {
        self.0.lock().unwrap().push((remaining.old.to_vec(), remaining.reason.clone()));
    }
}

/// Default options of the tests: batches so small that every plan has several.
pub const OPTIONS: ApplyOptions<'static> = ApplyOptions {
    policy: None,
    at_least: Confidence::Guess,
    keep_times: false,
    keep_original: false,
    batch_size: 2,
};

/// The plan as it is applied, with its roots.
fn stored(plan: &Plan) -> (StoredPlan, PlanRoots) {
    let stored = StoredPlan::read(text(plan).as_bytes()).unwrap();
    let roots = PlanRoots::open(&plan.header.roots, stored.new_names().unwrap(), false).unwrap();
    (stored, roots)
}

/// Creates a journal for the plan.
pub fn begin(
    plan: &Plan,
    path: &Path,
    options: ApplyOptions<'_>,
    observer: &dyn ChangeObserver,
) -> io::Result<Journal> {
    let header = JournalHeader {
        version: VERSION,
        namegate: String::new(),
        started: String::new(),
        plan: Base64(Vec::new()),
        plan_bytes: 0,
        plan_check: String::new(),
        at_least: options.at_least,
        roots: plan.header.roots.clone(),
        renames: plan.renames.len() as u64,
        retargets: plan.retargets.len() as u64,
        keep_times: options.keep_times,
        keep_original: options.keep_original,
        cross_file_systems: false,
        git: false,
        decisions: None,
    };
    Journal::create(path, header, observer)
}

/// Applies a plan with a new journal.
pub fn apply_plan(
    plan: &Plan,
    path: &Path,
    options: ApplyOptions<'_>,
    observer: &dyn ChangeObserver,
) -> io::Result<ApplyTally> {
    let mut journal = begin(plan, path, options, observer)?;
    let (plan, roots) = stored(plan);
    apply(&plan, roots, &mut journal, None, options, observer)
}

/// Resumes an interrupted run.
pub fn resume_plan(
    plan: &Plan,
    path: &Path,
    options: ApplyOptions<'_>,
    observer: &dyn ChangeObserver,
) -> io::Result<ApplyTally> {
    let (mut journal, contents) = Journal::resume(path).unwrap();
    let (plan, roots) = stored(plan);
    apply(&plan, roots, &mut journal, Some(&contents), options, observer)
}

/// Undoes the changes in a journal.
pub fn undo_journal(path: &Path, observer: &dyn ChangeObserver) -> io::Result<UndoTally> {
    let (mut journal, contents) = Journal::resume(path).unwrap();
    undo(&mut journal, &contents, "now".into(), observer)
}

/// Creates a directory with a subdirectory `tree` that has the entries of `lines`.
pub fn make_tree(lines: &[&[u8]]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("tree");
    fs::create_dir(&root).unwrap();
    make(&root, lines);
    (dir, root)
}
