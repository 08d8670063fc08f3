//! Files and texts that several packages of namegate read and write.

pub mod json;
pub mod output;
pub mod page;
pub mod signature;
pub mod spreadsheet;
pub mod time;
