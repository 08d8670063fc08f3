use std::time::SystemTime;

use namegate_core::name::Span;

use super::*;
use crate::audit::{AuditOutcome, Requester};

fn record() -> AuditRecord {
    AuditRecord {
        count: 1,
        time: SystemTime::UNIX_EPOCH,
        outcome: AuditOutcome::Refused,
        operation: "mkdir",
        name: "x".into(),
        target: None,
        parent: None,
        rule: None,
        span: Span::new(0, 1),
        requester: Requester { uid: None, gid: None, pid: 0, command: None, cgroup: None },
    }
}

fn queue(per_second: u32) -> AuditQueue {
    AuditQueue::new(NonZeroU32::new(per_second).unwrap(), NonZeroU32::new(16384).unwrap(), Arc::default())
}

/// All that the writer would be reported after the end.
fn rest(queue: &AuditQueue) -> (usize, Vec<(QuotaKey, DropCounts)>) {
    queue.close();
    let (mut written, mut reported) = (0, Vec::new());
    loop {
        match queue.next(None) {
            QueueItem::Write(..) => written += 1,
            QueueItem::ReportDrops(drops) => reported.extend(drops),
            QueueItem::Reopen | QueueItem::RepeatsDue => {}
            QueueItem::End => return (written, reported),
        }
    }
}

#[test]
fn a_bucket_lets_pass_so_many_a_second_whenever_they_come() {
    let begin = Instant::now();
    let mut bucket = Bucket::new(NonZeroU32::new(10).unwrap(), begin);
    let mut passed = |ms: u64, tries: usize| {
        (0..tries).filter(|_| bucket.take(1, begin + Duration::from_millis(ms))).count()
    };
    assert_eq!(passed(0, 50), 10);
    assert_eq!(passed(99, 1), 0);
    assert_eq!(passed(100, 5), 1);
    assert_eq!(passed(600, 50), 5);
    assert_eq!(passed(60_000, 50), 10, "what was not used up is not saved");
}

#[test]
fn a_flood_of_one_user_drops_no_record_of_others() {
    let queue = queue(10);
    for _ in 0..100_000 {
        queue.offer(Some(1000), record);
    }
    for uid in [Some(0), Some(1001), None] {
        (0..5).for_each(|_| queue.offer(uid, record));
    }
    let (written, reported) = rest(&queue);
    let flood: u64 = reported.iter().filter(|(who, _)| *who == Some(1000)).map(|(_, drops)| drops.rate).sum();
    assert!(reported.iter().all(|(who, _)| *who == Some(1000)), "{reported:?}");
    // 10 at once, and a few more if it took longer than a tenth of a second.
    assert!((25..1000).contains(&written) && written as u64 - 15 + flood == 100_000, "{written} {flood}");
}

#[test]
fn a_user_with_a_high_rate_fills_only_one_share_of_the_queue() {
    let queue = queue(1_000_000);
    (0..5000).for_each(|_| queue.offer(Some(1000), record));
    (0..SHARE).for_each(|_| queue.offer(Some(1001), record));
    let (written, reported) = rest(&queue);
    assert_eq!(
        (written, reported),
        (2 * SHARE, vec![(Some(1000), DropCounts { queue: 5000 - SHARE as u64, ..DropCounts::default() })])
    );
}

#[test]
fn very_many_users_share_an_entry_and_fill_no_memory() {
    let queue = queue(1);
    let many = 10 * USERS as u32;
    for uid in 0..many {
        queue.offer(Some(uid), record);
        queue.offer(Some(uid), record);
    }
    assert!(queue.state.lock().users.len() <= USERS + 1);
    let (written, reported) = rest(&queue);
    assert!(reported.len() <= 2 * (NAMED + 1), "{}", reported.len());
    let dropped: u64 = reported.iter().map(|(_, drops)| drops.total()).sum();
    assert_eq!(written as u64 + dropped, 2 * u64::from(many));
}

