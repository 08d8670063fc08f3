//! Which instance is meant, for every command that asks one.
//!
//! Root's own instances are the ones that are meant, unless another user is named: a user who gives a socket the name of one of
//! root's changes nothing for root. At a mount point the mount table says whose mount it is, and only that user's sockets are
//! asked.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{self, Path, PathBuf};
use std::time::Duration;

use namegate_core::name::display::{display, shown};
use namegate_sys::mounts::{self, MountEntry};
use nix::unistd::{Uid, User, geteuid};
use serde::de::DeserializeOwned;

use super::CliError;
use super::guards::guard_hint;
use crate::service::control::{
    self, ControlRequest, FoundSocket, FoundSockets, InstanceStatus, RequestError,
};

/// Once one of a user's instances has said that it is mounted somewhere, the others have so long to say that they are, too.
const SOON: Duration = Duration::from_millis(300);

/// Which instance is meant.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct InstanceSelector {
    /// Instance name or mount point; optional if only one instance is running. `namegate list` shows all
    #[arg(value_name = "NAME")]
    which: Option<OsString>,
    /// Address an instance of USER (a name or a number), as root
    #[arg(long, value_name = "USER")]
    user: Option<String>,
}

impl InstanceSelector {
    /// Finds it.
    ///
    /// # Errors
    /// There is none, or more than one.
    pub(super) fn find(&self) -> Result<FoundSocket, CliError> {
        let sockets = sockets();
        let asked = self.user.as_deref().map(uid_of).transpose()?;
        let me = geteuid().as_raw();
        let candidates: Vec<&FoundSocket> = match asked.filter(|&uid| uid != me) {
            None => sockets.own.iter().collect(),
            Some(uid) => sockets.others.iter().filter(|found| found.uid() == uid).collect(),
        };
        let whose =
            asked.filter(|&uid| uid != me).map(|uid| format!(" of {}", user(uid))).unwrap_or_default();
        let Some(which) = &self.which else {
            let there: Vec<&FoundSocket> = candidates.into_iter().filter(|found| found.is_there()).collect();
            return only(&there).ok_or_else(|| not_one(&there, &sockets, asked, &whose));
        };
        let what = display(which.as_bytes()).to_string();
        let place = path::absolute(which).map_err(|error| CliError::new(format!("{what}: {error}")))?;
        // The parts alone: a slash at the end says nothing.
        let place: PathBuf = place.components().collect();
        let mounted = mounts::mounts().ok().and_then(|table| owner_at(&table, &place));
        if !which.as_bytes().contains(&b'/') {
            let is_named = |found: &FoundSocket| found.name().as_str().as_bytes() == which.as_bytes();
            let named: Vec<&FoundSocket> = candidates.into_iter().filter(|found| is_named(found)).collect();
            // A name comes first, so that a directory cannot hide an instance: `mnt` and `.` are mount points where no instance is called so.
            if !named.is_empty() || mounted.is_none() {
                return only(&named).ok_or_else(|| {
                    let hint = hint(&sockets, asked, is_named);
                    CliError::new(format!(
                        "no instance{whose} is called {what}, and it is no mount point; `namegate list` shows all{hint}"
                    ))
                });
            }
        }
        // A mount that is not in this namespace can be one of our own, who are believed.
        let owner = mounted.unwrap_or(me);
        let mut asked_there: Vec<&FoundSocket> = Vec::new();
        if asked.is_none_or(|uid| uid == owner) {
            asked_there
                .extend(sockets.own.iter().chain(&sockets.others).filter(|found| found.uid() == owner));
        }
        let there = mounted_at(&asked_there, &place);
        only(&there).ok_or_else(|| match there.as_slice() {
            [] if mounted.is_some() && owner != me && !Uid::from_raw(me).is_root() => CliError::new(format!(
                "{what} is a mount of {}, whose instance answers only them and root",
                user(owner)
            )),
            [] => CliError::new(format!(
                "no instance{whose} that answers is mounted on {what}; `namegate list` shows all{}",
                guard_hint(Some(&place))
            )),
            several => several_mounted(several, &what),
        })
    }

    /// Asks it.
    ///
    /// # Errors
    /// There is none, more than one, or no answer.
    pub(super) fn ask<T: DeserializeOwned>(&self, request: ControlRequest) -> Result<T, CliError> {
        ask(&self.find()?, request)
    }
}

/// Asks an instance that was found.
///
/// # Errors
/// There is no answer.
pub(super) fn ask<T: DeserializeOwned>(found: &FoundSocket, request: ControlRequest) -> Result<T, CliError> {
    found.ask(request).map_err(|failure| CliError::new(format!("{}: {failure}", found.name())))
}

