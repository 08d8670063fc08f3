//! Git's index after renames: its paths change as `git mv` changes them. Contents stay as they were staged, and nothing is committed.
//!
//! A path of the index is followed component by component, with the names that the journal says were given or restored.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::group::Direction;
use super::journal::JournalContents;
use super::plan::{components, path_in};

/// New names by directory and name; both are paths of the same time.
type Names = HashMap<(Vec<u8>, Vec<u8>), Vec<u8>>;

/// A work tree whose index was changed, or not.
#[derive(Debug)]
pub struct WorkTree {
    pub top: PathBuf,
    /// How many paths of the index have changed.
    pub changed: io::Result<usize>,
}

/// Changes the index of each Git work tree with renames of the journal `contents`: those that were made, or that were undone.
pub fn update(contents: &JournalContents, file: &File, direction: Direction) -> io::Result<Vec<WorkTree>> {
    let (mut made, mut undone) = (Names::new(), Vec::new());
    for (at, state) in contents.batches.iter().enumerate() {
        let batch = contents.read_batch(file, at)?;
        for (number, entry) in batch.entries.iter().enumerate() {
            let is_undone =
                state.undoing.is_some() && state.undone.is_some() && !state.has_failed_undo(number);
            let is_done = state.done.is_some() && !state.has_failed(number);
            if !is_done || is_undone && direction == Direction::Apply {
                continue;
            }
            for (old, new) in entry.names() {
                let key = (batch.directories[entry.directory()].path.0.clone(), old.to_vec());
                if is_undone {
                    undone.push(key.clone());
                }
                made.insert(key, new.into_owned());
            }
        }
    }
    // What the index has now, and what it gets.
    let changes: Names = match direction {
        Direction::Apply => made,
        Direction::Undo => {
            let restored = undone.into_iter().map(|(dir, old)| {
                let new = made[&(dir.clone(), old.clone())].clone();
                ((renamed(&dir, &made), new), old)
            });
            restored.collect()
        }
    };
    let mut tops = BTreeMap::new();
    for (dir, _) in changes.keys() {
        let now = renamed(dir, &changes);
        let top = Path::new(OsStr::from_bytes(&now)).ancestors().find(|dir| dir.join(".git").exists());
        if let Some(top) = top {
            let depth = components(top.as_os_str().as_bytes()).count();
            let before = components(dir).take(depth).fold(b"/".to_vec(), |path, name| path_in(&path, name));
            tops.insert(top.to_path_buf(), before);
        }
    }
    let update =
        |(top, before): (PathBuf, Vec<u8>)| WorkTree { changed: update_tree(&top, &before, &changes), top };
    Ok(tops.into_iter().map(update).collect())
}

/// `path` with the new names. A name is a path where a file moves into other directories, and where that is undone.
fn renamed(path: &[u8], names: &Names) -> Vec<u8> {
    let (mut old, mut new) = (b"/".to_vec(), b"/".to_vec());
    let all: Vec<&[u8]> = components(path).collect();
    let mut at = 0;
    while at < all.len() {
        let last = all[at..].join(&b'/');
        let (given, count) = match names.get(&(old.clone(), last.clone())) {
            Some(given) => (Some(given), all.len() - at),
            None => (names.get(&(old.clone(), all[at].to_vec())), 1),
        };
        let name = if count == 1 { all[at] } else { &last };
        new = path_in(&new, given.map_or(name, Vec::as_slice));
        old = path_in(&old, name);
        at += count;
    }
    new
}

/// Changes the index of the work tree `top`, whose path was `before`, and returns the number of changed paths.
fn update_tree(top: &Path, before: &[u8], names: &Names) -> io::Result<usize> {
    let (mut removed, mut added, mut count) = (Vec::new(), Vec::new(), 0);
    let top_depth = components(before).count();
    for entry in git(top, &["ls-files", "--stage", "-z"], None)?.split(|&b| b == 0).filter(|e| !e.is_empty())
    {
        let mut parts = entry.splitn(2, |&b| b == b'\t');
        let (Some(head), Some(path)) = (parts.next(), parts.next()) else { continue };
        let new = renamed(&path_in(before, path), names);
        let new = components(&new).skip(top_depth).collect::<Vec<_>>().join(&b'/');
        if new == path {
            continue;
        }
        // MODE SP OBJECT SP STAGE
        let zeros = head.split(|&b| b == b' ').nth(1).map_or(0, <[u8]>::len);
        write!(removed, "0 {}\t", "0".repeat(zeros))?;
        for (lines, head, path) in [(&mut removed, &b""[..], path), (&mut added, head, &new)] {
            if !head.is_empty() {
                lines.extend_from_slice(head);
                lines.push(b'\t');
            }
            lines.extend_from_slice(path);
            lines.push(0);
        }
        count += 1;
    }
    if count > 0 {
        // Two entries may exchange their names.
        removed.extend(added);
        git(top, &["update-index", "-z", "--index-info"], Some(&removed))?;
        // Otherwise the next command reads each of them. It fails if one has changed, which is no error here.
        let _ = git(top, &["update-index", "-q", "--refresh"], None);
    }
    Ok(count)
}

/// Runs Git in `top` with `input`, and returns its output.
fn git(top: &Path, args: &[&str], input: Option<&[u8]>) -> io::Result<Vec<u8>> {
    let mut command = Command::new("git");
    command.arg("-C").arg(top).args(args);
    // Variables of a hook would lead to another repository.
    for variable in ["GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"] {
        command.env_remove(variable);
    }
    let stdin = if input.is_some() { Stdio::piped() } else { Stdio::null() };
    let mut child = command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
        stdin.write_all(input)?;
    }
    let output = child.wait_with_output()?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => {
            let why = String::from_utf8_lossy(&output.stderr);
            Err(io::Error::other(why.lines().next().unwrap_or("git failed").to_owned()))
        }
    }
}