#[test]
fn idle_users_are_forgotten_for_new_ones() {
    let queue = queue(10);
    let begin = Instant::now();
    for uid in 0..USERS as u32 {
        assert_eq!(queue.reserve(Some(uid), begin), Some(Some(uid)));
    }
    while queue.state.lock().waiting > 0 {
        let mut state = queue.state.lock();
        state.waiting -= 1;
        let uid = state.waiting as u32;
        state.users.get_mut(&Some(uid)).unwrap().waiting -= 1;
    }
    assert_eq!(queue.reserve(Some(1_000_000), begin), Some(None), "all have just been busy");
    let later = begin + Duration::from_secs(2);
    assert_eq!(queue.reserve(Some(1_000_000), later), Some(Some(1_000_000)));
    assert!(queue.state.lock().users.len() < 3);
}

#[test]
fn bytes_of_one_user_are_limited_and_cost_no_other_user_a_record() {
    let queue = queue(1_000_000);
    (0..100).for_each(|_| queue.offer(Some(1000), record));
    (0..10).for_each(|_| queue.offer(Some(1001), record));
    let (mut taken, mut reported) = ([0; 2], Vec::new());
    queue.close();
    loop {
        match queue.next(None) {
            QueueItem::Write(who, _) => {
                let who = who.unwrap();
                taken[(who == Some(1001)) as usize] += u64::from(queue.reserve_bytes(who, 1600))
            }
            QueueItem::ReportDrops(drops) => reported.extend(drops),
            QueueItem::Reopen | QueueItem::RepeatsDue => {}
            QueueItem::End => break,
        }
    }
    let dropped: u64 = reported.iter().map(|(_, drops)| drops.bytes).sum();
    assert!(reported.iter().all(|(who, drops)| *who == Some(1000) && drops.rate == 0), "{reported:?}");
    // 16 KiB at once, and a few more if it took longer than a tenth of a second.
    assert!(
        (10..50).contains(&taken[0]) && taken[0] + dropped == 100 && taken[1] == 10,
        "{taken:?} {dropped}"
    );
    // What is written in any case is waited for.
    queue.spend(Some(1001), 1 << 20);
    assert!(!queue.reserve_bytes(Some(1001), 1));
}

#[test]
fn records_without_limits_wait_for_room_and_what_the_kernel_lost_is_reported_once() {
    let queue = Arc::new(queue(1));
    let (writer, mut written, mut lost) = (queue.clone(), 0, 0);
    let adding = std::thread::spawn(move || {
        (0..3 * QUEUED).for_each(|_| writer.put(record()));
        writer.add_lost(7);
        writer.close();
    });
    loop {
        match queue.next(None) {
            QueueItem::Write(who, _) => {
                assert_eq!(who, None);
                written += 1;
            }
            QueueItem::ReportDrops(drops) => {
                assert!(drops.iter().all(|(who, drops)| who.is_none() && drops.total() == drops.buffer));
                lost += drops.iter().map(|(_, drops)| drops.buffer).sum::<u64>();
            }
            QueueItem::Reopen | QueueItem::RepeatsDue => {}
            QueueItem::End => break,
        }
    }
    adding.join().unwrap();
    assert_eq!((written, lost), (3 * QUEUED, 7));
}

#[test]
fn records_without_limits_do_not_wait_for_a_writer_that_hangs() {
    let queue = queue(1);
    (0..2 * QUEUED).for_each(|_| queue.put(record()));
    let (written, reported) = rest(&queue);
    let dropped = DropCounts { queue: QUEUED as u64, ..DropCounts::default() };
    assert_eq!((written, reported), (QUEUED, vec![(None, dropped)]));
}

#[test]
fn repeats_are_written_when_their_time_is_over() {
    let queue = queue(10);
    let due = Instant::now() + Duration::from_millis(20);
    queue.offer(Some(1), record);
    assert!(matches!(queue.next(Some(due)), QueueItem::Write(..)), "records come first");
    assert!(matches!(queue.next(Some(due)), QueueItem::RepeatsDue) && Instant::now() >= due);
}
