//! Cloud stores.
//!
//! Object stores limit whole keys, so their limits are limits of paths. Trees have no empty segments (`//`). Keys that a tree
//! cannot contain (a `/` in a name, two entries with one name) are not checked. The rules of a synchronizing client are
//! warnings: the store itself allows such names. What a client skips on purpose is left behind: nobody misses it, and to rename it would
//! be wrong.

use super::base::{ONE_KIND, UTF8};
use super::windows::{CASE, CHARACTERS, CONSOLE, DEVICES, LENGTH, PATH, PORTS_ZERO};
use super::{AppliesTo, Chars, Fold, Form, Limit, NamePart, Profile, ProfileRule, ReservedNames, Test, Unit};
use crate::policy::rule::RuleId::*;

const ONEDRIVE: &str = "Microsoft support article 64883a5d; sharepointstuff.com 2018-12-03";
/// Microsoft's list does not mention them.
const CONTROLS: &str =
    "HTTP status 400: abraunegg/onedrive#35 and #41; rclone docs/content/onedrive.md (encoded: 00 to 1F, 7F)";
const RCLONE_CASE: &str = "rclone docs/content/overview.md (Case Insensitive: Yes); how it folds is not said";

/// SharePoint Online and OneDrive. SharePoint 2013 had further rules.
pub static SHAREPOINT: Profile = Profile {
    name: "sharepoint",
    title: "SharePoint Online and OneDrive",
    includes: &[&UTF8],
    rules: &[
        ProfileRule::error(CHARACTERS, ONEDRIVE),
        ProfileRule::error(Test::Plain(C0Control), CONTROLS),
        ProfileRule::error(Test::Plain(Delete), CONTROLS),
        ProfileRule::error(Test::Plain(LeadingSpace), ONEDRIVE),
        ProfileRule::error(Test::Plain(TrailingSpace), ONEDRIVE),
        ProfileRule::error(
            Test::Named(ReservedNames::new(
                NamePart::Whole,
                ".lock/CON/PRN/AUX/NUL/COM0/COM1/COM2/COM3/COM4/COM5/COM6/COM7/COM8/COM9/\
                 LPT0/LPT1/LPT2/LPT3/LPT4/LPT5/LPT6/LPT7/LPT8/LPT9",
            )),
            ONEDRIVE,
        ),
        ProfileRule::error(Test::Named(ReservedNames::new(NamePart::Anywhere, "_vti_")), ONEDRIVE),
        ProfileRule::error(
            Test::Named(ReservedNames::only_for(AppliesTo::Directories, NamePart::Prefix, "~")),
            ONEDRIVE,
        ),
        ProfileRule::error(
            Test::Named(ReservedNames::only_for(AppliesTo::LibraryRoot, NamePart::Whole, "forms")),
            ONEDRIVE,
        ),
        ProfileRule::warn(Test::Skipped(ReservedNames::new(NamePart::Prefix, "~$")), ONEDRIVE),
        ProfileRule::warn(Test::Skipped(ReservedNames::new(NamePart::Suffix, ".tmp")), ONEDRIVE),
        ProfileRule::warn(
            Test::Skipped(ReservedNames::new(NamePart::Whole, "desktop.ini/.DS_Store")),
            ONEDRIVE,
        ),
        ProfileRule::unverified(
            Test::Skipped(ReservedNames::new(NamePart::Whole, "Thumbs.db")),
            "IAM Cloud, Cloud Drive Mapper, Invalid file parameters",
        ),
        ProfileRule::warn(
            Test::Plain(TrailingDot),
            "rclone's tests saw it refused, Microsoft does not say so",
        ),
        ProfileRule::unverified(LENGTH, "255 characters per name, stated without a source"),
        ProfileRule::error(
            Test::PathLength(Limit { max: 400, unit: Unit::Utf16 }),
            "the whole decoded path with the name: Microsoft support article 64883a5d",
        ),
        ProfileRule::warn(Test::SameFold { fold: Fold::Simple, form: None }, RCLONE_CASE),
        ONE_KIND,
    ],
};

