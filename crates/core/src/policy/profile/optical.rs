//! Optical discs: ISO 9660, Joliet, UDF.

use super::base::{ONE_KIND, UTF8};
use super::{Chars, Limit, Profile, ProfileRule, Test, Unit};
use crate::policy::rule::RuleId::*;

const LEVELS: &str =
    "gnscd.com/iso.htm and the manual of the Epson PP-100II; ISO 9660 itself was not at hand for it";

/// ISO 9660 without extensions. Characters are errors, by the text of the standard. Lengths are known only from manufacturers,
/// so they are warnings; level 1 (8.3 names) is a warning because levels 2 and 3 allow more. Names of directories must not
/// contain a dot, but a check of a name does not know the type of the entry.
pub static ISO9660: Profile = Profile {
    name: "iso9660",
    title: "ISO 9660, levels 2 and 3 (lengths, and level 1, as warnings)",
    includes: &[&UTF8],
    rules: &[
        ProfileRule::error(
            Test::Reserved(Chars::AllBut("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.")),
            "ISO 9660, 7.4.1 (d-characters) and 7.4.3 (SEPARATOR 1)",
        ),
        ProfileRule::error(
            Test::Length(Limit { max: 1, unit: Unit::Dots }),
            "ISO 9660, 7.4.3 (SEPARATOR 1): one dot between name and extension",
        ),
        ProfileRule::unverified(
            Test::Length(Limit { max: 8, unit: Unit::StemCodePoints }),
            "level 1; for directories, too: gnscd.com/iso.htm",
        ),
        ProfileRule::unverified(
            Test::Length(Limit { max: 3, unit: Unit::ExtensionCodePoints }),
            "level 1: gnscd.com/iso.htm",
        ),
        ProfileRule::unverified(Test::Length(Limit { max: 31, unit: Unit::CodePoints }), LEVELS),
        ProfileRule::unverified(Test::PathLength(Limit { max: 8, unit: Unit::Components }), LEVELS),
        ProfileRule::unverified(Test::PathLength(Limit { max: 255, unit: Unit::Bytes }), LEVELS),
        ONE_KIND,
    ],
};

const JOLIET_SET: &str = "Microsoft, Joliet Specification: Allowed Character Set";

/// Joliet. `mkisofs -joliet-long` writes up to 103 units, against the specification.
pub static JOLIET: Profile = Profile {
    name: "joliet",
    title: "Joliet (its length as a warning)",
    includes: &[&UTF8],
    rules: &[
        ProfileRule::error(Test::Plain(C0Control), JOLIET_SET),
        ProfileRule::error(Test::Reserved(Chars::one_of("*:;?\\")), JOLIET_SET),
        ProfileRule::error(
            Test::Reserved(Chars::Range('\u{10000}', char::MAX)),
            "Microsoft, Joliet Specification: UCS-2, which ends at U+FFFF",
        ),
        ProfileRule::unverified(
            Test::Length(Limit { max: 64, unit: Unit::Utf16 }),
            "foldoc.org/Joliet and mkisofs(8), joliet-long: 128 bytes by the specification",
        ),
        ONE_KIND,
    ],
};

/// UDF. A name has 255 bytes on disk. The first byte says how the others are packed: 254 characters up to U+00FF, or 127
/// UTF-16 units.
pub static UDF: Profile = Profile {
    name: "udf",
    title: "UDF (the length of paths as a warning)",
    includes: &[&UTF8],
    rules: &[
        ProfileRule::error(
            Test::Length(Limit { max: 255, unit: Unit::OstaBytes }),
            "Linux fs/udf/udfdecl.h (UDF_NAME_LEN_CS0); OSTA UDF, 2.1.1",
        ),
        ProfileRule::unverified(
            Test::PathLength(Limit { max: 1023, unit: Unit::Bytes }),
            "manuals of manufacturers; Linux no longer states it",
        ),
        ONE_KIND,
    ],
};
