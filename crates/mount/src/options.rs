//! Mount options, and their form for the kernel and for fusermount3.

use std::path::Path;
use std::sync::Arc;

use namegate_settings::{LockKeeping, Transport};
use namegate_wire::NoJournal;
use nix::mount::MsFlags;
use nix::unistd::geteuid;

use super::dropper::DropProcess;
use super::journal::MountJournal;
use super::source::SourceRequirements;

/// Options of a mount. Only mount(8) can change the flags of a live mount, by `-o remount`.
#[derive(Clone, Debug)]
pub struct Options {
    /// The source in the mount table; the source's path if not given.
    pub fsname: Option<String>,
    /// Read-only, no execution and other flags, as far as the kernel applies them to FUSE: see [`Options::DEFAULT_FLAGS`].
    pub flags: MsFlags,
    /// Users other than the one who mounts have access, as file permissions say. Always set for root.
    pub allow_other: bool,
    /// The transport of requests and replies.
    pub transport: Transport,
    /// The kernel may read and write file contents by itself.
    pub passthrough: bool,
    /// Where locks apply.
    pub locks: LockKeeping,
    /// File handles are sealed with the key of the source.
    pub export: bool,
    /// The mount may be mounted elsewhere with other owners (mount_setattr(2), MOUNT_ATTR_IDMAP).
    pub idmap: bool,
    pub caching: Caching,
    /// What the source must be.
    pub require: SourceRequirements,
    /// What a successor of this process takes over.
    pub journal: &'static dyn MountJournal,
}

/// How the kernel is made to cache.
#[derive(Clone, Debug)]
pub struct Caching {
    /// Names and attributes are cached until they change, if changes of the source are reported. Otherwise why not.
    pub coherent: Result<(), &'static str>,
    /// What has the kernel drop names in use. Without it that is not done, and nothing is cached for which it is needed.
    pub dropper: Option<Arc<dyn DropProcess>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            fsname: None,
            flags: Self::DEFAULT_FLAGS,
            allow_other: false,
            transport: Transport::default(),
            passthrough: true,
            locks: LockKeeping::default(),
            export: false,
            idmap: false,
            caching: Caching { coherent: Err("as configured"), dropper: None },
            require: SourceRequirements::default(),
            journal: &NoJournal,
        }
    }
}

/// The flags that apply to FUSE, each with fusermount3's names for set and not set.
const KNOWN: [(MsFlags, &str, &str); 5] = [
    (MsFlags::MS_RDONLY, "ro", "rw"),
    (MsFlags::MS_NOSUID, "nosuid", "suid"),
    (MsFlags::MS_NODEV, "nodev", "dev"),
    (MsFlags::MS_NOEXEC, "noexec", "exec"),
    (MsFlags::MS_NOATIME, "noatime", "atime"),
];

impl Options {
    /// The flags of a mount by default.
    pub const DEFAULT_FLAGS: MsFlags = MsFlags::MS_NOSUID.union(MsFlags::MS_NODEV);

    /// Whether only root may use these options: they would let other users create set-user-id programs or devices.
    pub(super) fn is_for_root(&self) -> bool {
        !self.flags.contains(Self::DEFAULT_FLAGS)
    }

    /// Whether requests of all users are answered.
    pub(super) fn is_for_all(&self) -> bool {
        self.allow_other || geteuid().is_root()
    }

    /// The source in the mount table for a mount of `source`.
    pub(super) fn fsname(&self, source: &Path) -> String {
        self.fsname.clone().unwrap_or_else(|| match source.to_str() {
            Some(path) => path.into(),
            None => source.as_os_str().as_encoded_bytes().escape_ascii().to_string(),
        })
    }

    /// The options other than flags for the kernel, separated by commas (fuse(4), mount.fuse3(8)).
    pub(super) fn data(&self) -> String {
        let mut data = String::from("default_permissions,subtype=namegate");
        if self.is_for_all() {
            data.push_str(",allow_other");
        }
        data
    }

    /// All options for fusermount3(1), for a mount of `source`.
    pub(super) fn list(&self, source: &Path) -> String {
        let flags = KNOWN.map(|(flag, present, absent)| match self.flags.contains(flag) {
            true => present,
            false => absent,
        });
        format!("fsname={},{},{}", in_a_list(&self.fsname(source)), self.data(), flags.join(","))
    }
}

/// Escapes commas for fusermount3(1), which separates options by them; mount(2) needs no escapes.
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
