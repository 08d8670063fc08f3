//! `namegate mount`: a tree behind the gate.

mod helper;
mod service;
mod settings;
mod words;

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{self, Path, PathBuf};
use std::sync::Arc;

use clap::builder::TypedValueParser;
use nix::unistd::{Gid, Group};

use self::service::Service;
use self::settings::{Settings, Switch};
use self::words::{Strictness, Words};
use super::policy_args::shown;
use super::{LogFormat, Status, Trouble};
use crate::daemon::audit::{self, Trail};
use crate::daemon::detach::{Division, Ready, divide};
use crate::daemon::metrics::{Judged, Metrics, Requests};
use crate::daemon::notify::Manager;
use crate::daemon::signals::{Signals, Wish};
use crate::fuse::{self, Options, Terms};
use crate::gate::{Gate, Mode};
use crate::name::display::display;
use crate::policy::profile;

pub(super) use helper::{Helper, is_called as is_helper};

const EXAMPLES: &str = "\
Examples:
  namegate mount /srv/share /mnt/share
  namegate mount /srv/share /srv/share --daemon        over itself: users see the mount alone
  namegate mount /srv/share /mnt/share -o ro,profile=strict:windows
  namegate mount /srv/share /mnt/share --mode permissive --audit /var/log/namegate.jsonl
  mount -t namegate /srv/share /mnt/share -o profile=strict

The mount lasts until `umount MOUNTPOINT`, for other users than root `fusermount3 -u MOUNTPOINT`, or until \
SIGINT (Ctrl-C) or SIGTERM. -o takes all options above but --daemon, with _ for - and : between profiles, and also: ro, \
noexec, noatime; suid and dev, for root alone, without which nosuid and nodev hold; allow_other; \
fsname=NAME; verbose; log_format=FORMAT. What is meant for fstab is passed over. Of two options that contradict each other the long option \
holds, then the later word.

Exit status: 0 unmounted, or with --daemon mounted; 2 not mounted, or the mount ended by an error.";

/// Mount a tree so that no name that breaks the policy can be created in it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The directory that is served.
    source: PathBuf,
    /// Where it is mounted.
    mountpoint: PathBuf,
    /// Mount options as mount(8) takes them.
    #[arg(short = 'o', long = "options", value_name = "OPTION,...", value_parser = lists())]
    options: Vec<OsString>,
    /// Serve in the background: end when the mount is live, with an exit status that says whether it is. The log then goes
    /// to the system's log.
    #[arg(long)]
    daemon: bool,
    #[command(flatten)]
    settings: Settings,
}

/// Judges a list by itself, so that a mistake in it is one of usage.
fn lists() -> impl TypedValueParser<Value = OsString> {
    clap::builder::OsStringValueParser::new()
        .try_map(|list| Words::default().add(&list, Strictness::Strict).map(|_| list))
}

/// What all options together come to.
#[derive(Clone, Debug)]
struct Plan {
    words: Words,
    settings: Settings,
    /// Who is told that the mount is live.
    manager: Manager,
}

impl Plan {
    /// # Errors
    /// A sentence about a word that means nothing.
    fn new(lists: &[OsString], settings: Settings, strictness: Strictness) -> Result<Self, String> {
        let words = lists.iter().try_fold(Words::default(), |words, list| words.add(list, strictness))?;
        let settings = settings.or(words.settings.clone());
        Ok(Self { words, settings, manager: Manager::none() })
    }

    fn options(&self) -> Options {
        Options {
            fsname: self.words.fsname.clone(),
            flags: self.words.flags,
            allow_other: self.words.allow_other,
        }
    }

    /// Opens what it names.
    fn terms(&self) -> Result<Terms, Trouble> {
        let default = Terms::of(self.gate()?);
        Ok(Terms {
            for_violations: self.settings.errno.unwrap_or_default().into(),
            checks_targets: self.settings.check_targets,
            entry_timeout: self.settings.entry_timeout.unwrap_or(default.entry_timeout),
            attr_timeout: self.settings.attr_timeout.unwrap_or(default.attr_timeout),
            ..default
        })
    }

    /// Opens what it names.
    fn gate(&self) -> Result<Gate, Trouble> {
        let policy = self.settings.policy.policy(&[&profile::UTF8])?;
        let mode = Mode::from(self.settings.mode.unwrap_or_default());
        Ok(Gate::new(Arc::new(policy), mode).with_existing(self.settings.existing.unwrap_or_default().into()))
    }

    fn audit(&self, metrics: Arc<Metrics>) -> Result<audit::Settings, Trouble> {
        let trail = match self.settings.audit.as_deref() {
            None => None,
            Some(file) if file == Path::new("-") => Some(Trail::to(io::stdout())),
            Some(file) => {
                let group = self.settings.audit_group.as_deref().map(group).transpose()?;
                let unusable =
                    |error| Trouble::new(format!("cannot write the audit trail {}: {error}", shown(file)));
                let open = |file: PathBuf| match group {
                    Some(group) => Trail::append_for(&file, group),
                    None => Trail::append(&file),
                };
                Some(path::absolute(file).and_then(open).map_err(unusable)?)
            }
        };
        let default = audit::Settings::default();
        Ok(audit::Settings {
            trail,
            is_logged: self.settings.audit_log != Some(Switch::Off),
            per_second: self.settings.audit_rate.unwrap_or(default.per_second),
            metrics,
        })
    }
}

