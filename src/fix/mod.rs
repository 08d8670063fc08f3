//! Changing names on disk: a plan that can be read and edited, made before anything moves.
//!
//! [`propose`] makes a plan; [`plan`] is what is written between the two: pure records, their text, and what can be said about
//! them without a file system. [`apply`](mod@apply) does it, after it has written into a [`journal`] what it is going to do; by
//! that [`undo`](mod@undo) takes it back, and [`status`] tells how far it has come.

pub mod apply;
pub mod carry;
pub mod entry;
pub mod group;
pub mod history;
pub mod journal;
pub mod listing;
pub mod mark;
pub mod plan;
pub mod private;
pub mod propose;
pub mod relink;
pub mod roots;
pub mod status;
pub mod undo;
pub mod watcher;
