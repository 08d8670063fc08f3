//! namegate keeps file names well-formed.
//!
//! The library says of any byte string whether it is an admissible file name, which rule it breaks, at which bytes and
//! why. Data flows one way: `name` (what a name is) → `policy` (what is allowed) → everything that acts on a verdict.

pub mod name;
