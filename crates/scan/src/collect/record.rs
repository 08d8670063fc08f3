//! Lines of findings, read and validated.
//!
//! Whoever can write the file chose every text in it: texts are escaped for display again, and numbers are compared with the name.

use std::sync::Arc;

use data_encoding::HEXLOWER;
use namegate_core::name::Span;
use namegate_core::name::display::harmless;
use namegate_core::name::reading::NotLegacy;
use namegate_core::policy::profile::ProfileSet;
use namegate_core::policy::{DecodedAs, SuggestedName, UnknownWord, Violation};
use namegate_findings::location::{ArchiveKind, Container, DirectoryPath, Location, ObjectId};
use namegate_findings::record::UnlistedViolations;

use crate::report::json::lines::{
    self, CollisionLine, FROM_ARCHIVE, FROM_GIT, FROM_LIST, RecordLine, ViolationLine,
};
use crate::report::{ReportedName, ReportedViolation};

/// The `type` of a violation that was a row of a table: the rows of a name are put together later.
pub(crate) const ROW: &str = "row";

/// A name with violations, whose groups are not known yet.
pub(crate) struct CollectedRecord {
    pub(crate) record: ReportedName,
    /// For each violation the id of its group, if it is a collision.
    pub(crate) groups: Vec<Option<String>>,
    /// Whether it is one row of a table.
    pub(crate) is_row: bool,
}

/// Names that become one, as a line says it.
pub(crate) struct CollectedGroup {
    pub(crate) id: String,
    pub(crate) violation: Violation,
    pub(crate) members: Vec<Vec<u8>>,
}

