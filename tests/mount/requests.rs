//! How many requests it takes to do again what was done before, when nothing has changed: by the metrics of the mount.

use std::collections::BTreeMap;
use std::fs::{self, DirEntry, File};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::{self, sleep};
use std::time::Duration;

use namegate_testkit::metrics::scraped;
use namegate_testkit::mounted::{TestMount, can_mount, prepare};
use namegate_testkit::wait_until;
use nix::errno::Errno;

use crate::acls::{ACCESS, acl, get, set};
use crate::coherent::{coherent, coherent_of};
use crate::stacked::{has, succeed};

const LABEL: &str = "security.selinux";

/// Longer than the timeouts, so that only what lasts is not asked again.
const EXPIRED: Duration = Duration::from_millis(1200);

/// The requests so far, by kind; without those that come when it suits the kernel.
fn counts(mounted: &TestMount, port: u16) -> BTreeMap<String, f64> {
    let mut counts = BTreeMap::new();
    for (series, count) in mounted.metrics(port) {
        let op =
            series.strip_prefix("namegate_fuse_requests_total{op=\"").and_then(|rest| rest.split('"').next());
        if let Some(op) = op.filter(|op| !matches!(*op, "forget" | "release" | "releasedir")) {
            *counts.entry(op.to_owned()).or_default() += count;
        }
    }
    counts
}

/// The requests that `work` causes, by kind.
fn asked(mounted: &TestMount, port: u16, work: impl Fn()) -> BTreeMap<String, f64> {
    // A request is counted after its reply.
    let settled = || {
        let mut last = counts(mounted, port);
        loop {
            sleep(Duration::from_millis(20));
            let now = counts(mounted, port);
            if now == last {
                return now;
            }
            last = now;
        }
    };
    let before = settled();
    work();
    let added = settled().into_iter().map(|(op, count)| {
        let added = count - before.get(&op).unwrap_or(&0.0);
        (op, added)
    });
    added.filter(|(_, count)| *count > 0.0).collect()
}

#[test]
fn a_directory_that_is_listed_again_with_attributes_and_acls_takes_one_request() {
    const DIRECTORIES: usize = 6;
    let Some((mounted, port)) = coherent(&[]) else { return };
    let (there, here) = (mounted.backing(), mounted.mnt());
    for i in 0..DIRECTORIES {
        for j in 0..30 {
            fs::create_dir_all(there.join(format!("{i}/sub {j}"))).unwrap();
            // Of files, attributes do not last while they have changed recently.
            symlink("target", there.join(format!("{i}/link {j}"))).unwrap();
        }
    }
    let acls_in = |i: usize| {
        let entries = fs::read_dir(here.join(i.to_string())).unwrap().map(Result::unwrap);
        let has_acl =
            |entry: &DirEntry| entry.metadata().unwrap().is_dir() && get(&entry.path(), ACCESS).is_ok();
        entries.filter(has_acl).count()
    };
    // In a thread of its own, of which the server knows nothing, as of each ls(1).
    let list = || {
        thread::scope(|threads| {
            threads.spawn(|| (0..DIRECTORIES).map(acls_in).sum::<usize>()).join().unwrap()
        })
    };
    let look = || {
        for i in 0..DIRECTORIES * 30 {
            let path = |kind: &str| here.join(format!("{}/{kind} {}", i / 30, i % 30));
            ["sub", "link"]
                .iter()
                .for_each(|kind| assert!(!path(kind).symlink_metadata().unwrap().is_file()));
        }
    };
    let settles = |acls| {
        // What has changed is dropped once more after 5 s.
        sleep(Duration::from_secs(6));
        wait_until("lasting entries", || {
            sleep(EXPIRED);
            asked(&mounted, port, look).is_empty()
        });
        // The kernel learns the listings, which changes the time of access of the directories.
        (0..3).for_each(|_| assert_eq!(list(), acls));
        sleep(EXPIRED);
        let opening = BTreeMap::from([("opendir".to_owned(), DIRECTORIES as f64)]);
        assert_eq!(asked(&mounted, port, || assert_eq!(list(), acls)), opening);
    };
    settles(0);
    // USER_OBJ, a user, GROUP_OBJ, MASK, OTHER.
    let value = acl(&[(1, 7, 0), (2, 5, 12345), (4, 5, 0), (0x10, 5, 0), (0x20, 5, 0)]);
    set(&there.join("3/sub 7"), ACCESS, &value).unwrap();
    wait_until("the ACL", || get(&here.join("3/sub 7"), ACCESS).as_ref() == Ok(&value));
    symlink("target", there.join("3/link 30")).unwrap();
    wait_until("the new entry", || fs::read_dir(here.join("3")).unwrap().count() == 61);
    settles(1);
}

