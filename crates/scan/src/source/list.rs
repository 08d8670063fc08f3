//! Names from a stream, separated by NUL or line feeds, and lists of paths as a source.

pub mod bounded;
pub mod fields;
mod manifest;
#[cfg(feature = "parquet")]
mod parquet_list;
pub mod route;

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use namegate_core::check::EntryKind;
use namegate_core::name::display::shown;
use namegate_files::signature::{self, TextKind};
pub use namegate_findings::decode::Decoding;
use namegate_findings::group::Groups;
use namegate_findings::location::{Container, Locations};
use namegate_findings::split::{self, MAX_NAME, Shape};

use super::group::{GroupedSource, LIMIT};
use super::{Fault, RejectedItems, Source, SourceEvent, Visit};
use fields::{Field, ListFormat, Missing};

/// Reads names from a stream.
#[derive(Debug)]
pub struct NameReader<R> {
    stream: R,
    separator: u8,
    number: u64,
}

/// One name of a stream.
#[derive(Debug, PartialEq, Eq)]
pub enum ListItem {
    Name(Vec<u8>),
    /// The name with this number, counted from 1, is longer than [`MAX_NAME`] and was skipped.
    TooLong(u64),
}

impl<R: BufRead> NameReader<R> {
    /// Reads the names in `stream`, each followed by `separator`, which may be missing after the last.
    pub fn new(stream: R, separator: u8) -> Self {
        Self { stream, separator, number: 0 }
    }

    fn read(&mut self) -> io::Result<Option<ListItem>> {
        let mut name = Vec::new();
        let limit = MAX_NAME as u64 + 1;
        let read = (&mut self.stream).take(limit).read_until(self.separator, &mut name)?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        if name.last() == Some(&self.separator) {
            name.pop();
        } else if name.len() > MAX_NAME {
            self.skip()?;
            return Ok(Some(ListItem::TooLong(self.number)));
        }
        Ok(Some(ListItem::Name(name)))
    }

    /// Skips the rest of the current name.
    fn skip(&mut self) -> io::Result<()> {
        loop {
            let buffer = self.stream.fill_buf()?;
            let Some(at) = memchr::memchr(self.separator, buffer) else {
                let len = buffer.len();
                self.stream.consume(len);
                if len == 0 {
                    return Ok(());
                }
                continue;
            };
            self.stream.consume(at + 1);
            return Ok(());
        }
    }
}

impl<R: BufRead> Iterator for NameReader<R> {
    type Item = io::Result<ListItem>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

/// What the items of a list are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListItems {
    /// Paths, keys or names.
    Paths(Shape),
    /// In turn a directory, a name in it, exactly as they are checked, and the kind of its entry: `d` for a directory, `f` for anything
    /// else, nothing if it is unknown.
    Pairs,
}

/// A list of names or paths.
#[derive(Clone, Debug)]
pub struct List {
    /// Its file; `-` is standard input.
    pub file: PathBuf,
    /// What its items are.
    pub items: ListItems,
    pub format: ListFormat,
    /// The separator after each item, if the format does not define one.
    pub separator: u8,
    /// The encoding of each item.
    pub decoding: Decoding,
    /// Number of threads that check its directories.
    pub jobs: NonZeroUsize,
}

#[derive(Clone, Copy, Debug)]
enum ListedName<'i> {
    /// A path, a key or a name.
    Path(&'i [u8]),
    /// A directory, and a name in it with the kind of its entry.
    Pair(&'i [u8], &'i [u8], EntryKind),
}

/// The word of a kind in pairs.
fn word_of(kind: EntryKind) -> &'static [u8] {
    match kind {
        EntryKind::Directory => b"d",
        EntryKind::File => b"f",
        EntryKind::Unknown => b"",
    }
}

fn kind_of(word: &[u8]) -> Option<EntryKind> {
    [EntryKind::Directory, EntryKind::File, EntryKind::Unknown]
        .into_iter()
        .find(|&kind| word_of(kind) == word)
}

