//! The profiles that are not about a target: the encoding, sane names, and security.

use super::{Form, Profile, ProfileRule, Test};
use crate::policy::rule::RuleId::*;

/// A directory has one entry of a name; an object store, an archive and a list can have a file and a directory.
pub(super) const ONE_KIND: ProfileRule = ProfileRule::error(
    Test::Plain(CollisionKind),
    "POSIX.1-2024, XBD chapter 4, Pathname Resolution: a name is that of one entry",
);

/// A damaged name is no worse for one target than for another.
pub(super) static DAMAGE: ProfileRule =
    ProfileRule::warn(Test::Plain(Mojibake), "RFC 3629, section 1: other text is rarely valid UTF-8");

/// Only the encoding. Its rules are on in every policy, so the profile adds none.
pub static UTF8: Profile =
    Profile { name: "utf8", title: "strict UTF-8 (RFC 3629) and nothing else", includes: &[], rules: &[] };

/// What no sane name contains, whatever the target.
pub static STRICT: Profile = Profile {
    name: "strict",
    title: "strict UTF-8 without controls, ISO 2022 escapes, noncharacters and line separators (names that look like others as warnings)",
    includes: &[&UTF8],
    rules: &[
        ProfileRule::error(Test::Plain(C0Control), "ISO/IEC 6429; Unicode Standard, section 23.1"),
        ProfileRule::error(Test::Plain(Delete), "ISO/IEC 6429; Unicode Standard, section 23.1"),
        ProfileRule::error(Test::Plain(C1Control), "ISO/IEC 6429; Unicode Standard, section 23.1"),
        ProfileRule::error(Test::Plain(Iso2022Escape), "ISO/IEC 10646-1 Amd. 2, R.6; utf-8(7)"),
        ProfileRule::error(Test::Plain(LineSeparator), "Unicode Standard, section 5.8"),
        ProfileRule::error(
            Test::Plain(Noncharacter),
            "Unicode Standard, section 23.7; M. Kuhn, UTF-8 and Unicode FAQ",
        ),
        // What a person who lists the names does not see. Such names are in honest use, so nothing refuses them by default.
        ProfileRule::warn(Test::Plain(BidiControl), BIDI),
        ProfileRule::warn(Test::Plain(DefaultIgnorable), IGNORABLE),
        ProfileRule::warn(Test::Plain(ByteOrderMark), "RFC 3629, section 6"),
        ProfileRule::warn(Test::Plain(TagCharacter), "Unicode Standard, section 23.9"),
        ProfileRule::warn(Test::Plain(ReplacementCharacter), "Unicode Standard, section 23.8"),
        ProfileRule::warn(
            Test::Plain(LostCharacters),
            "java.lang.String.getBytes: an encoding without a character writes its replacement, `?`",
        ),
        ProfileRule::warn(Test::Plain(LeadingSpace), UNSEEN),
        ProfileRule::warn(Test::Plain(TrailingSpace), UNSEEN),
        ONE_KIND,
    ],
};

const BIDI: &str = "Unicode Standard Annex #9; Unicode Technical Standard #55";
const IGNORABLE: &str = "Unicode Standard Annex #31, section 2.3";
const UNSEEN: &str = "not seen where names are listed";

/// Names that can deceive a reader, a shell or a terminal. All rules are warnings: some such names are in honest use.
pub static SECURITY: Profile = Profile {
    name: "security",
    title: "deceptive names: invisible, reordering and look-alike characters (warnings; a configuration can make them errors)",
    includes: &[&UTF8],
    rules: &[
        ProfileRule::warn(Test::Plain(C0Control), "ISO/IEC 6429: terminals act on controls"),
        ProfileRule::warn(Test::Plain(Delete), "ISO/IEC 6429: terminals act on controls"),
        ProfileRule::warn(Test::Plain(C1Control), "ISO/IEC 6429: terminals act on controls"),
        ProfileRule::warn(Test::Plain(Iso2022Escape), "ISO/IEC 10646-1 Amd. 2, R.6; utf-8(7)"),
        ProfileRule::warn(Test::Plain(BidiControl), BIDI),
        ProfileRule::warn(Test::Plain(DefaultIgnorable), IGNORABLE),
        ProfileRule::warn(Test::Plain(ByteOrderMark), "RFC 3629, section 6"),
        ProfileRule::warn(Test::Plain(TagCharacter), "Unicode Standard, section 23.9"),
        ProfileRule::warn(Test::Plain(Noncharacter), "Unicode Standard, section 23.7"),
        ProfileRule::warn(Test::Plain(PrivateUse), "Unicode Standard, section 23.5"),
        ProfileRule::warn(
            Test::Plain(SmbPrivateUse),
            "Unicode Standard, section 23.5; Linux fs/smb/client/cifs_unicode.h",
        ),
        ProfileRule::warn(Test::Plain(ReplacementCharacter), "Unicode Standard, section 23.8"),
        ProfileRule::warn(Test::Plain(LineSeparator), "Unicode Standard, section 5.8"),
        ProfileRule::warn(Test::Plain(NonAsciiSpace), "Unicode Standard Annex #44, General_Category=Zs"),
        ProfileRule::warn(Test::Plain(LeadingDash), "POSIX.1-2024, XBD 12.2: commands read it as an option"),
        ProfileRule::warn(Test::Plain(LeadingTilde), "POSIX.1-2024, XCU 2.6.1: shells expand it"),
        ProfileRule::warn(Test::Plain(LeadingSpace), UNSEEN),
        ProfileRule::warn(Test::Plain(TrailingSpace), UNSEEN),
        ProfileRule::warn(Test::Plain(MixedScript), "Unicode Technical Standard #39, section 5"),
        ProfileRule::warn(
            Test::SameForm(Form::Nfc),
            "RFC 3629, section 10: one name for a reader, two for a program that compares bytes",
        ),
        ProfileRule::warn(Test::Plain(CollisionConfusable), "Unicode Technical Standard #39, section 4"),
    ],
};
