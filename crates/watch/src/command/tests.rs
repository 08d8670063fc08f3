use std::time::SystemTime;

use namegate_core::name::Span;
use namegate_telemetry::audit::{AuditOutcome, AuditRecord, Requester};

use super::*;

fn finding(name: &[u8]) -> Finding {
    let name = OsStr::from_bytes(name).to_owned();
    let record = AuditRecord {
        count: 1,
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
fn only_the_argument_of_two_braces_becomes_the_path() {
    let words: Vec<OsString> = ["prog", "{}", "x{}", "{ }"].map(OsString::from).to_vec();
    let command = command(&words, &finding(b"a b\xFF")).unwrap();
    let args: Vec<&[u8]> = command.get_args().map(OsStrExt::as_bytes).collect();
    assert_eq!(args, [&b"/dir/a b\xFF"[..], b"x{}", b"{ }"]);
    assert_eq!(command.get_program(), "prog");
    assert!(super::command(&[], &finding(b"a")).is_none());
}

#[test]
fn findings_that_do_not_fit_the_queue_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    // Blocks until the pipe is opened for writing below, before the timeout.
    let words: Vec<OsString> = vec!["timeout".into(), "60".into(), "cat".into(), fifo.clone().into()];
    let mut commands = Commands::new(words, NonZeroUsize::MIN).unwrap();
    // The only thread is busy with the first finding, so the program does not run for these.
    (0..MOST_WAITING + 10).for_each(|_| commands.run(finding(b"x")));
    let ran = commands.finish(Duration::from_millis(10));
    assert_eq!(ran, CommandResults { failed: 0, left: MOST_WAITING as u64 + 10 });
    // Opening it for reading and writing does not block, and unblocks the reader.
    drop(std::fs::File::options().read(true).write(true).open(&fifo).unwrap());
}
