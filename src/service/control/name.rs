//! Names of instances: one word that is valid as the name of a file, of a unit and of a label.

use std::ffi::OsStr;
use std::fmt::{self, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use namegate_core::name::escape::stable_hash;

/// The name of an instance: ASCII letters and digits and `:_.\-@~`, not empty, no dot at the beginning.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceName(String);

/// The maximum length: the path of a socket has at most 107 bytes (unix(7)), including the directory.
const MAX_LENGTH: usize = 64;

impl InstanceName {
    /// Converts a word, such as the name of a mount configuration without `.toml`; `None` if it cannot be a name.
    pub fn new(word: &str) -> Option<Self> {
        let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b":_.\\-@~".contains(&byte);
        let is_good = !word.is_empty()
            && word.len() <= MAX_LENGTH
            && !word.starts_with('.')
            && word.bytes().all(is_known);
        is_good.then(|| Self(word.to_owned()))
    }

    /// The name for a mount configuration: the last component of its path without `.toml`, escaped if it is no valid name.
    pub fn from_file(path: &Path) -> Self {
        let stem = path.file_stem().unwrap_or_default();
        stem.to_str().and_then(Self::new).unwrap_or_else(|| Self::escaped(stem.as_bytes()))
    }

    /// The name for a mount point, as systemd-escape(1) makes it with `--path`, so that it equals the name of the mount unit.
    /// A name that would be too long ends with a hash.
    ///
    /// ```
    /// use std::path::Path;
    /// use namegate::service::control::InstanceName;
    /// assert_eq!(InstanceName::from_mountpoint(Path::new("/mnt/a-b/ä/")).as_str(), r"mnt-a\x2db-\xc3\xa4");
    /// assert_eq!(InstanceName::from_mountpoint(Path::new("/")).as_str(), "-");
    /// ```
    pub fn from_mountpoint(path: &Path) -> Self {
        let parts = path.as_os_str().as_bytes().split(|&byte| byte == b'/').filter(|part| !part.is_empty());
        let joined = parts.collect::<Vec<_>>().join(&b'/');
        if joined.is_empty() { Self("-".into()) } else { Self::escaped(&joined) }
    }

    fn escaped(bytes: &[u8]) -> Self {
        let mut word = String::new();
        for (at, &byte) in bytes.iter().enumerate() {
            // Writing to a string cannot fail.
            let _ = match byte {
                b'/' => word.write_char('-'),
                b'.' if at == 0 => write!(word, r"\x{byte:02x}"),
                b':' | b'_' | b'.' => word.write_char(byte.into()),
                _ if byte.is_ascii_alphanumeric() => word.write_char(byte.into()),
                _ => write!(word, r"\x{byte:02x}"),
            };
        }
        if word.is_empty() || word.len() > MAX_LENGTH {
            word.truncate(MAX_LENGTH - 17);
            let _ = write!(word, "~{:016x}", stable_hash(bytes));
        }
        Self(word)
    }

    /// The name with a number, for the `number`th instance of that name.
    pub(super) fn numbered(&self, number: u32) -> Self {
        let number = format!("~{number}");
        let kept = self.0.len().min(MAX_LENGTH - number.len());
        Self(format!("{}{number}", &self.0[..kept]))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn file(&self) -> String {
        format!("{}{SUFFIX}", self.0)
    }

    /// The instance of a socket with that file name; `None` if it is no name of a socket.
    pub(super) fn from_socket(file: &OsStr) -> Option<Self> {
        Self::new(file.to_str()?.strip_suffix(SUFFIX)?)
    }
}

const SUFFIX: &str = ".sock";

impl fmt::Display for InstanceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_has_a_name_that_is_one_and_no_two_have_the_same() {
        let long = format!("/{}", "x".repeat(300));
        let longer = format!("/{}y", "x".repeat(300));
        let paths =
            ["/", "/a/b", "/a-b", "/a.b", "/.a", "/a\n\x1b[2J", "/ä", "/a~2", "/a\\b", &long, &longer];
        let names: std::collections::BTreeSet<_> =
            paths.iter().map(|path| InstanceName::from_mountpoint(Path::new(path))).collect();
        assert_eq!(names.len(), paths.len(), "{names:?}");
        for name in &names {
            assert_eq!(InstanceName::new(name.as_str()).as_ref(), Some(name), "{name}");
            assert!(InstanceName::new(name.numbered(2).as_str()).is_some());
        }
        assert_eq!(
            InstanceName::from_mountpoint(Path::new("//a//b/")),
            InstanceName::from_mountpoint(Path::new("/a/b"))
        );
    }

    #[test]
    fn a_file_is_called_like_itself_where_that_is_a_name() {
        let of = |path: &str| InstanceName::from_file(Path::new(path)).as_str().to_owned();
        assert_eq!(of("/etc/namegate/my-share.toml"), "my-share");
        assert_eq!(of("/etc/namegate/a b.toml"), r"a\x20b");
        assert_eq!(of("/etc/namegate/.toml"), r"\x2etoml");
        for word in ["", ".a", "a/b", "a b", "ä", &"x".repeat(65)] {
            assert_eq!(InstanceName::new(word), None, "{word}");
        }
    }
}
