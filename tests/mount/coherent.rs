//! `--cache=coherent`: names and attributes stay in the kernel's caches, and direct changes in the source show at once.

mod delays;
mod law;

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use namegate_testkit::metrics::free_port;
use namegate_testkit::mounted::{TestMount, can_mount, prepare};
use namegate_testkit::random::Random;
use namegate_testkit::wait_until;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::control::status;
use crate::names::listed;

/// Longer than the timeouts, so that only a cache that does not expire still answers.
const EXPIRED: Duration = Duration::from_millis(1200);

/// Less than the timeout, to which a lost change would stay: long enough for a busy machine.
const MOST_STALE: Duration = Duration::from_millis(900);

/// A mount of a file system of its own, where nobody else changes anything; `None`, after a message, if it is not coherent here.
pub fn coherent(args: &[&str]) -> Option<(TestMount, u16)> {
    if !can_mount() {
        return None;
    }
    let dir = prepare();
    let backing = dir.path().join("backing");
    mount(Some("backing"), &backing, Some("tmpfs"), MsFlags::empty(), Some("mode=777")).unwrap();
    coherent_of(dir, args)
}

/// A mount of the directory `backing` in `dir`; `None`, after a message, if it is not coherent here.
pub fn coherent_of(dir: TempDir, args: &[&str]) -> Option<(TestMount, u16)> {
    let port = free_port();
    let listen = ["--cache", "coherent", "--metrics-listen", &port.to_string()];
    let args = [&listen[..], args].concat();
    let mounted = TestMount::of(dir, |dir| (dir.join("backing"), dir.join("mnt")), &args);
    let cache = &status(&mounted)["cache"];
    if cache["kind"] != "coherent" {
        println!("SKIPPED: {cache}");
        return None;
    }
    Some((mounted, port))
}

/// How many requests there were of this kind, whatever became of them.
fn requests(mounted: &TestMount, port: u16, op: &str) -> f64 {
    let series = format!("namegate_fuse_requests_total{{op=\"{op}\",");
    mounted.metrics(port).iter().filter(|(name, _)| name.starts_with(&series)).map(|(_, count)| count).sum()
}

/// Waits until `holds`, and returns how long that took. A loop without a pause: the time counts.
fn time_until(what: &str, holds: impl Fn() -> bool) -> Duration {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(20), "{what} is not seen");
    }
    begin.elapsed()
}

/// Waits until the kernel answers `look` by itself. What has just changed is dropped once more after some seconds.
fn wait_until_lasting(mounted: &TestMount, port: u16, look: impl Fn()) {
    wait_until("a lasting cache", || {
        sleep(EXPIRED);
        let before = requests(mounted, port, "lookup");
        look();
        requests(mounted, port, "lookup") == before
    });
}

#[test]
fn names_and_their_absence_are_not_asked_again_until_they_change() {
    let Some((mounted, port)) = coherent(&[]) else { return };
    let (there, here) = (mounted.backing(), mounted.mnt());
    fs::create_dir(there.join("dir")).unwrap();
    fs::write(there.join("dir/file"), "content").unwrap();
    let (file, absent) = (here.join("dir/file"), here.join("dir/absent"));
    let look = || (fs::metadata(&file).unwrap().len(), absent.exists(), here.join("dir").is_dir());
    let asks = || {
        let before = requests(&mounted, port, "lookup");
        assert_eq!(look(), (7, false, true));
        requests(&mounted, port, "lookup") - before
    };
    wait_until_lasting(&mounted, port, || assert_eq!(look().0, 7));
    sleep(EXPIRED);
    assert_eq!(asks(), 0.0, "nothing has changed");
    let before = requests(&mounted, port, "lookup");
    fs::write(there.join("dir/absent"), "").unwrap();
    time_until("the new file", || absent.exists());
    assert!(requests(&mounted, port, "lookup") > before);
}

