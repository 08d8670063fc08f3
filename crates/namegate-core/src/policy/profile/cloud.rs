//! Cloud stores.
//!
//! Object stores limit whole keys, so their limits are limits of paths. Trees have no empty segments (`//`). Keys that a tree
//! cannot contain (a `/` in a name, two entries with one name) are not checked. The rules of a synchronizing client are
//! warnings: the store itself allows such names.

use super::base::UTF8;
use super::windows::{CASE, CHARACTERS, CONSOLE, DEVICES, LENGTH, PATH, PORTS_ZERO};
use super::{Chars, Fold, Form, Limit, NamePart, Profile, ProfileRule, ReservedNames, Test, Unit};
use crate::policy::rule::RuleId::*;

const ONEDRIVE: &str = "Microsoft support article 64883a5d; sharepointstuff.com 2018-12-03";
const RCLONE_CASE: &str = "rclone docs/content/overview.md (Case Insensitive: Yes); how it folds is not said";

/// SharePoint Online and OneDrive. SharePoint 2013 had further rules.
pub static SHAREPOINT: Profile = Profile {
    name: "sharepoint",
    title: "SharePoint Online and OneDrive",
    includes: &[&UTF8],
    rules: &[
        ProfileRule::error(CHARACTERS, ONEDRIVE),
        ProfileRule::error(Test::Plain(LeadingSpace), ONEDRIVE),
        ProfileRule::error(Test::Plain(TrailingSpace), ONEDRIVE),
        ProfileRule::error(
            Test::Named(ReservedNames::new(
                NamePart::Whole,
                ".lock/CON/PRN/AUX/NUL/COM0/COM1/COM2/COM3/COM4/COM5/COM6/COM7/COM8/COM9/\
                 LPT0/LPT1/LPT2/LPT3/LPT4/LPT5/LPT6/LPT7/LPT8/LPT9/_vti_/desktop.ini",
            )),
            ONEDRIVE,
        ),
        ProfileRule::error(Test::Named(ReservedNames::new(NamePart::Prefix, "~$")), ONEDRIVE),
        ProfileRule::error(Test::Named(ReservedNames::new(NamePart::Anywhere, "_vti_")), ONEDRIVE),
        ProfileRule::warn(
            Test::Plain(LeadingTilde),
            "refused for folders: Microsoft support article 64883a5d",
        ),
        ProfileRule::warn(
            Test::Named(ReservedNames::new(NamePart::Whole, "forms")),
            "refused at the root of a library: Microsoft support article 64883a5d",
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
    ],
};

const BOX_LIMITS: &str = "developer.box.com/guides/files/limitations";

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
        ProfileRule::warn(Test::SameFold { fold: Fold::Simple, form: None }, RCLONE_CASE),
    ],
};

const NEXTCLOUD_ALWAYS: &str = "Nextcloud, Constants::FILENAME_INVALID_CHARS and the filename validator";
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
    ],
};
