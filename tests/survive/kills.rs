//! The server is killed under load.

use std::fs::{self, File};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::clients::{EndOfWork, Work};
use crate::{STUCK, kill_server, kills, surviving};
use namegate_testkit::mounted::TestMount;
use namegate_testkit::wait_until;

/// Kills the server again and again while clients work.
fn survives(mut mounted: TestMount, has_equivalents: bool) {
    let mnt = mounted.mnt();
    for name in ["a", "b", "files", "list", "equivalent"] {
        fs::create_dir(mnt.join(name)).unwrap();
    }
    (0..300).for_each(|number| drop(File::create(mnt.join(format!("list/{number}"))).unwrap()));
    let work = Work::default();
    let (mut longest, begin) = (Duration::ZERO, Instant::now());
    thread::scope(|scope| {
        let end = EndOfWork(&work);
        let mut clients = vec![
            scope.spawn(|| work.change_names(&mnt.join("a"))),
            scope.spawn(|| work.change_names(&mnt.join("b"))),
            scope.spawn(|| work.change_files(&mnt.join("files"))),
            scope.spawn(|| work.append(&mnt.join("appended"))),
            scope.spawn(|| work.write_records(&mnt.join("records"))),
            scope.spawn(|| work.map(&mnt.join("mapped"))),
            scope.spawn(|| work.list(&mnt.join("list"))),
        ];
        if has_equivalents {
            clients.push(scope.spawn(|| work.change_equivalent_names(&mnt.join("equivalent"))));
        }
        let is_well = || !clients.iter().any(|client| client.is_finished());
        for number in 0..kills() {
            // At a different moment each time.
            let calls = work.calls.load(Ordering::Relaxed) + 100 + (number as u64 * 37) % 100;
            wait_until("progress of the clients", || {
                !is_well() || work.calls.load(Ordering::Relaxed) >= calls
            });
            if !is_well() {
                break;
            }
            let (killed, before) = (Instant::now(), work.calls.load(Ordering::Relaxed));
            kill_server(&mounted);
            wait_until("an answer", || {
                assert!(killed.elapsed() < STUCK, "clients are stuck");
                !is_well() || work.calls.load(Ordering::Relaxed) > before + 10
            });
            longest = longest.max(killed.elapsed());
        }
        drop(end);
        for client in clients {
            client.join().unwrap();
        }
    });
    println!(
        "{} kills, {} calls in {:?}, longest pause {longest:?}",
        kills(),
        work.calls.load(Ordering::Relaxed),
        begin.elapsed()
    );
    // Nothing piles up with each server.
    let descriptors = mounted.descriptors();
    kill_server(&mounted);
    fs::metadata(mnt.join("list/7")).unwrap();
    assert!(mounted.descriptors() <= descriptors + 64, "{} after {descriptors}", mounted.descriptors());
    mounted.signal(Signal::SIGTERM);
    let (status, said) = mounted.ended();
    assert!(status.success(), "{status}: {said}");
}

#[test]
fn clients_wait_and_no_call_fails_or_is_made_twice() {
    let Some(mounted) = surviving(&[]) else { return };
    survives(mounted, false);
}

#[test]
fn clients_wait_where_contents_go_through_the_server() {
    let Some(mounted) = surviving(&["--no-passthrough"]) else { return };
    survives(mounted, false);
}

#[test]
fn clients_wait_where_an_entry_has_several_names() {
    for reaction in ["match", "convert"] {
        let Some(mounted) = surviving(&["--normalize", "nfc", "--on-mismatch", reaction]) else { return };
        survives(mounted, true);
    }
}
