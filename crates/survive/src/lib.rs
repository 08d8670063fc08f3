//! Mounts that survive their servers (`--survive`).
//!
//! [`SurvivalState`] is the state of such a mount, in memory that a holder keeps: it has nodes, open files and a [journal] of each request.
//! A mount knows it only by the traits [`RequestJournal`](namegate_wire::RequestJournal), [`TreeJournal`](namegate_mount::passthrough::TreeJournal)
//! and [`MountJournal`](namegate_mount::MountJournal).

mod changes;
mod faults;
pub mod journal;
mod layout;
mod records;
mod slots;
mod state;
mod take_over;

pub use state::{LAYOUT, MOST_READERS, SurvivalState};
pub use take_over::{new_state, open_state};

#[cfg(test)]
mod tests;
