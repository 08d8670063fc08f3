//! Windows and what follows its rules: NTFS, exFAT, SMB shares.
//!
//! `/` is invalid in every policy and in no list here. Programs can exceed the classic limits of paths, so these are warnings.

use super::base::{ONE_KIND, UTF8};
use super::{AppliesTo, Chars, Fold, Limit, NamePart, Profile, ProfileRule, ReservedNames, Test, Unit};
use crate::policy::rule::RuleId::*;

/// The characters that Windows allows in no name; `:` would name a stream of the file.
pub(super) const CHARACTERS: Test = Test::Reserved(Chars::one_of("<>:\"\\|?*"));
/// The devices, with the superscript digits that Windows reads as digits.
pub(super) const DEVICES: Test = Test::Named(ReservedNames::new(
    NamePart::Base,
    "CON/PRN/AUX/NUL/COM1/COM2/COM3/COM4/COM5/COM6/COM7/COM8/COM9/COM\u{B9}/COM\u{B2}/COM\u{B3}/\
     LPT1/LPT2/LPT3/LPT4/LPT5/LPT6/LPT7/LPT8/LPT9/LPT\u{B9}/LPT\u{B2}/LPT\u{B3}",
));
/// The console's devices.
pub(super) const CONSOLE: Test = Test::Named(ReservedNames::new(NamePart::Base, "CONIN$/CONOUT$"));
/// Names that only some lists count as devices.
pub(super) const PORTS_ZERO: Test = Test::Named(ReservedNames::new(NamePart::Base, "COM0/LPT0"));
/// The length of a name in NTFS, exFAT and the Windows interfaces.
pub(super) const LENGTH: Test = Test::Length(Limit { max: 255, unit: Unit::Utf16 });
/// The classic MAX_PATH, 260, without the NUL at its end.
const MAX_PATH: Limit = Limit { max: 259, unit: Unit::Utf16 };
/// The classic limit for whatever has a path.
pub(super) const PATH: Test = Test::PathLength(MAX_PATH);
/// One UTF-16 unit at a time, without normalization.
pub(super) const CASE: Test = Test::SameFold { fold: Fold::Ntfs, form: None };

const NAMING: &str =
    "Microsoft, Naming Files, Paths, and Namespaces; Linux fs/ntfs3/fsntfs.c; git compat/mingw.c";

const TRIMMED: &str =
    "Microsoft, Naming Files, Paths, and Namespaces; File path formats on Windows systems (trim characters)";

/// Windows on NTFS.
pub static WINDOWS: Profile = Profile {
    name: "windows",
    title: "Windows on NTFS",
    includes: &[&UTF8],
    rules: &[
        ProfileRule::error(Test::Plain(C0Control), NAMING),
        ProfileRule::error(CHARACTERS, NAMING),
        ProfileRule::error(Test::Plain(TrailingSpace), TRIMMED).stored_otherwise(),
        ProfileRule::error(Test::Plain(TrailingDot), TRIMMED).stored_otherwise(),
        ProfileRule::error(
            DEVICES,
            "CPython Lib/ntpath.py (_reserved_names); Microsoft, Naming Files, Paths, and Namespaces",
        ),
        ProfileRule::error(CONSOLE, "CPython Lib/ntpath.py (_reserved_names)"),
        ProfileRule::warn(
            PORTS_ZERO,
            "OneDrive and Nextcloud (SettingsService.php) list them, CPython's ntpath.py does not",
        ),
        ProfileRule::warn(
            Test::Named(ReservedNames::new(NamePart::Base, "CLOCK$")),
            "pathvalidate: a device of old versions",
        ),
        ProfileRule::error(LENGTH, "Linux fs/ntfs3/ntfs.h (NTFS_NAME_LEN, and a length of one byte on disk)"),
        ProfileRule::warn(
            Test::PathLengthOf(AppliesTo::Directories, Limit { max: 247, unit: Unit::Utf16 }),
            "Microsoft, Maximum Path Length Limitation: MAX_PATH less an 8.3 name; rclone docs/content/local.md",
        ),
        ProfileRule::warn(
            Test::PathLengthOf(AppliesTo::Files, MAX_PATH),
            "Microsoft, Maximum Path Length Limitation; rclone docs/content/local.md",
        ),
        ProfileRule::error(
            Test::PathLength(Limit { max: 32_767, unit: Unit::Utf16 }),
            "the limit with a \\\\?\\ prefix: rclone docs/content/local.md",
        ),
        ProfileRule::warn(
            Test::Plain(SmbPrivateUse),
            "the SFM map: Linux fs/smb/client/cifs_unicode.h, commit 7e46f0900acd for U+F001..F01F",
        ),
        ProfileRule::warn(
            Test::Reserved(Chars::one_of("\u{F02A}\u{F03A}\u{F03C}\u{F03E}\u{F03F}\u{F05C}\u{F07C}")),
            "the SFU map (`mapchars`): Linux fs/smb/client/cifs_unicode.h",
        ),
        ProfileRule::error(
            CASE,
            "the table $UpCase that mkntfs(8) of ntfs-3g writes; Microsoft, Naming Files, Paths, and Namespaces",
        ),
        ONE_KIND,
    ],
};

