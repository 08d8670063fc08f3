//! What this machine can do for namegate, and what on it spoils names; with what to do about it.
//!
//! It looks and changes nothing. What it reads stands below a directory that stands for `/`, so that machines in any
//! state can be made for tests; what only the running kernel can tell is asked of it where that directory is `/`.

mod fuse;
mod locale;
mod mounts;
mod servers;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// How good it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Condition {
    /// As it should be.
    Ok,
    /// It could not be told.
    Unknown,
    /// Something goes slower, or spoils names.
    Warn,
    /// Something does not go.
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

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// What, in a word that stays the same in all releases.
    pub id: &'static str,
    /// How good it is.
    pub condition: Condition,
    /// What was found, for people; bytes from the machine are escaped.
    pub found: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Diagnosis {
    fn ok(id: &'static str, found: impl Into<String>) -> Self {
        Self { id, condition: Condition::Ok, found: found.into(), advice: None }
    }

    fn unknown(id: &'static str, found: impl Into<String>) -> Self {
        Self { id, condition: Condition::Unknown, found: found.into(), advice: None }
    }

    fn warn(id: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { id, condition: Condition::Warn, found: found.into(), advice: Some(advice.into()) }
    }

    fn fail(id: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { id, condition: Condition::Fail, found: found.into(), advice: Some(advice.into()) }
    }
}

/// The machine that is looked at.
#[derive(Clone, Debug)]
pub struct Machine {
    root: PathBuf,
    is_root_user: bool,
}

impl Machine {
    /// This one, for the user who asks.
    pub fn this() -> Self {
        Self { root: "/".into(), is_root_user: nix::unistd::geteuid().is_root() }
    }

    /// Whether the running kernel can be asked.
    fn is_live(&self) -> bool {
        self.root == Path::new("/")
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        fs::read(self.path(path))
    }

    /// As text without space around it; what is not UTF-8 in it is replaced.
    fn text(&self, path: &str) -> io::Result<String> {
        self.read(path).map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// Looks at everything; `sources` are directories that are to be mounted.
    pub fn examine(&self, sources: &[PathBuf]) -> Vec<Diagnosis> {
        let mut checks = fuse::checks(self, sources);
        checks.extend(locale::checks(self));
        checks.extend(mounts::checks(self));
        checks.extend(servers::checks(self));
        checks
    }
}

#[cfg(test)]
mod tests;
