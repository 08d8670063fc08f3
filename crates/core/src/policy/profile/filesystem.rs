//! POSIX systems, and Linux file systems that restrict names.

use super::base::{ONE_KIND, UTF8};
use super::{Chars, Fold, Form, Limit, Profile, ProfileRule, Test, Unit};
use crate::policy::rule::RuleId::*;

/// The longest name that Linux stores.
pub(super) const NAME_BYTES: Test = Test::Length(Limit { max: 255, unit: Unit::Bytes });
/// The longest path that Linux allows: PATH_MAX is 4096 and includes the NUL at the end.
pub(super) const PATH_BYTES: Test = Test::PathLength(Limit { max: 4095, unit: Unit::Bytes });

/// Every POSIX system. The minimum lengths that POSIX guarantees are warnings: Linux allows more.
pub static POSIX: Profile = Profile {
    name: "posix",
    title: "POSIX: portable characters, with Linux lengths (the minimum lengths of POSIX as warnings)",
    includes: &[&UTF8],
    rules: &[
        ProfileRule::error(
            Test::Reserved(Chars::AllBut(
                "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-",
            )),
            "POSIX.1-2024, XBD 3, Portable Filename Character Set; pathchk -p",
        ),
        ProfileRule::error(Test::Plain(LeadingDash), "POSIX.1-2024, XBD 3, Portable Filename; pathchk -P"),
        ProfileRule::warn(
            Test::Length(Limit { max: 14, unit: Unit::Bytes }),
            "POSIX.1-2024, limits.h (_POSIX_NAME_MAX); pathchk -p",
        ),
        ProfileRule::error(NAME_BYTES, "Linux include/uapi/linux/limits.h (NAME_MAX)"),
        ProfileRule::warn(
            Test::PathLength(Limit { max: 255, unit: Unit::Bytes }),
            "POSIX.1-2024, limits.h (_POSIX_PATH_MAX, 256 with the NUL); pathchk -p",
        ),
        ProfileRule::error(PATH_BYTES, "Linux include/uapi/linux/limits.h (PATH_MAX, 4096 with the NUL)"),
        ONE_KIND,
    ],
};

/// Directories of ext4 and f2fs that fold case (`chattr +F`), on a file system with the strict flag.
pub static EXT4_CASEFOLD: Profile = Profile {
    name: "ext4-casefold",
    title: "ext4 and f2fs directories that fold case",
    includes: &[&UTF8],
    rules: &[
        ProfileRule::error(NAME_BYTES, "Linux include/uapi/linux/limits.h (NAME_MAX)"),
        ProfileRule::error(Test::SameForm(Form::Nfd), "Linux fs/unicode, Unicode 12.1"),
        ProfileRule::error(
            Test::SameFold { fold: Fold::Full, form: Some(Form::Nfd) },
            "Linux fs/unicode, Unicode 12.1",
        ),
        ProfileRule::warn(
            Test::Unassigned(Some((12, 1))),
            "Linux fs/unicode/utf8-norm.c: a younger code point is stored, neither folded nor normalized",
        ),
        ONE_KIND,
    ],
};

/// ZFS datasets with `utf8only=on`. What depends on the properties `normalization` and `casesensitivity` warns.
pub static ZFS_UTF8ONLY: Profile = Profile {
    name: "zfs-utf8only",
    title: "ZFS with utf8only (normalization and casesensitivity as warnings)",
    includes: &[&UTF8],
    rules: &[
        ProfileRule::error(NAME_BYTES, "OpenZFS, zfsprops(7): 255 bytes, with `longname=on` up to 1023"),
        ProfileRule::warn(
            Test::Length(Limit { max: 255, unit: Unit::BytesIn(Form::Nfd) }),
            "under `normalization=formD` the form counts (ENOTSUP): openzfs/zfs#9965",
        ),
        ProfileRule::warn(
            Test::Length(Limit { max: 255, unit: Unit::BytesIn(Form::Nfkd) }),
            "under `normalization=formKD` the form counts (ENOTSUP): openzfs/zfs#9965",
        ),
        ProfileRule::warn(Test::SameForm(Form::Nfd), "zfsprops(7), `normalization=formC` or `formD`"),
        ProfileRule::warn(Test::SameForm(Form::Nfkd), "zfsprops(7), `normalization=formKC` or `formKD`"),
        ProfileRule::warn(
            Test::SameFold { fold: Fold::Upcase, form: Some(Form::Nfd) },
            "zfsprops(7), `casesensitivity=insensitive`, with a normalization",
        ),
        ONE_KIND,
    ],
};
