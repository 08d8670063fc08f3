//! Checks a plan that may have been edited against the members of its archive.

use std::io;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use namegate_core::name::display::display;
use namegate_core::policy::{Confidence, EntryKind, Policy};
use namegate_scan::progress::Observer;
use namegate_scan::source::{DirectoryBatch, Source, SourceEvent};
use parking_lot::Mutex;

use super::{MemberNames, MemberSource};
use crate::plan::check::{check_new_name, check_renames};
use crate::plan::{FileKind, InodeTime, PlanDirectory, Rename, SeenEntry, path_in};

/// The errors that are reported one by one.
const MOST_ERRORS: usize = 20;

/// What is wrong with a plan.
#[derive(Debug, Default)]
pub struct PlanObjections {
    /// Sentences, escaped for display; some of them if they are many.
    pub shown: Vec<String>,
    pub count: u64,
    /// The number of renames whose names the archive has.
    found: u64,
}

impl PlanObjections {
    fn add(&mut self, rename: &Rename, why: &str) {
        self.count += 1;
        if self.shown.len() < MOST_ERRORS {
            let old = path_in(&rename.directory.path, &rename.old);
            self.shown.push(format!("{} → {}: {why}", display(&old), display(rename.new.as_bytes())));
        }
    }
}

/// Checks the `planned` renames of `names`: each is that of a name in the archive, and its new name is valid and free. Faults of the
/// archive go to `observer`.
pub fn check_plan(
    source: &MemberSource,
    names: &MemberNames,
    planned: u64,
    policy: Option<&Policy>,
    observer: &dyn Observer,
) -> io::Result<PlanObjections> {
    let state = Mutex::new((PlanObjections::default(), None));
    source.for_names().read(&|event| {
        let (objections, failure) = &mut *state.lock();
        let checked = match event {
            SourceEvent::Directory(batch) => check_directory(&batch, names, policy, true, objections),
            // Its names are too many to be compared; that no two members become one is checked for all of them later.
            SourceEvent::Large(parts) => {
                let mut checked = Ok(());
                parts.each(&mut |part| {
                    if checked.is_ok() {
                        checked = check_directory(part, names, policy, false, objections);
                    }
                });
                checked
            }
            SourceEvent::Fault(fault) | SourceEvent::RepeatedFault(fault, _) => {
                observer.problem(&fault);
                Ok(())
            }
            _ => Ok(()),
        };
        *failure = checked.err();
        if failure.is_some() || observer.is_stopped() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    let (mut objections, failure) = state.into_inner();
    failure.map_or(Ok(()), Err)?;
    let lost = planned.saturating_sub(objections.found);
    if lost > 0 {
        objections.count += lost;
        objections.shown.push(format!("the archive has no member for {lost} of the renames"));
    }
    Ok(objections)
}

fn check_directory(
    batch: &DirectoryBatch,
    names: &MemberNames,
    policy: Option<&Policy>,
    is_whole: bool,
    objections: &mut PlanObjections,
) -> io::Result<()> {
    let below = batch.dir.as_os_str().as_bytes().get(batch.root_len..).unwrap_or_default();
    let path = [names.top(), below].concat();
    let directory = Arc::new(PlanDirectory { path, inode: 0, handle: None });
    let listing: Vec<&[u8]> = batch.names.iter().map(|(_, name)| name).collect();
    let mut renames = Vec::new();
    for &name in &listing {
        let Some((id, new)) = names.find(&directory.path, name)? else { continue };
        let is_directory = batch.names.kind_of(name) == EntryKind::Directory;
        let kind = if is_directory { FileKind::Directory } else { FileKind::File };
        renames.push(Rename {
            id,
            directory: Arc::clone(&directory),
            old: name.to_vec(),
            new: String::from_utf8_lossy(&new).into_owned(),
            entry: SeenEntry { inode: 0, ctime: InodeTime::default(), kind, birth: None },
            reasons: Vec::new(),
            confidence: Confidence::Certain,
            reading: String::new(),
            evidence: None,
            alternatives: Vec::new(),
        });
    }
    objections.found += renames.len() as u64;
    if is_whole {
        let checked: Vec<&Rename> = renames.iter().collect();
        let conflicts = check_renames(policy, &listing, &checked);
        conflicts.iter().for_each(|conflict| objections.add(&renames[conflict.at], &conflict.why));
    } else {
        for rename in &renames {
            if let Some(why) = check_new_name(policy, rename) {
                objections.add(rename, &why);
            }
        }
    }
    Ok(())
}
