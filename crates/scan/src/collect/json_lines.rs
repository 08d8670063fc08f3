//! JSON Lines of `namegate scan` and `namegate check`.

use std::collections::HashMap;
use std::io::{self, BufRead, Read};

use namegate_core::name::display::harmless;
use namegate_findings::group::LIMIT;
use namegate_findings::location::{Container, DirectoryPath};
use serde::de::DeserializeOwned;

use super::collection::FindingsCollection;
use super::record::{CollectedGroup, CollectedRecord, ROW};
use crate::report::json::lines::{self, CollisionLine, FaultLine, JsonLineType, RecordLine, SummaryLine};

/// A line that was read.
pub(super) enum CollectedLine {
    Record(Box<CollectedRecord>),
    Group(CollectedGroup),
    Fault(FaultLine<'static>),
    Summary(Box<SummaryLine<'static>>),
}

/// Reads a line without its line feed.
pub(super) fn parse(line: &[u8]) -> io::Result<CollectedLine> {
    let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    let JsonLineType { r#type } = from_json(line, "no line of findings")?;
    match &*r#type {
        lines::FINDING | lines::NAME | ROW => {
            let line: RecordLine<'_> = from_json(line, "a damaged finding")?;
            CollectedRecord::read(line).map(|record| CollectedLine::Record(Box::new(record))).map_err(invalid)
        }
        lines::COLLISION => {
            let line: CollisionLine<'_> = from_json(line, "a damaged collision")?;
            CollectedGroup::read(&line).map(CollectedLine::Group).map_err(invalid)
        }
        lines::FAULT => from_json(line, "a damaged error").map(CollectedLine::Fault),
        lines::SUMMARY => from_json(line, "a summary that this version cannot read")
            .map(|summary| CollectedLine::Summary(Box::new(summary))),
        lines::COUNT => Err(invalid(
            "it has counts (--summary-by) in place of findings; scan again without them, or with -o"
                .to_owned(),
        )),
        other => {
            Err(invalid(format!("it is of the type `{}`, not findings of `namegate scan`", harmless(other))))
        }
    }
}

fn from_json<T: DeserializeOwned>(line: &[u8], what: &str) -> io::Result<T> {
    serde_json::from_slice(line).map_err(|error| {
        io::Error::new(io::ErrorKind::InvalidData, format!("it is {what}: {}", harmless(&error.to_string())))
    })
}

/// Adds the lines of a stream.
pub(super) fn read(
    mut stream: &mut dyn BufRead,
    name: &str,
    collection: &mut FindingsCollection,
) -> io::Result<()> {
    let (mut number, mut line, mut is_open) = (0_u64, Vec::new(), true);
    // The line of a collision has no container: it goes to the directory of the first finding that names it.
    let mut groups: HashMap<String, Vec<u8>> = HashMap::new();
    loop {
        line.clear();
        number += 1;
        let at = |error: io::Error| io::Error::new(error.kind(), format!("line {number}: {error}"));
        let read = (&mut stream).take(LIMIT as u64).read_until(b'\n', &mut line)?;
        if read == 0 {
            break;
        }
        if line.pop_if(|last| *last == b'\n').is_none() {
            let message = match read == LIMIT {
                true => "it is longer than any line of findings",
                false => "it has no end: the file is cut, or is still written",
            };
            return Err(at(io::Error::new(io::ErrorKind::InvalidData, message)));
        }
        let parsed = parse(&line).map_err(at)?;
        is_open = !matches!(parsed, CollectedLine::Summary(_));
        match parsed {
            CollectedLine::Record(of) if of.is_row => {
                return Err(at(io::Error::new(io::ErrorKind::InvalidData, "it is no line of findings")));
            }
            CollectedLine::Record(of) => {
                collection.has_owners |= of.record.owner.is_some();
                let key = key_of(of.record.place.as_deref());
                for group in of.groups.iter().flatten() {
                    if let Some(group) = groups.remove(group) {
                        collection.add_line(&key, &group)?;
                    }
                }
                collection.add_line(&key, &line)?;
            }
            CollectedLine::Group(group) => {
                groups.insert(group.id, line.clone());
            }
            CollectedLine::Fault(fault) => collection.add_fault(&fault.path_base64.0, &fault.message)?,
            CollectedLine::Summary(summary) => collection.runs.add_scan(&summary, name).map_err(at)?,
        }
    }
    if is_open {
        collection.runs.add_cut(name);
    }
    Ok(())
}

/// Identifies a directory; sorts those of a container by their bytes.
pub(super) fn key_of(place: Option<&DirectoryPath>) -> Vec<u8> {
    let Some(place) = place else { return b"\xFF".to_vec() };
    let container = match place.container.as_deref() {
        None => Vec::new(),
        Some(Container::List { file }) => [b"l", &file[..]].concat(),
        Some(Container::Archive { file, .. }) => [b"a", &file[..]].concat(),
        Some(Container::Git { repository, revision }) => {
            [b"g", &(repository.len() as u64).to_be_bytes()[..], repository, revision].concat()
        }
    };
    // A file name that is as long as the first byte would say that it is no container does not exist.
    [&(container.len() as u32).to_be_bytes()[..], &container, &place.dir].concat()
}
