//! Changing names on disk: a plan that can be read and edited, made before anything moves.
//!
//! [`propose`] makes a plan; [`plan`] is what is written between the two: pure records, their text, and what can be said about them without a file
//! system.

pub mod plan;
pub mod propose;
