//! The state of a scan that can be resumed: a file that says what is left to be read.
//!
//! The file is replaced as a whole, after everything that it takes for told has been written; it goes when the scan ends.
//! It holds for one command line in one directory: another one would tell of other names.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use data_encoding::BASE64;
use serde::{Deserialize, Serialize};

use crate::cli::Trouble;
use crate::name::display::display;
use crate::scan::Keeper;
use crate::source::{Frontier, Waiting};

/// Where the state is kept.
#[derive(Debug)]
pub struct StateFile {
    path: PathBuf,
    run: Run,
}

/// What a state holds for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Run {
    namegate: String,
    directory: Octets,
    arguments: Vec<Octets>,
}

/// A file.
#[derive(Serialize, Deserialize)]
struct State {
    #[serde(flatten)]
    run: Run,
    left: Vec<Left>,
}

#[derive(Serialize, Deserialize)]
struct Left {
    root: Octets,
    dir: Octets,
    names: Vec<Octets>,
}

/// Any bytes, in base64.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
struct Octets(Vec<u8>);

impl TryFrom<String> for Octets {
    type Error = data_encoding::DecodeError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        BASE64.decode(text.as_bytes()).map(Self)
    }
}

impl From<Octets> for String {
    fn from(octets: Octets) -> Self {
        BASE64.encode(&octets.0)
    }
}

impl From<&OsStr> for Octets {
    fn from(text: &OsStr) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl From<Octets> for OsString {
    fn from(octets: Octets) -> Self {
        Self::from_vec(octets.0)
    }
}

impl StateFile {
    /// The state in the file `path`, for the command line that this process was started with; and what it says is left, if
    /// there is such a file.
    ///
    /// # Errors
    /// The file cannot be read, is none of ours, or is of another command line.
    pub fn open(path: PathBuf) -> Result<(Self, Option<Frontier>), Trouble> {
        let directory = env::current_dir().unwrap_or_default();
        let run = Run {
            namegate: env!("CARGO_PKG_VERSION").into(),
            directory: directory.as_os_str().into(),
            arguments: env::args_os().skip(1).map(|arg| Octets::from(&*arg)).collect(),
        };
        let file = Self { path, run };
        let name = display(file.path.as_os_str().as_bytes()).to_string();
        let bytes = match fs::read(&file.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((file, None)),
            read => read.map_err(|error| Trouble::new(format_args!("{name}: cannot be read: {error}")))?,
        };
        let state: State = serde_json::from_slice(&bytes)
            .map_err(|error| Trouble::new(format_args!("{name}: not the state of a scan: {error}")))?;
        if state.run != file.run {
            return Err(Trouble::new(format_args!(
                "{name}: the state of another scan, which can only be resumed in the same way: {}",
                state.run
            )));
        }
        let left = state.left.into_iter().map(|left| Waiting {
            root: OsString::from(left.root).into(),
            dir: OsString::from(left.dir).into(),
            names: left.names.into_iter().map(OsString::from).collect(),
        });
        Ok((file, Some(left.collect())))
    }

    /// Removes the file: the scan has come to its end.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(&self) -> io::Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    fn write(&self, state: &State) -> io::Result<()> {
        let mut beside = self.path.clone().into_os_string();
        beside.push(".new");
        let beside = Path::new(&beside);
        match fs::remove_file(beside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = File::create_new(beside)?;
        file.write_all(&serde_json::to_vec(state)?)?;
        file.sync_all()?;
        fs::rename(beside, &self.path)
    }
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "namegate {}, in {}:", self.namegate, display(&self.directory.0))?;
        self.arguments.iter().try_for_each(|argument| write!(f, " {}", display(&argument.0)))
    }
}

impl Keeper for StateFile {
    fn keep(&self, frontier: &Frontier) -> io::Result<()> {
        let left = frontier.iter().map(|waiting| Left {
            root: waiting.root.as_os_str().into(),
            dir: waiting.dir.as_os_str().into(),
            names: waiting.names.iter().map(|name| Octets::from(&**name)).collect(),
        });
        let state = State { run: self.run.clone(), left: left.collect() };
        let name = display(self.path.as_os_str().as_bytes());
        self.write(&state)
            .map_err(|error| io::Error::new(error.kind(), format!("the state in {name}: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_is_what_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(OsStr::from_bytes(b"st\xE4te"));
        let (file, nothing) = StateFile::open(path.clone()).unwrap();
        assert!(nothing.is_none());
        let names = vec![OsString::from_vec(b"\xFF\n".to_vec()), "b".into()];
        let left =
            vec![Waiting { root: "/r".into(), dir: OsString::from_vec(b"a/\xE9".to_vec()).into(), names }];
        file.keep(&Frontier::new()).unwrap();
        file.keep(&left).unwrap();
        let (file, kept) = StateFile::open(path.clone()).unwrap();
        assert_eq!(kept, Some(left));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left");
        let changed = fs::read_to_string(&path).unwrap().replace("\"namegate\":\"", "\"namegate\":\"0.");
        fs::write(&path, changed).unwrap();
        assert!(
            matches!(StateFile::open(path.clone()), Err(Trouble::Message(m)) if m.contains("another scan"))
        );
        fs::write(&path, "{}").unwrap();
        assert!(matches!(StateFile::open(path), Err(Trouble::Message(m)) if m.contains("not the state")));
        file.remove().unwrap();
        file.remove().unwrap();
    }
}
