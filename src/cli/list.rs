//! `namegate list`: running instances, mounts that have lost their server, and guards.
//!
//! All instances are asked at once, and all mounts that no instance speaks for are tried at once: the list takes no longer than
//! one of them may take, however many are silent.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::read_link;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process;
use std::time::{Duration, Instant};

use namegate_core::name::display::{harmless, width};
use namegate_files::json::{self, JsonBytes, TypedObject};
use namegate_sys::mounts::{self, MountEntry};
use namegate_sys::process::{close_all_but, fork, replaced_program};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::statfs::statfs;
use nix::unistd::{ForkResult, Pid, geteuid};
use serde::Serialize;

use super::format::{FormatArgs, PlainFormat};
use super::guards::{GuardSummary, known_guards};
use super::instances::{owner_at, sockets, user};
use super::{CliError, ExitStatus};
use crate::service::control::{self, ControlRequest, FoundSocket, InstanceStatus, RequestError};
use crate::service::detach::leave_standard_streams;

const EXAMPLES: &str = "\
States:
  running      the instance answers
  silent       the instance does not answer in time
  foreign      the instance belongs to another user, and you may not ask it
  impostor     another user listens at the socket of the instance; namegate asks them nothing
  unverified   another user's instance names a mount point where that user has mounted nothing
  unreachable  the mount exists, but you cannot see its control socket
  dead         the mount exists, but its server has ended: unmount it, or mount it again
  guard        no mount: the kernel checks the names below SOURCE (namegate guard); only root sees guards

Behind the source stands what to look at: `source` and deleted, detached (unmounted), covered by another mount, read-only or full;
`replaced program`, if the server runs a program that was replaced by an upgrade (`namegate upgrade`).

Examples:
  namegate list
  namegate list --json | jq -r 'select(.state == \"dead\").mountpoint.shown'

Exit status: 0 all of your instances run; 1 one of them is dead or silent, or has an impostor; 2 the list could not be made.";

/// List running mounts (instances), mounts that have lost their server, and guards
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ListArgs {
    #[command(flatten)]
    format: FormatArgs<PlainFormat>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum MountState {
    Running,
    Silent,
    Foreign,
    Impostor,
    Unverified,
    Unreachable,
    Dead,
    Guard,
}

impl MountState {
    fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Silent => "silent",
            Self::Foreign => "foreign",
            Self::Impostor => "impostor",
            Self::Unverified => "unverified",
            Self::Unreachable => "unreachable",
            Self::Dead => "dead",
            Self::Guard => "guard",
        }
    }
}

#[derive(Debug, Serialize)]
struct ListRow {
    name: Option<String>,
    /// Whose it is: the owner of the socket's directory, or of the mount.
    uid: Option<u32>,
    state: MountState,
    mode: Option<String>,
    pid: Option<u32>,
    source: Option<JsonBytes>,
    mountpoint: Option<JsonBytes>,
    /// What somebody should look at.
    notes: Vec<String>,
}

impl ListRow {
    /// A row of which nothing else is known.
    fn new(name: Option<String>, uid: Option<u32>, state: MountState) -> Self {
        let notes = Vec::new();
        Self { name, uid, state, mode: None, pid: None, source: None, mountpoint: None, notes }
    }
}

