//! macOS: APFS and HFS+.
//!
//! Where the two differ, the stricter one counts: APFS refuses unassigned code points, HFS+ stores them. HFS+ stores names in
//! a decomposed form of its own; that loses nothing and is not a violation.

use super::base::{ONE_KIND, UTF8};
use super::{Chars, Fold, Form, Limit, Profile, ProfileRule, Test, Unit};

/// APFS and HFS+.
pub static MACOS: Profile = Profile {
    name: "macos",
    title: "macOS: APFS and HFS+",
    includes: &[&UTF8],
    rules: &[
        ProfileRule::error(
            Test::Unassigned(None),
            "yt-dlp#13303 (EILSEQ from APFS), for what no version of Unicode knows up to the one compiled in",
        ),
        ProfileRule::warn(
            Test::Unassigned(Some((9, 0))),
            "yt-dlp#13303; APFS began with Unicode 9.0, later systems know later versions",
        ),
        ProfileRule::warn(
            Test::Reserved(Chars::one_of(":")),
            "shown as `/`: Finder and the POSIX layer swap the two",
        )
        .stored_otherwise(),
        ProfileRule::error(
            Test::Length(Limit { max: 255, unit: Unit::Utf16In(Form::Nfd) }),
            "HFS+ by git utf8.c; openzfsonosx/openzfs#16 for APFS",
        ),
        ProfileRule::warn(
            Test::Length(Limit { max: 255, unit: Unit::BytesIn(Form::Nfc) }),
            "conflicting: macfuse#808 and #551 say 255 bytes, openzfsonosx/openzfs#16 saw longer names",
        ),
        ProfileRule::error(
            Test::SameForm(Form::Nfd),
            "Apple File System FAQ, by shigemk2.com/entry/2018/09/04 and mjtsai.com 2017-03-31",
        ),
        ProfileRule::error(
            Test::SameFold { fold: Fold::Full, form: Some(Form::Nfd) },
            "Apple File System FAQ: insensitive to case by default, to normalization always",
        ),
        ONE_KIND,
    ],
};
