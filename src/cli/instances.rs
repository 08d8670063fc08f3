//! Which instance is meant, for every command that asks one.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{self, PathBuf};

use serde::de::DeserializeOwned;

use super::Trouble;
use super::policy_args::shown;
use crate::daemon::control::{self, Failure, Request, Status};
use crate::name::display::display;

/// Which instance is meant.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Which {
    /// The instance, by name or by mount point; can be left out if only one is running. `namegate list` tells them.
    #[arg(value_name = "NAME")]
    which: Option<OsString>,
}

/// An instance that was found.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) name: String,
    socket: PathBuf,
}

impl Which {
    /// Finds it.
    ///
    /// # Errors
    /// There is none, or more than one.
    pub(super) fn find(&self) -> Result<Found, Trouble> {
        let Some(which) = &self.which else {
            return only(Found::all().filter(Found::is_there).collect(), "");
        };
        let what = display(which.as_bytes()).to_string();
        if !which.as_bytes().contains(&b'/') {
            let named = Found::all().filter(|found| found.name.as_bytes() == which.as_bytes());
            return only(named.collect(), &what);
        }
        let place = path::absolute(which).map_err(|error| Trouble::new(format!("{what}: {error}")))?;
        // The parts alone: a slash at the end says nothing.
        let place: PathBuf = place.components().collect();
        let is_it = |found: &Found| {
            let status = found.ask::<Status>(Request::Status).ok();
            let mountpoint = status.and_then(|status| status.mountpoint.bytes());
            mountpoint.is_some_and(|bytes| bytes == place.as_os_str().as_bytes())
        };
        only(Found::all().filter(is_it).collect(), &what)
    }

    /// Asks it.
    ///
    /// # Errors
    /// There is none, more than one, or no answer.
    pub(super) fn ask<T: DeserializeOwned>(&self, request: Request) -> Result<T, Trouble> {
        let found = self.find()?;
        found.ask(request).map_err(|failure| Trouble::new(format!("{}: {failure}", found.name)))
    }
}

impl Found {
    /// All sockets that are there.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        control::sockets().into_iter().map(|(name, socket)| Self { name: name.to_string(), socket })
    }

    pub(super) fn ask<T: DeserializeOwned>(&self, request: Request) -> Result<T, Failure> {
        control::ask(&self.socket, request)
    }

    fn is_there(&self) -> bool {
        !matches!(self.ask::<Status>(Request::Status), Err(Failure::Gone))
    }
}

fn only(found: Vec<Found>, what: &str) -> Result<Found, Trouble> {
    match (found.as_slice(), what) {
        ([found], _) => Ok(found.clone()),
        ([], "") => Err(Trouble::new("no instance is running that this user may ask")),
        ([], what) => Err(Trouble::new(format!(
            "no instance is called {what} or mounted there; `namegate list` tells which are"
        ))),
        (several, "") => {
            let names: Vec<_> = several.iter().map(|found| found.name.as_str()).collect();
            Err(Trouble::new(format!("more than one instance is running; say which: {}", names.join(", "))))
        }
        (several, what) => {
            let sockets: Vec<_> = several.iter().map(|found| shown(&found.socket)).collect();
            let sockets = sockets.join(", ");
            Err(Trouble::new(format!(
                "more than one instance is called {what}; say the mount point: {sockets}"
            )))
        }
    }
}
