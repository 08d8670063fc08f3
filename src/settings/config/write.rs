//! Writes an instance as a file that reads back to the same.

use std::fmt::Write as _;
use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use toml::Value;

use super::{Audit, ERRNOS, EXISTING, Instance, MODES, Metrics, Mount, word_of};
use crate::name::display::shown;
use crate::policy::config::Config;
use crate::policy::profile::UTF8;
use crate::telemetry::audit::BYTES_PER_SECOND;

impl Instance {
    /// The same with everything said that was left unsaid and has a default.
    #[must_use]
    pub fn with_defaults(self) -> Self {
        let Self { source, mountpoint, policy, mount, audit, metrics } = self;
        let mut policy = policy.unwrap_or_else(|| Config::based_on(&[&UTF8]));
        policy.profiles = Some(policy.profiles());
        let second = Some(Duration::from_secs(1));
        Self {
            source,
            mountpoint,
            policy: Some(policy),
            mount: Mount {
                mode: mount.mode.or(Some(MODES[0].value)),
                existing: mount.existing.or(Some(EXISTING[0].value)),
                errno: mount.errno.or(Some(ERRNOS[0].value)),
                check_targets: mount.check_targets.or(Some(false)),
                entry_timeout: mount.entry_timeout.or(second),
                attr_timeout: mount.attr_timeout.or(second),
                read_only: mount.read_only.or(Some(false)),
                noexec: mount.noexec.or(Some(false)),
                noatime: mount.noatime.or(Some(false)),
                suid: mount.suid.or(Some(false)),
                dev: mount.dev.or(Some(false)),
                allow_other: mount.allow_other.or(Some(false)),
                sandbox: mount.sandbox.or(Some(true)),
                fsname: mount.fsname,
            },
            audit: Audit {
                log: audit.log.or(Some(true)),
                rate: audit.rate.or(NonZeroU32::new(100)),
                bytes: audit.bytes.or(NonZeroU32::new(BYTES_PER_SECOND)),
                ..audit
            },
            metrics: Metrics { interval: metrics.interval.or(Some(Duration::from_secs(15))), ..metrics },
        }
    }

    /// The instance as text that [`Instance::parse`] reads back. A path that is not UTF-8, which only a program can have
    /// set, is shown escaped.
    ///
    /// ```
    /// use namegate::settings::config::Instance;
    /// let instance = Instance::parse("audit.rate = 5\nsource = '/srv'\npolicy.profiles = []\n")?;
    /// let text = "source = \"/srv\"\n\n[policy]\nprofiles = []\n\n[audit]\nrate = 5\n";
    /// assert_eq!(instance.to_toml(), text);
    /// # Ok::<(), namegate::policy::config::ConfigErrors>(())
    /// ```
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        let top = [
            ("source", self.source.as_deref().map(path)),
            ("mountpoint", self.mountpoint.as_deref().map(path)),
        ];
        push_keys(&mut text, top);
        if let Some(policy) = &self.policy {
            begin_table(&mut text, "policy");
            policy.write_to(&mut text, "policy.");
        }
        let mount = &self.mount;
        push_table(
            &mut text,
            "mount",
            [
                ("mode", mount.mode.map(|mode| word_of(MODES, &mode).into())),
                ("existing", mount.existing.map(|existing| word_of(EXISTING, &existing).into())),
                ("errno", mount.errno.map(|errno| word_of(ERRNOS, &errno).into())),
                ("check-targets", mount.check_targets.map(Value::from)),
                ("entry-timeout", mount.entry_timeout.map(seconds)),
                ("attr-timeout", mount.attr_timeout.map(seconds)),
                ("read-only", mount.read_only.map(Value::from)),
                ("noexec", mount.noexec.map(Value::from)),
                ("noatime", mount.noatime.map(Value::from)),
                ("suid", mount.suid.map(Value::from)),
                ("dev", mount.dev.map(Value::from)),
                ("allow-other", mount.allow_other.map(Value::from)),
                ("sandbox", mount.sandbox.map(Value::from)),
                ("fsname", mount.fsname.as_deref().map(Value::from)),
            ],
        );
        push_table(
            &mut text,
            "audit",
            [
                ("file", self.audit.file.as_deref().map(path)),
                ("group", self.audit.group.as_deref().map(Value::from)),
                ("log", self.audit.log.map(Value::from)),
                ("rate", self.audit.rate.map(|rate| i64::from(rate.get()).into())),
                ("bytes", self.audit.bytes.map(|bytes| i64::from(bytes.get()).into())),
            ],
        );
        push_table(
            &mut text,
            "metrics",
            [
                ("textfile", self.metrics.textfile.as_deref().map(path)),
                ("interval", self.metrics.interval.map(seconds)),
                ("listen", self.metrics.listen.map(|address| address.to_string().into())),
            ],
        );
        text
    }
}

fn path(path: &Path) -> Value {
    match path.to_str() {
        Some(text) => text.into(),
        None => shown(path).into(),
    }
}

/// Whole seconds without a fraction.
fn seconds(duration: Duration) -> Value {
    match i64::try_from(duration.as_secs()) {
        Ok(seconds) if duration.subsec_nanos() == 0 => seconds.into(),
        _ => duration.as_secs_f64().into(),
    }
}

fn push_keys<const N: usize>(text: &mut String, keys: [(&str, Option<Value>); N]) {
    for (key, value) in keys {
        if let Some(value) = value {
            let _ = writeln!(text, "{key} = {value}");
        }
    }
}

fn push_table<const N: usize>(text: &mut String, name: &str, keys: [(&str, Option<Value>); N]) {
    if keys.iter().any(|(_, value)| value.is_some()) {
        begin_table(text, name);
        push_keys(text, keys);
    }
}

fn begin_table(text: &mut String, name: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    let _ = writeln!(text, "[{name}]");
}