impl CollectedRecord {
    pub(crate) fn read(line: RecordLine<'_>) -> Result<Self, String> {
        let name = line.name_hex.0.to_vec();
        let violations = line.violations.iter().map(|violation| read_violation(violation, name.len()));
        let (objections, groups) = violations.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        let place = match &line.path_base64 {
            None if line.r#type == lines::NAME => None,
            None => return Err("`path_base64` is missing".to_owned()),
            Some(path) => {
                let above = path.0.strip_suffix(&*name).filter(|above| matches!(above, [] | [.., b'/']));
                let above = above.ok_or("`path_base64` does not end with the name")?;
                let container = read_container(&line)?.map(Arc::new);
                Some(Arc::new(DirectoryPath {
                    container,
                    dir: directory_of(above),
                    inode: line.parent_inode,
                }))
            }
        };
        let repair = match (line.repair, line.repair_confidence) {
            (Some(name), Some(confidence)) => {
                let decoded = read_decoded(line.reading.as_deref(), line.reading_confidence.as_deref())?;
                let (name, confidence) = (name.into_owned(), word(confidence.parse())?);
                Some(SuggestedName { name, confidence, is_shortened: false, decoded })
            }
            (None, None) => None,
            _ => return Err("`repair` and `repair_confidence` belong together".to_owned()),
        };
        let commit = |id: &str| {
            let id = HEXLOWER.decode(id.as_bytes()).ok().and_then(|id| ObjectId::new(&id));
            id.ok_or("a commit is not in hexadecimal".to_owned())
        };
        let location = match (line.item, line.member, line.first_commit, line.last_commit) {
            (Some(number), ..) => Some(Location::Item(number)),
            (_, Some(number), ..) => Some(Location::Member(number)),
            (.., Some(first), Some(last)) => {
                Some(Location::Commits { first: commit(&first)?, last: commit(&last)? })
            }
            _ => None,
        };
        let owner = line.owner.as_deref().map(harmless);
        let accepted = Vec::new();
        let unlisted = line.unlisted.iter().map(|unlisted| {
            let (rule, severity) = (word(unlisted.rule.parse())?, word(unlisted.severity.parse())?);
            Ok(UnlistedViolations { rule, severity, count: unlisted.count })
        });
        let unlisted = unlisted.collect::<Result<_, String>>()?;
        let record = ReportedName { place, location, name, objections, unlisted, accepted, repair, owner };
        Ok(Self { record, groups, is_row: line.r#type == ROW })
    }
}

impl CollectedGroup {
    pub(crate) fn read(line: &CollisionLine<'_>) -> Result<Self, String> {
        let members: Vec<Vec<u8>> = line.members.iter().map(|member| member.name_hex.0.to_vec()).collect();
        let first = members.iter().min().ok_or("`members` is empty")?;
        let violation = Violation {
            rule: word(line.rule.parse())?,
            severity: word(line.severity.parse())?,
            span: Span::new(0, first.len()),
            profiles: read_profiles(&line.profiles)?,
            refused_by: read_profiles(&line.refused_by)?,
            is_certain: true,
        };
        Ok(Self { id: read_group(&line.group)?, violation, members })
    }
}

/// The directory of a path, from what comes before the name. The directory of `/a` is `/`, and that of `a//b` is `a//`.
fn directory_of(above: &[u8]) -> Vec<u8> {
    match above.strip_suffix(b"/") {
        Some(dir @ [.., last]) if *last != b'/' => dir.to_vec(),
        _ => above.to_vec(),
    }
}

pub(crate) fn read_violation(
    line: &ViolationLine<'_>,
    name_len: usize,
) -> Result<(ReportedViolation, Option<String>), String> {
    let &ViolationLine { start, end, .. } = line;
    if start > end || end > name_len {
        return Err(format!("bytes {start}..{end} are not in the name, which has {name_len} bytes"));
    }
    let violation = Violation {
        rule: word(line.rule.parse())?,
        severity: word(line.severity.parse())?,
        span: Span::new(start, end),
        profiles: read_profiles(&line.profiles)?,
        refused_by: read_profiles(&line.refused_by)?,
        is_certain: line.certain,
    };
    let group = line.group.as_deref().map(read_group).transpose()?;
    Ok((ReportedViolation { violation, message: harmless(&line.message), group: None }, group))
}

fn read_decoded(how: Option<&str>, confidence: Option<&str>) -> Result<Option<DecodedAs>, String> {
    match (how, confidence) {
        (Some(how), Some(confidence)) => {
            let explanation = how.parse().map_err(|error: NotLegacy| harmless(&error.to_string()))?;
            Ok(Some(DecodedAs { explanation, confidence: word(confidence.parse())? }))
        }
        (None, None) => Ok(None),
        _ => Err("`reading` and `reading_confidence` belong together".to_owned()),
    }
}

fn read_profiles(names: &[impl AsRef<str>]) -> Result<ProfileSet, String> {
    word(ProfileSet::from_names(names.iter().map(AsRef::as_ref)))
}

fn read_group(id: &str) -> Result<String, String> {
    let is_id = id.len() == 16 && id.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    is_id.then(|| id.to_owned()).ok_or("`group` is not 16 hexadecimal digits".to_owned())
}

fn read_container(line: &RecordLine<'_>) -> Result<Option<Container>, String> {
    let (Some(source), Some(file)) = (&line.source, &line.container_base64) else { return Ok(None) };
    let file = file.0.to_vec();
    Ok(Some(match &**source {
        FROM_LIST => Container::List { file },
        // The kind is not in the line, and no report shows it.
        FROM_ARCHIVE => Container::Archive { file, kind: ArchiveKind::Tar },
        FROM_GIT => {
            let revision = line.revision.as_deref().unwrap_or_default().as_bytes().to_vec();
            Container::Git { repository: file, revision }
        }
        other => return Err(format!("`source` is `{}`", harmless(other))),
    }))
}

fn word<T>(parsed: Result<T, UnknownWord>) -> Result<T, String> {
    parsed.map_err(|error| harmless(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_of_a_path_is_that_of_its_list() {
        for dir in [&b""[..], b"/", b"a", b"/a", b"a//", b"//", b"a/b"] {
            let place = DirectoryPath { container: None, dir: dir.to_vec(), inode: None };
            let path = place.join(b"name");
            assert_eq!(directory_of(path.strip_suffix(b"name").unwrap()), dir);
        }
    }
}
