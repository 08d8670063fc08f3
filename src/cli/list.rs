//! `namegate list`: the instances that run, and the mounts that nobody serves any more.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::statfs::statfs;
use serde::Serialize;

use super::instances::Found;
use super::{Status as Exit, Trouble};
use crate::daemon::control::{Bytes, Failure, Request, Status, harmless};
use crate::name::display::width;
use crate::sys::mounts::{self, Mount};

/// List the instances that run, and mounts of namegate that have lost their server.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "States: running; silent: it does not answer in time; foreign: it is another user's; unreachable: it is \
                        mounted, and has no control socket that this user could see; dead: it is mounted, and its server has \
                        gone: unmount it, or mount it again.\n\n\
                        Exit status: 0 all of them run, 1 one is dead or silent, 2 the list could not be made."
)]
pub(super) struct Args {
    /// One JSON object on each line.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum State {
    Running,
    Silent,
    Foreign,
    Unreachable,
    Dead,
}

impl State {
    fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Silent => "silent",
            Self::Foreign => "foreign",
            Self::Unreachable => "unreachable",
            Self::Dead => "dead",
        }
    }
}

#[derive(Debug, Serialize)]
struct Row {
    name: Option<String>,
    state: State,
    mode: Option<String>,
    pid: Option<u32>,
    source: Option<Bytes>,
    mountpoint: Option<Bytes>,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<Exit, Trouble> {
    let mounts = mounts::mounts()
        .map_err(|error| Trouble::new(format!("cannot read the table of mounts: {error}")))?;
    let mut rows: Vec<Row> = Found::all().filter_map(|found| row(&found)).collect();
    let known: BTreeSet<_> = rows.iter().filter_map(|row| row.mountpoint.as_ref()?.bytes()).collect();
    // Of mounts on one place the last covers the others.
    let seen: BTreeMap<&Path, &Mount> = mounts.iter().map(|mount| (mount.point.as_path(), mount)).collect();
    for (place, mount) in seen.into_iter().filter(|(_, mount)| mount.kind == "fuse.namegate") {
        let place_bytes = place.as_os_str().as_encoded_bytes();
        if known.contains(place_bytes) {
            continue;
        }
        rows.push(Row {
            name: None,
            state: state_of(place),
            mode: None,
            pid: None,
            source: Some(Bytes::new(&mount.source)),
            mountpoint: Some(Bytes::new(place_bytes)),
        });
    }
    if args.json {
        for row in &rows {
            serde_json::to_writer(&mut *out, row).map_err(io::Error::from)?;
            writeln!(out)?;
        }
    } else {
        text(&rows, out)?;
    }
    let is_bad = |row: &Row| matches!(row.state, State::Dead | State::Silent);
    Ok(if rows.iter().any(is_bad) { Exit::Findings } else { Exit::Clean })
}

/// Nothing for a socket that a killed server has left.
fn row(found: &Found) -> Option<Row> {
    let name = Some(found.name.clone());
    let without =
        |state| Row { name: name.clone(), state, mode: None, pid: None, source: None, mountpoint: None };
    match found.ask::<Status>(Request::Status) {
        Ok(status) => Some(Row {
            name: name.clone(),
            state: State::Running,
            mode: Some(harmless(&status.mode)),
            pid: Some(status.pid),
            source: Some(status.source),
            mountpoint: Some(status.mountpoint),
        }),
        Err(Failure::Gone) => None,
        Err(Failure::Forbidden) => Some(without(State::Foreign)),
        Err(Failure::Unreachable(_) | Failure::Refused(_)) => Some(without(State::Silent)),
    }
}

/// How a mount is that no instance told of. A server that hangs must not hold this up.
fn state_of(place: &Path) -> State {
    const PATIENCE: Duration = Duration::from_secs(2);
    let (tell, told) = mpsc::channel();
    let place = place.to_owned();
    let asking = thread::Builder::new().spawn(move || {
        // Whoever waited may have gone.
        let _ = tell.send(statfs(&place).err());
    });
    match asking.map(|_| told.recv_timeout(PATIENCE)) {
        Ok(Ok(Some(Errno::ENOTCONN | Errno::ECONNABORTED))) => State::Dead,
        Ok(Ok(Some(Errno::EACCES | Errno::EPERM))) => State::Foreign,
        Ok(Err(_)) => State::Silent,
        Ok(Ok(_)) | Err(_) => State::Unreachable,
    }
}

fn text(rows: &[Row], out: &mut dyn Write) -> io::Result<()> {
    let shown = |bytes: &Option<Bytes>| bytes.as_ref().map_or("?".into(), |bytes| harmless(&bytes.shown));
    let cells: Vec<[String; 5]> = rows
        .iter()
        .map(|row| {
            [
                row.name.clone().unwrap_or("-".into()),
                row.state.as_str().into(),
                row.mode.clone().unwrap_or("-".into()),
                shown(&row.mountpoint),
                shown(&row.source),
            ]
        })
        .collect();
    let heads = ["NAME", "STATE", "MODE", "MOUNT POINT", "SOURCE"].map(String::from);
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
