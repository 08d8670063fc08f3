//! Names in which a backslash was a separator: `dir\sub\file`, as programs unpack zips that name their entries so.

use namegate_core::policy::{Confidence, EncodingHint, Policy, Verdict};
use namegate_scan::encoded_text::path_parts;

/// A path that a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SeparatedPath {
    /// Valid names with `/` between them.
    pub(super) path: String,
    /// How likely it is the intended path.
    pub(super) confidence: Confidence,
}

/// The path that `text` stands for.
///
/// # Errors
/// Why it stands for none, as a sentence that begins with `it`.
pub(super) fn separate(policy: &Policy, text: &str) -> Result<SeparatedPath, String> {
    let parts = path_parts(text)?;
    let (mut path, mut confidence) = (Vec::with_capacity(parts.len()), Confidence::Likely);
    for part in parts {
        if let Verdict::Accept(_) = policy.verdict(part.as_bytes()) {
            path.push(part.to_owned());
            continue;
        }
        // Nobody knows what else a directory of that name would have become.
        confidence = Confidence::Guess;
        let suggested = policy.suggest_name(part.as_bytes(), EncodingHint::Unknown, &mut |_| false);
        let suggested = suggested.ok_or("no valid name was found for a part of its path")?;
        path.push(suggested.name);
    }
    Ok(SeparatedPath { path: path.join("/"), confidence })
}

#[cfg(test)]
mod tests {
    use namegate_core::policy::profile;

    use super::*;

    #[test]
    fn a_backslash_separates_names_and_what_is_no_relative_path_stays() {
        let policy = Policy::from_profiles(&[profile::by_name("windows").unwrap()]);
        let path = |text: &str| separate(&policy, text).map(|found| (found.path, found.confidence));
        assert_eq!(path(r"dir\sub\file.txt"), Ok(("dir/sub/file.txt".to_owned(), Confidence::Likely)));
        assert_eq!(path(r"dir\nul.txt"), Ok(("dir/nul_.txt".to_owned(), Confidence::Guess)));
        for (text, why) in [
            (r"\dir\file", "absolute"),
            (r"\\server\share", "absolute"),
            (r"C:\file", "drive"),
            (r"c:file\x", "drive"),
            (r"dir\", "empty"),
            (r"dir\\file", "empty"),
            (r"..\file", "`..`"),
            (r"dir\.\file", "`.`"),
            (r"dir\..", "`..`"),
        ] {
            assert!(path(text).unwrap_err().contains(why), "{text}: {:?}", path(text));
        }
    }
}