/// A group by its name or its number.
fn group(name: &str) -> Result<Gid, Trouble> {
    let by_number = || name.parse().ok().map(Gid::from_raw);
    let found = Group::from_name(name).map_err(|errno| errno.desc());
    found
        .and_then(|group| group.map(|group| group.gid).or_else(by_number).ok_or("there is no such group"))
        .map_err(|why| {
            Trouble::new(format!(
                "cannot give the audit trail to the group {}: {why}",
                display(name.as_bytes())
            ))
        })
}

impl Args {
    /// Whether `-o` says so.
    pub(super) fn is_verbose(&self) -> bool {
        self.words().is_some_and(|words| words.verbose)
    }

    /// What `-o` says of it.
    pub(super) fn log_format(&self) -> Option<LogFormat> {
        self.words()?.log_format
    }

    fn words(&self) -> Option<Words> {
        Plan::new(&self.options, Settings::default(), Strictness::Strict).ok().map(|plan| plan.words)
    }
}

/// Runs the command; it ends with the mount, or when the mount is live.
pub(super) fn run(args: Args) -> Result<Status, Trouble> {
    let mut plan = Plan::new(&args.options, args.settings, Strictness::Strict).map_err(Trouble::new)?;
    // Not where mount(8) has started it: whoever is waited for there is mount(8).
    plan.manager = Manager::of_environment();
    if args.daemon {
        in_background(&args.source, &args.mountpoint, &plan)
    } else {
        serve(&args.source, &args.mountpoint, &plan, None)
    }
}

/// Metrics that are told from those of other mounts on the same machine.
fn metrics_of(mountpoint: &Path) -> Metrics {
    let place = path::absolute(mountpoint).unwrap_or(mountpoint.into());
    Metrics::default().with_label("mountpoint", shown(&place))
}

/// Mounts and serves; when the mount is live, `ready` is told.
fn serve(source: &Path, mountpoint: &Path, plan: &Plan, ready: Option<Ready>) -> Result<Status, Trouble> {
    let service = Service::begin(plan.manager.clone(), mountpoint, !plan.settings.no_sandbox)?;
    // Before there is a second thread: threads inherit what is blocked.
    let signals = Signals::block().map_err(|error| Trouble::new(format!("cannot block signals: {error}")))?;
    let metrics = Arc::new(metrics_of(mountpoint));
    let outlets = plan.settings.metrics.outlets(metrics.clone())?;
    let status = status(source, mountpoint, metrics.clone());
    let mounted = fuse::mount(source, mountpoint, plan.terms()?, plan.audit(metrics)?, &plan.options())
        .map_err(Trouble::new)?;
    let _served = outlets.start().map_err(Trouble::new)?;
    let is_detached = ready.is_some();
    if let Some(ready) = ready {
        ready.detach().map_err(|error| Trouble::new(format!("cannot go into the background: {error}")))?;
    }
    let _pulse = service.mounted(status)?;
    let (handle, plan) = (mounted.handle(), plan.clone());
    let manager = plan.manager.clone();
    let act = move |wish| match wish {
        Wish::Reload => {
            plan.manager.reloading();
            match plan.terms() {
                Ok(terms) => drop(handle.swap(terms)),
                Err(Trouble::Message(why)) => log::error!("the policy stays as it was: {why}"),
                Err(Trouble::OutputClosed | Trouble::Told) => {}
            }
            plan.manager.reloaded();
        }
        Wish::End => {
            plan.manager.stopping();
            handle.unmount();
        }
    };
    signals.watch(act).map_err(|error| Trouble::new(format!("cannot wait for signals: {error}")))?;
    let served = mounted.serve();
    manager.stopping();
    served.map(|()| Status::Clean).map_err(|error| match is_detached {
        true => {
            log::error!("{error}");
            Trouble::Told
        }
        false => Trouble::new(error),
    })
}

/// What a service manager shows of a mount that works.
fn status(source: &Path, mountpoint: &Path, metrics: Arc<Metrics>) -> impl Fn() -> String + Send + 'static {
    let what = format!("{} on {}", shown(source), shown(mountpoint));
    move || {
        let counted = metrics.snapshot();
        let requests: u64 = counted.requests.iter().map(Requests::total).sum();
        let names = |judged: &[Judged]| judged.iter().map(|judged| judged.count).sum::<u64>();
        let (refused, let_through) = (names(&counted.refused), names(&counted.let_through));
        format!("{what}: {requests} requests, {refused} names refused, {let_through} let through")
    }
}

/// The same in a process of its own; this one waits until the mount is live.
fn in_background(source: &Path, mountpoint: &Path, plan: &Plan) -> Result<Status, Trouble> {
    if plan.settings.audit.as_deref() == Some(Path::new("-")) {
        return Err(Trouble::new(
            "--audit - writes to standard output, which a mount in the background has not",
        ));
    }
    let impossible = |error| Trouble::new(format!("cannot go into the background: {error}"));
    match divide().map_err(impossible)? {
        Division::Server(ready) => serve(source, mountpoint, plan, Some(ready)),
        Division::Starter(waiting) => match waiting.wait().map_err(impossible)? {
            true => Ok(Status::Clean),
            // It has said why.
            false => Err(Trouble::Told),
        },
    }
}

/// Whether `name` is the last part of `path`.
fn is_named(path: &OsStr, name: &str) -> bool {
    Path::new(path).file_name() == Some(OsStr::new(name))
}
