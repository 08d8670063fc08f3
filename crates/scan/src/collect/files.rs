//! The files of findings that are named on a command line.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use namegate_core::name::display::shown;

/// The endings of files of findings.
const ENDINGS: [&str; 4] = ["parquet", "jsonl", "json", "ndjson"];

/// The deepest directories that are read: a loop of links ends here.
const MAX_DEPTH: usize = 64;

/// The files that `path` names: itself, or if it is a directory all files below it whose ending is that of findings, sorted. Names
/// that begin with `_` or `.` are left out, as engines do.
///
/// # Errors
/// A directory cannot be read, or has no such file; the message names it.
pub fn findings_files(path: &Path) -> io::Result<Vec<PathBuf>> {
    if path == Path::new("-") || !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    add_files(path, 0, &mut files)?;
    match files.is_empty() {
        false => Ok(files),
        true => Err(io::Error::other(format!(
            "{} has no findings: no file in it ends with .parquet or .jsonl",
            shown(path)
        ))),
    }
}

fn add_files(dir: &Path, depth: usize, files: &mut Vec<PathBuf>) -> io::Result<()> {
    let failed =
        |error: io::Error| io::Error::new(error.kind(), format!("cannot read {}: {error}", shown(dir)));
    if depth > MAX_DEPTH {
        return Err(failed(io::Error::other("there are too many levels of directories")));
    }
    let mut entries = fs::read_dir(dir).and_then(Iterator::collect::<io::Result<Vec<_>>>).map_err(failed)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        if matches!(entry.file_name().as_encoded_bytes(), [b'_' | b'.', ..]) {
            continue;
        }
        let path = entry.path();
        let ending = path.extension().and_then(|ending| ending.to_str());
        if path.is_dir() {
            add_files(&path, depth + 1, files)?;
        } else if ending.is_some_and(|ending| ENDINGS.contains(&ending)) {
            files.push(path);
        }
    }
    Ok(())
}
