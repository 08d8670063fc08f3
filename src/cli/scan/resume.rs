//! The state of a scan that can be resumed: a file with what is left to be read, and a file beside it with what was found, so that
//! the scan that completes reports everything.
//!
//! The state is replaced as a whole, after the findings that it counts have been written; it says how many bytes of these are
//! valid. Both files are removed when the scan completes. They are valid for one [scope](ScanScope).
//!
//! They decide what is read and reported, so both must belong to this user or to root.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use namegate_core::name::display::{display, shown};
use namegate_files::json::Base64;
use namegate_files::output::{Destination, NamedEntry, Replacement};
use namegate_files::signature::{self, TextKind};
use namegate_scan::source::{Frontier, PendingDirectories};
use namegate_scan::{Checkpoint, CheckpointCounts, CheckpointSink};
use nix::fcntl::OFlag;
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};

use crate::cli::CliError;

/// The files of a state.
#[derive(Debug)]
pub struct StateFile {
    path: PathBuf,
    place: Box<NamedEntry>,
    scope: ScanScope,
    found: Mutex<FoundFile>,
}

/// The file with the findings, a line each.
#[derive(Debug)]
struct FoundFile {
    place: Box<NamedEntry>,
    file: BufWriter<File>,
    /// Its length in bytes.
    bytes: u64,
}

/// What a scan reads, and what it checks: a scan with the same scope can resume it, with other reports and another number of threads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanScope {
    namegate: String,
    directory: Base64,
    options: Vec<ScopeOption>,
}

/// An option that selects what is read or checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ScopeOption {
    name: String,
    values: Vec<Base64>,
}

impl ScanScope {
    /// A scope in the current directory, without options.
    pub fn new() -> Self {
        let directory = env::current_dir().unwrap_or_default();
        Self {
            namegate: env!("CARGO_PKG_VERSION").into(),
            directory: Base64(directory.into_os_string().into_vec()),
            options: Vec::new(),
        }
    }

    /// Adds an option; without values, it was not given.
    #[must_use]
    pub fn with<V: Into<Vec<u8>>>(mut self, name: &str, values: impl IntoIterator<Item = V>) -> Self {
        let values = values.into_iter().map(|value| Base64(value.into())).collect();
        self.options.push(ScopeOption { name: name.to_owned(), values });
        self
    }

    /// How the scope of the state, `self`, differs from that of this scan; `None` if it does not.
    fn difference(&self, now: &Self) -> Option<String> {
        if self.namegate != now.namegate {
            return Some(format!("it was written by namegate {}", self.namegate));
        }
        if self.directory != now.directory {
            return Some(format!("it began in the directory {}", display(&self.directory)));
        }
        let mut options = self.options.iter().zip(&now.options);
        let (before, now) = options.find(|(before, now)| before != now)?;
        Some(match (before.describe(), now.describe()) {
            (Some(was), Some(is)) => format!("{} was {was}, and is now {is}", before.name),
            _ => format!("{} is now another one", before.name),
        })
    }
}

impl ScopeOption {
    /// The values, for messages; `None` if they are too long: a policy is a whole file.
    fn describe(&self) -> Option<String> {
        const MAX_SHOWN: usize = 100;
        if self.values.is_empty() {
            return Some("not given".to_owned());
        }
        let shown: Vec<String> = self.values.iter().map(|value| display(value).to_string()).collect();
        Some(shown.join(" ")).filter(|shown| shown.len() <= MAX_SHOWN)
    }
}

/// The contents of the state file.
#[derive(Serialize, Deserialize)]
struct ResumeState {
    scope: ScanScope,
    /// How many bytes of the file of findings are valid.
    found: u64,
    counts: CheckpointCounts,
    left: Vec<PendingEntry>,
}

#[derive(Serialize, Deserialize)]
struct PendingEntry {
    root: Base64,
    dir: Base64,
    names: Vec<Base64>,
}

