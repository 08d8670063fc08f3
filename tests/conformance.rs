//! UTF-8 test data of other projects. It is next to the repository, not in it: if it is missing, the test prints SKIPPED.

use std::path::PathBuf;

use data_encoding::HEXUPPER_PERMISSIVE as HEX;
use namegate_core::name::utf8;
use namegate_core::policy::{Policy, Verdict, profile};

/// The text of a data file; `None`, after a message, if it is missing.
fn data(file: &str) -> Option<String> {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "shared", "conformance", file].iter().collect();
    match std::fs::read_to_string(&path) {
        Ok(text) => Some(text),
        Err(error) => {
            println!("SKIPPED: conformance data {file}: {error}");
            None
        }
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: String = hex.split_whitespace().collect();
    HEX.decode(digits.as_bytes()).unwrap_or_else(|e| panic!("{hex}: {e}"))
}

/// Checks a name with the decoder and with a policy that adds no rules.
fn assert_validity(name: &[u8], valid: bool, source: &str) {
    assert_eq!(utf8::validate(name).is_ok(), valid, "{source}: {name:02X?}");
    if !name.is_empty() && !name.contains(&b'/') && !name.contains(&0) {
        let policy = Policy::from_profiles(&[&profile::UTF8]);
        let accepted = matches!(policy.verdict(name), Verdict::Accept(_));
        assert_eq!(accepted, valid, "{source}: {name:02X?}");
    }
}

#[test]
fn utf8tests_by_flenniken_hold() {
    let Some(text) = data("utf8tests/utf8tests.txt") else { return };
    let (mut valid, mut invalid) = (0, 0);
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let mut fields = line.splitn(3, ':');
        let (number, kind, rest) = (fields.next().unwrap(), fields.next().unwrap(), fields.next().unwrap());
        match kind.trim() {
            "valid" => assert_validity(rest.as_bytes(), true, number),
            "valid hex" => assert_validity(&bytes(rest.split(':').next().unwrap()), true, number),
            "invalid hex" => assert_validity(&bytes(rest.split(':').next().unwrap()), false, number),
            _ => panic!("an unknown kind of line: {line}"),
        }
        *if kind.trim().starts_with("valid") { &mut valid } else { &mut invalid } += 1;
    }
    assert!(valid >= 15 && invalid >= 100, "the file is not what it was: {valid} valid, {invalid} invalid");
}

#[test]
fn the_byte_lists_of_web_platform_tests_are_all_refused() {
    let Some(text) = data("wpt/utf8-fatal.tsv") else { return };
    let mut lines = 0;
    for line in text.lines() {
        let (hex, note) = line.split_once('\t').unwrap();
        assert_validity(&bytes(hex), false, note);
        lines += 1;
    }
    assert!(lines >= 29, "the file is not what it was: {lines} lines");
}

#[test]
fn all_collected_names_are_checked_as_marked() {
    let Some(text) = data("names.tsv") else { return };
    let (mut valid, mut invalid) = (0, 0);
    for line in text.lines() {
        let mut fields = line.split('\t');
        let (hex, mark, source) =
            (fields.next().unwrap(), fields.next().unwrap(), fields.next().unwrap_or_default());
        let is_valid = match mark {
            "valid" => true,
            "invalid" => false,
            _ => panic!("an unknown mark: {line}"),
        };
        assert_validity(&bytes(hex), is_valid, source);
        *if is_valid { &mut valid } else { &mut invalid } += 1;
    }
    assert!(valid >= 500 && invalid >= 100, "the file is not what it was: {valid} valid, {invalid} invalid");
}
