//! Other processes rename and create entries in the same directories at the same time.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use namegate_fix::apply::ApplyOptions;
use nix::fcntl::{RenameFlags, renameat2};

use crate::tree::{EntryContent, OPTIONS, Recorder, apply_plan, make_tree, plan, snapshot, undo_journal};
use namegate_testkit::random::Random;

/// The contents of all files, each with the number of files that have it.
fn contents(root: &Path) -> BTreeMap<Vec<u8>, usize> {
    let mut found = BTreeMap::new();
    for entry in snapshot(root).into_values() {
        if let EntryContent::File(content) = entry.what {
            *found.entry(content).or_default() += 1;
        }
    }
    found
}

/// Renames and creates files in `root` until `is_ended`, without overwriting anything. Returns the number of new files.
fn disturb(root: &Path, seed: u64, is_ended: &AtomicBool) -> usize {
    let dir = File::open(root).unwrap();
    let mut random = Random(seed);
    let name = |random: &mut Random| match random.below(4) {
        0 => format!("new {}", random.below(200)).into_bytes(),
        1 => format!("other {}", random.below(50)).into_bytes(),
        _ => [random.below(200).to_string().as_bytes(), b"\xE9"].concat(),
    };
    let mut made = 0;
    while !is_ended.load(Relaxed) {
        let (from, to) = (name(&mut random), name(&mut random));
        let (from, to) = (OsStr::from_bytes(&from), OsStr::from_bytes(&to));
        let _ = renameat2(&dir, from, &dir, to, RenameFlags::RENAME_NOREPLACE);
        // Pause, so that some files are left to rename.
        std::thread::sleep(Duration::from_micros(300));
        if random.chance(20) && made < 300 {
            let content = format!("disturbing {seed} {made}");
            let path = root.join(format!("new {}", random.below(200)));
            if let Ok(mut file) = File::create_new(path) {
                std::io::Write::write_all(&mut file, content.as_bytes()).unwrap();
                made += 1;
            }
        }
    }
    made
}

#[test]
fn nothing_is_lost_while_others_rename_and_create() {
    let mut renamed = 0;
    for seed in 0..6 {
        let (dir, root) = make_tree(&[]);
        let names: Vec<Vec<u8>> =
            (0..200).map(|number| [number.to_string().as_bytes(), b"\xE9"].concat()).collect();
        for name in &names {
            fs::write(root.join(OsStr::from_bytes(name)), name).unwrap();
        }
        // Each file gets an unused name.
        let texts: Vec<String> = (0..200).map(|number| format!("new {number}")).collect();
        let wanted: Vec<(&[u8], &str)> =
            names.iter().zip(&texts).map(|(name, text)| (name.as_slice(), text.as_str())).collect();
        let plan = plan(&root, &wanted);
        let is_ended = AtomicBool::new(false);
        let (first, second, made) = std::thread::scope(|scope| {
            let others: Vec<_> = (0..2)
                .map(|number| {
                    scope.spawn({
                        let (root, is_ended) = (&root, &is_ended);
                        move || disturb(root, seed * 2 + number, is_ended)
                    })
                })
                .collect();
            let options = ApplyOptions { batch_size: 16, ..OPTIONS };
            let first =
                apply_plan(&plan, &dir.path().join("journal"), options, &Recorder::default()).unwrap();
            let second = undo_journal(&dir.path().join("journal"), &Recorder::default()).unwrap();
            is_ended.store(true, Relaxed);
            let made: usize = others.into_iter().map(|other| other.join().unwrap()).sum();
            (first, second, made)
        });
        renamed += first.renamed;
        assert_eq!(first.renamed + first.remaining + first.already, 200, "seed {seed}");
        assert_eq!(second.restored + second.remaining, first.renamed, "seed {seed}");
        let found = contents(&root);
        assert_eq!(found.values().sum::<usize>(), 200 + made, "seed {seed}: nothing is lost or duplicated");
        for name in &names {
            assert_eq!(found.get(name), Some(&1), "seed {seed}: {}", name.escape_ascii());
        }
    }
    assert!(renamed > 0);
}

#[test]
fn two_simultaneous_runs_of_one_plan_do_no_harm() {
    for seed in 0..10 {
        let lines: Vec<Vec<u8>> = (0..60).map(|number| [&b"x\xFF"[..], &[b'0' + number]].concat()).collect();
        let lines: Vec<&[u8]> =
            lines.iter().map(Vec::as_slice).filter(|line| !line.ends_with(b"/")).collect();
        let (dir, root) = make_tree(&lines);
        let mut wanted: Vec<(&[u8], String)> =
            lines.iter().enumerate().map(|(number, line)| (*line, format!("new {number}"))).collect();
        wanted.truncate(50);
        let borrowed: Vec<(&[u8], &str)> = wanted.iter().map(|(old, new)| (*old, new.as_str())).collect();
        let plan = plan(&root, &borrowed);
        let before = contents(&root);
        let journals = [dir.path().join("one"), dir.path().join("two")];
        std::thread::scope(|scope| {
            let runs = journals.each_ref().map(|journal| {
                let plan = &plan;
                scope.spawn(move || apply_plan(plan, journal, OPTIONS, &Recorder::default()).unwrap())
            });
            runs.map(|run| run.join().unwrap())
        });
        assert_eq!(contents(&root), before, "round {seed}");
        for (_, new) in &wanted {
            assert!(root.join(new).exists(), "round {seed}: {new}");
        }
        for journal in &journals {
            undo_journal(journal, &Recorder::default()).unwrap();
        }
        assert_eq!(contents(&root), before, "round {seed}");
        for (old, _) in &wanted {
            assert!(root.join(OsStr::from_bytes(old)).exists(), "round {seed}");
        }
    }
}
