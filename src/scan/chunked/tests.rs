use std::collections::{BTreeMap, BTreeSet};

use namegate_findings::directory::DirectoryScan;

use super::*;
use crate::name::escape::stable_hash;
use crate::policy::{Confidence, Policy, Violation, profile};
use crate::progress::NoProgress;
use crate::report::Detail;

/// A directory that is handed over in parts.
#[derive(Debug)]
struct ListedParts {
    names: Vec<Vec<u8>>,
    /// How often it was read.
    passes: usize,
}

impl Parts for ListedParts {
    fn each(&mut self, take: &mut dyn FnMut(&DirectoryBatch)) {
        self.passes += 1;
        self.names.chunks(50).for_each(|part| take(&batch(part)));
    }
}

fn batch(names: &[Vec<u8>]) -> DirectoryBatch {
    let mut batch = DirectoryBatch::new(PathBuf::from("dir"), 0);
    names.iter().for_each(|name| batch.push(name));
    batch
}

/// The violations of each name with their messages, and its suggested name.
type FindingsByName = BTreeMap<Vec<u8>, (Vec<(Violation, String)>, Option<(String, Confidence)>)>;

/// Findings by name, and the ids of groups; each is reported once.
#[derive(Debug, Default, PartialEq)]
struct Collected {
    names: FindingsByName,
    groups: BTreeSet<String>,
}

impl Collected {
    fn add(&mut self, findings: DirectoryFindings) {
        for group in findings.groups {
            assert!(self.groups.insert(group.id.clone()), "{group:?}");
        }
        for record in findings.records {
            let violations = record.objections.into_iter().map(|o| (o.violation, o.message)).collect();
            let repair = record.repair.map(|repair| (repair.name, repair.confidence));
            assert!(self.names.insert(record.name, (violations, repair)).is_none(), "reported once");
        }
    }
}

/// Names of a large directory: bad ones, such as compete for the same suggested names, such
/// as collide, and good ones.
fn names() -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    for number in 0..60 {
        let mut name =
            b"Stra\xDFenverzeichnis und \xDCbersicht der Ausgaben f\xFCr das Jahr mit der Nummer ".to_vec();
        name.extend(number.to_string().bytes());
        names.push(name);
    }
    // The names that are suggested for these are in use below.
    for number in (0..60).step_by(10) {
        names.push([b"caf\xE9 ", number.to_string().as_bytes()].concat());
    }
    let mut add = |name: String| names.push(name.into_bytes());
    for number in 0..60 {
        let forms: [(usize, &str); 7] = [
            (1, ":b"),
            (3, "?b"),
            (5, "_b"),
            (7, "_b_2"),
            // A number leads to a name that is suggested for this one.
            (11, ":b_2"),
            (13, "|b_2"),
            (17, "_B_3"),
        ];
        for (every, form) in forms {
            if number % every == 0 {
                add(format!("a{number}{form}"));
            }
        }
        add(format!("good name {number}"));
        if number % 10 == 0 {
            add(format!("Read {number}"));
            add(format!("read {number}"));
            add(format!("cafe\u{301} {number}"));
            add(format!("café {number}"));
        }
    }
    // The parts have nothing to do with the order.
    names.sort_by_key(|name| stable_hash(name));
    names
}

#[test]
fn many_findings_are_the_same_in_parts_as_in_the_whole() {
    for profiles in [&["utf8"][..], &["windows"], &["portable"], &["windows", "macos", "s3"]] {
        let profiles: Vec<_> = profiles.iter().map(|name| profile::by_name(name).unwrap()).collect();
        let policy = Policy::from_profiles(&profiles);
        let scan = BatchScan { directories: DirectoryScan::new(&policy, Detail::Everything), prefix: b"" };
        let mut parts = ListedParts { names: names(), passes: 0 };
        let (mut whole, mut found) = (Collected::default(), Collected::default());
        scan.check(&batch(&parts.names), CheckedNames::All, &mut |findings| whole.add(findings));
        let count = check_holding(0, &mut parts, &scan, &NoProgress, &mut |findings| found.add(findings));
        assert_eq!(count, parts.names.len() as u64);
        assert!(parts.passes < 30, "{} passes", parts.passes);
        assert!(whole.names.len() >= 60 && found.groups == whole.groups, "{:?}", policy.profiles());
        for (name, expected) in &whole.names {
            assert_eq!(found.names.get(name), Some(expected), "{}", name.escape_ascii());
        }
        assert_eq!(found.names.len(), whole.names.len());
    }
}
