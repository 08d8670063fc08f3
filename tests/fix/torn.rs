//! Journals that are torn, damaged or not journals at all.

use std::fs;
use std::path::Path;

use namegate_fix::journal::{Journal, JournalContents, JournalError};

use crate::tree::{OPTIONS, Recorder, apply_plan, make_tree, names, plan, snapshot, undo_journal};

/// The bytes of the journal in `dir`, and the offsets at which its lines end.
fn journal(dir: &Path) -> (Vec<u8>, Vec<usize>) {
    let bytes = fs::read(dir.join("journal")).unwrap();
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
    (bytes, ends)
}

fn finished() -> (tempfile::TempDir, std::path::PathBuf, crate::tree::Snapshot) {
    let (dir, root) = make_tree(&[b"d/", b"d/a\xFF", b"b\xFF", b"c\xFF", b"e\xFF", b"link -> b\xFF"]);
    let wanted: &[(&[u8], &str)] = &[(b"d/a\xFF", "a"), (b"b\xFF", "b"), (b"c\xFF", "c"), (b"e\xFF", "e")];
    let plan = plan(&root, wanted);
    let before = snapshot(&root);
    apply_plan(&plan, &dir.path().join("journal"), OPTIONS, &Recorder::default()).unwrap();
    (dir, root, before)
}

#[test]
fn a_journal_cut_at_any_byte_is_read_up_to_its_last_whole_batch() {
    let (dir, ..) = finished();
    let path = dir.path().join("journal");
    let (whole, ends) = journal(dir.path());
    let header = ends[0];
    let mut batches = 0;
    for cut in 0..=whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        match JournalContents::read(&path) {
            Ok(reading) => {
                assert!(cut >= header, "{cut}");
                assert!(reading.batches.len() >= batches, "{cut}: fewer batches than in a shorter part");
                batches = reading.batches.len();
                let is_torn = !ends.contains(&cut);
                assert!(reading.is_torn || !is_torn, "{cut}");
                // Resuming removes the torn end.
                let (journal, _) = Journal::resume(&path).unwrap();
                drop(journal);
                let left = fs::read(&path).unwrap();
                assert!(whole.starts_with(&left) && ends.contains(&left.len()), "{cut}");
            }
            Err(JournalError::NotAJournal) => assert!(cut < header, "{cut}"),
            Err(error) => panic!("{cut}: {error}"),
        }
    }
    assert!(batches >= 3, "{batches}");
}

#[test]
fn a_flipped_bit_is_detected_and_no_batch_is_forgotten() {
    let (dir, ..) = finished();
    let path = dir.path().join("journal");
    let (whole, _) = journal(dir.path());
    fs::write(&path, &whole).unwrap();
    let batches = JournalContents::read(&path).unwrap().batches.len();
    let mut refused = 0;
    for at in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (at % 8);
        fs::write(&path, &flipped).unwrap();
        match JournalContents::read(&path) {
            Ok(reading) => assert_eq!(reading.batches.len(), batches, "byte {at}"),
            Err(JournalError::NotAJournal | JournalError::Damaged { .. }) => refused += 1,
            Err(error) => panic!("{at}: {error}"),
        }
    }
    assert!(refused > whole.len() / 2);
}

#[test]
fn missing_duplicated_and_reordered_lines_are_detected() {
    let (dir, ..) = finished();
    let path = dir.path().join("journal");
    let (whole, ends) = journal(dir.path());
    let lines: Vec<&[u8]> = whole.split_inclusive(|&byte| byte == b'\n').collect();
    // The last lines say what was done, which the directories show too.
    for at in 0..ends.len() - 3 {
        // Reordered lines of the last batch may be pages that were written in another order.
        for change in 0..if at + 5 < ends.len() { 3 } else { 2 } {
            let mut lines = lines.clone();
            match change {
                0 => drop(lines.remove(at)),
                1 => lines.insert(at, lines[at]),
                _ => lines.swap(at, at + 1),
            }
            fs::write(&path, lines.concat()).unwrap();
            let read = JournalContents::read(&path);
            assert!(
                matches!(read, Err(JournalError::NotAJournal | JournalError::Damaged { .. })),
                "{at} {change}: {read:?}"
            );
        }
    }
}

#[test]
fn pages_written_in_another_order_are_a_torn_end() {
    let (dir, root, before) = finished();
    let path = dir.path().join("journal");
    let (whole, ends) = journal(dir.path());
    // The last batch was written but not synced: the middle of it is missing.
    let text = String::from_utf8(whole.clone()).unwrap();
    let last = text.rfind("{\"type\":\"batch\"").unwrap();
    let unit = ends.iter().position(|&end| end == last).unwrap();
    let mut torn = whole[..ends[unit + 2]].to_vec();
    torn[last + 20..ends[unit + 1]].fill(0);
    fs::write(&path, &torn).unwrap();
    let reading = JournalContents::read(&path).unwrap();
    assert!(reading.is_torn);
    // The changes of that batch were not made; the link has its old target.
    fs::remove_file(root.join("link")).unwrap();
    std::os::unix::fs::symlink(std::ffi::OsStr::new("b\u{FFFD}"), root.join("link")).unwrap();
    undo_journal(&path, &Recorder::default()).unwrap();
    let now = names(&snapshot(&root));
    for (path, entry) in names(&before).iter().filter(|(path, _)| **path != b"link") {
        assert_eq!(now.get(path), Some(entry));
    }
}

#[test]
fn a_file_without_a_journal_header_is_not_a_journal() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    for content in ["", "\n", "{}", "{\"type\":\"plan\"}\n", "\0\0\0\n"] {
        fs::write(&path, content).unwrap();
        assert!(matches!(JournalContents::read(&path), Err(JournalError::NotAJournal)), "{content:?}");
        assert!(matches!(Journal::resume(&path), Err(JournalError::NotAJournal)), "{content:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), content, "the file is unchanged");
    }
}
