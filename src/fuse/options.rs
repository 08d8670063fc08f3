//! How a tree is mounted, and the same in the words of `fuser`.

use std::num::NonZeroUsize;
use std::path::Path;
use std::thread;

use fuser::{Config, MountOption, SessionACL};
use nix::mount::MsFlags;
use nix::unistd::geteuid;

/// How a tree is mounted; none of it can change while it is.
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

/// A flag, and what `fuser` calls its presence and its absence.
type Flag = (MsFlags, MountOption, Option<MountOption>);

const KNOWN: [Flag; 5] = [
    (MsFlags::MS_RDONLY, MountOption::RO, Some(MountOption::RW)),
    (MsFlags::MS_NOSUID, MountOption::NoSuid, Some(MountOption::Suid)),
    (MsFlags::MS_NODEV, MountOption::NoDev, Some(MountOption::Dev)),
    (MsFlags::MS_NOEXEC, MountOption::NoExec, Some(MountOption::Exec)),
    (MsFlags::MS_NOATIME, MountOption::NoAtime, None),
];

impl Options {
    /// What a mount has if nothing is said.
    pub const DEFAULT_FLAGS: MsFlags = MsFlags::MS_NOSUID.union(MsFlags::MS_NODEV);

    /// Whether only root may mount so: other users could make a program set-user-id, or a device, that was none.
    pub(super) fn is_for_root(&self) -> bool {
        !self.flags.contains(Self::DEFAULT_FLAGS)
    }

    /// For a mount of `source`.
    pub(super) fn config(&self, source: &Path) -> Config {
        let is_root = geteuid().is_root();
        let fsname = self.fsname.clone().unwrap_or_else(|| match source.to_str() {
            Some(path) => path.into(),
            None => source.as_os_str().as_encoded_bytes().escape_ascii().to_string(),
        });
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName(if is_root { fsname } else { in_a_list(&fsname) }),
            // `fuser` has an option of this name, which it does not hand on to the kernel.
            MountOption::CUSTOM("subtype=namegate".into()),
            MountOption::DefaultPermissions,
        ];
        config.mount_options.extend(KNOWN.into_iter().filter_map(|(flag, present, absent)| {
            match self.flags.contains(flag) {
                true => Some(present),
                false => absent,
            }
        }));
        if self.allow_other || is_root {
            config.acl = SessionACL::All;
        }
        // More threads than processors wait for each other.
        let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        config.n_threads = Some(threads);
        config.clone_fd = threads > 1;
        config
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
            (options.config(Path::new("/x")).mount_options, options.is_for_root())
        };
        let (options, is_for_root) = of(Options::DEFAULT_FLAGS);
        assert!(options.contains(&MountOption::NoSuid) && options.contains(&MountOption::NoDev));
        assert!(!is_for_root);
        for (flags, asked) in [(MsFlags::MS_NODEV, MountOption::Suid), (MsFlags::MS_NOSUID, MountOption::Dev)]
        {
            let (options, is_for_root) = of(flags);
            assert!(options.contains(&asked) && is_for_root, "{asked:?}");
        }
    }

    #[test]
    fn a_comma_in_the_name_of_the_source_is_no_option() {
        assert_eq!(in_a_list(r"/a,suid\,dev"), r"/a\,suid\\\,dev");
    }
}
