//! The root of a mount, an inode like any other: users who do not own it cause no additional requests.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use namegate_sys::mounts::mounts;
use nix::errno::Errno;

use crate::acls::{ACCESS, acl, get, set};
use namegate_testkit::acting::act_as;
use namegate_testkit::metrics::scraped;
use namegate_testkit::mounted::TestMount;
use namegate_testkit::wait_until;

/// A user who does not own the root.
const USER: u32 = 65534;

fn as_user<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    act_as(USER, USER, &[], 0o022, work)
}

#[test]
fn a_path_walk_of_a_user_who_does_not_own_the_root_costs_no_request() {
    let Some((mounted, port)) = scraped(&["--attr-timeout", "600", "--entry-timeout", "600"]) else { return };
    fs::create_dir(mounted.backing().join("dir")).unwrap();
    fs::set_permissions(mounted.backing().join("dir"), fs::Permissions::from_mode(0o777)).unwrap();
    let path = mounted.mnt().join("dir/file");
    let requests = || {
        let all = mounted.metrics(port);
        let counted = all.iter().filter(|(series, _)| series.starts_with("namegate_fuse_requests_total"));
        counted.map(|(_, value)| *value as u64).sum::<u64>()
    };
    as_user(|| fs::write(&path, "content").unwrap());
    // close(2) does not wait for RELEASE, before which attributes are not cached: the file is open for writing.
    mounted.wait_for_open_files(port, 0);
    as_user(|| fs::metadata(&path).unwrap());
    // Earlier requests may be counted late, and other processes may access any mount.
    const OTHERS: u64 = 20;
    let before = requests();
    as_user(|| (0..1000).for_each(|_| assert_eq!(fs::metadata(&path).unwrap().len(), 7)));
    let stats = requests() - before;
    assert!(stats < OTHERS, "{stats} requests of 1,000 warm stats");
    // OPEN and RELEASE; the last RELEASE may be late.
    let before = requests();
    as_user(|| (0..100).for_each(|_| drop(fs::File::open(&path).unwrap())));
    wait_until("the release", || requests() - before >= 200);
    let opens = requests() - before;
    assert!(opens < 200 + OTHERS, "{opens} requests of 100 files that are opened and closed");
}

#[test]
fn an_acl_of_the_root_applies_at_once_and_a_change_in_the_source_after_the_attribute_timeout() {
    let Some(mounted) = TestMount::new(&["--cache", "timeout", "--attr-timeout", "0.2"]) else {
        return;
    };
    let (mnt, backing) = (mounted.mnt(), mounted.backing());
    if get(&backing, ACCESS) == Err(Errno::EOPNOTSUPP) {
        println!("SKIPPED: the temporary directory has no ACLs");
        return;
    }
    fs::write(backing.join("file"), "").unwrap();
    let may_enter = || as_user(|| fs::metadata(mnt.join("file"))).is_ok();
    // The owner, one user, the group, the mask, others.
    let of = |user: u16| acl(&[(1, 7, 0), (2, user, USER), (4, 5, 0), (16, 7, 0), (32, 5, 0)]);
    assert!(may_enter());
    for changed in [mnt.as_path(), backing.as_path()] {
        let is_seen = |may: bool| match changed == mnt {
            true => assert_eq!(may_enter(), may, "through the mount"),
            false => {
                sleep(Duration::from_millis(300));
                assert_eq!(may_enter(), may, "behind the mount");
            }
        };
        set(changed, ACCESS, &of(0)).unwrap();
        is_seen(false);
        set(changed, ACCESS, &of(5)).unwrap();
        is_seen(true);
        set(changed, ACCESS, &of(0)).unwrap();
        is_seen(false);
        fs::set_permissions(changed, fs::Permissions::from_mode(0o755)).unwrap();
        set(changed, ACCESS, &acl(&[(1, 7, 0), (4, 5, 0), (32, 5, 0)])).unwrap();
        is_seen(true);
    }
}

#[test]
fn the_root_has_the_attributes_of_the_source_and_one_entry_in_the_mount_table() {
    let Some(mounted) = TestMount::new(&[]) else { return };
    mounted.same(|dir| {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o1770)).unwrap();
        fs::create_dir_all(dir.join("a/b")).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
        (mode(dir), mode(&dir.join("a/b/../..")), fs::read_dir(dir.join("a/..")).unwrap().count())
    });
    let table = mounts().unwrap();
    let own: Vec<_> = table.iter().filter(|mount| mount.point == mounted.mnt()).collect();
    assert_eq!(own.len(), 1);
    assert!(table.iter().all(|mount| mount.device != own[0].device || mount.point == own[0].point));
}
