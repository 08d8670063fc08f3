//! The command line of namegate.

use std::process::ExitCode;

fn main() -> ExitCode {
    namegate::cli::main()
}