impl StateFile {
    /// Opens the state in the file `path` for a scan of `scope`; if the file exists, returns what is left and the checkpoint.
    ///
    /// # Errors
    /// A file cannot be read or created, is not the state of a scan, or has another scope.
    pub fn open(path: PathBuf, scope: ScanScope) -> Result<(Self, Option<(Frontier, Checkpoint)>), CliError> {
        let name = shown(&path);
        let unreadable = |error: io::Error| CliError::new(format_args!("{name}: cannot be read: {error}"));
        let place = match Destination::resolve(&path).map_err(unreadable)? {
            Destination::Named(named) => named,
            Destination::Open(_) => return Err(unreadable(io::Error::other("it is not a file"))),
        };
        let Some(mut file) = place.open_own(OFlag::O_RDONLY).map_err(unreadable)? else {
            let found = FoundFile::create(&place, &path)?;
            return Ok((Self { path, place, scope, found: Mutex::new(found) }, None));
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(unreadable)?;
        let text = signature::strip(&bytes, TextKind::Syntax, &name).map_err(unreadable)?;
        let state: ResumeState = serde_json::from_slice(text)
            .map_err(|error| CliError::new(format_args!("{name}: not the state of a scan: {error}")))?;
        if state.scope != scope {
            let difference = state.scope.difference(&scope).unwrap_or_default();
            return Err(CliError::new(format_args!(
                "{name}: the state of another scan: {difference}; remove the file to scan from the beginning"
            )));
        }
        let left = state.left.into_iter().map(|left| PendingDirectories {
            root: OsString::from_vec(left.root.0).into(),
            dir: OsString::from_vec(left.dir.0).into(),
            names: left.names.into_iter().map(|name| OsString::from_vec(name.0)).collect(),
        });
        let (found, lines) = FoundFile::resume(&place, &path, state.found)?;
        let checkpoint = Checkpoint { counts: state.counts, lines: Box::new(lines) };
        Ok((Self { path, place, scope, found: Mutex::new(found) }, Some((left.collect(), checkpoint))))
    }

    /// Removes the files: the scan is complete.
    ///
    /// # Errors
    /// One cannot be removed.
    pub fn remove(&self) -> io::Result<()> {
        // The file of findings is of no use without the state, so the state goes first.
        self.place.remove()?;
        self.lock_found().place.remove()
    }

    fn lock_found(&self) -> MutexGuard<'_, FoundFile> {
        self.found.lock()
    }

    fn write(&self, state: &ResumeState) -> io::Result<()> {
        let mut new = Replacement::begin(self.place.beside("")?, None)?;
        new.file().write_all(&serde_json::to_vec(state)?)?;
        new.file().sync_all()?;
        new.commit()
    }
}

/// The suffix of the file of findings, after the name of the state.
const FOUND: &str = ".found";

/// The name of the file of findings beside the state `path`, for messages.
fn found_name(path: &Path) -> String {
    let mut found = path.as_os_str().to_owned();
    found.push(FOUND);
    shown(Path::new(&found))
}

impl FoundFile {
    fn create(state: &NamedEntry, path: &Path) -> Result<Self, CliError> {
        let created = || -> io::Result<(Box<NamedEntry>, File)> {
            let place = state.beside(FOUND)?;
            let file = place.create_new()?;
            Ok((place, file))
        };
        let (place, file) = created()
            .map_err(|error| CliError::new(format_args!("cannot create {}: {error}", found_name(path))))?;
        Ok(Self { place, file: BufWriter::new(file), bytes: 0 })
    }

    /// Opens the file to append after its first `bytes` bytes, and a reader of these.
    fn resume(state: &NamedEntry, path: &Path, bytes: u64) -> Result<(Self, impl BufRead + use<>), CliError> {
        let opened = || -> io::Result<(Box<NamedEntry>, File, File)> {
            let place = state.beside(FOUND)?;
            let missing = || io::Error::from(io::ErrorKind::NotFound);
            let mut file = place.open_own(OFlag::O_WRONLY)?.ok_or_else(missing)?;
            if file.metadata()?.len() < bytes {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            // What was found since the state was saved will be found again.
            file.set_len(bytes)?;
            file.seek(SeekFrom::End(0))?;
            let lines = place.open_own(OFlag::O_RDONLY)?.ok_or_else(missing)?;
            Ok((place, file, lines))
        };
        let (place, file, lines) = opened().map_err(|error| {
            let name = found_name(path);
            CliError::new(format_args!(
                "cannot read what was found so far from {name}: {error}; remove the state file to scan from the beginning"
            ))
        })?;
        Ok((Self { place, file: BufWriter::new(file), bytes }, BufReader::new(lines).take(bytes)))
    }
}

impl CheckpointSink for StateFile {
    fn append(&self, line: &[u8]) -> io::Result<()> {
        let mut found = self.lock_found();
        found.file.write_all(line)?;
        found.file.write_all(b"\n")?;
        found.bytes += line.len() as u64 + 1;
        Ok(())
    }

