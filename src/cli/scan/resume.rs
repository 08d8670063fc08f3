//! The state of a scan that can be resumed: a file that says what is left to be read, and one beside it that holds what was
//! found, so that the scan that ends tells of everything.
//!
//! The first is replaced as a whole, after everything that it takes for told has been written; it says how much of the
//! second holds. Both go when the scan ends. They hold for one command line in one directory: another one would tell of
//! other names.
//!
//! They decide what is read and reported, so both have to be files of this user, or of root.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};

use crate::cli::Trouble;
use crate::name::display::{display, shown};
use crate::output::{Named, Place, Replacement};
use crate::scan::{Counts, Keeper, Kept, Octets};
use crate::source::{Frontier, Waiting};

/// Where the state is kept.
#[derive(Debug)]
pub struct StateFile {
    path: PathBuf,
    place: Box<Named>,
    run: Run,
    told: Mutex<Told>,
}

/// What was found, as lines.
#[derive(Debug)]
struct Told {
    place: Box<Named>,
    file: BufWriter<File>,
    /// How many bytes of it there are.
    bytes: u64,
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
    /// How many bytes of the file beside it hold.
    told: u64,
    counts: Counts,
    left: Vec<Left>,
}

#[derive(Serialize, Deserialize)]
struct Left {
    root: Octets,
    dir: Octets,
    names: Vec<Octets>,
}

impl StateFile {
    /// The state in the file `path`, for the command line that this process was started with; and, if there is such a file,
    /// what it says is left and what was told.
    ///
    /// # Errors
    /// A file cannot be read or made, is none of ours, or is of another command line.
    pub fn open(path: PathBuf) -> Result<(Self, Option<(Frontier, Kept)>), Trouble> {
        let directory = env::current_dir().unwrap_or_default();
        let run = Run {
            namegate: env!("CARGO_PKG_VERSION").into(),
            directory: directory.as_os_str().into(),
            arguments: env::args_os().skip(1).map(|arg| Octets::from(&*arg)).collect(),
        };
        let name = shown(&path);
        let unreadable = |error: io::Error| Trouble::new(format_args!("{name}: cannot be read: {error}"));
        let place = match Place::of(&path).map_err(unreadable)? {
            Place::Named(named) => named,
            Place::Open(_) => return Err(unreadable(io::Error::other("it is not a file"))),
        };
        let Some(mut file) = place.open_own(OFlag::O_RDONLY).map_err(unreadable)? else {
            let told = Told::begin(&place, &path)?;
            return Ok((Self { path, place, run, told: Mutex::new(told) }, None));
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(unreadable)?;
        let state: State = serde_json::from_slice(&bytes)
            .map_err(|error| Trouble::new(format_args!("{name}: not the state of a scan: {error}")))?;
        if state.run != run {
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
        let (told, lines) = Told::go_on(&place, &path, state.told)?;
        let kept = Kept { counts: state.counts, lines: Box::new(lines) };
        Ok((Self { path, place, run, told: Mutex::new(told) }, Some((left.collect(), kept))))
    }

    /// Removes the files: the scan has come to its end.
    ///
    /// # Errors
    /// One cannot be removed.
    pub fn remove(&self) -> io::Result<()> {
        // Without the state the other says nothing, so the state goes first.
        self.place.remove()?;
        self.told().place.remove()
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock()
    }

    fn write(&self, state: &State) -> io::Result<()> {
        let mut new = Replacement::begin(self.place.beside("")?, None)?;
        new.file().write_all(&serde_json::to_vec(state)?)?;
        new.file().sync_all()?;
        new.commit()
    }
}

/// What the name of the file of findings ends with, behind that of the state.
const FOUND: &str = ".found";

/// The name of the file of findings beside the state `path`, for messages.
fn found(path: &Path) -> String {
    let mut found = path.as_os_str().to_owned();
    found.push(FOUND);
    shown(Path::new(&found))
}

impl Told {
    fn begin(state: &Named, path: &Path) -> Result<Self, Trouble> {
        let created = || -> io::Result<(Box<Named>, File)> {
            let place = state.beside(FOUND)?;
            let file = place.create_new()?;
            Ok((place, file))
        };
        let (place, file) = created()
            .map_err(|error| Trouble::new(format_args!("{}: cannot be made: {error}", found(path))))?;
        Ok(Self { place, file: BufWriter::new(file), bytes: 0 })
    }

    /// Goes on behind the first `bytes` bytes of it; and a reader of these.
    fn go_on(state: &Named, path: &Path, bytes: u64) -> Result<(Self, impl BufRead + use<>), Trouble> {
        let opened = || -> io::Result<(Box<Named>, File, File)> {
            let place = state.beside(FOUND)?;
            let missing = || io::Error::from(io::ErrorKind::NotFound);
            let mut file = place.open_own(OFlag::O_WRONLY)?.ok_or_else(missing)?;
            if file.metadata()?.len() < bytes {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            // What came since the state was kept is found again.
            file.set_len(bytes)?;
            file.seek(SeekFrom::End(0))?;
            let lines = place.open_own(OFlag::O_RDONLY)?.ok_or_else(missing)?;
            Ok((place, file, lines))
        };
        let (place, file, lines) = opened().map_err(|error| {
            let name = found(path);
            Trouble::new(format_args!(
                "{name}: what was found so far cannot be read: {error}; without it only a scan from the beginning tells \
                 everything: remove the state, too"
            ))
        })?;
        Ok((Self { place, file: BufWriter::new(file), bytes }, BufReader::new(lines).take(bytes)))
    }
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "namegate {}, in {}:", self.namegate, display(&self.directory.0))?;
        self.arguments.iter().try_for_each(|argument| write!(f, " {}", display(&argument.0)))
    }
}

impl Keeper for StateFile {
    fn tell(&self, line: &[u8]) -> io::Result<()> {
        let mut told = self.told();
        told.file.write_all(line)?;
        told.file.write_all(b"\n")?;
        told.bytes += line.len() as u64 + 1;
        Ok(())
    }

