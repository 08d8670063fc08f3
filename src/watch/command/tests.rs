use std::time::SystemTime;

use super::*;
use crate::name::Span;
use crate::telemetry::audit::{AuditOutcome, AuditRecord, Requester};

fn finding(name: &[u8]) -> Finding {
    let name = OsStr::from_bytes(name).to_owned();
    let record = AuditRecord {
        time: SystemTime::UNIX_EPOCH,
        outcome: AuditOutcome::Seen,
        operation: "create",
        name: name.clone(),
        target: None,
        parent: Some("/dir".into()),
        rule: None,
        span: Span::new(0, 1),
        requester: Requester::from_process(0),
    };
    Finding { path: Some(std::path::Path::new("/dir").join(name)), record }
}

#[test]
fn only_a_word_that_is_the_place_of_the_path_becomes_the_path() {
    let words: Vec<OsString> = ["prog", "{}", "x{}", "{ }"].map(OsString::from).to_vec();
    let command = command(&words, &finding(b"a b\xFF")).unwrap();
    let args: Vec<&[u8]> = command.get_args().map(OsStrExt::as_bytes).collect();
    assert_eq!(args, [&b"/dir/a b\xFF"[..], b"x{}", b"{ }"]);
    assert_eq!(command.get_program(), "prog");
    assert!(super::command(&[], &finding(b"a")).is_none());
}

#[test]
fn too_many_that_wait_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    // It reads until somebody has written, which comes before the time is over.
    let words: Vec<OsString> = vec!["timeout".into(), "60".into(), "cat".into(), fifo.clone().into()];
    let mut commands = Commands::new(words, NonZeroUsize::MIN).unwrap();
    // Nothing is run for these: the one thread is busy with the first.
    (0..MOST_WAITING + 10).for_each(|_| commands.run(finding(b"x")));
    let ran = commands.finish(Duration::from_millis(10));
    assert_eq!(ran, CommandResults { failed: 0, left: MOST_WAITING as u64 + 10 });
    // Whoever opens it for reading and writing waits for nobody, and lets the reader go on.
    drop(std::fs::File::options().read(true).write(true).open(&fifo).unwrap());
}