const S3_KEYS: &str = "Amazon S3 User Guide, Creating object key names";
const S3_AVOID: &str = "Amazon S3 User Guide, Creating object key names: characters to avoid";

/// Amazon S3. Everything but the length is advice.
pub static S3: Profile = Profile {
    name: "s3",
    title: "Amazon S3 (characters to avoid as warnings)",
    includes: &[&UTF8],
    rules: &[
        ProfileRule::error(Test::PathLength(Limit { max: 1024, unit: Unit::Bytes }), S3_KEYS),
        ProfileRule::unverified(Test::Plain(C0Control), S3_AVOID),
        ProfileRule::unverified(Test::Plain(Delete), S3_AVOID),
        ProfileRule::unverified(Test::Reserved(Chars::Range('\u{80}', char::MAX)), S3_AVOID),
        ProfileRule::unverified(Test::Reserved(Chars::one_of("\\{}^%`[]\"><~#|")), S3_AVOID),
        ProfileRule::unverified(
            Test::Reserved(Chars::one_of("&$@=;:+ ,?")),
            "Amazon S3 User Guide, Creating object key names: characters that need special handling",
        ),
        ProfileRule::warn(
            Test::Named(ReservedNames::new(NamePart::Whole, "soap")),
            "Amazon S3 User Guide, Creating object key names: as a whole key, not in virtual-hosted style",
        ),
    ],
};

const WASABI_NAMES: &str = "docs.wasabi.com/docs/naming-conventions";

/// Wasabi: Amazon S3 without characters of four bytes.
pub static WASABI: Profile = Profile {
    name: "wasabi",
    title: "Wasabi: the rules of s3, and no characters of four bytes",
    includes: &[&S3],
    rules: &[
        ProfileRule::error(Test::Reserved(Chars::Range('\u{10000}', char::MAX)), WASABI_NAMES),
        ProfileRule::warn(Test::Reserved(Chars::one_of("%<>\\#?")), WASABI_NAMES),
    ],
};

const GCS_OBJECTS: &str = "Google Cloud Storage, About Cloud Storage objects: object naming requirements";
const GCS_AVOID: &str = "Google Cloud Storage, About Cloud Storage objects: strongly recommended to avoid";

/// Google Cloud Storage.
pub static GCS: Profile = Profile {
    name: "gcs",
    title: "Google Cloud Storage",
    includes: &[&UTF8],
    rules: &[
        ProfileRule::error(Test::Reserved(Chars::one_of("\r\n")), GCS_OBJECTS),
        ProfileRule::error(Test::PathLength(Limit { max: 1024, unit: Unit::Bytes }), GCS_OBJECTS),
        ProfileRule::warn(Test::Reserved(Chars::Range('\u{7F}', '\u{84}')), GCS_AVOID),
        ProfileRule::warn(Test::Reserved(Chars::Range('\u{86}', '\u{9F}')), GCS_AVOID),
        ProfileRule::warn(Test::Reserved(Chars::one_of("#[]*?")), GCS_AVOID),
    ],
};

const AZURE_BLOB: &str = "rclone backend/azureblob";

/// Azure Blob Storage; further rules of Azure Files are warnings.
pub static AZURE: Profile = Profile {
    name: "azure",
    title: "Azure Blob Storage (Azure Files as warnings)",
    includes: &[&UTF8],
    rules: &[
        ProfileRule::error(Test::Plain(C0Control), AZURE_BLOB),
        ProfileRule::error(Test::Plain(Delete), AZURE_BLOB),
        ProfileRule::error(Test::Reserved(Chars::one_of("\\")), AZURE_BLOB),
        ProfileRule::error(Test::Plain(TrailingDot), AZURE_BLOB),
        ProfileRule::warn(
            Test::Reserved(Chars::one_of("\":|<>*?")),
            "refused by Azure Files: rclone backend/azurefiles",
        ),
    ],
};

const DRIVE_DESKTOP: &str = "Google Drive for desktop puts files on Windows: see the profile windows";

