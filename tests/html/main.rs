//! The pages for browsers, in a real one.

#![allow(clippy::unwrap_used, reason = "a test ends where something is wrong")]

mod browser;
mod report;
mod review;
