//! Checks that the picture in the README shows the output of the program.

use std::fs;
use std::process::Command;

use super::markdown::{read, root};

#[test]
fn the_picture_shows_what_the_program_prints() {
    let output =
        Command::new(root().join("scripts/picture")).arg(env!("CARGO_BIN_EXE_namegate")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let picture = String::from_utf8(output.stdout).unwrap();
    if std::env::var_os("NAMEGATE_UPDATE").is_some() {
        fs::write(root().join("docs/session.svg"), &picture).unwrap();
    }
    assert!(
        read("docs/session.svg") == picture,
        "the program prints something else; `NAMEGATE_UPDATE=1 cargo test --test documents` draws the picture anew"
    );
}
