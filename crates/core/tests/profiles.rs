//! Compares every profile with the rules that its target publishes.
//!
//! The cases are written from the rules that targets state, not from the profiles: names that must be found, with rule and
//! severity, and names near to them that must pass. A case of its table must break each rule of a profile.

use std::cell::RefCell;
use std::collections::BTreeSet;

use namegate_core::policy::profile::{self, ProfileRule, Test};
use namegate_core::policy::rule::{RuleId, Severity};
use namegate_core::policy::{Entry, EntryKind, Policy, Violation};

#[path = "profiles/cloud.rs"]
mod cloud;
#[path = "profiles/discs.rs"]
mod discs;
#[path = "profiles/git.rs"]
mod git;
#[path = "profiles/linux.rs"]
mod linux;
#[path = "profiles/macos.rs"]
mod macos;
#[path = "profiles/reading.rs"]
mod reading;
#[path = "profiles/windows.rs"]
mod windows;

/// One profile and the cases that it was tested with.
struct ProfileTester {
    policy: Policy,
    names: RefCell<Vec<Vec<u8>>>,
    paths: RefCell<Vec<Vec<u8>>>,
    directories: RefCell<Vec<Vec<String>>>,
}

/// `error trailing-dot, warn name-too-long`: each rule once per severity, in this order.
fn summary(violations: impl IntoIterator<Item = Violation>) -> String {
    let distinct: BTreeSet<_> =
        violations.into_iter().map(|v| (std::cmp::Reverse(v.severity), v.rule.name())).collect();
    let words: Vec<String> =
        distinct.iter().map(|(severity, rule)| format!("{} {rule}", severity.0)).collect();
    words.join(", ")
}

impl ProfileTester {
    fn for_profile(profile: &str) -> Self {
        Self {
            policy: Policy::from_profiles(&[profile::by_name(profile).expect("a profile")]),
            names: RefCell::default(),
            paths: RefCell::default(),
            directories: RefCell::default(),
        }
    }

    /// Asserts that checking `name` finds exactly `expected`, a [`summary`].
    fn finds(&self, name: impl AsRef<[u8]>, expected: &str) {
        let name = name.as_ref();
        let found = summary(self.policy.check(name).violations);
        assert_eq!(
            found,
            expected,
            "{:?} under {}",
            String::from_utf8_lossy(name),
            self.policy.profiles()[0]
        );
        self.names.borrow_mut().push(name.to_vec());
    }

    fn finds_each<N: AsRef<[u8]>>(&self, names: impl IntoIterator<Item = N>, expected: &str) {
        names.into_iter().for_each(|name| self.finds(name, expected));
    }

    fn passes<N: AsRef<[u8]>>(&self, names: impl IntoIterator<Item = N>) {
        self.finds_each(names, "");
    }

    /// Asserts `expected` for a name with each of `chars`, at any position.
    fn finds_inside(&self, chars: impl IntoIterator<Item = char>, expected: &str) {
        for c in chars {
            self.finds_each([format!("{c}b.c"), format!("a{c}b.c"), format!("a.b{c}")], expected);
        }
    }

    /// Asserts that checking the name of a directory and of a file finds exactly `expected`, in this order.
    fn finds_by_kind(&self, name: &str, expected: [&str; 2]) {
        let found = [EntryKind::Directory, EntryKind::File]
            .map(|kind| summary(self.policy.check_entry(name.as_bytes(), Entry::of_kind(kind)).violations));
        assert_eq!(found, expected, "{name} under {}", self.policy.profiles()[0]);
    }

    /// Asserts that checking the path of a directory and of a file finds exactly `expected`, in this order.
    fn finds_path_by_kind(&self, path: &str, expected: [&str; 2]) {
        let kinds = [EntryKind::Directory, EntryKind::File];
        let found = kinds.map(|kind| summary(self.policy.check_path(path.as_bytes(), kind)));
        assert_eq!(found, expected, "a path of {} bytes under {}", path.len(), self.policy.profiles()[0]);
    }

    fn passes_inside(&self, chars: impl IntoIterator<Item = char>) {
        self.finds_inside(chars, "");
    }

    /// Asserts that checking a whole path finds exactly `expected`.
    fn finds_path(&self, path: impl AsRef<[u8]>, expected: &str) {
        let path = path.as_ref();
        let found = summary(self.policy.check_path(path, EntryKind::Unknown));
        assert_eq!(found, expected, "a path of {} bytes under {}", path.len(), self.policy.profiles()[0]);
        self.paths.borrow_mut().push(path.to_vec());
    }

