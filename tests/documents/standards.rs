//! Checks that `docs/STANDARDS.md` has every statement of the founding documents, and that its examples and tests hold.

use std::collections::BTreeSet;

use namegate_core::policy::Policy;
use namegate_core::policy::profile::{self, ALL};

use super::markdown::read;
use super::promises::functions;

/// The statements: of the tutorial (K), RFC 3629 (R), utf-8(7) (M), and Amendment 2 (A, AF, R., T).
const STATEMENTS: &str = "K1 K2 K4 K5 K6 K7 K8 K9 K10 K11 K12 K13 K14 K15 K16 K17 K18 K19a K19b K19c K19d K19e K20 K21 K22 K23 \
    R1a R1b R1c R1d R1e R1f R2 R3a R3b R3c R3d R3e R3f R3g R3h R4a R4b R5a R5b R6a R6b R6c R6d R6e R6f R7a R7b R7c R7d \
    R8a R8b R10a R10b R10c R10d R12 M1 M2 M3 M4 M5 M6 M7 M8 M9 M10 M11 M12 M13 M14 M15 A5 AF1 AF2 R.1a R.1b R.1c R.1d \
    R.2a R.2b R.2c R.2d T1r1 T1r2 T1r3 T1r4 T1r5 T1r6 T1u T3.1 T3.2 T3.3 T3.4 T3.5 T3.6 T3.7 T3.8 T3.9 T3.10 T3.11 T3.12 \
    T3.13 R.4n R.4 R.5 R.6a R.6b R.6c R.7a R.7b R.7c R.7d R.7e";

/// The rows of the tables with `columns` columns.
fn rows(document: &str, columns: usize) -> impl Iterator<Item = Vec<&str>> {
    let cells = |line: &'_ str| line.trim_matches('|').split('|').map(str::trim).count();
    let rows = document.lines().filter(move |line| line.starts_with("| ") && cells(line) == columns);
    rows.map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
}

fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// The rules that `name` breaks under a profile, in the order of its bytes.
fn broken(profile: &str, name: &[u8]) -> Vec<&'static str> {
    let policy = Policy::from_profiles(&[profile::by_name(profile).unwrap()]);
    policy.check(name).violations.iter().map(|v| v.rule.name()).collect()
}

#[test]
fn every_statement_of_the_founding_documents_is_answered_as_its_example_shows() {
    let (document, functions) = (read("docs/STANDARDS.md"), functions());
    let mut answered = Vec::new();
    for row in rows(&document, 6).filter(|row| row[0] != "id") {
        let [id, clause, asks, answer, example, tests] = row[..] else { panic!("{row:?}") };
        assert!(![clause, asks, answer].contains(&""), "{id}");
        let (name, rules) = example.rsplit_once(": ").unwrap_or_else(|| panic!("{id}: {example}"));
        let (profile, octets) = match quoted(name)[..] {
            [octets] => ("utf8", octets),
            [profile, octets] => (profile, octets),
            _ => panic!("{id}: {example}"),
        };
        let octets = octets.split(' ').map(|octet| u8::from_str_radix(octet, 16).unwrap());
        let found: BTreeSet<_> = broken(profile, &octets.collect::<Vec<_>>()).into_iter().collect();
        let expected: BTreeSet<_> = rules.split(", ").filter(|rule| *rule != "valid").collect();
        assert_eq!(found, expected, "{id}: {example}");
        let tests = quoted(tests);
        assert!(!tests.is_empty(), "{id} has no test");
        for test in tests {
            assert!(functions.contains(test), "{id}: there is no test `{test}`");
        }
        answered.push(id.to_owned());
    }
    assert_eq!(answered, STATEMENTS.split_whitespace().collect::<Vec<_>>());
}

#[test]
fn what_each_profile_does_with_a_leading_byte_order_mark_is_in_the_table() {
    let document = read("docs/STANDARDS.md");
    let section = document.split("\n## A leading U+FEFF\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let mut described = BTreeSet::new();
    for row in rows(section, 3).filter(|row| row[0] != "profiles") {
        for profile in quoted(row[0]) {
            let policy = Policy::from_profiles(&[profile::by_name(profile).unwrap()]);
            let check = policy.check("\u{FEFF}a".as_bytes());
            let found: Vec<String> =
                check.violations.iter().map(|v| format!("{} `{}`", v.severity, v.rule)).collect();
            let found = if found.is_empty() { "accepts it".to_owned() } else { found.join(", ") };
            assert_eq!(row[1], found, "{profile}");
            assert!(described.insert(profile.to_owned()), "{profile} stands twice");
        }
    }
    assert_eq!(described, ALL.iter().map(|profile| profile.name.to_owned()).collect());
}
