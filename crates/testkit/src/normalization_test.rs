//! The rows of NormalizationTest.txt.

use std::path::Path;
use std::process::Command;

const TEST: &str = "/usr/share/unicode/NormalizationTest.txt.bz2";

/// The text of the test file; `None`, after a message, if it is missing.
pub fn test_file() -> Option<String> {
    if !Path::new(TEST).exists() {
        println!("SKIPPED: {TEST} is absent (Debian package unicode-data)");
        return None;
    }
    let output = match Command::new("bzcat").arg(TEST).output() {
        Ok(output) if output.status.success() => output,
        Ok(output) => panic!("bzcat failed: {}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => {
            println!("SKIPPED: bzcat does not run: {error} (Debian package bzip2)");
            return None;
        }
    };
    Some(String::from_utf8(output.stdout).unwrap())
}

fn scalars(field: &str) -> String {
    field
        .split_whitespace()
        .map(|hex| char::from_u32(u32::from_str_radix(hex, 16).unwrap()).unwrap())
        .collect()
}

/// Whether the row is in part 1, its columns, and its text.
pub fn rows(text: &str) -> impl Iterator<Item = (bool, [String; 5], &str)> {
    let mut in_part_1 = false;
    text.lines().filter_map(move |line| {
        if line.starts_with('@') {
            in_part_1 = line.starts_with("@Part1");
        }
        if line.is_empty() || line.starts_with(['#', '@']) {
            return None;
        }
        let mut fields = line.split(';').map(scalars_before_comment);
        Some((in_part_1, std::array::from_fn(|_| fields.next().unwrap()), line))
    })
}

fn scalars_before_comment(field: &str) -> String {
    scalars(field.split('#').next().unwrap_or_default())
}
