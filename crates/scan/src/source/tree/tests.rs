use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use parking_lot::Mutex;

use super::*;

fn tree(dir: &Path, jobs: usize) -> Tree {
    Tree::new(vec![dir.to_path_buf()], Scope::default(), jobs)
}

/// Directories below each other, each with files and with others beside it.
fn make(dir: &Path, depth: usize, fan_out: usize) {
    for number in 0..fan_out {
        std::fs::write(dir.join(format!("file {number}")), "").unwrap();
        let below = dir.join(format!("dir {number}"));
        std::fs::create_dir(&below).unwrap();
        if depth > 0 {
            make(&below, depth - 1, fan_out);
        }
    }
}

/// The directories that are read, each with the number of its names.
fn read(source: &dyn Source) -> BTreeSet<(PathBuf, usize)> {
    let found = Mutex::new(BTreeSet::new());
    source.read(&|event| {
        match event {
            SourceEvent::Directory(batch) if batch.is_whole() => {
                assert!(found.lock().insert((batch.dir, batch.count)), "each once");
            }
            SourceEvent::Directory(_) => {}
            other => panic!("{other:?}"),
        }
        ControlFlow::Continue(())
    });
    found.into_inner()
}

#[test]
fn every_directory_is_read_once_whatever_the_number_of_threads_and_descriptors() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), 3, 4);
    let expected = read(&tree(dir.path(), 1));
    assert_eq!(expected.len(), 1 + 4 + 16 + 64 + 256);
    for jobs in [2, 16] {
        assert_eq!(read(&tree(dir.path(), jobs)), expected);
    }
    // The same by hand, with hardly any descriptors.
    for most in 0..3 {
        let tree = tree(dir.path(), 1);
        let found = Mutex::new(0);
        let tell = |event: SourceEvent<'_>| {
            assert!(matches!(event, SourceEvent::Directory(_)), "{event:?}");
            *found.lock() += 1;
        };
        let pool = WorkPool::new(tree.begin(&|_| {}));
        TreeWorker::new(&tree, &pool, &OpenNodes::at_most(most), &tell).work();
        assert_eq!(found.into_inner(), expected.len(), "{most} descriptors");
    }
}

#[test]
fn a_scan_that_is_stopped_anywhere_reports_a_frontier_and_continues_there() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), 2, 4);
    let expected = read(&tree(dir.path(), 1));
    for (stop_at, jobs) in [(1, 1), (2, 1), (30, 1), (84, 1), (85, 1), (10, 3), (60, 3)] {
        let wanted = Arc::new(AtomicBool::new(false));
        let first = tree(dir.path(), jobs).telling_frontier(Arc::clone(&wanted));
        let (found, left) = (Mutex::new(BTreeSet::new()), Mutex::new(None));
        first.read(&|event| {
            match event {
                SourceEvent::Directory(batch) if batch.is_whole() => {
                    let mut found = found.lock();
                    found.insert((batch.dir, batch.count));
                    if found.len() >= stop_at {
                        return ControlFlow::Break(());
                    }
                }
                SourceEvent::Frontier(frontier) => *left.lock() = Some(frontier),
                _ => {}
            }
            ControlFlow::Continue(())
        });
        let (mut found, left) = (found.into_inner(), left.into_inner());
        let rest = read(&tree(dir.path(), jobs).resumed(left.expect("it was stopped")));
        assert_eq!(found.len() + rest.len(), expected.len(), "stopped at {stop_at} by {jobs} threads");
        found.extend(rest);
        assert_eq!(found, expected);
    }
}

#[test]
fn a_frontier_is_reported_on_request_while_all_threads_pause() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), 3, 4);
    let expected = read(&tree(dir.path(), 1));
    for jobs in [1, 2, 5] {
        let wanted = Arc::new(AtomicBool::new(true));
        let source = tree(dir.path(), jobs).telling_frontier(Arc::clone(&wanted));
        let found = Mutex::new(BTreeSet::new());
        let frontiers = Mutex::new(Vec::new());
        source.read(&|event| {
            match event {
                SourceEvent::Directory(batch) if batch.is_whole() => {
                    let mut found = found.lock();
                    found.insert((batch.dir, batch.count));
                    wanted.store(found.len() % 20 == 0, Relaxed);
                }
                SourceEvent::Frontier(frontier) => {
                    frontiers.lock().push((frontier, found.lock().clone()));
                }
                _ => {}
            }
            ControlFlow::Continue(())
        });
        assert_eq!(found.into_inner(), expected);
        let frontiers = frontiers.into_inner();
        assert!(frontiers.len() > 3, "{} of {jobs} threads", frontiers.len());
        for (frontier, before) in frontiers {
            let rest = read(&tree(dir.path(), jobs).resumed(frontier));
            assert_eq!(rest.len() + before.len(), expected.len());
            assert!(rest.is_disjoint(&before));
        }
    }
}

#[test]
fn a_visitor_that_panics_stops_all_threads() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), 2, 4);
    let tree = tree(dir.path(), 4);
    let read = || {
        tree.read(&|event| match event {
            SourceEvent::Directory(batch) if batch.dir.ends_with("dir 2") => {
                std::panic::resume_unwind(Box::new("on purpose"))
            }
            _ => ControlFlow::Continue(()),
        });
    };
    assert!(catch_unwind(AssertUnwindSafe(read)).is_err());
}
