//! `namegate why --follow`: tells a user what a mount refuses while it happens.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus as ProgramStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use namegate_core::name::display::{display, shown};
use namegate_scan::report::layout::counted;
use namegate_sys::process;
use namegate_telemetry::audit::RecentRefusal;

use super::mount_answer::{ask_mount, describe, reason};
use super::{CliError, ExitStatus};

/// So many refusals are told at once; the others are counted.
const MAX_TOLD: usize = 5;
/// How often the mount is asked.
const INTERVAL: Duration = Duration::from_secs(1);
/// The same refusal within this time after the last one is no news: the client tries again and again.
const STORM: Duration = Duration::from_secs(60);
/// The program is started once in so long, and not while it runs: who unpacks an archive shall not get a thousand notifications.
const REST: Duration = Duration::from_secs(10);

/// Asks the mount of `dir` once a second, and prints what it refused since, or runs `program` for it. A mount runs no program for its
/// users: each user runs this one, with own rights.
pub fn follow(dir: &Path, program: &[OsString], out: &mut dyn Write) -> Result<ExitStatus, CliError> {
    let ask = || ask_mount(&dir.join("name"));
    let Some(first) = ask() else {
        return Err(CliError::new(format_args!("'{}' is not in a mount of namegate", shown(dir))));
    };
    check_program(program)?;
    let mut earlier = first.answer.refusals;
    let mut news = News::default();
    let mut notifier = program.split_first().map(|(program, arguments)| Notifier::new(program, arguments));
    while let Some(mount) = ask() {
        let is_news = |refusal: &&RecentRefusal| {
            let again = earlier.iter().find(|earlier| earlier.is_again(refusal));
            again.is_none_or(|earlier| refusal.time > earlier.time + STORM.as_secs())
        };
        let new: Vec<&RecentRefusal> = mount.answer.refusals.iter().filter(is_news).collect();
        let policy = if new.is_empty() { None } else { mount.policy()? };
        for refusal in new {
            let name = &refusal.name.base64.0;
            let why = policy.as_ref().map(|policy| reason(policy, &policy.check(name), Some(refusal)));
            news.add(|| describe(refusal, &display(name).to_string(), &why.unwrap_or_default()));
        }
        match &mut notifier {
            Some(notifier) => notifier.tell(&mut news, REST)?,
            None if !news.is_empty() => {
                writeln!(out, "{}", news.take())?;
                out.flush()?;
            }
            None => {}
        }
        if !mount.answer.refusals.is_empty() {
            earlier = mount.answer.refusals;
        }
        thread::sleep(INTERVAL);
    }
    if let Some(notifier) = notifier {
        notifier.finish(news)?;
    }
    Ok(ExitStatus::Clean)
}

/// Checks that the program of --exec can be started, before there is anything to start it for.
pub(super) fn check_program(program: &[OsString]) -> Result<(), CliError> {
    let Some(program) = program.first() else { return Ok(()) };
    process::check_program(program).map_err(|errno| {
        let shown = display(program.as_bytes());
        CliError::new(format_args!("--exec {shown} cannot be started: {}", errno.desc()))
    })
}

/// Refusals that the user has not been told of.
#[derive(Debug, Default)]
struct News {
    lines: Vec<String>,
    more: u64,
}

impl News {
    fn add(&mut self, line: impl FnOnce() -> String) {
        if self.lines.len() < MAX_TOLD {
            self.lines.push(line());
        } else {
            self.more += 1;
        }
    }

    const fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// All of them as text.
    fn take(&mut self) -> String {
        let Self { mut lines, more } = std::mem::take(self);
        if more > 0 {
            lines.push(format!("and {}", counted(more, "more name", "more names")));
        }
        lines.join("\n")
    }
}

/// The program that tells the user.
#[derive(Debug)]
struct Notifier<'a> {
    program: &'a OsStr,
    arguments: &'a [OsString],
    running: Option<(Child, Instant)>,
}

impl<'a> Notifier<'a> {
    const fn new(program: &'a OsStr, arguments: &'a [OsString]) -> Self {
        Self { program, arguments, running: None }
    }

    /// Starts the program for `news`, if there are any, it does not run, and was started at least `rest` ago.
    fn tell(&mut self, news: &mut News, rest: Duration) -> Result<(), CliError> {
        if let Some((child, since)) = &mut self.running {
            match child.try_wait()? {
                Some(status) if since.elapsed() >= rest => {
                    self.running = None;
                    self.warn_of(status);
                }
                _ => return Ok(()),
            }
        }
        if news.is_empty() {
            return Ok(());
        }
        let text = OsString::from(news.take());
        let arguments = self.arguments.iter().map(|argument| if argument == "{}" { &text } else { argument });
        let child = Command::new(self.program).args(arguments).stdin(Stdio::null()).spawn();
        let child = child.map_err(|error| {
            CliError::new(format_args!("--exec {} cannot be started: {error}", self.shown()))
        })?;
        self.running = Some((child, Instant::now()));
        Ok(())
    }

    /// Starts the program for what is left once it has ended, and waits for it.
    fn finish(mut self, mut news: News) -> Result<(), CliError> {
        loop {
            if let Some((mut child, _)) = self.running.take() {
                self.warn_of(child.wait()?);
            }
            if news.is_empty() {
                return Ok(());
            }
            self.tell(&mut news, Duration::ZERO)?;
        }
    }

    fn warn_of(&self, status: ProgramStatus) {
        if !status.success() {
            log::warn!("--exec {}: {status}", self.shown());
        }
    }

    fn shown(&self) -> impl std::fmt::Display {
        display(self.program.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_started_once_until_it_has_rested() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("told");
        let arguments =
            ["-c", "printf '%s\\n' \"$1\" >>\"$0\"", file.to_str().unwrap(), "{}"].map(OsString::from);
        let mut notifier = Notifier::new(OsStr::new("sh"), &arguments);
        let told = || std::fs::read_to_string(&file).unwrap_or_default();
        let mut news = News::default();
        notifier.tell(&mut news, REST).unwrap();
        assert!(notifier.running.is_none(), "nothing to tell");
        news.add(|| "first".into());
        notifier.tell(&mut news, REST).unwrap();
        notifier.running.as_mut().unwrap().0.wait().unwrap();
        assert_eq!(told(), "first\n");
        for number in 0..7 {
            news.add(|| format!("`{number}`"));
            notifier.tell(&mut news, REST).unwrap();
        }
        assert_eq!((told().as_str(), news.lines.len(), news.more), ("first\n", MAX_TOLD, 2), "it rests");
        notifier.finish(news).unwrap();
        assert_eq!(told(), "first\n`0`\n`1`\n`2`\n`3`\n`4`\nand 2 more names\n");
    }

    #[test]
    fn a_program_that_is_missing_is_named() {
        let mut news = News::default();
        news.add(|| "x".into());
        let error = Notifier::new(OsStr::new("/no/such"), &[]).tell(&mut news, REST).unwrap_err().to_string();
        assert!(error.contains("/no/such") && error.contains("cannot be started"), "{error}");
    }
}
