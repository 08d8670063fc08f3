//! Identifies what names were checked with.

use namegate_core::name::escape::stable_hash;
use namegate_core::name::reading::Encoding;
use namegate_core::policy::Policy;

/// 16 hexadecimal digits that identify a policy and the other settings that findings depend on. Findings of two runs can be put
/// together only if these are the same.
pub fn policy_fingerprint(policy: &Policy, prefix: &[u8], encoding: Option<Encoding>) -> String {
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
}