pub(super) fn run(args: &ListArgs, out: &mut dyn Write) -> Result<ExitStatus, CliError> {
    let mounts =
        mounts::mounts().map_err(|error| CliError::new(format!("cannot read the mount table: {error}")))?;
    let sockets = sockets();
    let found: Vec<&FoundSocket> = sockets.own.iter().chain(&sockets.others).collect();
    let answers = control::ask_all(&found, ControlRequest::Status, control::ANSWER_TIMEOUT, |_, _| None);
    let mut rows: Vec<ListRow> =
        found.iter().zip(answers).filter_map(|(found, answer)| row(found, answer, &mounts)).collect();
    let is_believed = |row: &&ListRow| row.state == MountState::Running;
    let known: BTreeSet<_> = rows
        .iter()
        .filter(is_believed)
        .filter_map(|row| Some(row.mountpoint.as_ref()?.base64.0.clone()))
        .collect();
    // Of mounts on one place the last covers the others.
    let seen: BTreeMap<&Path, &MountEntry> =
        mounts.iter().map(|mount| (mount.point.as_path(), mount)).collect();
    let others: Vec<&MountEntry> = seen
        .into_values()
        .filter(|mount| mount.kind == "fuse.namegate")
        .filter(|mount| !known.contains(mount.point.as_os_str().as_encoded_bytes()))
        .collect();
    let states = states_of(others.iter().map(|mount| mount.point.clone()).collect());
    rows.extend(others.iter().zip(states).map(|(mount, state)| ListRow {
        source: Some(JsonBytes::new(&mount.source)),
        mountpoint: Some(JsonBytes::new(mount.point.as_os_str().as_encoded_bytes())),
        ..ListRow::new(None, mount.fuse_owner(), state)
    }));
    rows.extend(known_guards().into_iter().map(guard_row));
    match args.format.format {
        PlainFormat::Json => {
            rows.iter().try_for_each(|row| json::write_line(out, &TypedObject::new("instance", row)))?
        }
        PlainFormat::Text => text(&rows, out)?,
    }
    // What other users do with theirs is shown, and is no reason for an alarm.
    let is_bad = |row: &ListRow| {
        matches!(row.state, MountState::Dead | MountState::Silent | MountState::Impostor)
            && row.uid.is_none_or(|uid| uid == geteuid().as_raw())
    };
    Ok(if rows.iter().any(is_bad) { ExitStatus::Findings } else { ExitStatus::Clean })
}

/// Nothing for a socket that a killed server has left.
fn row(
    found: &FoundSocket,
    answer: Result<InstanceStatus, RequestError>,
    mounts: &[MountEntry],
) -> Option<ListRow> {
    let uid = Some(found.uid());
    let without = |state| ListRow::new(Some(found.name().to_string()), uid, state);
    match answer {
        Ok(status) => {
            // Another user's server can say what it likes; the kernel says what that user has mounted.
            let place = PathBuf::from(OsString::from_vec(status.mountpoint.base64.0.clone()));
            let is_theirs = || owner_at(mounts, &place) == uid;
            let is_believed = uid == Some(geteuid().as_raw()) || is_theirs();
            Some(ListRow {
                mode: Some(harmless(&status.mode)),
                pid: Some(status.pid),
                notes: notes(&status),
                source: Some(status.source),
                mountpoint: Some(status.mountpoint),
                ..without(if is_believed { MountState::Running } else { MountState::Unverified })
            })
        }
        Err(RequestError::Gone) => None,
        Err(RequestError::Forbidden) => Some(without(MountState::Foreign)),
        Err(failure @ RequestError::Impostor(_)) => {
            log::warn!("{}: {failure}", found.name());
            Some(without(MountState::Impostor))
        }
        Err(RequestError::Unreachable(_) | RequestError::Refused(_)) => Some(without(MountState::Silent)),
    }
}

/// What is wrong with the source, and whether the program of the server was replaced by an upgrade.
fn notes(status: &InstanceStatus) -> Vec<String> {
    let problems = status.counters.gauges.map(|gauges| gauges.source).unwrap_or_default().all();
    let wrong =
        problems.into_iter().filter(|(_, is_there)| *is_there).map(|(name, _)| format!("source {name}"));
    let program = read_link(format!("/proc/{}/exe", status.pid));
    let is_replaced = program.is_ok_and(|exe| replaced_program(&exe).is_some());
    wrong.chain(is_replaced.then(|| "replaced program".into())).collect()
}

fn guard_row(guard: GuardSummary) -> ListRow {
    let row = ListRow::new(None, Some(0), MountState::Guard);
    ListRow { mode: Some(guard.mode.into()), source: Some(guard.path), ..row }
}

