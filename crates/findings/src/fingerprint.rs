//! Identifies what names were checked with.

use namegate_core::name::escape::stable_hash;
use namegate_core::name::reading::Encoding;
use namegate_core::name::scalar::UNICODE_VERSION;
use namegate_core::policy::Policy;
use namegate_core::policy::profile::ProfileSet;
use namegate_core::policy::rule::Severity;

/// What names were checked with: part of every summary. Findings of several runs can be put together only if it is the same for
/// all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckBasis {
    /// The version of namegate.
    pub namegate: String,
    /// The version of its Unicode data.
    pub unicode: String,
    /// 16 hexadecimal digits that identify the policy, the prefix of paths and the encoding for suggested names.
    pub policy: String,
    /// Findings of a lower severity were left out.
    pub min_severity: Severity,
    /// The profiles of the policy.
    pub profiles: ProfileSet,
}

impl CheckBasis {
    /// What this version checks names with.
    pub fn new(policy: &Policy, prefix: &[u8], encoding: Option<Encoding>, min_severity: Severity) -> Self {
        let (major, minor, patch) = UNICODE_VERSION;
        Self {
            namegate: env!("CARGO_PKG_VERSION").to_owned(),
            unicode: format!("{major}.{minor}.{patch}"),
            policy: policy_fingerprint(policy, prefix, encoding),
            min_severity,
            profiles: policy.profile_set(),
        }
    }

    /// The first difference: what differs, and both values.
    pub fn difference<'b>(&'b self, other: &'b Self) -> Option<(&'static str, &'b str, &'b str)> {
        [
            ("version of namegate", self.namegate.as_str(), other.namegate.as_str()),
            ("version of Unicode", &self.unicode, &other.unicode),
            ("policy", &self.policy, &other.policy),
            ("least severity", self.min_severity.as_str(), other.min_severity.as_str()),
        ]
        .into_iter()
        .find(|(_, own, others)| own != others)
    }
}

fn policy_fingerprint(policy: &Policy, prefix: &[u8], encoding: Option<Encoding>) -> String {
    let encoding = encoding.map_or("", Encoding::name);
    let parts = [policy.to_text().as_bytes(), prefix, encoding.as_bytes()].map(|part| {
        // Each part says how long it is: `a` and `bc` are not `ab` and `c`.
        [&(part.len() as u64).to_le_bytes(), part].concat()
    });
    format!("{:016x}", stable_hash(&parts.concat()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use namegate_core::policy::profile;

    #[test]
    fn each_setting_changes_the_fingerprint() {
        let policy = |name| Policy::from_profiles(&[profile::by_name(name).unwrap()]);
        let encoding = "koi8-r".parse().ok();
        assert!(encoding.is_some());
        let found = [
            policy_fingerprint(&policy("windows"), b"", None),
            policy_fingerprint(&policy("macos"), b"", None),
            policy_fingerprint(&policy("windows"), b"a", None),
            policy_fingerprint(&policy("windows"), b"", encoding),
        ];
        assert!((1..found.len()).all(|at| !found[..at].contains(&found[at])), "{found:?}");
        assert_eq!(found[0], policy_fingerprint(&policy("windows"), b"", None));
    }

    #[test]
    fn a_difference_names_both_values() {
        let basis = |prefix, severity| {
            let policy = Policy::from_profiles(&[profile::by_name("windows").unwrap()]);
            CheckBasis::new(&policy, prefix, None, severity)
        };
        let one = basis(b"", Severity::Warn);
        assert_eq!(one.difference(&one), None);
        assert_eq!(one.difference(&basis(b"", Severity::Error)), Some(("least severity", "warn", "error")));
        let other = basis(b"C:", Severity::Warn);
        assert_eq!(one.difference(&other), Some(("policy", &*one.policy, &*other.policy)));
        let old = CheckBasis { namegate: "0.0.9".to_owned(), ..one.clone() };
        assert_eq!(old.difference(&one), Some(("version of namegate", "0.0.9", &*one.namegate)));
    }
}
