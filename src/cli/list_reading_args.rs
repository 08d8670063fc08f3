//! The options that say how a list is read.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::ValueEnum;
use namegate_findings::split::Shape;
use namegate_scan::source::list::fields::ListFormat;
use namegate_scan::source::list::{Decoding, List, ListItems};

/// How the lists of the argument `lists` are read.
#[derive(Clone, Debug, clap::Args)]
pub struct ListReadingArgs {
    /// Items of a list end with NUL instead of a line feed, as `find -print0` writes them
    #[arg(short = '0', long, requires = "lists")]
    null: bool,
    /// Meaning of the items of a list
    #[arg(long, value_enum, default_value_t = ListedAs::Paths, requires = "lists", value_name = "WHAT")]
    list_as: ListedAs,
    /// Format of a list: `plain`, `csv:COLUMN` (a number from 1, or a header), `jsonl:FIELD` (a name, or a JSON pointer),
    /// `parquet:COLUMN`, or `s3-manifest` (the manifest.json of an S3 Inventory)
    #[arg(long, default_value = "plain", requires = "lists", value_name = "FORMAT")]
    list_format: ListFormat,
    /// Encoding of the items of a list
    #[arg(long, value_enum, default_value_t, requires = "lists", value_name = "ENCODING")]
    decode: ListEncoding,
}

impl ListReadingArgs {
    /// A list that is read in this way, and checked by `jobs` threads.
    pub fn list(&self, file: PathBuf, jobs: NonZeroUsize) -> List {
        List {
            file,
            items: self.list_as.into(),
            format: self.list_format.clone(),
            separator: if self.null { 0 } else { b'\n' },
            decoding: self.decode.into(),
            jobs,
        }
    }
}

/// The words of `--list-as`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ListedAs {
    /// Paths of a file system; each component is checked once
    Paths,
    /// Paths of files, as `find -type f` and `git ls-files` write them; only a `/` at the end is that of a directory
    Files,
    /// Object keys: paths in which an empty component, `.` and `..` are names too
    Keys,
    /// Names of one directory; a `/` in a name is a violation
    Names,
    /// In turn a directory, a name in it and its kind, as `namegate list-pairs` writes them
    Pairs,
}

impl From<ListedAs> for ListItems {
    fn from(word: ListedAs) -> Self {
        match word {
            ListedAs::Paths => Self::Paths(Shape::Path),
            ListedAs::Files => Self::Paths(Shape::File),
            ListedAs::Keys => Self::Paths(Shape::Key),
            ListedAs::Names => Self::Paths(Shape::Name),
            ListedAs::Pairs => Self::Pairs,
        }
    }
}

/// The words of `--decode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum ListEncoding {
    /// Not encoded
    #[default]
    None,
    /// Bytes as `%XX`
    Percent,
    /// Bytes as `%XX`, and spaces as `+`
    Form,
    /// Base64
    Base64,
}

impl From<ListEncoding> for Decoding {
    fn from(word: ListEncoding) -> Self {
        match word {
            ListEncoding::None => Self::None,
            ListEncoding::Percent => Self::Percent,
            ListEncoding::Form => Self::Form,
            ListEncoding::Base64 => Self::Base64,
        }
    }
}