#[test]
fn every_direct_change_shows_at_once() {
    // The source of the other one is a mount that only the server has.
    let Some((mounted, _)) = coherent(&["--noatime"]) else { return };
    let (there, here) = (mounted.backing(), mounted.mnt());
    let (mut slowest, mut random) = (Vec::new(), Random(1));
    for i in 0..20 {
        let [a, b, dir, moved] = ["a", "b", "dir", "moved"].map(|name| format!("{name}{i}"));
        let [seen_a, seen_b, seen_dir, seen_moved] = [&a, &b, &dir, &moved].map(|name| here.join(name));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        // Absent names are cached too.
        assert!(![&seen_a, &seen_b, &seen_dir, &seen_moved].iter().any(|path| path.exists()));
        let mut after = |what: &'static str, shows: &dyn Fn() -> bool| {
            slowest.push((time_until(what, shows), what));
            sleep(Duration::from_millis(random.below(10) as u64));
        };
        fs::write(there.join(&a), "one").unwrap();
        after("a new file", &|| seen_a.exists() && listed(&here).contains(&a.clone().into_bytes()));
        fs::set_permissions(there.join(&a), PermissionsExt::from_mode(0o640)).unwrap();
        after("a mode", &|| mode(&seen_a) == 0o640);
        OpenOptions::new().write(true).open(there.join(&a)).unwrap().set_len(1000).unwrap();
        after("a length", &|| fs::metadata(&seen_a).unwrap().len() == 1000);
        fs::write(there.join(&a), "written").unwrap();
        after("content", &|| fs::read_to_string(&seen_a).unwrap() == "written");
        fs::hard_link(there.join(&a), there.join(&b)).unwrap();
        after("a hard link", &|| seen_b.exists() && fs::metadata(&seen_a).unwrap().nlink() == 2);
        // By the other name.
        fs::set_permissions(there.join(&b), PermissionsExt::from_mode(0o600)).unwrap();
        after("a mode, by another name", &|| mode(&seen_a) == 0o600);
        fs::create_dir(there.join(&dir)).unwrap();
        after("a directory", &|| seen_dir.is_dir());
        fs::rename(there.join(&b), there.join(&dir).join("b")).unwrap();
        after("a rename across directories", &|| seen_dir.join("b").exists() && !seen_b.exists());
        fs::rename(there.join(&dir), there.join(&moved)).unwrap();
        after("a rename of a directory", &|| seen_moved.join("b").exists() && !seen_dir.exists());
        fs::remove_file(there.join(&moved).join("b")).unwrap();
        after("a removal", &|| !seen_moved.join("b").exists() && fs::metadata(&seen_a).unwrap().nlink() == 1);
        after("an empty listing", &|| listed(&seen_moved).is_empty());
        fs::remove_dir(there.join(&moved)).unwrap();
        after("the removal of a directory", &|| !seen_moved.exists());
    }
    slowest.sort();
    let (worst, what) = slowest[slowest.len() - 1];
    println!(
        "median {:?}, p99 {:?}, worst {worst:?} ({what})",
        slowest[slowest.len() / 2].0,
        slowest[slowest.len() * 99 / 100].0
    );
    assert!(worst < MOST_STALE, "{what} took {worst:?}");
}

