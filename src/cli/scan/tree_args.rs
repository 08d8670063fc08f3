//! Which part of a directory tree is read, and how: the options, and the source that they make.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::num::{NonZeroU16, NonZeroUsize};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::ValueEnum;
use namegate_core::name::display::shown;
use namegate_findings::location::DirectoryPath;
use namegate_scan::OwnerOf;
use namegate_scan::source::mounts::habit;
use namegate_scan::source::scope::{Exclude, Scope};
use namegate_scan::source::tree::Tree;
use namegate_scan::source::walk::{self, Walk};
use namegate_scan::source::{Frontier, Source};
use namegate_sys::iflags::is_casefolded;
use namegate_sys::mounts::{self, MountEntry};
use namegate_sys::process::processors;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, open};
use nix::sys::stat::{Mode, fstatat};
use nix::sys::statvfs::statvfs;
use parking_lot::Mutex;

use super::resume::ScanScope;
use crate::cli::CliError;
use crate::cli::instances::user;

/// Threads that wait for a disk cost nothing, and with a warm cache four for each processor take 5 % more of its time than
/// one does: docs/PERFORMANCE.md.
const FOR_EACH_PROCESSOR: usize = 4;

/// Each thread has 64 KiB and the names of one directory: more of them need more memory, and no disk is faster for it.
const MOST_JOBS: usize = 32;

/// How many mount points are named.
const SHOWN: usize = 5;

/// The options.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Directory trees")]
pub struct TreeArgs {
    /// Number of threads [default: four per processor, at most 32; for lists and archives one per processor]
    #[arg(short, long, value_name = "N")]
    jobs: Option<NonZeroU16>,
    /// Skip matching names and everything below them (gitignore(5) patterns, relative to each PATH; repeatable)
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
    /// Number of levels to read below a PATH: 1 for its entries, 0 for its own name only
    #[arg(long, value_name = "N")]
    max_depth: Option<usize>,
    /// Skip other file systems mounted below a PATH; the names of their mount points are checked
    #[arg(short = 'x', long)]
    one_file_system: bool,
    /// Follow symbolic links to directories; a loop is reported
    #[arg(short = 'L', long)]
    follow: bool,
    /// Report in the order of the paths, with one thread
    #[arg(long)]
    sort: bool,
    /// Report the owner of each name, in HTML, CSV and JSON
    #[arg(long)]
    owners: bool,
    /// Method of reading directories
    #[arg(long, value_enum, default_value_t = ScanEngine::Auto)]
    engine: ScanEngine,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ScanEngine {
    /// walkdir with --follow or --sort, otherwise getdents
    Auto,
    /// System calls, for any depth
    Getdents,
    /// The library walkdir, for paths of up to 4,095 bytes
    Walkdir,
}

/// Where a scan that can be resumed goes on, and how it is asked to tell how far it has come.
#[derive(Debug, Default)]
pub struct Resumption {
    /// What is left; everything if `None`.
    pub left: Option<Frontier>,
    /// Set when it is to be told what is left.
    pub wanted: Arc<AtomicBool>,
}

impl TreeArgs {
    /// The number of threads.
    pub fn jobs(&self) -> usize {
        let given = self.given_jobs().map(NonZeroUsize::get);
        given.unwrap_or_else(|| (FOR_EACH_PROCESSOR * processors()).min(MOST_JOBS))
    }

    /// The number of threads, if it was given.
    pub fn given_jobs(&self) -> Option<NonZeroUsize> {
        self.jobs.map(NonZeroUsize::from)
    }

    /// Reports whether these options can be used.
    ///
    /// # Errors
    /// An option about trees, although no tree is read.
    pub fn require_tree(&self, has_tree: bool) -> Result<(), CliError> {
        let given = [
            ("--exclude", !self.exclude.is_empty()),
            ("--max-depth", self.max_depth.is_some()),
            ("--one-file-system", self.one_file_system),
            ("--follow", self.follow),
            ("--sort", self.sort),
            ("--owners", self.owners),
            ("--engine", self.engine != ScanEngine::Auto),
        ];
        match given.iter().find(|(_, is_given)| *is_given && !has_tree) {
            Some((option, _)) => Err(CliError::new(format_args!(
                "{option} is about directory trees, and none is scanned: name its PATH, or leave {option} out"
            ))),
            None => Ok(()),
        }
    }

    /// What looks up owners, if the report has them.
    pub fn owner_of(&self) -> Option<OwnerOf> {
        self.owners.then_some(owner_of)
    }

    /// Adds the options that select what is read and reported.
    pub fn add_to(&self, scope: ScanScope) -> ScanScope {
        let given = |is_given: bool| is_given.then_some("given");
        scope
            .with("--exclude", self.exclude.iter().map(String::as_str))
            .with("--max-depth", self.max_depth.map(|depth| depth.to_string()))
            .with("--one-file-system", given(self.one_file_system))
            .with("--owners", given(self.owners))
    }