/// Mounts that are tried at once; there are seldom more that nobody speaks for.
const MOST_TRIED: usize = 64;

/// How mounts are that no instance speaks for. All are tried at once, each by a process of its own: whoever waits for an answer
/// that a server has begun to give cannot be killed, and the list must come to its end all the same.
fn states_of(places: Vec<PathBuf>) -> Vec<MountState> {
    const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
    let deadline = Instant::now() + ANSWER_TIMEOUT;
    let mut tried: Vec<Option<(UnixStream, Pid)>> = places
        .iter()
        .enumerate()
        .map(|(number, place)| (number < MOST_TRIED).then(|| try_mount(place).ok()).flatten())
        .collect();
    tried
        .iter_mut()
        .map(|tried| tried.as_mut().map_or(MountState::Unreachable, |tried| state_of(tried, deadline)))
        .collect()
}

/// Has a process look at the mount; it answers with an errno, or 0.
fn try_mount(place: &Path) -> io::Result<(UnixStream, Pid)> {
    let (line, other_end) = UnixStream::pair()?;
    match fork()? {
        ForkResult::Parent { child } => Ok((line, child)),
        ForkResult::Child => {
            let _ = look(other_end.into(), place);
            process::exit(0)
        }
    }
}

fn look(line: OwnedFd, place: &Path) -> io::Result<()> {
    leave_standard_streams()?;
    close_all_but(&line)?;
    let errno = statfs(place).err().map_or(0, |errno| errno as i32);
    UnixStream::from(line).write_all(&errno.to_ne_bytes())
}

fn state_of((line, process): &mut (UnixStream, Pid), deadline: Instant) -> MountState {
    let left = deadline.saturating_duration_since(Instant::now());
    let mut polled = [PollFd::new(line.as_fd(), PollFlags::POLLIN)];
    let answered = poll(&mut polled, PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO)) == Ok(1);
    let mut bytes = [0; 4];
    if !answered || line.read_exact(&mut bytes).is_err() {
        // It goes as soon as it can.
        let _ = kill(*process, Signal::SIGKILL);
        return MountState::Silent;
    }
    match Errno::from_raw(i32::from_ne_bytes(bytes)) {
        Errno::ENOTCONN | Errno::ECONNABORTED => MountState::Dead,
        Errno::EACCES | Errno::EPERM => MountState::Foreign,
        _ => MountState::Unreachable,
    }
}

fn text(rows: &[ListRow], out: &mut dyn Write) -> io::Result<()> {
    let shown = |row: &ListRow, bytes: &Option<JsonBytes>| match bytes {
        Some(bytes) => harmless(&bytes.shown),
        None if row.state == MountState::Guard => "-".into(),
        None => "?".into(),
    };
    let cells: Vec<[String; 6]> = rows
        .iter()
        .map(|row| {
            [
                row.name.clone().unwrap_or("-".into()),
                row.uid.map_or("?".into(), user),
                row.state.as_str().into(),
                row.mode.clone().unwrap_or("-".into()),
                shown(row, &row.mountpoint),
                match row.notes.as_slice() {
                    [] => shown(row, &row.source),
                    notes => format!("{} ({})", shown(row, &row.source), notes.join(", ")),
                },
            ]
        })
        .collect();
    let heads = ["NAME", "USER", "STATE", "MODE", "MOUNT POINT", "SOURCE"].map(String::from);
    if cells.is_empty() {
        return Ok(());
    }
    let wide = |column: usize| {
        std::iter::once(&heads).chain(&cells).map(|row| width(row[column].as_bytes())).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..heads.len()).map(wide).collect();
    for row in std::iter::once(&heads).chain(&cells) {
        for (cell, widest) in row.iter().zip(&widths).take(heads.len() - 1) {
            write!(out, "{cell}{:1$}  ", "", widest - width(cell.as_bytes()))?;
        }
        writeln!(out, "{}", row[heads.len() - 1])?;
    }
    Ok(())
}
