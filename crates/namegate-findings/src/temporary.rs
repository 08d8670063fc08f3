//! Temporary files without a name.

use std::env;
use std::fs::File;
use std::io;

/// Creates a temporary file in `$TMPDIR`, by default in `/tmp`. It has no name, so it is gone when it is closed.
///
/// # Errors
/// The file cannot be created; the message names the directory.
pub fn file() -> io::Result<File> {
    tempfile::tempfile().map_err(|error| {
        let dir = env::temp_dir();
        let message = format!(
            "cannot create a temporary file in '{}': {error}; set TMPDIR to a directory with space",
            dir.display()
        );
        io::Error::new(error.kind(), message)
    })
}