/// Google Drive. The store allows every UTF-8 name.
pub static GDRIVE: Profile = Profile {
    name: "gdrive",
    title: "Google Drive (Drive for desktop on Windows as warnings)",
    includes: &[&UTF8],
    rules: &[
        ProfileRule::warn(Test::Plain(C0Control), DRIVE_DESKTOP),
        ProfileRule::warn(CHARACTERS, DRIVE_DESKTOP),
        ProfileRule::warn(Test::Plain(TrailingSpace), DRIVE_DESKTOP),
        ProfileRule::warn(Test::Plain(TrailingDot), DRIVE_DESKTOP),
        ProfileRule::warn(DEVICES, DRIVE_DESKTOP),
        ProfileRule::warn(CONSOLE, DRIVE_DESKTOP),
        ProfileRule::warn(LENGTH, DRIVE_DESKTOP),
        ProfileRule::warn(PATH, DRIVE_DESKTOP),
        ProfileRule::warn(CASE, DRIVE_DESKTOP),
    ],
};

const DROPBOX_STORE: &str = "rclone backend/dropbox";
const DROPBOX_SYNC: &str = "help.dropbox.com/organize/file-names: not synchronized to some systems";

/// Dropbox.
pub static DROPBOX: Profile = Profile {
    name: "dropbox",
    title: "Dropbox (names that do not synchronize everywhere as warnings)",
    includes: &[&UTF8],
    rules: &[
        ProfileRule::error(Test::Reserved(Chars::one_of("\\")), DROPBOX_STORE),
        ProfileRule::error(Test::Plain(Delete), DROPBOX_STORE),
        ProfileRule::error(Test::Plain(TrailingSpace), DROPBOX_STORE),
        ProfileRule::error(Test::Length(Limit { max: 255, unit: Unit::CodePoints }), "rclone#4805"),
        ProfileRule::error(
            Test::SameFold { fold: Fold::Simple, form: None },
            "help.dropbox.com/organize/file-names; rclone docs/content/overview.md (Case Insensitive: Yes)",
        ),
        ProfileRule::warn(Test::Plain(C0Control), DROPBOX_SYNC),
        ProfileRule::warn(Test::Reserved(Chars::one_of("<>:\"|?*")), DROPBOX_SYNC),
        ProfileRule::warn(Test::Plain(TrailingDot), DROPBOX_SYNC),
        ProfileRule::warn(PATH, DROPBOX_SYNC),
        ProfileRule::unverified(
            Test::Reserved(Chars::Range('\u{1F000}', '\u{1FAFF}')),
            "emoji failed once: detox#123 (the blocks of pictographs beyond U+FFFF)",
        ),
        ProfileRule::warn(
            Test::Skipped(ReservedNames::new(
                NamePart::Whole,
                "desktop.ini/Thumbs.db/.DS_Store/Icon\r/.dropbox/.dropbox.attr",
            )),
            DROPBOX_SKIPS,
        ),
        ProfileRule::warn(Test::Skipped(ReservedNames::new(NamePart::Prefix, "~$/.~")), DROPBOX_SKIPS),
        ONE_KIND,
    ],
};

const DROPBOX_SKIPS: &str =
    "help.dropbox.com/organize/file-names; rclone docs/content/dropbox.md (names that cannot be stored)";

const BOX_LIMITS: &str = "developer.box.com/guides/files/limitations";

const BOX_SKIPS: &str = "support.box.com 360044195433: ignored by Box Drive; the web site takes them";

/// Box Drive takes folders whose names begin so.
const HIDDEN: ReservedNames = ReservedNames::only_for(AppliesTo::Files, NamePart::Prefix, "~/.");

