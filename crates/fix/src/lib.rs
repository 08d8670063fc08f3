//! Repairs names on disk, through a plan that people can read and edit before anything changes.
//!
//! [`propose`] makes a plan, [`plan`] is its format. [`apply`](mod@apply) executes it and writes each intention into a
//! [`journal`] first; [`undo`](mod@undo) reverts what the journal says, and [`status`] summarizes it.
//!
//! A function that returns an I/O error without saying more fails if a file, a directory or a temporary file cannot be read or written.

pub mod apply;
#[cfg(feature = "archive")]
pub mod archive;
mod checked_input;
pub mod decisions;
pub mod entry;
pub mod execute;
pub mod git_index;
pub mod group;
mod history;
mod in_order;
pub mod journal;
mod listing;
mod moving;
mod new_names;
pub mod original_name_xattr;
pub mod plan;
mod plan_record;
pub mod plan_table;
mod private;
pub mod progress;
pub mod propose;
mod relink;
pub mod review;
pub mod roots;
pub mod status;
pub mod stored_plan;
pub mod undo;
pub mod verify;
