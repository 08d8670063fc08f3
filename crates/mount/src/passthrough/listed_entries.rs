//! What the kernel keeps of a directory's listing.

/// Entries of a directory that the kernel was given when it listed it last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListedEntries {
    pub all: u32,
    /// Those whose names and attributes it keeps until they change.
    pub lasting: u32,
}

impl ListedEntries {
    /// Whether it has so many of them that a request for each of the others costs less than to list them again, with some 20 in each reply.
    pub fn last(self) -> bool {
        self.lasting > 0 && self.all - self.lasting <= self.all / 32
    }
}

/// Whether the entries of a directory have changed when it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// They are the same as when it was last opened: a cached listing is valid.
    Same(ListedEntries),
    /// They have changed, or the directory was not opened before: a listing from now on may be cached.
    New,
    /// The directory has just changed and may change again without a new time: its listing must not be cached.
    Unsettled,
}
