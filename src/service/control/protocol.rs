//! The protocol of the control socket: one line of JSON each way.
//!
//! A request is `{"version":1,"do":"status"}`; a reply `{"version":1,"ok":true,"result":…}` or `{"version":1,"ok":false,"error":"…"}`. The fields
//! are part of the interface: `docs/CONTROL.md`.

use std::fmt;
use std::time::{Duration, SystemTime};

use namegate_core::gate::Mode;
use namegate_core::name::display::display;
use namegate_core::name::escape::stable_hash;
use namegate_core::policy::Policy;
use namegate_core::policy::UnknownWord;
use namegate_files::json::JsonBytes;
use namegate_files::time::timestamp;
use namegate_settings::Choices;
use namegate_telemetry::audit::RecentRefusal;
use namegate_telemetry::metrics::MetricsSnapshot;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::ANSWER_TIMEOUT;

/// The version of the protocol. It changes when a field is removed or changes its meaning, not when one is added.
pub const VERSION: u32 = 1;

/// The longest request, in bytes.
pub(super) const MAX_REQUEST: usize = 4096;
/// The longest reply, in bytes.
pub(super) const MAX_REPLY: usize = 16 << 20;

/// A request to an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlRequest {
    /// Report the status: [`InstanceStatus`].
    Status,
    /// Read the configuration again: [`ReloadOutcome`].
    Reload,
    /// Refuse names that break the policy, or let them through: [`ReloadOutcome`].
    Mode(Mode),
    /// Report metrics as text for Prometheus.
    Metrics,
    /// Report counters and the last refusals: [`InstanceCounters`].
    Counters,
}

/// The words of requests that have no other field.
const PLAIN: [(&str, ControlRequest); 4] = [
    ("status", ControlRequest::Status),
    ("reload", ControlRequest::Reload),
    ("metrics", ControlRequest::Metrics),
    ("counters", ControlRequest::Counters),
];
const MODE: &str = "mode";

#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestLine {
    version: u32,
    r#do: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mode: Option<String>,
}

