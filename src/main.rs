//! The command line of namegate.

fn main() {}
