//! What is known of the entry that has a name: a few rules apply to directories alone, or in one place.

/// The kind of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// It is not known.
    #[default]
    Unknown,
    /// A directory.
    Directory,
    /// Anything but a directory.
    File,
}

/// What is known of the entry that has a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Its kind.
    pub kind: EntryKind,
    /// Whether it lies directly in the root of a document library; `None` if unknown.
    pub in_library_root: Option<bool>,
}

impl Entry {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self { kind: EntryKind::Unknown, in_library_root: None };

    /// An entry of this kind in an unknown place.
    pub const fn of_kind(kind: EntryKind) -> Self {
        Self { kind, in_library_root: None }
    }
}

/// The entries that a rule applies to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AppliesTo {
    /// All of them.
    #[default]
    Everything,
    /// Directories.
    Directories,
    /// Everything but directories.
    Files,
    /// What lies directly in the root of a document library.
    LibraryRoot,
}

impl AppliesTo {
    /// Whether a rule applies to `entry`; `None` if too little is known of the entry.
    pub(super) fn includes(self, entry: Entry) -> Option<bool> {
        match (self, entry.kind) {
            (Self::Everything, _) => Some(true),
            (Self::LibraryRoot, _) => entry.in_library_root,
            (_, EntryKind::Unknown) => None,
            (Self::Directories, kind) => Some(kind == EntryKind::Directory),
            (Self::Files, kind) => Some(kind == EntryKind::File),
        }
    }
}
