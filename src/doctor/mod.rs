//! Checks what this machine supports, and which of its settings damage names; with advice.
//!
//! It only reads, but for the comparison of [transports](Machine::measure_transports), which mounts something. It reads files below a
//! directory that stands for `/`, so that tests can simulate machines in any state. The running kernel is queried only if that directory is `/`.

mod fuse;
mod guard;
mod locale;
mod mounts;
mod replaced;
mod servers;
mod speed;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Condition {
    /// Good.
    Ok,
    /// It could not be determined.
    Unknown,
    /// Something is slower, or names are damaged.
    Warn,
    /// Something does not work.
    Fail,
}

impl Condition {
    /// `ok`, `unknown`, `warn` or `fail`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Unknown => "unknown",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// Identifies the check; stays the same in all releases.
    pub id: &'static str,
    pub condition: Condition,
    /// What was found, for people; bytes from the machine are escaped.
    pub found: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Diagnosis {
    /// A result of this condition.
    pub fn ok(id: &'static str, found: impl Into<String>) -> Self {
        Self { id, condition: Condition::Ok, found: found.into(), advice: None }
    }

    fn unknown(id: &'static str, found: impl Into<String>) -> Self {
        Self { id, condition: Condition::Unknown, found: found.into(), advice: None }
    }

    fn warn(id: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { id, condition: Condition::Warn, found: found.into(), advice: Some(advice.into()) }
    }

    /// A result of this condition.
    pub fn fail(id: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { id, condition: Condition::Fail, found: found.into(), advice: Some(advice.into()) }
    }
}

/// The machine that is examined.
#[derive(Clone, Debug)]
pub struct Machine {
    root: PathBuf,
    is_root_user: bool,
}

impl Machine {
    /// This machine, as the current user.
    pub fn this() -> Self {
        Self { root: "/".into(), is_root_user: nix::unistd::geteuid().is_root() }
    }

    /// Reports whether the running kernel can be queried.
    fn is_live(&self) -> bool {
        self.root == Path::new("/")
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        fs::read(self.path(path))
    }

    /// The text of a file without surrounding white space; bytes that are not UTF-8 are replaced.
    fn text(&self, path: &str) -> io::Result<String> {
        self.read(path).map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// Runs all checks; `sources` are directories to be mounted.
    pub fn examine(&self, sources: &[PathBuf]) -> Vec<Diagnosis> {
        let mut checks = fuse::checks(self, sources);
        checks.extend(locale::checks(self));
        checks.extend(mounts::checks(self));
        checks.extend(replaced::check(self));
        checks.extend(servers::checks(self));
        checks.push(self.guard());
        checks
    }

    /// Measures for up to five seconds what io_uring brings to mounts; makes some that nobody else sees.
    pub fn measure_transports(&self) -> Diagnosis {
        speed::measure(self)
    }

    /// Checks what a guard needs, as far as files tell.
    pub fn guard(&self) -> Diagnosis {
        guard::check(self)
    }
}

#[cfg(test)]
mod tests;
