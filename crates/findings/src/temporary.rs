//! Temporary files without a name.

use std::env;
use std::fs::File;
use std::io;

/// Creates a temporary file in `$TMPDIR`, by default in `/tmp`. It has no name, so it is gone when it is closed.
///
/// # Errors
/// The file cannot be created; the message names the directory.
pub fn file() -> io::Result<File> {
    tempfile::tempfile().map_err(|error| described("create", &error))
}

/// The error of a temporary file that cannot be written, with a message that names the directory.
#[must_use]
pub fn unwritten(error: io::Error) -> io::Error {
    described("write", &error)
}

fn described(attempt: &str, error: &io::Error) -> io::Error {
    let dir = env::temp_dir();
    let message = format!(
        "cannot {attempt} a temporary file in '{}': {error}; set TMPDIR to a directory with space",
        dir.display()
    );
    io::Error::new(error.kind(), message)
}