/// Box.
pub static BOX: Profile = Profile {
    name: "box",
    title: "Box",
    includes: &[&UTF8],
    rules: &[
        ProfileRule::error(Test::Plain(C0Control), BOX_LIMITS),
        ProfileRule::error(Test::Plain(Delete), BOX_LIMITS),
        ProfileRule::error(Test::Reserved(Chars::one_of("\\")), BOX_LIMITS),
        ProfileRule::error(Test::Plain(TrailingSpace), BOX_LIMITS),
        ProfileRule::warn(
            Test::Skipped(ReservedNames::new(NamePart::Whole, "desktop.ini/Thumbs.db/.DS_Store")),
            BOX_SKIPS,
        ),
        ProfileRule::warn(Test::Skipped(HIDDEN), BOX_SKIPS),
        ProfileRule::warn(Test::Skipped(ReservedNames::new(NamePart::Suffix, ".tmp/.bak/.lnk")), BOX_SKIPS),
        ProfileRule::warn(Test::SameFold { fold: Fold::Simple, form: None }, RCLONE_CASE),
        ONE_KIND,
    ],
};

const NEXTCLOUD_ALWAYS: &str = "Nextcloud, Constants::FILENAME_INVALID_CHARS and the filename validator";
const NEXTCLOUD_SKIPS: &str = "Nextcloud desktop client, sync-exclude.lst";
const NEXTCLOUD_WINDOWS: &str = "Nextcloud SettingsService.php: refused in Windows-compatible mode";

/// Nextcloud 30 and later; the rules of its Windows-compatible mode are warnings.
pub static NEXTCLOUD: Profile = Profile {
    name: "nextcloud",
    title: "Nextcloud 30 and later (its Windows-compatible mode as warnings)",
    includes: &[&UTF8],
    rules: &[
        ProfileRule::error(Test::Plain(C0Control), NEXTCLOUD_ALWAYS),
        ProfileRule::error(Test::Reserved(Chars::one_of("\\")), NEXTCLOUD_ALWAYS),
        ProfileRule::error(
            Test::Named(ReservedNames::new(NamePart::Repeated, " ")),
            "Nextcloud's filename validator: nothing is left after trimming",
        ),
        ProfileRule::error(
            Test::Length(Limit { max: 250, unit: Unit::Bytes }),
            "Nextcloud's filename validator",
        ),
        ProfileRule::error(
            Test::Named(ReservedNames::new(NamePart::Whole, ".htaccess")),
            "Nextcloud's filename validator",
        ),
        ProfileRule::error(
            Test::Named(ReservedNames::new(NamePart::Suffix, ".part/.filepart")),
            "Nextcloud's filename validator",
        ),
        ProfileRule::warn(Test::Reserved(Chars::one_of("<>:\"|?*")), NEXTCLOUD_WINDOWS),
        ProfileRule::warn(Test::Plain(TrailingSpace), NEXTCLOUD_WINDOWS),
        ProfileRule::warn(Test::Plain(TrailingDot), NEXTCLOUD_WINDOWS),
        ProfileRule::warn(DEVICES, NEXTCLOUD_WINDOWS),
        ProfileRule::warn(PORTS_ZERO, NEXTCLOUD_WINDOWS),
        ProfileRule::warn(
            Test::Form(Form::Nfc),
            "Nextcloud: decomposed names on external storage need the encoding compatibility wrapper",
        ),
        ProfileRule::warn(
            Test::Skipped(ReservedNames::new(
                NamePart::Whole,
                "desktop.ini/Thumbs.db/.DS_Store/.TemporaryItems/.Trashes/.DocumentRevisions-V100/.fseventd/.apdisk",
            )),
            NEXTCLOUD_SKIPS,
        ),
        ProfileRule::warn(Test::Skipped(ReservedNames::new(NamePart::Prefix, "~$/.~lock.")), NEXTCLOUD_SKIPS),
        ProfileRule::warn(
            Test::Skipped(ReservedNames::new(NamePart::Suffix, "~/.crdownload/.kate-swp")),
            NEXTCLOUD_SKIPS,
        ),
        ProfileRule::warn(
            Test::Skipped(ReservedNames::new(NamePart::Anywhere, "_conflict-")),
            NEXTCLOUD_SKIPS,
        ),
        ONE_KIND,
    ],
};
