//! What a mount answers about the refusals of a user, and how that is said.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use namegate_core::name::display::display;
use namegate_core::policy::config::Config;
use namegate_core::policy::rule::{RuleId, Severity};
use namegate_core::policy::{NameCheck, Policy};
use namegate_scan::report::layout::counted;
use namegate_sys::xattr;
use namegate_telemetry::audit::{
    LongPolicy, MAX_WHY, RecentRefusal, WHY_ATTRIBUTE, WhyAnswer, policy_attribute,
};
use nix::unistd::Uid;

use super::CliError;

/// Why the name of `check` was refused, in words; empty if the policy allows it.
pub(super) fn reason(policy: &Policy, check: &NameCheck<'_>, refusal: Option<&RecentRefusal>) -> String {
    let rule = refusal.and_then(|refusal| refusal.rule.as_deref()?.parse::<RuleId>().ok());
    let of_rule = check.violations.iter().find(|violation| Some(violation.rule) == rule);
    let error = check.violations.iter().find(|violation| violation.severity == Severity::Error);
    match (of_rule.or(error), rule) {
        (Some(violation), _) => {
            format!("{} ({})", check.message(policy, violation), violation.rule.rule().name)
        }
        // The policy has changed since, or a target of a link was refused.
        (None, Some(rule)) => format!("{} ({})", rule.rule().summary, rule.rule().name),
        (None, None) => String::new(),
    }
}

/// What a mount answers, and a directory of it.
pub(super) struct MountAnswer {
    pub(super) answer: WhyAnswer,
    dir: File,
}

impl MountAnswer {
    fn from_mount(dir: File) -> Option<Self> {
        let answer = serde_json::from_slice(&attribute(&dir, WHY_ATTRIBUTE)?).ok()?;
        Some(Self { answer, dir })
    }

    /// The policy of the mount; `None` if it does not say.
    pub(super) fn policy(&self) -> Result<Option<Policy>, CliError> {
        let long = || self.answer.long_policy.and_then(|long| self.read_long(long));
        self.answer.policy.clone().or_else(long).as_deref().map(parse_policy).transpose()
    }

    fn read_long(&self, LongPolicy { parts, crc32 }: LongPolicy) -> Option<String> {
        let parts = (0..parts).map(|number| attribute(&self.dir, &policy_attribute(number)));
        let text = parts.collect::<Option<Vec<_>>>()?.concat();
        String::from_utf8(text).ok().filter(|text| crc32fast::hash(text.as_bytes()) == crc32)
    }
}

fn attribute(dir: &File, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; MAX_WHY];
    let len = xattr::get(dir, OsStr::new(name), &mut value).ok()?;
    value.truncate(len);
    Some(value)
}

/// What the mount that holds `path` answers; `None` if no mount of namegate does.
pub(super) fn ask_mount(path: &Path) -> Option<MountAnswer> {
    let above =
        path.ancestors().skip(1).map(|dir| if dir.as_os_str().is_empty() { Path::new(".") } else { dir });
    above.chain([Path::new(".")]).find_map(|dir| {
        let dir: File =
            OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY).open(dir).ok()?;
        MountAnswer::from_mount(dir)
    })
}

fn parse_policy(text: &str) -> Result<Policy, CliError> {
    let failed =
        |error: String| CliError::new(format_args!("the mount answers with an invalid policy: {error}"));
    let config = Config::parse(text).map_err(|error| failed(error.to_string()))?;
    config.policy().map_err(|error| failed(error.to_string()))
}