impl List {
    /// Hands each item, with its number, to `take`; items that cannot be checked go to `rejected`.
    fn each(&self, rejected: &mut RejectedItems, take: &mut TakeName<'_>) -> io::Result<()> {
        if self.items == ListItems::Pairs && self.format != ListFormat::Plain {
            return Err(io::Error::other("pairs are read from lists of the format plain"));
        }
        let mut items = ItemReader { list: self, rejected, take, incomplete: Vec::new(), pairs: 0 };
        let mut visit = |number: u64, field: Field| items.read(number, field);
        match &self.format {
            ListFormat::S3Manifest => manifest::read(&self.file, self.jobs, &mut visit)?,
            #[cfg(feature = "parquet")]
            ListFormat::Parquet(column) => parquet_list::read(&self.file, column, self.jobs, &mut visit)?,
            format => {
                let (mut number, mut has_warned) = (0, false);
                let kind = match format {
                    ListFormat::JsonLines(_) => TextKind::Syntax,
                    ListFormat::Plain if self.separator == 0 => TextKind::NulSeparated,
                    _ => TextKind::Lines,
                };
                let stream = signature::skip(self.stream()?, kind, &shown(&self.file))?;
                fields::read(format, stream, self.separator, &mut |field| {
                    number += 1;
                    // The first item of a language with ideographs can be without one.
                    has_warned |= !has_warned
                        && number <= 2
                        && kind == TextKind::Lines
                        && self.warn_of_nul(number, &field);
                    visit(number, field)
                })?;
            }
        }
        match items.incomplete.is_empty() {
            true => Ok(()),
            false => Err(io::Error::other("its last pair lacks a directory, a name or a kind")),
        }
    }

    fn stream(&self) -> io::Result<Box<dyn BufRead>> {
        Ok(match self.file == Path::new("-") {
            true => Box::new(io::stdin().lock()),
            false => Box::new(BufReader::with_capacity(BUFFER, File::open(&self.file)?)),
        })
    }

    /// No path has a NUL: the list ends its items with NUL, or it is in UTF-16 without a signature. Warns of that; `false` if the item has
    /// none.
    fn warn_of_nul(&self, number: u64, item: &Result<Vec<u8>, Missing>) -> bool {
        let Some(at) = item.as_ref().ok().and_then(|item| memchr::memchr(0, item)) else { return false };
        // ASCII begins with NUL if the higher byte is first. In the other order, NUL follows the end of a line.
        let order = if at == 0 && number == 1 { "BE" } else { "LE" };
        log::warn!(
            "{}: item {number} has a NUL in it: --null reads what `find -print0` wrote, and `iconv -f UTF-16{order} -t UTF-8` converts UTF-16",
            shown(&self.file)
        );
        true
    }

    /// How paths are split; pairs are split already.
    fn shape(&self) -> Shape {
        match self.items {
            ListItems::Paths(shape) => shape,
            ListItems::Pairs => Shape::Key,
        }
    }

    fn fault(&self, attempt: &'static str, error: io::Error) -> Fault {
        Fault { path: self.file.clone(), attempt, error }
    }
}

/// Receives a name, with the number of its item.
type TakeName<'t> = dyn FnMut(ListedName<'_>, u64) -> io::Result<()> + 't;

/// Makes names of the items of a list.
struct ItemReader<'r> {
    list: &'r List,
    rejected: &'r mut RejectedItems,
    take: &'r mut TakeName<'r>,
    /// The directory and the name of a pair that is not complete.
    incomplete: Vec<Field>,
    /// The number of complete pairs.
    pairs: u64,
}

impl ItemReader<'_> {
    fn read(&mut self, number: u64, field: Field) -> io::Result<()> {
        let decode = |text: Vec<u8>| self.list.decoding.decode(text.into()).map(Cow::into_owned);
        let item = field.and_then(|text| decode(text).ok_or(Missing::NotEncoded));
        let path = match item {
            item if self.list.items == ListItems::Pairs => return self.add_to_pair(item),
            Ok(path) if self.list.items != ListItems::Paths(Shape::Name) && !split::takes(&path) => {
                Err(Missing::TooDeep)
            }
            item => item,
        };
        match path {
            Ok(path) => (self.take)(ListedName::Path(&path), number),
            Err(reason) => self.reject(number, &reason),
        }
    }

    fn add_to_pair(&mut self, item: Field) -> io::Result<()> {
        self.incomplete.push(item);
        let parts = <[Field; 3]>::try_from(std::mem::take(&mut self.incomplete));
        let [dir, name, kind] = match parts {
            Ok(parts) => parts,
            Err(incomplete) => {
                self.incomplete = incomplete;
                return Ok(());
            }
        };
        self.pairs += 1;
        let parse = || -> Result<(Vec<u8>, Vec<u8>, EntryKind), Missing> {
            let dir = dir.and_then(|dir| if split::takes(&dir) { Ok(dir) } else { Err(Missing::TooDeep) })?;
            Ok((dir, name?, kind_of(&kind?).ok_or(Missing::NotAKind)?))
        };
        match parse() {
            Ok((dir, name, kind)) => (self.take)(ListedName::Pair(&dir, &name, kind), self.pairs),
            Err(reason) => self.reject(self.pairs, &reason),
        }
    }

    fn reject(&mut self, number: u64, reason: &Missing) -> io::Result<()> {
        self.rejected.add(number, reason.to_string());
        Ok(())
    }
}