    fn keep(&self, frontier: &Frontier, &counts: &Counts) -> io::Result<()> {
        let told = {
            let mut told = self.told();
            told.file.flush()?;
            told.file.get_ref().sync_data()?;
            told.bytes
        };
        let left = frontier.iter().map(|waiting| Left {
            root: waiting.root.as_os_str().into(),
            dir: waiting.dir.as_os_str().into(),
            names: waiting.names.iter().map(|name| Octets::from(&**name)).collect(),
        });
        let state = State { run: self.run.clone(), told, counts, left: left.collect() };
        let name = shown(&self.path);
        self.write(&state)
            .map_err(|error| io::Error::new(error.kind(), format!("the state in {name}: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fs;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};

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
        let counts = Counts { directories: 1, names: 2, vanished: 3, accepted: 4 };
        file.tell(b"one").unwrap();
        file.keep(&Frontier::new(), &Counts::default()).unwrap();
        file.tell(b"two").unwrap();
        file.keep(&left, &counts).unwrap();
        file.tell(b"three, which no state takes for told").unwrap();
        drop(file);
        for more in ["three", "four"] {
            let (file, kept) = StateFile::open(path.clone()).unwrap();
            let (frontier, kept) = kept.unwrap();
            assert_eq!((frontier, kept.counts), (left.clone(), counts));
            let lines: Vec<String> = kept.lines.lines().map(Result::unwrap).collect();
            assert_eq!(lines, ["one", "two"], "{more}");
            file.tell(more.as_bytes()).unwrap();
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "nothing else is left");
        let mut found = path.clone().into_os_string();
        found.push(FOUND);
        fs::write(&found, "on").unwrap();
        assert!(
            matches!(StateFile::open(path.clone()), Err(Trouble::Message(m)) if m.contains("from the beginning"))
        );
        let changed = fs::read_to_string(&path).unwrap().replace("\"namegate\":\"", "\"namegate\":\"0.");
        fs::write(&path, changed).unwrap();
        assert!(
            matches!(StateFile::open(path.clone()), Err(Trouble::Message(m)) if m.contains("another scan"))
        );
        fs::write(&path, "{}").unwrap();
        assert!(
            matches!(StateFile::open(path.clone()), Err(Trouble::Message(m)) if m.contains("not the state"))
        );
        fs::remove_file(&path).unwrap();
        let (file, _) = StateFile::open(path).unwrap();
        file.remove().unwrap();
        file.remove().unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
