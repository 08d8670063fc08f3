//! Settings with a few values, each with its word: the same in files, on command lines, at the control socket and in documents.

use namegate_core::gate::{Existing, IgnoreCase, Mode};
use namegate_core::name::normalize::Form;
use namegate_core::name::substitutes::KnownMap;
use namegate_core::policy::OnMismatch;
use namegate_telemetry::log::LogFormat;
use nix::errno::Errno;

#[derive(Clone, Copy, Debug)]
pub struct NamedValue<T> {
    pub word: &'static str,
    /// One line of help.
    pub help: &'static str,
    pub value: T,
}

const fn choice<T>(word: &'static str, value: T, help: &'static str) -> NamedValue<T> {
    NamedValue { word, help, value }
}

/// What carries requests and replies between the kernel and a mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// `Uring` where root has enabled it and the mount need not survive its server, otherwise `Dev`.
    Auto,
    /// namegate's own, over /dev/fuse.
    #[default]
    Dev,
    /// namegate's own, over io_uring.
    Uring,
    /// The crate `fuser`.
    Fuser,
}

/// Who keeps the locks of clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LockKeeping {
    /// The kernel, for the mount.
    #[default]
    Kernel,
    /// The file system of the source.
    Backing,
}

/// When the kernel drops names and attributes from its caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheMode {
    /// When they change, where the source reports that; otherwise as `Timeout`.
    #[default]
    Coherent,
    /// After their timeouts.
    Timeout,
}

/// A type with a few values.
pub trait Choices: Copy + PartialEq + Send + Sync + 'static {
    /// What a word stands for, as in "unknown mode".
    const WHAT: &'static str;
    const ALL: &'static [NamedValue<Self>];

    /// The word for this value; empty for a value that has none.
    fn word(self) -> &'static str {
        Self::ALL.iter().find(|choice| choice.value == self).map_or("", |choice| choice.word)
    }

    /// The value of a word, in capital or small letters.
    fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|choice| choice.word.eq_ignore_ascii_case(word)).map(|choice| choice.value)
    }
}

impl Choices for Mode {
    const WHAT: &'static str = "mode";
    const ALL: &'static [NamedValue<Self>] = &[
        choice("enforcing", Self::Enforcing, "Refuse the name"),
        choice("permissive", Self::Permissive, "Create the name and record it"),
        choice(
            "encode",
            Self::Encoding,
            "Store characters that the policy refuses as substitutes and show them as they were written; refuse the name if that is \
             not enough",
        ),
    ];
}

impl Choices for KnownMap {
    const WHAT: &'static str = "set of substitutes";
    const ALL: &'static [NamedValue<Self>] = &[
        choice("rclone", Self::TO_RCLONE, "Fullwidth forms, as rclone writes them"),
        choice("catia", Self::TO_CATIA, "Latin-1 characters, as Samba's vfs_catia writes them"),
        choice("sfm", Self::TO_SFM, "Private use, as macOS, Linux and Samba's vfs_fruit write it"),
        choice("sfu", Self::TO_SFU, "Private use, as Windows Services for UNIX wrote it"),
    ];
}

impl Choices for Option<IgnoreCase> {
    const WHAT: &'static str = "table of case";
    const ALL: &'static [NamedValue<Self>] = &[
        choice("none", None, "Names that differ in case are different names"),
        choice("ntfs", Some(IgnoreCase::Ntfs), "Windows, by the table of NTFS"),
        choice(
            "apfs",
            Some(IgnoreCase::Apfs),
            "macOS: full case folding; composed and decomposed names are equal, too",
        ),
        choice("unicode", Some(IgnoreCase::Unicode), "Full case folding (Unicode D144): ß is ss"),
        choice("ascii", Some(IgnoreCase::Ascii), "A to Z only"),
    ];
}

impl Choices for Existing {
    const WHAT: &'static str = "way to show names";
    const ALL: &'static [NamedValue<Self>] = &[
        choice("escape", Self::Escape, "Escaped, so that everything that leaves the mount is UTF-8: caf␦E9"),
        choice("show", Self::Show, "As they are"),
        choice("hide", Self::Hide, "Not at all; a directory with hidden entries cannot be removed"),
    ];
}

impl Choices for Option<Errno> {
    const WHAT: &'static str = "error code";
    const ALL: &'static [NamedValue<Self>] = &[
        choice("by-rule", None, "EILSEQ if the name is not UTF-8, EINVAL if it breaks another rule"),
        choice("EILSEQ", Some(Errno::EILSEQ), "Invalid or incomplete multibyte or wide character"),
        choice("EINVAL", Some(Errno::EINVAL), "Invalid argument"),
        choice("EACCES", Some(Errno::EACCES), "Permission denied"),
        choice("EPERM", Some(Errno::EPERM), "Operation not permitted"),
    ];
}

impl Choices for Transport {
    const WHAT: &'static str = "transport";
    const ALL: &'static [NamedValue<Self>] = &[
        choice(
            "auto",
            Self::Auto,
            "`uring` if root has enabled it in the kernel and `survive` is off, otherwise `dev`",
        ),
        choice("dev", Self::Dev, "namegate's own, directly over /dev/fuse"),
        choice(
            "uring",
            Self::Uring,
            "namegate's own, over io_uring; needs Linux 6.14 and `fuse.enable_uring`",
        ),
        choice("fuser", Self::Fuser, "The crate fuser, for comparison"),
    ];
}

impl Choices for LockKeeping {
    const WHAT: &'static str = "way to keep locks";
    const ALL: &'static [NamedValue<Self>] = &[
        choice("kernel", Self::Kernel, "Among programs that use the mount; fast"),
        choice("backing", Self::Backing, "Among those and programs that use the source directly"),
    ];
}

impl Choices for CacheMode {
    const WHAT: &'static str = "kind of cache";
    const ALL: &'static [NamedValue<Self>] = &[
        choice(
            "coherent",
            Self::Coherent,
            "Until they change, in the source too: for root, on ext4, XFS, Btrfs and tmpfs, from Linux 6.2 on; `namegate status` \
             tells. The timeouts apply to what the kernel does not report, and where it does not",
        ),
        choice("timeout", Self::Timeout, "As long as `entry-timeout` and `attr-timeout` say"),
    ];
}

impl Choices for Form {
    const WHAT: &'static str = "normalization form";
    const ALL: &'static [NamedValue<Self>] = &[
        choice(Self::Nfc.as_str(), Self::Nfc, "Composed"),
        choice(Self::Nfd.as_str(), Self::Nfd, "Decomposed"),
        choice(Self::Nfkc.as_str(), Self::Nfkc, "Composed, without compatibility characters"),
        choice(Self::Nfkd.as_str(), Self::Nfkd, "Decomposed, without compatibility characters"),
    ];
}

impl Choices for OnMismatch {
    const WHAT: &'static str = "reaction";
    const ALL: &'static [NamedValue<Self>] = &[
        choice(Self::Refuse.as_str(), Self::Refuse, "Refuse the name"),
        choice(Self::Convert.as_str(), Self::Convert, "Store the name in the form"),
        choice(
            Self::Match.as_str(),
            Self::Match,
            "Store the name as given and find it by every equivalent spelling",
        ),
    ];
}

impl Choices for LogFormat {
    const WHAT: &'static str = "log format";
    const ALL: &'static [NamedValue<Self>] = &[
        choice("text", Self::Text, "For people"),
        choice("json", Self::Json, "One JSON object per line"),
        choice("journal", Self::Journal, "Entries of the systemd journal, with priority and fields"),
    ];
}