    fn save(&self, frontier: &Frontier, &counts: &CheckpointCounts) -> io::Result<()> {
        let found = {
            let mut found = self.lock_found();
            found.file.flush()?;
            found.file.get_ref().sync_data()?;
            found.bytes
        };
        let left = frontier.iter().map(|waiting| PendingEntry {
            root: Base64(waiting.root.as_os_str().as_bytes().to_vec()),
            dir: Base64(waiting.dir.as_os_str().as_bytes().to_vec()),
            names: waiting.names.iter().map(|name| Base64(name.as_bytes().to_vec())).collect(),
        });
        let state = ResumeState { scope: self.scope.clone(), found, counts, left: left.collect() };
        let name = shown(&self.path);
        self.write(&state).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot save the state in {name}: {error}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fs;

    use super::*;

    #[test]
    fn a_state_is_read_as_it_was_saved() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(OsStr::from_bytes(b"st\xE4te"));
        let open = |path: PathBuf| StateFile::open(path, ScanScope::new().with("--exclude", ["*.tmp"]));
        let (file, nothing) = open(path.clone()).unwrap();
        assert!(nothing.is_none());
        let names = vec![OsString::from_vec(b"\xFF\n".to_vec()), "b".into()];
        let left = vec![PendingDirectories {
            root: "/r".into(),
            dir: OsString::from_vec(b"a/\xE9".to_vec()).into(),
            names,
        }];
        let counts = CheckpointCounts { directories: 1, names: 2, vanished: 3, accepted: 4 };
        file.append(b"one").unwrap();
        file.save(&Frontier::new(), &CheckpointCounts::default()).unwrap();
        file.append(b"two").unwrap();
        file.save(&left, &counts).unwrap();
        file.append(b"three, which no state counts").unwrap();
        drop(file);
        for more in ["three", "four"] {
            let (file, kept) = open(path.clone()).unwrap();
            let (frontier, kept) = kept.unwrap();
            assert_eq!((frontier, kept.counts), (left.clone(), counts));
            let lines: Vec<String> = kept.lines.lines().map(Result::unwrap).collect();
            assert_eq!(lines, ["one", "two"], "{more}");
            file.append(more.as_bytes()).unwrap();
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "nothing else is left");
        let mut found = path.clone().into_os_string();
        found.push(FOUND);
        fs::write(&found, "on").unwrap();
        assert!(matches!(open(path.clone()), Err(CliError::Message(m)) if m.contains("from the beginning")));
        let changed = fs::read_to_string(&path).unwrap().replace("\"namegate\":\"", "\"namegate\":\"0.");
        fs::write(&path, changed).unwrap();
        assert!(matches!(open(path.clone()), Err(CliError::Message(m)) if m.contains("another scan")));
        fs::write(&path, "{}").unwrap();
        assert!(matches!(open(path.clone()), Err(CliError::Message(m)) if m.contains("not the state")));
        fs::remove_file(&path).unwrap();
        let (file, _) = open(path).unwrap();
        file.remove().unwrap();
        file.remove().unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn scopes_differ_in_the_first_option_that_does() {
        let scope = |depth: Option<&str>, policy: &str| {
            ScanScope::new().with("--max-depth", depth).with("the policy", [policy])
        };
        let before = scope(None, "short");
        assert_eq!(before.difference(&scope(None, "short")), None);
        let found = before.difference(&scope(Some("3"), "other"));
        assert_eq!(found.as_deref(), Some("--max-depth was not given, and is now 3"));
        let found = before.difference(&scope(None, &"long".repeat(100)));
        assert_eq!(found.as_deref(), Some("the policy is now another one"));
        let elsewhere = ScanScope { directory: Base64(b"/else\n".to_vec()), ..before.clone() };
        let found = elsewhere.difference(&before);
        assert_eq!(found.as_deref(), Some(r"it began in the directory /else\n"));
    }
}