    /// Asserts that `names` in one directory collide with the violation `expected`, or do not collide if it is empty.
    fn finds_together(&self, names: &[&str], expected: &str) {
        let bytes: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
        let collisions = self.policy.collisions(&bytes);
        for collision in &collisions {
            assert_eq!(collision.members.len(), names.len(), "{names:?} under {}", self.policy.profiles()[0]);
        }
        let found = summary(collisions.into_iter().flat_map(|collision| collision.violations));
        assert_eq!(found, expected, "{names:?} under {}", self.policy.profiles()[0]);
        self.directories.borrow_mut().push(names.iter().map(|&name| name.to_owned()).collect());
    }

    fn tells_apart(&self, names: &[&str]) {
        self.finds_together(names, "");
    }

    /// Whether one of the cases breaks `rule` by itself.
    fn is_exercised(&self, rule: &ProfileRule) -> bool {
        let policy = Policy::builder().rule(rule.clone()).build().expect("a rule has its parameters");
        let breaks = |v: &Violation| v.rule == rule.test.rule();
        self.names.borrow().iter().any(|name| policy.check(name).violations.iter().any(breaks))
            || self
                .paths
                .borrow()
                .iter()
                .any(|path| kinds().any(|kind| policy.check_path(path, kind).iter().any(breaks)))
            || self.directories.borrow().iter().any(|names| {
                let bytes: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
                !policy.collisions(&bytes).is_empty()
            })
    }
}

fn kinds() -> impl Iterator<Item = EntryKind> {
    [EntryKind::Unknown, EntryKind::Directory, EntryKind::File].into_iter()
}