const EXFAT_NLS: &str = "Linux fs/exfat/nls.c";

/// The exFAT file system.
pub static EXFAT: Profile = Profile {
    name: "exfat",
    title: "exFAT",
    includes: &[&UTF8],
    rules: &[
        ProfileRule::error(Test::Plain(C0Control), EXFAT_NLS),
        ProfileRule::error(CHARACTERS, EXFAT_NLS),
        ProfileRule::error(
            Test::Plain(TrailingDot),
            "Linux fs/exfat/namei.c: stripped, or refused under the mount option `keep_last_dots`",
        )
        .stored_otherwise(),
        ProfileRule::error(LENGTH, "Linux fs/exfat (MAX_NAME_LENGTH, else ENAMETOOLONG)"),
        ProfileRule::error(
            Test::SameFold { fold: Fold::Exfat, form: None },
            "Microsoft, exFAT file system specification, section 7.2.5.1 (Recommended Up-case Table)",
        ),
        ONE_KIND,
    ],
};

const ANDROID_FAT: &str = "Android frameworks/base, core/java/android/os/FileUtils.java (isValidFatFilename)";

/// Shared and removable storage of Android: exFAT or FAT behind a layer that folds case.
pub static ANDROID: Profile = Profile {
    name: "android",
    title: "shared and removable storage of Android",
    includes: &[&UTF8],
    rules: &[
        ProfileRule::error(Test::Plain(C0Control), ANDROID_FAT),
        ProfileRule::error(Test::Plain(Delete), ANDROID_FAT),
        ProfileRule::error(CHARACTERS, ANDROID_FAT),
        ProfileRule::error(Test::Length(Limit { max: 255, unit: Unit::Bytes }), ANDROID_FAT),
        ProfileRule::warn(
            Test::Plain(TrailingDot),
            "Linux fs/exfat/namei.c: stripped on a removable medium with exFAT",
        )
        .stored_otherwise(),
        ProfileRule::error(
            Test::SameFold { fold: Fold::Simple, form: None },
            "source.android.com, SDCardFS deprecation: shared storage is case-insensitive, now by the file system",
        ),
        ONE_KIND,
    ],
};

const EIGHT_DOT_THREE: &str =
    "rclone backend/smb: such names turn into 8.3 names and cannot be converted back";

/// Shares of Samba or Windows. Names of shares, and the mappings of Samba's `vfs_catia`, which differ from server to server,
/// are not covered.
pub static SMB: Profile = Profile {
    name: "smb",
    title: "SMB shares: the rules of windows, and names that turn into 8.3 names",
    includes: &[&WINDOWS],
    rules: &[
        ProfileRule::error(Test::Plain(TrailingSpace), EIGHT_DOT_THREE).stored_otherwise(),
        ProfileRule::error(Test::Plain(TrailingDot), EIGHT_DOT_THREE).stored_otherwise(),
    ],
};