impl ControlRequest {
    /// Parses one line.
    ///
    /// # Errors
    /// A sentence about the error in the line, escaped for display.
    ///
    /// ```
    /// use namegate::service::control::ControlRequest;
    /// assert_eq!(ControlRequest::parse(br#"{"version":1,"do":"status"}"#), Ok(ControlRequest::Status));
    /// assert!(ControlRequest::parse(br#"{"version":2,"do":"status"}"#).unwrap_err().contains("version 1"));
    /// ```
    pub fn parse(line: &[u8]) -> Result<Self, String> {
        let unreadable = |error: serde_json::Error| {
            let why = error.to_string();
            format!("this is no request: {}", display(why.as_bytes()))
        };
        let Versioned { version } = serde_json::from_slice(line).map_err(unreadable)?;
        if version != VERSION {
            return Err(format!("this instance speaks version {VERSION} of the protocol, not {version}"));
        }
        let RequestLine { r#do, mode, .. } = serde_json::from_slice(line).map_err(unreadable)?;
        match (r#do.as_str(), mode.as_deref()) {
            (MODE, Some(word)) => {
                let known = || UnknownWord::new("mode", word, Mode::ALL.iter().map(|mode| mode.word));
                let choice = Mode::ALL.iter().find(|mode| mode.word == word);
                choice.map(|mode| Self::Mode(mode.value)).ok_or_else(|| known().to_string())
            }
            (MODE, None) => Err("`mode` needs a field of that name".into()),
            (_, Some(_)) => Err("the field `mode` belongs to the request `mode`".into()),
            (word, None) => {
                let found = PLAIN.iter().find(|(known, _)| *known == word).map(|(_, request)| *request);
                let known = PLAIN.iter().map(|(known, _)| *known).chain([MODE]);
                found.ok_or_else(|| UnknownWord::new("request", word, known).to_string())
            }
        }
    }

    /// Whether it changes the instance.
    pub(super) fn is_change(self) -> bool {
        matches!(self, Self::Reload | Self::Mode(_))
    }

    /// The time that a client waits for the reply.
    pub(super) fn patience(self) -> Duration {
        // A large policy on a slow machine, and directories that are listed to make the kernel forget names.
        if self.is_change() { Duration::from_secs(60) } else { ANSWER_TIMEOUT }
    }

    /// Encodes the request as one line, with its line feed.
    pub fn to_line(self) -> Vec<u8> {
        let word = PLAIN.iter().find(|(_, request)| *request == self).map_or(MODE, |(word, _)| word);
        let mode = if let Self::Mode(mode) = self { Some(mode.word().to_owned()) } else { None };
        let mut line = serde_json::to_vec(&RequestLine { version: VERSION, r#do: word.into(), mode })
            .expect("strings and numbers have a form in JSON");
        line.push(b'\n');
        line
    }
}

/// The reply of an instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ControlReply {
    pub version: u32,
    /// Whether the request succeeded.
    pub ok: bool,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub result: Value,
    /// Why the request failed: one or more lines, escaped for display.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl ControlReply {
    /// A successful reply.
    pub fn done(result: impl Serialize) -> Self {
        match serde_json::to_value(result) {
            Ok(result) => Self { version: VERSION, ok: true, result, error: None },
            Err(error) => Self::failed(format!("the answer cannot be written: {error}")),
        }
    }

    /// A failure, with its reason.
    pub fn failed(why: impl Into<String>) -> Self {
        Self { version: VERSION, ok: false, result: Value::Null, error: Some(why.into()) }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InstanceStatus {
    pub name: String,
    /// The version of its program.
    pub namegate: String,
    /// The process id of the server.
    pub pid: u32,
    /// The user id of the server.
    pub uid: u32,
    /// The time of the mount, by RFC 3339.
    pub since: String,
    /// The directory that is served.
    pub source: JsonBytes,
    /// Where it is mounted.
    pub mountpoint: JsonBytes,
    /// The path of `--config`.
    pub config: Option<JsonBytes>,
    /// `enforcing` or `permissive`.
    pub mode: String,
    /// Whether the mode was set by hand, so that the file does not change it.
    pub mode_is_set: bool,
    /// `escape`, `show` or `hide`.
    pub existing: String,
    /// The error for refused names.
    pub errno: String,
    /// The policy that names are checked by.
    pub policy: ActivePolicy,
    /// The values in effect, by the names of the settings.
    #[serde(default)]
    pub settings: Map<String, Value>,
    /// What carries requests: `dev`, `uring` or `fuser`.
    #[serde(default)]
    pub transport: String,
    /// The kind of cache, if the mount is served.
    #[serde(default)]
    pub cache: Option<CacheKind>,
    /// The last reload, if there was one since the mount.
    pub last_reload: Option<LastReload>,
    /// The holder, if the mount has one.
    #[serde(default)]
    pub holder: Option<HolderStatus>,
    pub counters: MetricsSnapshot,
}

/// How the kernel caches names and attributes of a mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheKind {
    /// `coherent` or `timeout`.
    pub kind: String,
    /// Since when, by RFC 3339.
    pub since: String,
    /// Why it is not coherent.
    pub why_not: Option<String>,
}

/// The holder of a mount, which starts its servers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HolderStatus {
    /// Its process id.
    pub pid: u32,
    /// The version of the layout of the state: a program with the same one can take over.
    pub layout: u64,
    /// What has ended the previous server; `None` for the first one.
    pub previous: Option<String>,
    /// The settings that differ from those of the mount when this server took over, one sentence each.
    #[serde(default)]
    pub needs_mount: Vec<String>,
}

/// The active policy, described for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActivePolicy {
    /// The profiles that it is based on.
    pub profiles: Vec<String>,
    /// The normalization form and what happens to other names, such as `nfc match`.
    pub normalization: Option<String>,
    /// The number of rules in effect.
    pub lines: usize,
    /// A hash of the policy, 16 hexadecimal digits: equal policies have equal hashes.
    pub fingerprint: String,
}

impl ActivePolicy {
    /// Describes `policy`.
    pub fn from_policy(policy: &Policy) -> Self {
        let normalization = policy.normalization();
        Self {
            profiles: policy.profiles().iter().map(|profile| profile.name.to_owned()).collect(),
            normalization: normalization.map(|n| format!("{} {}", n.form.as_str(), n.on_mismatch.as_str())),
            lines: policy.rules().len(),
            fingerprint: format!("{:016x}", stable_hash(policy.to_text().as_bytes())),
        }
    }
}

impl fmt::Display for ActivePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.profiles.as_slice() {
            [] => f.write_str("no profile")?,
            profiles => f.write_str(&profiles.join(", "))?,
        }
        if let Some(normalization) = &self.normalization {
            write!(f, "; {normalization}")?;
        }
        write!(f, "; {} lines; {}", self.lines, self.fingerprint)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastReload {
    /// The time, by RFC 3339.
    pub time: String,
    /// The outcome, or why the reload failed.
    pub outcome: Result<ReloadOutcome, String>,
}

/// The outcome of a reload or a change of the mode.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadOutcome {
    /// Settings that changed, one line each.
    pub changed: Vec<String>,
    /// Settings that need a new mount, one line each.
    pub needs_mount: Vec<String>,
    /// Settings that a command has set and that the reload keeps, one line each.
    #[serde(default)]
    pub kept: Vec<String>,
}

/// Counters and the last refusals of an instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InstanceCounters {
    pub name: String,
    pub mountpoint: JsonBytes,
    pub counters: MetricsSnapshot,
    /// The last refusals, the oldest first.
    pub refusals: Vec<RecentRefusal>,
}

impl LastReload {
    /// A reload that ends now.
    pub fn now(outcome: Result<ReloadOutcome, String>) -> Self {
        Self { time: timestamp(SystemTime::now()), outcome }
    }
}
