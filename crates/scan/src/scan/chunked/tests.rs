use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use namegate_core::name::escape::stable_hash;
use namegate_core::name::reading::EncodingCounts;
use namegate_core::policy::{Confidence, Policy, Violation, profile};
use namegate_findings::directory::DirectoryScan;
use namegate_findings::group::Clash;
use namegate_findings::location::{ArchiveKind, Container, Location};

use super::*;
use crate::report::Detail;

/// As a scan of a source that is no tree.
const GUESS: fn(&Path, &EncodingSample) -> Option<EncodingGuess> =
    |_, sample| EncodingGuess::for_sample(sample, &EncodingCounts::default());

/// A directory that is handed over in parts.
#[derive(Debug)]
struct ListedParts {
    whole: DirectoryBatch,
    /// How often it was read.
    passes: usize,
}

impl Parts for ListedParts {
    fn each(&mut self, take: &mut dyn FnMut(&DirectoryBatch)) {
        self.passes += 1;
        for part in 0..self.whole.count.div_ceil(50) {
            take(&self.whole.filtered(&mut |at, _| at / 50 == part));
        }
    }
}

fn batch(names: &[Vec<u8>]) -> DirectoryBatch {
    let mut batch = DirectoryBatch::new(PathBuf::from("dir"), 0);
    names.iter().for_each(|name| batch.push(name));
    batch
}

/// The violations of a name with their messages, its suggested name and its location.
type FindingsOfName = (Vec<(Violation, String)>, Option<(String, Confidence)>, Option<Location>);
type FindingsByName = BTreeMap<Vec<u8>, FindingsOfName>;

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
            assert_eq!(record.place.unwrap().dir, b"dir");
            let found = (violations, repair, record.location);
            assert!(self.names.insert(record.name, found).is_none(), "reported once");
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

/// Checks that the findings of a directory are the same in parts as in the whole, for some policies.
fn assert_same_in_parts(whole: DirectoryBatch, most_held: usize) {
    let mut parts = ListedParts { whole, passes: 0 };
    for profiles in [&["utf8"][..], &["strict"], &["windows"], &["portable"], &["windows", "macos", "s3"]] {
        let profiles: Vec<_> = profiles.iter().map(|name| profile::by_name(name).unwrap()).collect();
        let policy = Policy::from_profiles(&profiles);
        for detail in [Detail::Everything, Detail::Violations] {
            let scan = BatchScan { directories: DirectoryScan::new(&policy, detail), prefix: b"" };
            parts.passes = 0;
            let (mut whole, mut found) = (Collected::default(), Collected::default());
            scan.check(&parts.whole, CheckedNames::All, &mut |findings| whole.add(findings));
            let large = LargeScan { most_held, ..LargeScan::new(&scan, &GUESS) };
            let count = large.check(&mut parts, &mut |_| {}, &mut |findings| found.add(findings));
            assert_eq!(count, LargeCheck { names: parts.whole.count as u64, waits: None });
            assert!(parts.passes < 30, "{} passes", parts.passes);
            assert_eq!(found.groups, whole.groups, "{:?}", policy.profiles());
            for (name, expected) in &whole.names {
                assert_eq!(found.names.get(name), Some(expected), "{}", name.escape_ascii());
            }
            assert_eq!(found.names.len(), whole.names.len());
        }
    }
}

#[test]
fn many_findings_are_the_same_in_parts_as_in_the_whole() {
    assert_same_in_parts(batch(&names()), 0);
}

#[test]
fn names_of_a_list_or_an_archive_keep_their_locations_and_rules_in_parts() {
    let (list, tar) = (
        Container::List { file: b"list".to_vec() },
        Container::Archive { file: b"a.tar".to_vec(), kind: ArchiveKind::Tar },
    );
    for (container, locate) in
        [(list, Location::Item as fn(u64) -> Location), (tar, Location::Member as fn(u64) -> Location)]
    {
        let mut whole = batch(&[]);
        whole.container = Some(Arc::new(container));
        let mut names = names();
        for number in 0..60 {
            names.push(format!("of windows \\ {number}").into_bytes());
            names.push(format!("up to \0 {number}").into_bytes());
        }
        names.sort_by_key(|name| stable_hash(name));
        for (number, name) in (1..).zip(&names) {
            whole.push_located(name, locate(number));
        }
        for number in (0..names.len()).step_by(9) {
            whole.clashes.insert(names[number].clone(), Clash { file: 1, directory: number as u64 });
        }
        for most_held in [0, usize::MAX] {
            assert_same_in_parts(whole.filtered(&mut |_, _| true), most_held);
        }
    }
}

#[test]
fn a_rule_of_the_container_alone_is_enough_for_a_finding() {
    let mut whole = batch(&[b"a".to_vec()]);
    whole.container =
        Some(Arc::new(Container::Git { repository: b"r".to_vec(), revision: b"index".to_vec() }));
    whole.append(&batch(&[b".git".to_vec(), b"b".to_vec()]));
    let policy = Policy::from_profiles(&[profile::by_name("utf8").unwrap()]);
    let scan = BatchScan { directories: DirectoryScan::new(&policy, Detail::Everything), prefix: b"" };
    let mut found = Collected::default();
    let mut parts = ListedParts { whole, passes: 0 };
    LargeScan::new(&scan, &GUESS).check(&mut parts, &mut |_| {}, &mut |findings| found.add(findings));
    assert_eq!(found.names.into_keys().collect::<Vec<_>>(), [b".git"]);
}