macro_rules! tables {
    ($($test:ident, $profile:literal, $table:path;)*) => {
        $(#[test] fn $test() { $table(&ProfileTester::for_profile($profile)); })*

        const TABLES: &[(&str, fn(&ProfileTester))] = &[$(($profile, $table),)*];
    };
}

tables! {
    utf8_finds_ill_formed_names_alone, "utf8", reading::utf8;
    strict_finds_what_no_sane_name_holds, "strict", reading::strict;
    security_finds_what_deceives, "security", reading::security;
    posix_finds_what_is_not_portable, "posix", linux::posix;
    windows_finds_what_windows_refuses, "windows", windows::windows;
    exfat_finds_what_exfat_refuses, "exfat", windows::exfat;
    android_finds_what_its_storage_refuses, "android", windows::android;
    smb_finds_what_shares_refuse_and_maps_leave, "smb", windows::smb;
    macos_finds_what_apfs_and_hfs_refuse, "macos", macos::macos;
    sharepoint_finds_what_sharepoint_refuses, "sharepoint", cloud::sharepoint;
    s3_finds_what_keys_avoid, "s3", cloud::s3;
    wasabi_finds_what_has_four_bytes, "wasabi", cloud::wasabi;
    gcs_finds_what_objects_avoid, "gcs", cloud::gcs;
    azure_finds_what_blobs_refuse, "azure", cloud::azure;
    gdrive_finds_what_drive_for_desktop_refuses, "gdrive", cloud::gdrive;
    dropbox_finds_what_dropbox_refuses, "dropbox", cloud::dropbox;
    box_finds_what_box_refuses, "box", cloud::box_;
    nextcloud_finds_what_nextcloud_refuses, "nextcloud", cloud::nextcloud;
    iso9660_finds_what_iso_9660_refuses, "iso9660", discs::iso9660;
    joliet_finds_what_joliet_refuses, "joliet", discs::joliet;
    udf_finds_what_udf_refuses, "udf", discs::udf;
    ext4_casefold_finds_what_folds_to_one_name, "ext4-casefold", linux::ext4_casefold;
    zfs_utf8only_finds_what_zfs_refuses, "zfs-utf8only", linux::zfs_utf8only;
    ecryptfs_finds_what_is_too_long_encrypted, "ecryptfs", linux::ecryptfs;
    cryptomator_finds_what_is_shortened, "cryptomator", linux::cryptomator;
    git_finds_every_look_alike, "git", git::git;
    portable_finds_what_any_of_them_refuses, "portable", macos::portable;
}

#[test]
fn every_profile_but_utf8_warns_of_damaged_names() {
    for profile in profile::ALL {
        let policy = Policy::from_profiles(&[profile]);
        let violations = policy.check("M\u{C3}\u{BC}ller".as_bytes()).violations;
        let warns = violations.iter().any(|v| v.rule == RuleId::Mojibake && v.severity == Severity::Warn);
        assert_eq!(warns, profile.name != "utf8", "{profile}");
        assert!(policy.check("ééééééé".as_bytes()).violations.iter().all(|v| v.rule != RuleId::Mojibake));
    }
}

#[test]
fn every_profile_has_a_table_and_every_rule_of_it_a_case() {
    for profile in profile::ALL {
        let (_, table) = TABLES
            .iter()
            .find(|(name, _)| *name == profile.name)
            .unwrap_or_else(|| panic!("the profile {profile} has no table"));
        let tester = ProfileTester::for_profile(profile.name);
        table(&tester);
        assert!(!tester.names.borrow().is_empty(), "the table of {profile} checks no name");
        for rule in profile.all_rules() {
            let is_exempt = match rule.test {
                // It is found where paths are put together.
                Test::Plain(RuleId::CollisionKind) => true,
                // It is the same in all profiles.
                Test::Plain(RuleId::Mojibake) => profile.name != "strict",
                _ => false,
            };
            if is_exempt {
                continue;
            }
            assert!(tester.is_exercised(rule), "no case of {profile} breaks {rule:?}");
        }
    }
    assert_eq!(TABLES.len(), profile::ALL.len());
}

#[test]
fn profiles_are_listed_in_order() {
    let names: Vec<&str> = profile::ALL.iter().map(|p| p.name).collect();
    let order = "utf8 strict security posix windows exfat android smb macos sharepoint s3 wasabi gcs azure gdrive dropbox box nextcloud \
                 iso9660 joliet udf ext4-casefold zfs-utf8only ecryptfs cryptomator git portable";
    assert_eq!(names.join(" "), order);
}

#[test]
fn unverified_rules_are_warnings() {
    let unverified: Vec<(&str, &ProfileRule)> = profile::ALL
        .iter()
        .flat_map(|p| p.rules.iter().map(|rule| (p.name, rule)))
        .filter(|(_, rule)| !rule.verified)
        .collect();
    for (profile, rule) in &unverified {
        assert_eq!(rule.severity, Severity::Warn, "{profile}: {rule:?}");
    }
    // The rules that no primary source confirms.
    let marked: BTreeSet<&str> = unverified.iter().map(|(profile, _)| *profile).collect();
    assert_eq!(
        marked,
        BTreeSet::from(["cryptomator", "dropbox", "iso9660", "joliet", "s3", "sharepoint", "udf"])
    );
    let name_length = |(profile, rule): &(&str, &ProfileRule)| {
        *profile == "sharepoint" && matches!(rule.test, Test::Length(_))
    };
    assert!(unverified.iter().any(name_length));
}

#[test]
fn a_rule_of_two_profiles_names_both() {
    let profiles = ["windows", "exfat", "utf8"].map(|p| profile::by_name(p).unwrap());
    let policy = Policy::from_profiles(&profiles);
    let check = policy.check(b"what?");
    let by: Vec<Vec<&str>> = check.violations.iter().map(|v| v.profiles.names().collect()).collect();
    assert_eq!(by, [["windows", "exfat"]]);
    let severity = |profiles: &[&str], name: &[u8]| {
        let profiles: Vec<_> = profiles.iter().map(|p| profile::by_name(p).unwrap()).collect();
        summary(Policy::from_profiles(&profiles).check(name).violations)
    };
    assert_eq!(severity(&["gdrive"], b"aux"), "warn reserved-name");
    assert_eq!(severity(&["gdrive", "windows"], b"aux"), "error reserved-name");
    assert_eq!(severity(&["macos", "ext4-casefold"], "\u{378}".as_bytes()), "error unassigned");
}

#[test]
fn profiles_that_reject_a_name_are_distinguished_from_those_that_warn() {
    let [windows, sharepoint] = ["windows", "sharepoint"].map(|name| profile::by_name(name).unwrap());
    let policy = Policy::from_profiles(&[windows, sharepoint]);
    let of = |name: &[u8]| {
        let v = policy.check(name).violations[0];
        (v.severity, v.profiles.names().collect::<Vec<_>>(), v.refused_by.names().collect::<Vec<_>>())
    };
    // Microsoft does not say that SharePoint refuses a dot at the end; Windows does.
    assert_eq!(of(b"a."), (Severity::Error, vec!["windows", "sharepoint"], vec!["windows"]));
    assert_eq!(of(b"~a"), (Severity::Warn, vec!["sharepoint"], vec![]));
    assert_eq!(of(b"\xFF"), (Severity::Error, vec!["windows", "sharepoint"], vec!["windows", "sharepoint"]));
    let [group] = &policy.collisions(&[b"A", b"a"])[..] else { panic!("one group") };
    assert_eq!(group.violations[0].refused_by.names().collect::<Vec<_>>(), ["windows"]);
    let strict = Policy::builder().profiles(&[windows]).severity(RuleId::TrailingDot, Some(Severity::Warn));
    let violation = strict.build().unwrap().check(b"a.").violations[0];
    assert_eq!((violation.severity, violation.refused_by.names().count()), (Severity::Warn, 0));
    assert!(
        windows.stores_otherwise(RuleId::TrailingDot) && !sharepoint.stores_otherwise(RuleId::TrailingDot)
    );
}
