//! The findings of one directory, put together from lines in any order.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use namegate_core::name::Span;
use namegate_core::policy::Violation;
use namegate_findings::location::DirectoryPath;

use super::record::{CollectedGroup, CollectedRecord};
use crate::report::{CollisionGroup, DirectoryFindings, ReportedName, ReportedViolation};

/// What was collected of one directory.
#[derive(Default)]
pub(crate) struct CollectedDirectory {
    /// The groups that lines have listed, by their ids.
    pub(crate) groups: Vec<CollectedGroup>,
    /// Records in the order in which they came.
    pub(crate) records: Vec<CollectedRecord>,
}

/// Groups by their ids.
pub(crate) type GroupsById = HashMap<String, Arc<CollisionGroup>>;

/// A group of names, before it is shared.
struct GroupDraft {
    violation: Violation,
    members: Vec<Vec<u8>>,
}

impl CollectedDirectory {
    /// Puts the findings of the directory `place` together: names by their bytes, and groups by their members. Names may be in groups
    /// that were listed `earlier`, which are not listed again.
    pub(crate) fn into_findings(
        self,
        place: Option<Arc<DirectoryPath>>,
        earlier: &GroupsById,
    ) -> DirectoryFindings {
        let Self { groups: listed, mut records } = self;
        let Some(place) = place else {
            let records = records.into_iter().map(|of| of.record).collect();
            return DirectoryFindings { records, ..DirectoryFindings::default() };
        };
        records.sort_by(|a, b| a.record.name.cmp(&b.record.name));
        let records = merge_rows(records);
        let mut drafts: BTreeMap<String, GroupDraft> = listed
            .into_iter()
            .map(|CollectedGroup { id, violation, members }| (id, GroupDraft { violation, members }))
            .collect();
        let listed: Vec<String> = drafts.keys().cloned().collect();
        for of in &records {
            for (objection, id) in of.record.objections.iter().zip(&of.groups) {
                let is_listed = |id: &String| listed.binary_search(id).is_ok() || earlier.contains_key(id);
                let Some(id) = id.as_ref().filter(|id| !is_listed(id)) else { continue };
                let name = &of.record.name;
                let violation = Violation { span: Span::new(0, name.len()), ..objection.violation };
                let draft = drafts.entry(id.clone());
                let draft = draft.or_insert_with(|| GroupDraft { violation, members: Vec::new() });
                if draft.members.last() != Some(name) {
                    draft.members.push(name.clone());
                }
            }
        }
        let mut groups: Vec<_> = drafts.into_iter().map(|(id, draft)| share(id, draft, &place)).collect();
        groups.sort_by(|a, b| (&a.members, a.violation.rule).cmp(&(&b.members, b.violation.rule)));
        let places: BTreeMap<&str, usize> =
            groups.iter().enumerate().map(|(at, group)| (group.id.as_str(), at)).collect();
        let link = |CollectedRecord { mut record, groups: ids, .. }: CollectedRecord| -> ReportedName {
            for (objection, id) in record.objections.iter_mut().zip(ids) {
                objection.group =
                    id.map(|id| Arc::clone(earlier.get(&id).unwrap_or_else(|| &groups[places[&*id]])));
            }
            // As a scan sorts them.
            let group = |o: &ReportedViolation| o.group.as_ref().and_then(|group| places.get(&*group.id));
            record.objections.sort_by_key(|o| (o.violation.span, o.violation.rule, group(o)));
            record.place = Some(Arc::clone(&place));
            record
        };
        let records = records.into_iter().map(link).collect();
        drop(places);
        DirectoryFindings { groups, records, ..DirectoryFindings::default() }
    }
}

fn share(id: String, draft: GroupDraft, place: &Arc<DirectoryPath>) -> Arc<CollisionGroup> {
    let GroupDraft { violation, mut members } = draft;
    members.sort_unstable();
    // The id is that of the run: members whose findings were left out are part of it.
    Arc::new(CollisionGroup { id, place: Arc::clone(place), violation, members })
}

/// Makes one record of the rows of each name.
fn merge_rows(records: Vec<CollectedRecord>) -> Vec<CollectedRecord> {
    let mut merged: Vec<CollectedRecord> = Vec::with_capacity(records.len());
    for of in records {
        match merged.last_mut() {
            Some(last) if last.is_row && of.is_row && last.record.name == of.record.name => {
                last.record.objections.extend(of.record.objections);
                last.groups.extend(of.groups);
            }
            _ => merged.push(of),
        }
    }
    merged
}