#[test]
fn changes_show_under_the_names_that_clients_see() {
    let bad = OsStr::from_bytes(b"caf\xE9");
    let Some((mounted, _)) = coherent(&[]) else { return };
    let (there, here) = (mounted.backing(), mounted.mnt());
    fs::write(there.join(bad), "").unwrap();
    let names = listed(&here);
    let shown = OsStr::from_bytes(&names[0]);
    assert!(here.join(shown).exists());
    fs::remove_file(there.join(bad)).unwrap();
    time_until("the removal", || !here.join(shown).exists());
    fs::write(there.join(bad), "").unwrap();
    time_until("the return", || here.join(shown).exists());
    for on_mismatch in ["convert", "match"] {
        let Some((mounted, _)) = coherent(&["--normalize", "nfc", "--on-mismatch", on_mismatch]) else {
            return;
        };
        let (there, here) = (mounted.backing(), mounted.mnt());
        let forms = ["\u{E9}", "e\u{301}"];
        for stored in forms {
            assert!(!forms.iter().any(|name| here.join(name).exists()));
            fs::write(there.join(stored), "").unwrap();
            time_until("both spellings", || forms.iter().all(|name| here.join(name).exists()));
            fs::rename(there.join(stored), there.join("plain")).unwrap();
            time_until("the rename", || {
                here.join("plain").exists() && !forms.iter().any(|name| here.join(name).exists())
            });
            fs::remove_file(there.join("plain")).unwrap();
            time_until("the removal", || !here.join("plain").exists());
        }
    }
    let Some((mounted, _)) = coherent(&["--mode", "encode", "--profile", "windows"]) else { return };
    let (there, here) = (mounted.backing(), mounted.mnt());
    let name = here.join("a:b");
    for _ in 0..2 {
        assert!(!name.exists());
        fs::write(&name, "").unwrap();
        let stored = OsStr::from_bytes(&listed(&there)[0]).to_owned();
        assert_ne!(stored, "a:b");
        time_until("the encoded name", || name.exists());
        fs::remove_file(there.join(&stored)).unwrap();
        time_until("the removal", || !name.exists() && !here.join(&stored).exists());
        fs::write(there.join(&stored), "").unwrap();
        time_until("the return", || name.exists());
        fs::remove_file(there.join(&stored)).unwrap();
        time_until("the second removal", || !name.exists() && !here.join(&stored).exists());
    }
}

/// The server is stopped, like one that does not get along with what is reported, until the queue of the kernel is full.
#[test]
fn after_lost_events_nothing_is_outdated() {
    const MOST: usize = 100_000;
    /// More than are read before the server stops.
    const MANY: usize = 1000;
    let queued = fs::read_to_string("/proc/sys/fs/fanotify/max_queued_events").unwrap_or_default();
    let Some(queued) = queued.trim().parse::<usize>().ok().filter(|most| *most < MOST) else {
        return println!("SKIPPED: the queue of fanotify holds {queued} events");
    };
    let Some((mut mounted, port)) = coherent(&["--verbose"]) else { return };
    let (there, here) = (mounted.backing(), mounted.mnt());
    ["dir", "dir/inside", "many"].iter().for_each(|name| fs::create_dir(there.join(name)).unwrap());
    for name in ["changed", "dir/removed", "dir/inside/moved"] {
        fs::write(there.join(name), "old").unwrap();
    }
    let look =
        |names: [&str; 4]| names.map(|name| fs::metadata(here.join(name)).ok().map(|it| it.mode() & 0o777));
    let names = ["changed", "dir/removed", "dir/inside/moved", "dir/created"];
    wait_until_lasting(&mounted, port, || {
        assert_eq!(look(names).map(|it| it.is_some()), [true, true, true, false])
    });
    assert_eq!(listed(&here.join("dir/inside")), [b"moved"]);
    mounted.signal(Signal::SIGSTOP);
    (0..MANY + queued).for_each(|number| fs::write(there.join(format!("many/{number}")), "").unwrap());
    fs::set_permissions(there.join("changed"), PermissionsExt::from_mode(0o701)).unwrap();
    fs::remove_file(there.join("dir/removed")).unwrap();
    fs::rename(there.join("dir/inside/moved"), there.join("here")).unwrap();
    fs::write(there.join("dir/created"), "").unwrap();
    mounted.signal(Signal::SIGCONT);
    time_until("what changed unnoticed", || {
        let [changed, removed, moved, created] = look(names);
        changed == Some(0o701) && removed.is_none() && moved.is_none() && created.is_some()
    });
    assert!(here.join("here").exists() && listed(&here.join("dir/inside")).is_empty());
    assert_eq!(listed(&here.join("many")).len(), MANY + queued);
    mounted.signal(Signal::SIGTERM);
    let (_, said) = mounted.ended();
    assert!(said.contains("were lost"), "{said}");
}