impl Source for List {
    fn read(&self, visit: Visit<'_>) {
        let container = Container::List { file: self.file.as_os_str().as_bytes().to_vec() };
        let mut groups = Groups::new(self.shape(), LIMIT);
        let mut rejected = RejectedItems::default();
        let read = self.each(&mut rejected, &mut |item, number| match item {
            ListedName::Path(path) => groups.add(path, number),
            ListedName::Pair(dir, name, kind) => groups.add_pair(dir, name, kind, number),
        });
        let fault = |error| self.fault("check every item of", error);
        if rejected.report("item", fault, visit).is_break() {
            return;
        }
        // The items before a read error are still checked.
        let reported = read.map_err(|error| visit(SourceEvent::Fault(self.fault("read the list", error))));
        if matches!(reported, Err(ControlFlow::Break(()))) {
            return;
        }
        let grouped = GroupedSource {
            top: Vec::new(),
            container: Some(Arc::new(container)),
            locations: Locations::Items,
            encodings: None,
        };
        let handed_over = grouped.hand_over(groups, self.jobs, visit);
        if let Err(error) = handed_over {
            let _ = visit(SourceEvent::Fault(self.fault("group the paths of", error)));
        }
    }
}

/// Paths of the file system that were given one by one, and need not exist. Each component is checked once.
#[derive(Clone, Debug)]
pub struct PathList(pub Vec<Vec<u8>>);

impl Source for PathList {
    fn read(&self, visit: Visit<'_>) {
        let mut groups = Groups::new(Shape::Path, LIMIT);
        let mut rejected = RejectedItems::default();
        let fault =
            |attempt: &'static str| move |error: io::Error| Fault { path: "paths".into(), attempt, error };
        for (number, path) in (1..).zip(&self.0) {
            let added = match () {
                () if path.len() > MAX_NAME => Err(Missing::TooLong),
                () if !split::takes(path) => Err(Missing::TooDeep),
                () => Ok(groups.add(path, number)),
            };
            match added {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    let _ = visit(SourceEvent::Fault(fault("group the")(error)));
                    return;
                }
                Err(reason) => rejected.add(number, reason.to_string()),
            }
        }
        if rejected.report("number", fault("check all"), visit).is_break() {
            return;
        }
        let grouped = GroupedSource {
            container: None,
            locations: |_| Locations::None,
            encodings: None,
            top: Vec::new(),
        };
        if let Err(error) = grouped.hand_over_in_order(groups, &mut |event| visit(event)) {
            let _ = visit(SourceEvent::Fault(fault("group the")(error)));
        }
    }
}

/// Bytes of a list that are read at a time.
const BUFFER: usize = 1 << 18;

#[cfg(test)]
mod tests {
    use super::*;

    fn names(stream: &[u8], separator: u8) -> Vec<ListItem> {
        NameReader::new(stream, separator).map(|item| item.expect("reading memory does not fail")).collect()
    }

    fn name(bytes: &[u8]) -> ListItem {
        ListItem::Name(bytes.to_vec())
    }

    #[test]
    fn every_separator_ends_a_name_and_the_last_may_be_missing() {
        assert_eq!(names(b"", b'\n'), []);
        assert_eq!(names(b"\n", b'\n'), [name(b"")]);
        assert_eq!(names(b"a\nb", b'\n'), [name(b"a"), name(b"b")]);
        assert_eq!(names(b"a\n\nb\n", b'\n'), [name(b"a"), name(b""), name(b"b")]);
        assert_eq!(names(b"a\nb\0c\0", 0), [name(b"a\nb"), name(b"c")]);
    }

    #[test]
    fn a_name_that_is_too_long_is_skipped_and_the_next_is_read() {
        let mut stream = vec![b'x'; MAX_NAME];
        assert_eq!(names(&stream, 0), [name(&stream)]);
        stream.extend(b"yz\0ok\0");
        assert_eq!(names(&stream, 0), [ListItem::TooLong(1), name(b"ok")]);
        assert_eq!(names(&vec![b'x'; MAX_NAME + 1], 0), [ListItem::TooLong(1)]);
    }
}