    /// The trees below `paths`.
    ///
    /// # Errors
    /// A glob that cannot be understood; options that do not go together.
    pub fn source(
        &self,
        paths: &[PathBuf],
        resumption: Option<Resumption>,
    ) -> Result<Box<dyn Source>, CliError> {
        let exclude = Exclude::new(self.exclude.iter().map(String::as_str));
        let exclude = exclude.map_err(|error| CliError::new(format_args!("--exclude: {error}")))?;
        let max_depth = self.max_depth.unwrap_or(usize::MAX);
        let scope = Scope { max_depth, one_file_system: self.one_file_system, exclude };
        let (paths, jobs) = (paths.to_vec(), self.jobs());
        let asked = self.follow || self.sort;
        if self.engine == ScanEngine::Getdents && asked {
            return Err(CliError::new("--follow and --sort need the engine walkdir"));
        }
        if self.engine == ScanEngine::Walkdir || asked {
            if resumption.is_some() {
                return Err(CliError::new(
                    "--resume needs the engine getdents, which supports neither --follow nor --sort",
                ));
            }
            let options = walk::WalkOptions { scope, follows: self.follow, is_sorted: self.sort };
            return Ok(Box::new(Walk::new(paths, jobs, options)));
        }
        let mut tree = Tree::new(paths, scope, jobs);
        if let Some(Resumption { left, wanted }) = resumption {
            tree = tree.telling_frontier(wanted);
            if let Some(left) = left {
                tree = tree.resumed(left);
            }
        }
        Ok(Box::new(tree))
    }

    /// Says what a reader of the report should know of the file systems below `paths`.
    pub fn warn_of_file_systems(&self, paths: &[PathBuf]) {
        let mounts = mounts::mounts().unwrap_or_default();
        for path in paths {
            let Ok(canonical) = path.canonicalize() else { continue };
            let on = mounts::holding(&mounts, &canonical);
            if let Some((kind, habit)) = on.and_then(|mount| Some((&mount.kind, habit(mount)?))) {
                log::warn!("{} is on {kind}, which {habit}", shown(path));
            }
            // Whatever else it is, a FIFO say, is not opened.
            let dir =
                open(&canonical, OFlag::O_DIRECTORY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC, Mode::empty());
            if dir.is_ok_and(|dir| is_casefolded(dir) == Ok(true)) {
                log::warn!("{} is a directory that ignores case and normalization (casefold)", shown(path));
            }
            let others = mounts::below(&mounts, &canonical);
            if !others.is_empty() && !self.one_file_system {
                let told = |mount: &&MountEntry| format!("{} ({})", shown(&mount.point), mount.kind);
                let told: Vec<String> = others.iter().take(SHOWN).map(told).collect();
                let more = match others.len().saturating_sub(SHOWN) {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                log::warn!(
                    "{} contains other file systems, which are scanned too: {}{more}; --one-file-system skips them",
                    shown(path),
                    told.join(", ")
                );
            }
        }
    }

    /// About how many names there are, where that can be told: a whole file system knows how many inodes are in use.
    pub fn expected(&self, paths: &[PathBuf]) -> Option<u64> {
        let [path] = paths else { return None };
        let (canonical, mounts) = (path.canonicalize().ok()?, mounts::mounts().ok()?);
        let is_mount_point = mounts.iter().any(|mount| mount.point == canonical);
        let is_all = self.max_depth.is_none() && self.exclude.is_empty() && is_mount_point;
        let is_alone = self.one_file_system || mounts::below(&mounts, &canonical).is_empty();
        let counts = statvfs(&canonical).ok().filter(|_| is_all && is_alone)?;
        // Some file systems count no inodes, and say 0.
        Some(counts.files().saturating_sub(counts.files_free())).filter(|&used| used > 0)
    }
}

/// The owner of a name on disk.
fn owner_of(place: &DirectoryPath, name: &[u8]) -> Option<String> {
    if place.container.is_some() {
        return None;
    }
    let flags = AtFlags::AT_SYMLINK_NOFOLLOW | AtFlags::AT_NO_AUTOMOUNT;
    let found = fstatat(AT_FDCWD, OsStr::from_bytes(&place.join(name)), flags).ok()?;
    Some(user_name(found.st_uid))
}

/// The name of a user. Each is looked up once: the directory of users may be on the network.
fn user_name(uid: u32) -> String {
    static NAMES: Mutex<BTreeMap<u32, String>> = Mutex::new(BTreeMap::new());
    NAMES.lock().entry(uid).or_insert_with(|| user(uid)).clone()
}
