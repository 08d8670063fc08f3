//! Set-id bits on a file that an attacker writes: a program of root that an attacker has open for writing must lose them.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::fcntl::{FallocateFlags, copy_file_range, fallocate};

use crate::duration;
use namegate_testkit::acting::act_as;
use namegate_testkit::mounted::{TestMount, open_to_all};

const ATTACKER: u32 = 4711;

const PATIENCE: Duration = Duration::from_secs(20);

const BITS: u32 = libc::S_ISUID | libc::S_ISGID;

fn bits(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & BITS
}

type Change = fn(&File);

const CHANGES: [(&str, Change); 4] = [
    ("write", |file| assert_eq!(file.write_at(b"evil", 0).unwrap(), 4)),
    ("truncate", |file| file.set_len(100).unwrap()),
    ("fallocate", |file| fallocate(file, FallocateFlags::empty(), 0, 9999).unwrap()),
    ("copy", |file| assert_eq!(copy_file_range(file, Some(&mut 0), file, Some(&mut 5000), 4), Ok(4))),
];

/// Root chowns a file to itself and sets its bits `behind` the mount, so that neither the kernel nor the server has the
/// current mode cached; the attacker, who has the file open, changes it through the mount.
fn attack_from_memory(mounted: &TestMount) -> (u64, Vec<String>) {
    let (mut tried, mut kept) = (0, Vec::new());
    for (how, change) in CHANGES {
        for mode in [0o4755, 0o6755, 0o2755, 0o6711] {
            let name = format!("{how}-{mode:o}");
            let (seen, there) = (mounted.mnt().join(&name), mounted.backing().join(&name));
            fs::write(&seen, [0; 8000]).unwrap();
            open_to_all(&seen);
            act_as(ATTACKER, ATTACKER, &[], 0, || {
                let file = OpenOptions::new().read(true).write(true).open(&seen).unwrap();
                // From now on its mode is cached.
                change(&file);
                act_as(0, 0, &[], 0, || {
                    chown(&there, Some(0), Some(0)).unwrap();
                    fs::set_permissions(&there, fs::Permissions::from_mode(mode)).unwrap();
                });
                change(&file);
            });
            tried += 1;
            if bits(&there) != 0 {
                kept.push(format!("{how} kept {:o} of {mode:o}", bits(&there)));
            }
            fs::remove_file(&seen).unwrap();
        }
    }
    (tried, kept)
}

#[test]
fn nobody_writes_to_a_file_and_leaves_it_its_set_id_bits() {
    let args = ["--attr-timeout", "600"];
    let mounts = [TestMount::new(&args), TestMount::of_overlay_with(&args)];
    for mounted in mounts.into_iter().flatten() {
        let (begin, mut tried, mut kept) = (Instant::now(), 0, Vec::new());
        while kept.is_empty() && (tried == 0 || begin.elapsed() < duration()) {
            let (more, found) = attack_from_memory(&mounted);
            tried += more;
            kept.extend(found);
        }
        println!("{tried} files with set-id bits changed, {} kept them", kept.len());
        assert!(kept.is_empty(), "{}", kept.join("\n"));
    }
}

#[test]
fn a_race_of_chmod_and_write_leaves_no_bits_on_what_an_attacker_wrote() {
    for mounted in TestMount::both_ways() {
        let path = mounted.mnt().join("program");
        fs::write(&path, [0; 100]).unwrap();
        open_to_all(&path);
        let (ends, written) = (AtomicBool::new(false), AtomicU64::new(0));
        let (mut rounds, mut kept) = (0, 0);
        thread::scope(|scope| {
            scope.spawn(|| {
                act_as(ATTACKER, ATTACKER, &[], 0, || {
                    let file = OpenOptions::new().write(true).open(&path).unwrap();
                    while !ends.load(Ordering::Relaxed) {
                        assert_eq!(file.write_at(b"evil", 0).unwrap(), 4);
                        written.fetch_add(1, Ordering::SeqCst);
                    }
                });
            });
            let begin = Instant::now();
            while begin.elapsed() < duration() {
                // Alternately through the mount and in the source.
                let place = if rounds % 2 == 0 { &path } else { &mounted.backing().join("program") };
                fs::set_permissions(place, fs::Permissions::from_mode(0o4777)).unwrap();
                // The second one began after the bits were set.
                let enough = written.load(Ordering::SeqCst) + 2;
                while written.load(Ordering::SeqCst) < enough {
                    // An attacker that fails stops writing.
                    assert!(begin.elapsed() < duration() + PATIENCE, "the attacker does not write");
                    thread::yield_now();
                }
                kept += u64::from(bits(&mounted.backing().join("program")) != 0);
                rounds += 1;
            }
            ends.store(true, Ordering::Relaxed);
        });
        println!("{rounds} races, {} writes, {kept} times the bits stayed", written.into_inner());
        assert_eq!(kept, 0);
    }
}
