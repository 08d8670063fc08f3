//! Runs a program for each finding.
//!
//! The program is started directly, without a shell. An argument `{}` is replaced by the path; a name is never inserted into
//! another argument. The environment has everything else that is known, as bytes. A few programs run at a time, the others wait.

use std::ffi::{OsStr, OsString};
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use data_encoding::HEXLOWER;
use namegate_core::name::display::display;
use parking_lot::Mutex;

use super::Finding;

/// Length of the queue. A finding takes some hundred bytes.
const MOST_WAITING: usize = 1 << 16;

/// Runs the program for queued findings.
#[derive(Debug)]
pub struct Commands {
    queue: Option<SyncSender<Finding>>,
    shared: Arc<CommandCounts>,
    threads: Vec<JoinHandle<()>>,
    has_warned: bool,
}

#[derive(Debug, Default)]
struct CommandCounts {
    is_ended: AtomicBool,
    asked: AtomicU64,
    ran: AtomicU64,
    failed: AtomicU64,
}

/// How the programs ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandResults {
    /// Programs that could not be started, or did not exit with status 0.
    pub failed: u64,
    /// Programs that were never started, or are still running.
    pub left: u64,
}

impl Commands {
    /// Runs `program`, a program followed by its arguments, at most `at_once` times in parallel.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn new(program: Vec<OsString>, at_once: NonZeroUsize) -> io::Result<Self> {
        let (queue, findings) = sync_channel(MOST_WAITING);
        let (findings, program) = (Arc::new(Mutex::new(findings)), Arc::new(program));
        let shared = Arc::new(CommandCounts::default());
        let mut threads = Vec::new();
        for _ in 0..at_once.get() {
            let (findings, program, shared) =
                (Arc::clone(&findings), Arc::clone(&program), Arc::clone(&shared));
            let task = move || run_all(&findings, &program, &shared);
            threads.push(thread::Builder::new().name("command".into()).spawn(task)?);
        }
        Ok(Self { queue: Some(queue), shared, threads, has_warned: false })
    }

    /// Queues a finding. If the queue is full, the program is not run for it; [`CommandResults::left`] counts that.
    pub fn run(&mut self, finding: Finding) {
        let Some(queue) = &self.queue else { return };
        self.shared.asked.fetch_add(1, Ordering::Relaxed);
        let sent = queue.try_send(finding);
        if sent.is_err() && !std::mem::replace(&mut self.has_warned, true) {
            log::error!("more than {MOST_WAITING} findings wait for --exec; it is not run for further ones");
        }
    }

    /// Waits until the program has run for all queued findings, at most `patience`.
    pub fn finish(mut self, patience: Duration) -> CommandResults {
        self.queue = None;
        let begin = Instant::now();
        while begin.elapsed() < patience && !self.threads.iter().all(JoinHandle::is_finished) {
            thread::sleep(Duration::from_millis(5));
        }
        self.shared.is_ended.store(true, Ordering::Relaxed);
        let [asked, ran, failed] = [&self.shared.asked, &self.shared.ran, &self.shared.failed]
            .map(|count| count.load(Ordering::Relaxed));
        CommandResults { failed, left: asked - ran }
    }
}

fn run_all(findings: &Mutex<Receiver<Finding>>, program: &[OsString], shared: &CommandCounts) {
    loop {
        let next = findings.lock().recv();
        let Ok(finding) = next else { return };
        if shared.is_ended.load(Ordering::Relaxed) {
            return;
        }
        let Some(mut command) = command(program, &finding) else { return };
        let result = command.status();
        let failure = match result {
            Ok(status) if status.success() => {
                shared.ran.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            Ok(status) => status.to_string(),
            Err(error) => format!("cannot be started: {error}"),
        };
        shared.failed.fetch_add(1, Ordering::Relaxed);
        shared.ran.fetch_add(1, Ordering::Relaxed);
        let shown =
            program.first().map(|program| display(program.as_bytes()).to_string()).unwrap_or_default();
        log::warn!("--exec {shown} for {}: {failure}", display(finding.record.name.as_bytes()));
    }
}

/// Builds the command with its arguments and environment; `None` without a program.
fn command(program: &[OsString], finding: &Finding) -> Option<Command> {
    let (program, arguments) = program.split_first()?;
    let record = &finding.record;
    let path = finding.path.as_deref().map_or(OsStr::new(""), |path| path.as_os_str());
    let mut command = Command::new(program);
    command.args(arguments.iter().map(|argument| if argument == "{}" { path } else { argument }));
    command
        .env("NAMEGATE_PATH", path)
        .env("NAMEGATE_PARENT", record.parent.as_deref().unwrap_or("".as_ref()))
        .env("NAMEGATE_NAME", &record.name)
        .env("NAMEGATE_NAME_HEX", HEXLOWER.encode(record.name.as_bytes()))
        .env("NAMEGATE_NAME_SHOWN", display(record.name.as_bytes()).to_string())
        .env("NAMEGATE_RULE", record.rule.map_or("", |rule| rule.name()))
        .env("NAMEGATE_START", record.span.start.to_string())
        .env("NAMEGATE_END", record.span.end.to_string())
        .env("NAMEGATE_OPERATION", record.operation)
        .env("NAMEGATE_PID", record.requester.pid.to_string())
        .env("NAMEGATE_UID", record.requester.uid.map(|uid| uid.to_string()).unwrap_or_default())
        .env("NAMEGATE_GID", record.requester.gid.map(|gid| gid.to_string()).unwrap_or_default())
        // Standard output is reserved for findings.
        .stdin(Stdio::null())
        .stdout(io::stderr())
        // Ctrl-C ends the watch, which then waits for its programs.
        .process_group(0);
    Some(command)
}

#[cfg(test)]
mod tests;
