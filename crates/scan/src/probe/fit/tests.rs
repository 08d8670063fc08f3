use std::path::PathBuf;

use namegate_core::policy::profile::ALL;
use nix::errno::Errno;

use super::super::samples::{PAIRS, RESERVED, WIDTHS, tagged};
use super::*;

fn facts(kind: &str) -> TargetFacts {
    let line = format!("27 1 254:0 / /mnt rw - {kind} /dev/vda rw");
    TargetFacts {
        path: PathBuf::from("/mnt"),
        mount: namegate_sys::mounts::parse(line.as_bytes()).pop(),
        is_read_only: false,
        stated_name_max: Some(255),
        casefold_flag: None,
        encrypted_flag: None,
        free_bytes: 1,
        free_inodes: None,
        path_bytes_left: 4090,
        leftovers: Vec::new(),
    }
}

/// What trials would find on a target that refuses and merges just what the policy says.
fn trials_of(policy: &Policy) -> Trials {
    let try_name = |name: Vec<u8>| {
        let is_refused = !refused_by(policy, &name).is_empty();
        let arrival = if is_refused { Arrival::Refused(Errno::EINVAL) } else { Arrival::Kept };
        TriedName { name, arrival }
    };
    let shapes = SHAPES.iter().chain(&RESERVED).map(|name| name.as_bytes().to_vec());
    let mut names: Vec<TriedName> = tagged().into_iter().chain(shapes).map(try_name).collect();
    let mut longest = Vec::new();
    for c in WIDTHS {
        let name = |count: usize| c.to_string().repeat(count).into_bytes();
        let fits = |count: usize| refused_by(policy, &name(count)).is_empty();
        let Some(fitting) = (1..=4095 / c.len_utf8()).take_while(|&count| fits(count)).last() else {
            continue;
        };
        longest.push((c, fitting));
        let tried = [fitting, fitting + 1].into_iter().filter(|count| count * c.len_utf8() <= 4095);
        names.extend(tried.map(|count| try_name(name(count))));
    }
    let pairs = PAIRS.iter().map(|(first, second)| {
        let names = [format!("x{first}"), format!("x{second}")];
        let found = policy.collisions(&names.each_ref().map(|name| name.as_bytes()));
        let is_error = |one: &namegate_core::policy::Violation| one.severity == Severity::Error;
        let are_one = found.iter().flat_map(|one| &one.violations).any(is_error);
        NamePair { names, are_one }
    });
    Trials { names, pairs: pairs.collect(), longest, ..Trials::default() }
}

#[test]
fn a_target_that_is_as_a_profile_says_gets_a_policy_that_says_the_same() {
    for name in CANDIDATES.iter().chain(&["strict", "joliet", "smb", "ecryptfs", "ext4-casefold"]) {
        let profile = by_name(name).unwrap();
        let trials = trials_of(&Policy::from_profiles(&[profile]));
        let fit = PolicyFit::find(&facts("fuse"), &trials);
        assert_eq!(fit.inexact, [""; 0], "{name}: {}", fit.config.to_toml());
        let read_back = Config::parse(&fit.config.to_toml()).unwrap().policy().unwrap();
        assert!(differences(&read_back, &trials).is_empty(), "{name}");
        if ["exfat", "windows", "android"].contains(name) {
            assert_eq!(fit.profile.name, *name, "{}", fit.config.to_toml());
            assert_eq!(fit.config.to_toml().lines().count(), 4, "{}", fit.config.to_toml());
        }
    }
}

#[test]
fn what_differs_from_a_profile_is_in_the_policy() {
    let windows = by_name("windows").unwrap();
    let mut trials = trials_of(&Policy::from_profiles(&[windows]));
    for tried in &mut trials.names {
        match &tried.name[..] {
            b"x." | b"x. ." | b"..." => tried.arrival = Arrival::Kept,
            b"x~1" => tried.arrival = Arrival::Lost,
            name if name.ends_with("\u{202E}x".as_bytes()) => tried.arrival = Arrival::Changed(b"x".to_vec()),
            _ => {}
        }
    }
    let fit = PolicyFit::find(&facts("ntfs3"), &trials);
    assert_eq!((fit.profile.name, fit.inexact.len()), ("windows", 0), "{:?}", fit.inexact);
    let toml = fit.config.to_toml();
    for line in ["trailing-dot = \"off\"", "reserved-names = [\"x~1\"]", "path-bytes = 4090"] {
        assert!(toml.contains(line), "{toml}");
    }
    let policy = fit.config.policy().unwrap();
    assert!(!refused_by(&policy, "a\u{202E}b".as_bytes()).is_empty(), "{toml}");
    assert!(refused_by(&policy, "a\u{2066}b".as_bytes()).is_empty(), "{toml}");
}

#[test]
fn what_could_not_be_tried_comes_from_the_type_of_the_file_system() {
    for (kind, expected) in
        [("ntfs3", "windows"), ("vfat", "exfat"), ("cifs", "smb"), ("hfsplus", "macos"), ("ext4", "utf8")]
    {
        let fit = PolicyFit::find(&facts(kind), &Trials::not_run("read-only".into()));
        assert_eq!((fit.profile.name, fit.inexact.len()), (expected, 0));
        let limit = (expected == "utf8").then_some(255);
        assert_eq!((fit.config.limits.name_bytes, fit.config.limits.path_bytes), (limit, Some(4090)));
    }
    let folded = TargetFacts { casefold_flag: Some(true), ..facts("ext4") };
    assert_eq!(PolicyFit::find(&folded, &Trials::not_run(String::new())).profile.name, "ext4-casefold");
}

#[test]
fn names_of_other_case_or_form_are_stored_and_other_names_are_not() {
    let is_stored = |name: &str, arrived: &[u8]| {
        let arrival = Arrival::Changed(arrived.to_vec());
        is_stored(&TriedName { name: name.as_bytes().to_vec(), arrival })
    };
    assert!(is_stored("ABC.TXT", b"abc.txt") && is_stored("\u{e9}", "e\u{301}".as_bytes()));
    assert!(!is_stored("x.", b"x") && !is_stored("x", b"\xFF"));
}

#[test]
fn limits_of_every_unit_are_found() {
    for (longest, bytes, utf16) in [
        ([255, 127, 85, 63], Some(255), None),
        ([255, 255, 255, 127], None, Some(255)),
        ([255, 255, 85, 63], Some(252), None),
    ] {
        let trials = Trials { longest: WIDTHS.into_iter().zip(longest).collect(), ..Trials::default() };
        let limits = adjust(&UTF8, &facts("ext4"), &trials, EqualNames::default()).limits;
        assert_eq!((limits.name_bytes, limits.name_utf16), (bytes, utf16), "{longest:?}");
    }
    assert!(CANDIDATES.iter().all(|name| ALL.iter().any(|profile| profile.name == *name)));
}
