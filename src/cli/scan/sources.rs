//! What `namegate scan` checks besides directory trees: lists of names, Git repositories and archives.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

#[cfg(feature = "git")]
use namegate_core::name::display::display;
use namegate_core::name::display::shown;
use namegate_scan::source::Source;
#[cfg(feature = "archive")]
use namegate_scan::source::archive::{Archive, ArchivePurpose, MemberEncoding};
#[cfg(feature = "git")]
use namegate_scan::source::git::{Git, GitSelection};

use crate::cli::list_reading_args::ListReadingArgs;

/// The options.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Lists, repositories and archives")]
pub struct SourceArgs {
    /// Check the paths in this list, one per line; `-` is standard input; repeatable
    #[arg(long = "list", value_name = "FILE")]
    lists: Vec<PathBuf>,
    #[command(flatten)]
    items: ListReadingArgs,
    /// Check the names in this Git repository, bare or not, at HEAD unless another option says otherwise; repeatable
    #[cfg(feature = "git")]
    #[arg(long = "git", value_name = "REPO")]
    repositories: Vec<PathBuf>,
    /// Check the names in this revision (gitrevisions(7))
    #[cfg(feature = "git")]
    #[arg(long, value_name = "REV", default_value = "HEAD", requires = "repositories")]
    #[arg(conflicts_with_all = ["git_index", "git_all"])]
    rev: String,
    /// Check the names in the index: staged files
    #[cfg(feature = "git")]
    #[arg(long, requires = "repositories", conflicts_with = "git_all")]
    git_index: bool,
    /// Check every name in any commit of any ref; a finding has the first and the last commit with the name
    #[cfg(feature = "git")]
    #[arg(long, requires = "repositories", conflicts_with = "git_base")]
    git_all: bool,
    /// Check only names that this revision does not have; its own names still count for collisions
    #[cfg(feature = "git")]
    #[arg(long, value_name = "REV", requires = "repositories")]
    git_base: Option<String>,
    /// Check the member names of this archive: zip, or tar, uncompressed or with gzip, bzip2, xz or zstd; `-` is a tar archive
    /// on standard input; repeatable
    #[cfg(feature = "archive")]
    #[arg(long = "archive", value_name = "FILE")]
    archives: Vec<PathBuf>,
    /// Encoding of names in a zip archive that are not marked as UTF-8, or in a tar archive that are not UTF-8: `auto` to guess it from
    /// all of them, an OEM code page such as `cp850`, another encoding such as `shift_jis`, or `utf-8`
    #[cfg(feature = "archive")]
    #[arg(long, value_name = "NAME", default_value = "auto", requires = "archives")]
    archive_encoding: MemberEncoding,
    /// GiB to which any archive may unpack; beyond them, only to 200 times its size
    #[cfg(feature = "archive")]
    #[arg(long, value_name = "GIB", default_value_t = 4, requires = "archives")]
    archive_limit: u32,
}

/// The sources of paths that are no trees on disk.
pub const INSTEAD_OF_PATHS: &[&str] = &[
    "lists",
    #[cfg(feature = "git")]
    "repositories",
    #[cfg(feature = "archive")]
    "archives",
];

impl SourceArgs {
    /// What each source is, for the head of a report.
    pub fn labels(&self) -> Vec<String> {
        let labelled = |kind: &str, path: &Path| format!("{kind} {}", shown(path));
        let labels = self.lists.iter().map(|file| labelled("list", file));
        #[cfg(feature = "git")]
        let labels = labels.chain(self.repositories.iter().map(|repository| {
            let what = match (self.git_index, self.git_all) {
                (true, _) => "index",
                (_, true) => "all commits",
                _ => &self.rev,
            };
            format!("{}, {}", labelled("git repository", repository), display(what.as_bytes()))
        }));
        #[cfg(feature = "archive")]
        let labels = labels.chain(self.archives.iter().map(|file| labelled("archive", file)));
        labels.collect()
    }

    /// The sources that are asked for; `jobs` is the number of threads, if it was given.
    pub fn sources(self, jobs: Option<NonZeroUsize>) -> Vec<Box<dyn Source>> {
        // Names in memory wait for nothing.
        let jobs = jobs.or_else(|| available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
        let sources =
            self.lists.into_iter().map(|file| -> Box<dyn Source> { Box::new(self.items.list(file, jobs)) });
        #[cfg(feature = "git")]
        let sources = sources.chain(self.repositories.into_iter().map(|repository| -> Box<dyn Source> {
            let what = match (self.git_index, self.git_all) {
                (true, _) => GitSelection::Index,
                (_, true) => GitSelection::All,
                _ => GitSelection::Revision(self.rev.clone()),
            };
            Box::new(Git { repository, what, base: self.git_base.clone() })
        }));
        #[cfg(feature = "archive")]
        let sources = sources.chain(self.archives.into_iter().map(|file| -> Box<dyn Source> {
            Box::new(Archive {
                file,
                encoding: self.archive_encoding,
                limit: u64::from(self.archive_limit) << 30,
                jobs,
                purpose: ArchivePurpose::Check,
            })
        }));
        sources.collect()
    }
}