/// A refusal in words: `name` as the user knows it, when, and `why`.
pub(super) fn describe(refusal: &RecentRefusal, name: &str, why: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let outcome = if refusal.let_through { "breaks the policy; it was let through" } else { "was refused" };
    let operation = display(refusal.op.as_bytes());
    let why = match (why, refusal.rule.is_some()) {
        ("", false) => "it looks like the escape of another name",
        ("", true) => "of a rule that is no longer in effect",
        (why, _) => why,
    };
    let refused = &refusal.name.base64.0;
    let temporary = match stands_for(refused) {
        Some(meant) if name == display(meant).to_string() => {
            format!(" under the temporary name `{}`", display(refused))
        }
        Some(meant) => format!(", a temporary name for `{}`,", display(meant)),
        None => String::new(),
    };
    let again =
        if refusal.count > 1 { format!("; {} times, the last one", refusal.count) } else { String::new() };
    let by = match refusal.uid {
        Some(uid) if uid != Uid::effective().as_raw() => {
            let command = refusal.command.as_ref().map(|command| display(&command.base64.0).to_string());
            format!(", asked by uid {uid}, pid {} {}", refusal.pid, command.unwrap_or_default())
        }
        _ => String::new(),
    };
    let ago = ago(now.saturating_sub(refusal.time));
    format!("`{name}`{temporary} {outcome}{again} {ago} ({operation}{}): {why}.", by.trim_end())
}

/// The name for which a program writes to `temporary` first, if its form says so: `.NAME.XXXXXX` (rsync), `NAME.0000000023` (nginx),
/// `NAME.XXXXXXXX.partial` (rclone, with or without the eight letters), `NAME.filepart` (WinSCP).
pub(super) fn stands_for(temporary: &[u8]) -> Option<&[u8]> {
    let split = |name: &'_ [u8], len: usize, is_in: fn(&u8) -> bool| {
        let dot = name.len().checked_sub(len + 1)?;
        (name[dot] == b'.' && name[dot + 1..].iter().all(is_in)).then_some(dot)
    };
    let of_rsync = || {
        let name = temporary.strip_prefix(b".")?;
        split(name, 6, u8::is_ascii_alphanumeric).map(|end| &name[..end])
    };
    let of_rclone = || {
        let name = temporary.strip_suffix(b".partial")?;
        Some(split(name, 8, u8::is_ascii_hexdigit).map_or(name, |end| &name[..end]))
    };
    let meant = of_rsync()
        .or_else(|| split(temporary, 10, u8::is_ascii_digit).map(|end| &temporary[..end]))
        .or_else(of_rclone)
        .or_else(|| temporary.strip_suffix(b".filepart"));
    meant.filter(|name| !name.is_empty())
}

/// A time in the past, in the greatest unit.
fn ago(seconds: u64) -> String {
    let (count, one, many) = match seconds {
        0..60 => (seconds, "second", "seconds"),
        60..3600 => (seconds / 60, "minute", "minutes"),
        3600..86_400 => (seconds / 3600, "hour", "hours"),
        _ => (seconds / 86_400, "day", "days"),
    };
    format!("{} ago", counted(count, one, many))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_names_stand_for_those_that_were_meant() {
        for (temporary, meant) in [
            (&b".a?.txt.Xy12Zz"[..], Some(&b"a?.txt"[..])),
            (b"a?.txt.0000000023", Some(b"a?.txt")),
            (b"a?.txt.1a2b3c4d.partial", Some(b"a?.txt")),
            (b"a?.txt.partial", Some(b"a?.txt")),
            (b"caf\xE9.filepart", Some(b"caf\xE9")),
            (b"a?.txt", None),
            (b".profile", None),
            (b".tar.xz", None),
            (b".partial", None),
            (b"..Xy12Zz", None),
        ] {
            assert_eq!(stands_for(temporary), meant, "{}", display(temporary));
        }
    }

    #[test]
    fn times_are_in_their_greatest_unit() {
        for (seconds, expected) in [
            (0, "0 seconds ago"),
            (1, "1 second ago"),
            (119, "1 minute ago"),
            (7200, "2 hours ago"),
            (1 << 20, "12 days ago"),
        ] {
            assert_eq!(ago(seconds), expected);
        }
    }
}