#[test]
fn a_rename_of_what_was_replaced_meanwhile_leads_to_what_was_renamed() {
    let Some((mounted, port)) = coherent(&[]) else { return };
    let (there, here) = (mounted.backing(), mounted.mnt());
    fs::write(there.join("old"), "replaced").unwrap();
    fs::write(there.join("other"), "renamed").unwrap();
    wait_until_lasting(&mounted, port, || assert!(here.join("old").exists()));
    mounted.signal(Signal::SIGSTOP);
    let renaming = thread::spawn({
        let here = here.clone();
        move || fs::rename(here.join("old"), here.join("new")).unwrap()
    });
    // The request is on its way.
    sleep(Duration::from_millis(200));
    fs::rename(there.join("old"), there.join("aside")).unwrap();
    fs::rename(there.join("other"), there.join("old")).unwrap();
    mounted.signal(Signal::SIGCONT);
    renaming.join().unwrap();
    time_until("what was renamed", || fs::read_to_string(here.join("new")).unwrap() == "renamed");
}

#[test]
fn what_is_mounted_in_the_source_shows_at_once() {
    let Some((mounted, _)) = coherent(&[]) else { return };
    let (there, here) = (mounted.backing().join("inside"), mounted.mnt().join("inside"));
    fs::create_dir(&there).unwrap();
    fs::write(there.join("below"), "").unwrap();
    assert!(here.join("below").exists());
    mount(Some("inside"), &there, Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
    time_until("the mount", || !here.join("below").exists());
    fs::write(there.join("in it"), "").unwrap();
    wait_until("a file on it", || here.join("in it").exists());
    umount2(&there, MntFlags::MNT_DETACH).unwrap();
    time_until("the unmounting", || here.join("below").exists());
}

#[test]
fn what_is_mounted_on_a_directory_of_the_mount_survives_changes_around_it() {
    let Some((mounted, _)) = coherent(&[]) else { return };
    let (there, here) = (mounted.backing(), mounted.mnt());
    fs::create_dir(there.join("dir")).unwrap();
    mount(Some("over"), &here.join("dir"), Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
    fs::write(here.join("dir/over"), "").unwrap();
    fs::set_permissions(there.join("dir"), PermissionsExt::from_mode(0o711)).unwrap();
    fs::rename(there.join("dir"), there.join("moved")).unwrap();
    fs::write(there.join("other"), "").unwrap();
    // Before the old name is used, the new one: the kernel moves what it has.
    time_until("the mount at its new name", || here.join("moved/over").exists());
    umount2(&here.join("moved"), MntFlags::MNT_DETACH).unwrap();
}

#[test]
fn attributes_of_a_file_last_when_nobody_writes_it() {
    // Its files are older than any writing to disk takes.
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    if !can_mount() {
        return;
    }
    let port = free_port();
    let args = ["--cache", "coherent", "--metrics-listen", &port.to_string()];
    let mounted = TestMount::of(prepare(), |dir| (source.clone(), dir.join("mnt")), &args);
    let file = mounted.mnt().join("README.md");
    let age = fs::metadata(&file).unwrap();
    let is_old = |ctime: i64| fs::metadata("/proc/self").unwrap().mtime() - ctime > 120;
    if status(&mounted)["cache"]["kind"] != "coherent" || !is_old(age.ctime()) {
        return println!("SKIPPED: {}", status(&mounted)["cache"]);
    }
    // Asks after the caches have expired; returns how many requests that took.
    let asks = || {
        sleep(EXPIRED);
        // Looking up a name that has expired brings attributes, too.
        let all =
            || ["lookup", "getattr", "statx"].map(|op| requests(&mounted, port, op)).iter().sum::<f64>();
        let before = all();
        fs::metadata(&file).unwrap();
        all() - before
    };
    // Other programs change this file system, too, and may change it too fast.
    let is_coherent = || status(&mounted)["cache"]["kind"] == "coherent";
    let settles = || {
        wait_until("a lasting cache", || !is_coherent() || asks() == 0.0);
        is_coherent()
    };
    let skipped = || println!("SKIPPED: {}", status(&mounted)["cache"]);
    if !settles() {
        return skipped();
    }
    // It may be mapped from now on, and no event tells what is stored.
    let writer = OpenOptions::new().append(true).open(source.join("README.md")).unwrap();
    wait_until("an expiring cache", || asks() == 1.0);
    assert_eq!((asks(), asks()), (1.0, 1.0));
    drop(writer);
    if !settles() {
        return skipped();
    }
    drop(File::open(source.join("README.md")).unwrap());
    if !settles() {
        skipped();
    }
}

#[test]
fn where_changes_are_not_reported_the_timeouts_hold_and_the_status_says_why() {
    let why = |mounted: &TestMount| {
        let cache = &status(mounted)["cache"];
        assert_eq!(cache["kind"], "timeout");
        cache["why_not"].as_str().unwrap().to_owned()
    };
    let Some(mounted) = TestMount::new(&["--cache", "timeout"]) else { return };
    assert_eq!(why(&mounted), "as configured");
    let Some(mounted) = TestMount::of_overlay_with(&["--cache", "coherent"]) else { return };
    assert!(why(&mounted).contains("file system"));
    fs::write(mounted.backing().join("new"), "").unwrap();
    assert!(mounted.mnt().join("new").exists());
    let dir = prepare();
    let metrics = dir.path().join("backing/name.prom");
    let args = ["--cache", "coherent", "--metrics-textfile", metrics.to_str().unwrap()];
    let mounted = TestMount::of(dir, |dir| (dir.join("backing"), dir.join("mnt")), &args);
    assert!(why(&mounted).contains("metrics"));
}

/// Creates and removes files in a directory until that fails.
fn change_until_it_fails(directory: &Path) -> Child {
    let work = "i=0; while :; do i=$(((i + 1) % 20)); : > $i || exit 0; rm $i || [ ! -e $i ] || exit 0; ls > /dev/null || exit 0; done";
    let mut command = Command::new("sh");
    command.args(["-c", work]).current_dir(directory).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn clients_of_a_killed_server_do_not_hang() {
    kill_under_changes(|| coherent(&[]).map(|(mounted, _)| mounted));
}

/// Kills servers while clients and others change the same directory: what drops a name waits for the clients in the directory.
pub fn kill_under_changes(mount: impl Fn() -> Option<TestMount>) {
    for round in 0..8 {
        let Some(mut mounted) = mount() else { return };
        let (there, here) = (mounted.backing().join("dir"), mounted.mnt().join("dir"));
        fs::create_dir(&there).unwrap();
        let mut beside = change_until_it_fails(&there);
        let mut clients = [(); 3].map(|()| change_until_it_fails(&here));
        sleep(Duration::from_millis(300 + 50 * round));
        mounted.signal(Signal::SIGKILL);
        let have_ended =
            |clients: &mut [Child]| clients.iter_mut().all(|client| client.try_wait().unwrap().is_some());
        let begin = Instant::now();
        while !have_ended(&mut clients) && begin.elapsed() < Duration::from_secs(20) {
            sleep(Duration::from_millis(20));
        }
        let hang = !have_ended(&mut clients);
        if hang {
            // Otherwise they would stay for ever.
            let _ = umount2(&mounted.mnt(), MntFlags::MNT_FORCE);
        }
        beside.kill().unwrap();
        beside.wait().unwrap();
        for client in &mut clients {
            client.wait().unwrap();
        }
        assert!(!hang, "round {round}");
        mounted.ended();
    }
}
