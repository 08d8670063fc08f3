//! What else than directory trees `namegate scan` judges: lists of names, git repositories and archives.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

#[cfg(feature = "git")]
use crate::name::display::display;
use crate::name::display::shown;
use crate::source::Source;
#[cfg(feature = "archive")]
use crate::source::archive::{Archive, MemberEncoding};
#[cfg(feature = "git")]
use crate::source::git::{Git, What};
use crate::source::group::Shape;
use crate::source::list::List;
use crate::source::list::fields::{Decoding, ListFormat};

/// The options.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Lists, repositories and archives")]
pub struct SourceArgs {
    /// Judge the paths in this list, one a line; `-` is standard input. May be given several times.
    #[arg(long = "list", value_name = "FILE")]
    lists: Vec<PathBuf>,
    /// The items of a list are followed by NUL instead of a line feed, as `find -print0` writes them.
    #[arg(short = '0', long, requires = "lists")]
    null: bool,
    /// What the items of a list are.
    #[arg(long, value_enum, default_value_t = ListAs::Paths, requires = "lists", value_name = "WHAT")]
    list_as: ListAs,
    /// How a list is written: `plain`, `csv:COLUMN` (a number from 1, or a header) or `jsonl:FIELD` (a name, or a JSON
    /// pointer).
    #[arg(long, default_value = "plain", requires = "lists", value_name = "FORMAT")]
    list_format: ListFormat,
    /// How the items of a list are encoded.
    #[arg(long, value_enum, default_value_t = Decode::None, requires = "lists", value_name = "ENCODING")]
    decode: Decode,
    /// Judge the names in this git repository, bare or not; as HEAD has them if nothing else is asked for. May be given
    /// several times.
    #[cfg(feature = "git")]
    #[arg(long = "git", value_name = "REPO")]
    repositories: Vec<PathBuf>,
    /// Judge the names that this revision has (gitrevisions(7)).
    #[cfg(feature = "git")]
    #[arg(long, value_name = "REV", default_value = "HEAD", requires = "repositories")]
    #[arg(conflicts_with_all = ["git_index", "git_all"])]
    rev: String,
    /// Judge what is staged.
    #[cfg(feature = "git")]
    #[arg(long, requires = "repositories", conflicts_with = "git_all")]
    git_index: bool,
    /// Judge what any commit of any ref has; each finding tells the first and the last commit that has the name.
    #[cfg(feature = "git")]
    #[arg(long, requires = "repositories", conflicts_with = "git_base")]
    git_all: bool,
    /// Judge only what this revision does not have; its names are still there for others to collide with.
    #[cfg(feature = "git")]
    #[arg(long, value_name = "REV", requires = "repositories")]
    git_base: Option<String>,
    /// Judge the names of the members of this archive: zip, or tar, plain or by gzip, bzip2, xz or zstd; `-` is a tar on
    /// standard input. May be given several times.
    #[cfg(feature = "archive")]
    #[arg(long = "archive", value_name = "FILE")]
    archives: Vec<PathBuf>,
    /// The encoding of names in a zip that does not say that they are UTF-8: an OEM code page such as `cp850`, another
    /// encoding such as `shift_jis`, or `utf-8`.
    #[cfg(feature = "archive")]
    #[arg(long, value_name = "NAME", default_value = "cp437", requires = "archives")]
    archive_encoding: MemberEncoding,
}

/// The sources of paths that are no trees on disk: one of them makes PATH unnecessary.
pub const INSTEAD_OF_PATHS: &[&str] = &[
    "lists",
    #[cfg(feature = "git")]
    "repositories",
    #[cfg(feature = "archive")]
    "archives",
];

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ListAs {
    /// Paths as the system reads them: each name on the way is judged, once.
    Paths,
    /// Keys of objects: as paths, and an empty component, `.` and `..` are names too.
    Keys,
    /// Names of one directory: a `/` in one is a violation.
    Names,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Decode {
    /// Not at all.
    None,
    /// Octets as `%XX`.
    Percent,
    /// Octets as `%XX`, and spaces as `+`.
    Form,
    /// Base64.
    Base64,
}

impl SourceArgs {
    /// What each source is, for the head of a report.
    pub fn labels(&self) -> Vec<String> {
        let labelled = |kind: &str, path: &Path| format!("{kind} {}", shown(path));
        let mut labels: Vec<String> = self.lists.iter().map(|file| labelled("list", file)).collect();
        #[cfg(feature = "git")]
        labels.extend(self.repositories.iter().map(|repository| {
            let what = match (self.git_index, self.git_all) {
                (true, _) => "index",
                (_, true) => "all commits",
                _ => &self.rev,
            };
            format!("{}, {}", labelled("git repository", repository), display(what.as_bytes()))
        }));
        #[cfg(feature = "archive")]
        labels.extend(self.archives.iter().map(|file| labelled("archive", file)));
        labels
    }

    /// The sources that are asked for.
    pub fn sources(self) -> Vec<Box<dyn Source>> {
        let shape = match self.list_as {
            ListAs::Paths => Shape::Path,
            ListAs::Keys => Shape::Key,
            ListAs::Names => Shape::Name,
        };
        let decoding = match self.decode {
            Decode::None => Decoding::None,
            Decode::Percent => Decoding::Percent,
            Decode::Form => Decoding::Form,
            Decode::Base64 => Decoding::Base64,
        };
        let separator = if self.null { 0 } else { b'\n' };
        let list = |file| -> Box<dyn Source> {
            Box::new(List { file, shape, format: self.list_format.clone(), separator, decoding })
        };
        #[cfg_attr(
            not(any(feature = "archive", feature = "git")),
            expect(unused_mut, reason = "lists are all there is")
        )]
        let mut sources: Vec<Box<dyn Source>> = self.lists.into_iter().map(list).collect();
        #[cfg(feature = "git")]
        for repository in self.repositories {
            let what = match (self.git_index, self.git_all) {
                (true, _) => What::Index,
                (_, true) => What::All,
                _ => What::Revision(self.rev.clone()),
            };
            sources.push(Box::new(Git { repository, what, base: self.git_base.clone() }));
        }
        #[cfg(feature = "archive")]
        for file in self.archives {
            sources.push(Box::new(Archive { file, encoding: self.archive_encoding }));
        }
        sources
    }
}