/// All sockets that are there; what is not looked at is said.
pub(super) fn sockets() -> FoundSockets {
    let sockets = control::sockets();
    sockets.ignored.iter().for_each(|line| log::warn!("{line}"));
    sockets
}

/// A user as people call them.
pub(super) fn user(uid: u32) -> String {
    match User::from_uid(Uid::from_raw(uid)) {
        Ok(Some(user)) => display(user.name.as_bytes()).to_string(),
        _ => format!("uid {uid}"),
    }
}

fn uid_of(user: &str) -> Result<u32, CliError> {
    if let Ok(uid) = user.parse() {
        return Ok(uid);
    }
    let found = User::from_name(user).ok().flatten();
    let unknown = || CliError::new(format!("--user: there is no user {}", display(user.as_bytes())));
    found.map(|user| user.uid.as_raw()).ok_or_else(unknown)
}

/// Why no instance is meant where none is named: none is running, or several are.
fn not_one(there: &[&FoundSocket], sockets: &FoundSockets, asked: Option<u32>, whose: &str) -> CliError {
    if there.is_empty() {
        let hints = format!("{}{}", hint(sockets, asked, |_| true), guard_hint(None));
        let start = if hints.is_empty() { "; `namegate mount` starts one" } else { "" };
        return CliError::new(format!("no instance{whose} is running{hints}{start}"));
    }
    let names = there.iter().map(|found| found.name().as_str()).collect::<Vec<_>>().join(", ");
    CliError::new(format!("more than one instance{whose} is running; say which: {names}"))
}

fn several_mounted(several: &[&FoundSocket], what: &str) -> CliError {
    let sockets: Vec<_> = several.iter().map(|found| shown(&found.path())).collect();
    CliError::new(format!(
        "more than one instance is mounted on {what}; say the name: {}",
        sockets.join(", ")
    ))
}

fn only(found: &[&FoundSocket]) -> Option<FoundSocket> {
    match found {
        [found] => Some((*found).clone()),
        _ => None,
    }
}

/// What root can do to reach the instance of another user that may have been meant.
fn hint(sockets: &FoundSockets, asked: Option<u32>, is_meant: impl Fn(&FoundSocket) -> bool) -> String {
    let others = sockets.others.iter().filter(|found| asked.is_none() && is_meant(found));
    let mut others: Vec<String> =
        others.map(|found| format!("--user {} {}", found.uid(), found.name())).collect();
    const MAX_NAMED: usize = 3;
    let more = if others.len() > MAX_NAMED { ", …" } else { "" };
    others.truncate(MAX_NAMED);
    match others.as_slice() {
        [] => String::new(),
        others => format!("; other users have some: {}{more}", others.join(", ")),
    }
}

/// Whose mount of namegate is seen at `place`, by the word of the kernel; `None` if there is none.
pub(super) fn owner_at(table: &[MountEntry], place: &Path) -> Option<u32> {
    let mount = mounts::covering(table, place)?;
    if mount.kind != "fuse.namegate" { None } else { mount.fuse_owner() }
}

/// Those of `sockets` whose instances say that they are mounted on `place`.
fn mounted_at<'f>(sockets: &[&'f FoundSocket], place: &Path) -> Vec<&'f FoundSocket> {
    let is_it = |answer: &Result<InstanceStatus, RequestError>| {
        let mountpoint = answer.as_ref().ok().map(|status| status.mountpoint.base64.0.clone());
        mountpoint.is_some_and(|bytes| bytes == place.as_os_str().as_bytes())
    };
    let answers = control::ask_all(sockets, ControlRequest::Status, control::ANSWER_TIMEOUT, |_, answer| {
        is_it(answer).then_some(SOON)
    });
    sockets.iter().zip(&answers).filter(|(_, answer)| is_it(answer)).map(|(found, _)| *found).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_of_a_mount_is_the_one_whom_the_kernel_names() {
        let table = mounts::parse(
            b"36 1 0:40 / /mnt rw - fuse.namegate /srv rw,user_id=0,group_id=0,default_permissions\n\
              37 1 0:41 / /home/u/mnt rw - fuse.namegate user_id=0 rw,user_id=1000,group_id=0\n\
              38 1 0:42 / /home/u/mnt2 rw - fuse.sshfs x rw,user_id=1000\n\
              39 1 0:43 / /twice rw - fuse.namegate x rw,user_id=1000\n\
              40 1 0:44 / /twice rw - fuse.namegate x rw,user_id=0\n",
        );
        let at = |place: &str| owner_at(&table, Path::new(place));
        assert_eq!([at("/mnt"), at("/home/u/mnt"), at("/twice")], [Some(0), Some(1000), Some(0)]);
        assert_eq!([at("/home/u/mnt2"), at("/none")], [None, None]);
    }
}
