//! How a tree is mounted, and the same in the words of the kernel and of fusermount3.

use std::path::Path;

use fuser::{Config, SessionACL};
use nix::mount::MsFlags;
use nix::unistd::geteuid;

use crate::workers::{Roster, regular_readers};

/// How a tree is mounted. While it is, mount(8) alone can change the flags, by `-o remount`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What the mount table shows as the source; the source's path if not given.
    pub fsname: Option<String>,
    /// Read-only, no execution and the like, as far as the kernel carries it out for FUSE: see [`Options::DEFAULT_FLAGS`].
    pub flags: MsFlags,
    /// Users other than the one who mounts have access, as permissions say. Always so for root.
    pub allow_other: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { fsname: None, flags: Self::DEFAULT_FLAGS, allow_other: false }
    }
}

/// The flags that are carried out for FUSE, and what fusermount3 calls their presence and their absence.
const KNOWN: [(MsFlags, &str, &str); 5] = [
    (MsFlags::MS_RDONLY, "ro", "rw"),
    (MsFlags::MS_NOSUID, "nosuid", "suid"),
    (MsFlags::MS_NODEV, "nodev", "dev"),
    (MsFlags::MS_NOEXEC, "noexec", "exec"),
    (MsFlags::MS_NOATIME, "noatime", "atime"),
];

impl Options {
    /// What a mount has if nothing is said.
    pub const DEFAULT_FLAGS: MsFlags = MsFlags::MS_NOSUID.union(MsFlags::MS_NODEV);

    /// Whether only root may mount so: other users could make a program set-user-id, or a device, that was none.
    pub(super) fn is_for_root(&self) -> bool {
        !self.flags.contains(Self::DEFAULT_FLAGS)
    }

    /// How it is served.
    pub(super) fn config(&self) -> Config {
        let mut config = Config::default();
        config.acl = self.access();
        // Those in reserve read only while others are stuck.
        config.n_threads = Some(regular_readers() + Roster::RESERVE);
        config.clone_fd = true;
        config
    }

    /// Whose requests are answered.
    pub(super) fn access(&self) -> SessionACL {
        if self.allow_other || geteuid().is_root() { SessionACL::All } else { SessionACL::Owner }
    }

    /// What the mount table shows as the source of a mount of `source`.
    pub(super) fn fsname(&self, source: &Path) -> String {
        self.fsname.clone().unwrap_or_else(|| match source.to_str() {
            Some(path) => path.into(),
            None => source.as_os_str().as_encoded_bytes().escape_ascii().to_string(),
        })
    }

    /// What the kernel is told besides flags, between commas (fuse(4), mount.fuse3(8)).
    pub(super) fn data(&self) -> String {
        let mut data = String::from("default_permissions,subtype=namegate");
        if self.access() == SessionACL::All {
            data.push_str(",allow_other");
        }
        data
    }

    /// All of it for fusermount3(1), for a mount of `source`.
    pub(super) fn list(&self, source: &Path) -> String {
        let flags = KNOWN.map(|(flag, present, absent)| match self.flags.contains(flag) {
            true => present,
            false => absent,
        });
        format!("fsname={},{},{}", in_a_list(&self.fsname(source)), self.data(), flags.join(","))
    }
}

/// As fusermount3(1) reads it between commas; mount(2) takes it as it is.
fn in_a_list(fsname: &str) -> String {
    fsname.replace('\\', r"\\").replace(',', r"\,")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_id_bits_and_devices_are_off_unless_asked_for_and_then_for_root_alone() {
        let of = |flags| {
            let options = Options { flags, ..Options::default() };
            (options.list(Path::new("/x")), options.is_for_root())
        };
        let (options, is_for_root) = of(Options::DEFAULT_FLAGS);
        assert!(options.ends_with(",rw,nosuid,nodev,exec,atime"), "{options}");
        assert!(!is_for_root);
        for (flags, asked) in [(MsFlags::MS_NODEV, ",suid,nodev,"), (MsFlags::MS_NOSUID, ",nosuid,dev,")] {
            let (options, is_for_root) = of(flags);
            assert!(options.contains(asked) && is_for_root, "{options}");
        }
    }

    #[test]
    fn a_comma_in_the_name_of_the_source_is_no_option() {
        assert_eq!(in_a_list(r"/a,suid\,dev"), r"/a\,suid\\\,dev");
    }
}
