//! The names of one directory, with where they are and what is known of them before the check.

use std::sync::Arc;

use namegate_core::check::DirectoryNames;
use namegate_core::name::reading::EncodingGuess;

use crate::group::Clashes;
use crate::location::{Container, Locations};

/// The names of a directory, and where it is.
#[derive(Clone, Copy, Debug)]
pub struct LocatedNames<'n> {
    /// The names, as the policy checks them.
    pub names: DirectoryNames<'n>,
    /// The directory.
    pub dir: &'n [u8],
    /// Its container; `None` for the file system.
    pub container: Option<&'n Arc<Container>>,
    /// The location of each name, in the order of the arena and then of the names that contain a NUL.
    pub locations: &'n Locations,
    /// Whether the directory is inside a repository of version control: no names are suggested, because renaming would damage it.
    pub in_repository: bool,
    /// The names that are those of a file and of a directory.
    pub clashes: &'n Clashes,
    /// The encodings of names that are not UTF-8; guessed from the names of the directory if `None`.
    pub encodings: Option<&'n EncodingGuess>,
}

static NO_CLASHES: Clashes = Clashes::new();

impl<'n> LocatedNames<'n> {
    /// Names without a container and without locations.
    pub fn new(names: DirectoryNames<'n>, dir: &'n [u8]) -> Self {
        let (container, locations, clashes) = (None, &Locations::None, &NO_CLASHES);
        Self { names, dir, container, locations, in_repository: false, clashes, encodings: None }
    }
}
