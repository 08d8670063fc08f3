//! The names that a plan gives to the entries of a tree, for a tree that still has the old ones.

use std::collections::HashMap;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use namegate_core::policy::Confidence;
use namegate_findings::records::RecordSorter;

use super::entry_record::split_path;
use crate::new_names::{NameIndex, push_new_name};
use crate::plan::path_in;
use crate::stored_plan::StoredPlan;

/// The new names, and the new texts of links, by old paths.
#[derive(Debug)]
pub struct PlannedNames {
    /// The path of the source in the plan.
    base: Vec<u8>,
    names: NameIndex,
    targets: HashMap<Vec<u8>, Vec<u8>>,
}

impl PlannedNames {
    /// The names of the renames that are at least as certain as `least`. The tree at `source` is a root of the plan, a directory below one, or
    /// a copy of the only root.
    ///
    /// # Errors
    /// None of that is so; or a temporary file cannot be written.
    pub fn new(plan: &StoredPlan, source: &Path, least: Confidence) -> io::Result<Self> {
        let source = source.canonicalize()?.into_os_string().into_encoded_bytes();
        let is_root_of = |root: &[u8], path: &[u8]| {
            path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest[0] == b'/' || root == b"/")
        };
        let roots = &plan.header.roots;
        let base = match &roots[..] {
            _ if roots.iter().any(|root| is_root_of(&root.path, &source)) => source,
            [root] => root.path.clone(),
            _ => {
                return Err(io::Error::other(
                    "the plan has several roots, and the source is below none of them",
                ));
            }
        };
        let mut sorter = RecordSorter::default();
        let mut directories = plan.directories()?;
        while let Some(renames) = directories.next()? {
            let _ = renames.each(&mut |rename| {
                if rename.confidence <= least {
                    let (dir, new) = (&rename.directory.path, rename.new.as_bytes());
                    push_new_name(&mut sorter, dir, &rename.old, rename.id, new)?;
                }
                Ok(ControlFlow::Continue(()))
            })?;
        }
        let links = plan.retargets.iter();
        let targets =
            links.map(|link| (path_in(&link.directory.path, &link.name), link.new_target.clone())).collect();
        Ok(Self { base, names: NameIndex::new(sorter)?, targets })
    }

    /// The path that the entry at `path` below the source should have below the target.
    pub(super) fn expected(&self, path: &[u8]) -> io::Result<Vec<u8>> {
        let mut old = self.base.clone();
        let mut expected = Vec::new();
        for name in path.split(|&byte| byte == b'/') {
            let new = self.names.find(&old, name)?.map_or_else(|| name.to_vec(), |(_, new)| new);
            if !expected.is_empty() {
                expected.push(b'/');
            }
            expected.extend(new);
            old = path_in(&old, name);
        }
        Ok(expected)
    }

    /// The text that the link at `path` should have, if it is another one.
    pub(super) fn link_text(&self, path: &[u8]) -> Option<&[u8]> {
        let (dir, name) = split_path(path);
        let dir = if dir.is_empty() { self.base.clone() } else { path_in(&self.base, dir) };
        self.targets.get(&path_in(&dir, name)).map(Vec::as_slice)
    }
}
