//! Mounts that survive their servers (`--survive`).
//!
//! [`hold`] makes a process the holder of a mount, which starts one server after another. [`SurvivalState`] is the state of such a mount, in
//! memory that the holder keeps: it has nodes, open files and a [journal] of each request. A mount knows it only by the traits
//! [`RequestJournal`](namegate_wire::RequestJournal), [`TreeJournal`](namegate_mount::passthrough::TreeJournal) and
//! [`MountJournal`](namegate_mount::MountJournal).

mod faults;
mod fd_store;
mod holder;
pub mod journal;
mod kept_names;
mod layout;
mod predecessor;
mod records;
mod slots;
mod state;
mod take_over;
mod tree_journal;

pub use fd_store::{Notify, receive_stored};
pub use holder::{DRAIN_TIMEOUT, HANDED_OVER, HeldServer, LEAVE, ServerStart, UPGRADE, hold};
pub use predecessor::Predecessor;
pub use state::{LAYOUT, MOST_READERS, MountRequest, SurvivalState};

#[cfg(test)]
mod tests;