/// A coherent mount of an ext4 with a file that has not changed for longer than writing to disk takes.
fn with_an_old_file() -> Option<(TestMount, u16)> {
    if !can_mount() || !has("mkfs.ext4", &["-V"]) || !has("debugfs", &["-V"]) {
        return None;
    }
    let dir = prepare();
    let [image, script, backing] = ["image", "script", "backing"].map(|name| dir.path().join(name));
    File::create(&image).unwrap().set_len(16 << 20).unwrap();
    fs::write(&script, format!("write {} file\nsif file ctime 20200101\n", script.display())).unwrap();
    let [image, script] = [&image, &script].map(|path| path.to_str().unwrap());
    succeed("mkfs.ext4", &["-q", image]);
    succeed("debugfs", &["-w", "-f", script, image]);
    if !Command::new("mount").args(["-o", "loop", image]).arg(&backing).status().unwrap().success() {
        println!("SKIPPED: no loop device");
        return None;
    }
    assert!(fs::metadata(backing.join("file")).unwrap().ctime() < 1_600_000_000);
    coherent_of(dir, &[])
}

#[test]
fn a_client_that_opens_a_file_to_read_leaves_its_attributes_cached() {
    let Some((mounted, port)) = with_an_old_file() else { return };
    let (there, file) = (mounted.backing().join("file"), mounted.mnt().join("file"));
    let look = || assert!(fs::metadata(&file).unwrap().is_file());
    wait_until("lasting attributes", || {
        sleep(EXPIRED);
        asked(&mounted, port, look).is_empty()
    });
    let open = || {
        let opened = File::open(&file).unwrap();
        // The kernel opens the backing file in the name of the client, and the server hears of that.
        sleep(Duration::from_millis(200));
        opened.metadata().unwrap();
    };
    for _ in 0..3 {
        assert_eq!(asked(&mounted, port, open), BTreeMap::from([("open".to_owned(), 1.0)]));
    }
    // So it is if somebody reads the file in the source.
    drop(File::open(&there).unwrap());
    sleep(Duration::from_millis(200));
    assert_eq!(asked(&mounted, port, look), BTreeMap::new());
}

#[test]
fn ls_asks_for_a_label_once_where_labels_mean_nothing() {
    if Path::new("/sys/fs/selinux").exists() {
        return println!("SKIPPED: this kernel has SELinux");
    }
    let Some((mounted, port)) = scraped(&[]) else { return };
    let (there, here) = (mounted.backing(), mounted.mnt());
    for i in 0..50 {
        fs::write(there.join(format!("file {i}")), "").unwrap();
    }
    if get(&there.join("file 1"), LABEL) != Err(Errno::ENODATA) {
        return println!("SKIPPED: the temporary directory has no labels");
    }
    let refused = "namegate_fuse_requests_total{op=\"getxattr\",outcome=\"EOPNOTSUPP\"}";
    let list = || Command::new("ls").arg("-l").arg(&here).stdout(Stdio::null()).status().unwrap();
    asked(&mounted, port, || assert!(list().success()));
    assert!(mounted.metrics(port).get(refused).is_none_or(|&count| count <= 1.0));
    assert_eq!(get(&here.join("file 1"), LABEL), Err(Errno::EOPNOTSUPP));
    // A label that is there is shown, and then a missing one is missing as in a plain directory.
    set(&there.join("file 2"), LABEL, b"a_u:b_r:c_t:s0\0").unwrap();
    assert_eq!(get(&here.join("file 2"), LABEL).unwrap(), b"a_u:b_r:c_t:s0\0");
    assert_eq!(get(&here.join("file 1"), LABEL), Err(Errno::ENODATA));
    let Some(mounted) = TestMount::new(&[]) else { return };
    let (there, here) = (mounted.backing(), mounted.mnt());
    fs::write(there.join("file"), "").unwrap();
    fs::write(there.join("other"), "").unwrap();
    set(&here.join("file"), LABEL, b"a_u:b_r:c_t:s0\0").unwrap();
    assert_eq!(get(&here.join("other"), LABEL), get(&there.join("other"), LABEL));
}
