//! Tries names, and records what became of each.

use std::os::fd::OwnedFd;

use nix::errno::Errno;

use super::control::{Control, TrialEnd};
use super::samples::{PAIRS, RESERVED, SHAPES, WIDTHS, tagged};
use super::trial_dir::{Arrival, TrialDirectory};

/// No path that the kernel accepts has a longer name, in bytes.
const NAME_MAX: usize = 4095;

/// A name that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriedName {
    pub name: Vec<u8>,
    pub arrival: Arrival,
}

/// Two names, and whether they are one name there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePair {
    pub names: [String; 2],
    pub are_one: bool,
}

/// What was tried.
#[derive(Debug, Default)]
pub struct Trials {
    pub names: Vec<TriedName>,
    pub pairs: Vec<NamePair>,
    /// The longest names of one repeated character: the character, and how often it fits.
    pub longest: Vec<(char, usize)>,
    /// Why not everything was tried; `None` if it was.
    pub failure: Option<String>,
    /// What could not be removed, and why.
    pub left_behind: Option<String>,
}

impl Trials {
    pub fn not_run(why: String) -> Self {
        Self { failure: Some(why), ..Self::default() }
    }

    /// Tries everything in the directory; `None` if it was stopped, and nothing is left behind.
    pub fn run(target: OwnedFd, control: &Control) -> Option<Self> {
        let mut trials = Self::default();
        let dir = match TrialDirectory::create(target, control) {
            Ok(dir) => dir,
            Err(end) => return trials.end(Err(end)),
        };
        let tried = trials.try_all(&dir);
        if let Err((name, error)) = dir.remove() {
            trials.left_behind = Some(format!("{}: {error}", name.display()));
        }
        trials.end(tried)
    }

    fn end(mut self, end: Result<(), TrialEnd>) -> Option<Self> {
        self.failure = match end {
            Ok(()) => None,
            Err(TrialEnd::Stopped) if self.left_behind.is_some() => Some("the probe was stopped".to_owned()),
            Err(TrialEnd::Stopped) => return None,
            Err(TrialEnd::Failed(what, error)) => Some(format!("{what}: {error}")),
        };
        Some(self)
    }

    fn try_all(&mut self, dir: &TrialDirectory<'_>) -> Result<(), TrialEnd> {
        // Where even this is not read back, nothing can be said of other names.
        if dir.try_names(&[b"plain".to_vec()])? != [Arrival::Kept] {
            return Err(TrialEnd::Failed("a plain name is not listed once it is created", Errno::ENOENT));
        }
        let tagged = tagged();
        let arrivals = dir.try_names(&tagged)?;
        self.names
            .extend(tagged.into_iter().zip(arrivals).map(|(name, arrival)| TriedName { name, arrival }));
        for name in SHAPES.iter().chain(&RESERVED) {
            self.try_one(dir, name.as_bytes().to_vec())?;
        }
        for width in WIDTHS {
            self.find_longest(dir, width)?;
        }
        for (first, second) in PAIRS {
            let names = [format!("x{first}"), format!("x{second}")];
            if let Some(are_one) = dir.are_one(names[0].as_bytes(), names[1].as_bytes())? {
                self.pairs.push(NamePair { names, are_one });
            }
        }
        Ok(())
    }

    fn try_one(&mut self, dir: &TrialDirectory<'_>, name: Vec<u8>) -> Result<(), TrialEnd> {
        let arrivals = dir.try_names(std::slice::from_ref(&name))?;
        self.names.extend(arrivals.into_iter().map(|arrival| TriedName { name: name.clone(), arrival }));
        Ok(())
    }

    /// Finds how often a character fits in a name; records the longest name that does, and the next.
    fn find_longest(&mut self, dir: &TrialDirectory<'_>, c: char) -> Result<(), TrialEnd> {
        let name = |count: usize| c.to_string().repeat(count).into_bytes();
        let fits = |count| -> Result<bool, TrialEnd> {
            Ok(dir.try_names(&[name(count)])?.iter().all(|arrival| *arrival == Arrival::Kept))
        };
        if !fits(1)? {
            return Ok(());
        }
        let (mut fitting, mut excess) = (1, NAME_MAX / c.len_utf8() + 1);
        while excess - fitting > 1 {
            let middle = fitting.midpoint(excess);
            if fits(middle)? { fitting = middle } else { excess = middle }
        }
        self.longest.push((c, fitting));
        self.try_one(dir, name(fitting))?;
        if excess * c.len_utf8() <= NAME_MAX { self.try_one(dir, name(excess)) } else { Ok(()) }
    }
}
