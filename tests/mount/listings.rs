//! Directories that are listed through the mount while they change in the source. A listing that the kernel caches must
//! never be outdated.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use namegate_testkit::mounted::TestMount;

fn listed(dir: &Path) -> BTreeSet<String> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Lists a directory with the attributes of its entries.
fn listed_with_attributes(dir: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| {
            assert!(entry.metadata().unwrap().is_file());
            entry.file_name().into_string().unwrap()
        })
        .collect()
}

#[test]
fn changes_in_the_source_show_in_the_next_listing_even_if_a_listing_is_cached() {
    let Some(mounted) = TestMount::new(&[]) else { return };
    let (there, here) = (mounted.backing().join("dir"), mounted.mnt().join("dir"));
    fs::create_dir(&there).unwrap();
    for i in 0..300 {
        fs::write(there.join(format!("file {i}")), "").unwrap();
    }
    let mut expected = listed(&there);
    for list in [listed, listed_with_attributes, listed] {
        // Long enough for the kernel to cache a listing.
        sleep(Duration::from_millis(3200));
        for _ in 0..3 {
            assert_eq!(list(&here), expected);
        }
        // As programs that copy trees do: the time is set to the previous one.
        let before = fs::metadata(&there).unwrap().modified().unwrap();
        let name = format!("new {}", expected.len());
        fs::write(there.join(&name), "").unwrap();
        File::open(&there).unwrap().set_modified(before).unwrap();
        expected.insert(name);
        assert_eq!(list(&here), expected, "one more entry, and the old time");
        let gone = expected.pop_first().unwrap();
        fs::remove_file(there.join(&gone)).unwrap();
        File::open(&there).unwrap().set_modified(before).unwrap();
        assert_eq!(list(&here), expected, "one less");
    }
}

#[test]
fn a_directory_that_keeps_changing_is_listed_correctly() {
    let Some(mounted) = TestMount::new(&[]) else { return };
    let (there, here) = (mounted.backing(), mounted.mnt());
    for i in 0..300 {
        let place = if i % 3 == 0 { &here } else { &there };
        fs::write(place.join(format!("file {i}")), "").unwrap();
        assert_eq!(listed(&here).len(), i + 1);
        let listing = if i % 2 == 0 { listed_with_attributes(&here) } else { listed(&here) };
        assert_eq!(listing, listed(&there));
    }
}

#[test]
fn a_listing_during_changes_has_all_lasting_entries_and_the_next_one_is_exact() {
    let Some(mounted) = TestMount::new(&[]) else { return };
    let (there, here) = (mounted.backing(), mounted.mnt());
    for i in 0..3000 {
        fs::write(there.join(format!("a file that stays {i}")), "").unwrap();
    }
    let staying = listed(&there);
    sleep(Duration::from_millis(3200));
    let mut reading = fs::read_dir(&here).unwrap();
    let mut seen = BTreeSet::new();
    for _ in 0..10 {
        seen.insert(reading.next().unwrap().unwrap().file_name().into_string().unwrap());
    }
    fs::write(there.join("new"), "").unwrap();
    assert_eq!(listed(&here), listed(&there));
    seen.extend(reading.map(|entry| entry.unwrap().file_name().into_string().unwrap()));
    seen.remove("new");
    assert_eq!(seen, staying);
    for _ in 0..2 {
        assert_eq!(listed(&here), listed(&there));
        sleep(Duration::from_millis(3200));
    }
    assert_eq!(listed(&here), listed(&there));
}
