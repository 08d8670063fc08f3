//! The rules that a name can break, each with a stable id.
//!
//! A [profile](super::profile) decides which rules apply to a target, with which parameters and severity. Ids are part of the
//! interface: configurations, reports and baselines contain them, and their meaning never changes.

use std::fmt;
use std::str::FromStr;

use super::UnknownWord;
use crate::name::scalar::Class;
use crate::name::utf8::Malformation;

/// How serious a violation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Severity {
    /// The violation is reported and the name is allowed.
    Warn,
    /// The name is rejected.
    Error,
}

impl Severity {
    /// All severities, the lowest first.
    pub const ALL: [Self; 2] = [Self::Warn, Self::Error];

    /// `warn` or `error`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

impl FromStr for Severity {
    type Err = UnknownWord;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let unknown = || UnknownWord::new("severity", s, Self::ALL.map(Self::as_str));
        Self::ALL.into_iter().find(|severity| severity.as_str() == s).ok_or_else(unknown)
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What a rule checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RuleKind {
    /// The bytes of the name: always on, always an error.
    Encoding,
    /// Single code points, with their neighbours where these matter.
    Scalar,
    /// The name as a whole: its ends, its length, its words.
    Shape,
    /// The names in one directory together.
    Directory,
    /// The path that leads to the name.
    Path,
}

impl RuleKind {
    /// The word in tables and documents: `encoding`, `scalar`, `shape`, `directory` or `path`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Encoding => "encoding",
            Self::Scalar => "scalar",
            Self::Shape => "shape",
            Self::Directory => "directory",
            Self::Path => "path",
        }
    }
}

/// What a violation endangers. Reports keep the two apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Concern {
    /// The name can deceive a reader, a terminal, a shell or a program that checks names.
    Security,
    /// The name cannot be kept unchanged on every target.
    Portability,
}

impl Concern {
    /// All concerns, in display order.
    pub const ALL: [Self; 2] = [Self::Security, Self::Portability];

    /// `security` or `portability`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Security => "security",
            Self::Portability => "portability",
        }
    }
}

impl fmt::Display for Concern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A rule, as the table [`RULES`] describes it.
#[derive(Debug)]
pub struct Rule {
    /// The id of the rule.
    pub id: RuleId,
    /// The stable name, lower case with hyphens.
    pub name: &'static str,
    /// What the rule checks.
    pub kind: RuleKind,
    /// The severity, unless a profile or a configuration sets another.
    pub default: Severity,
    /// What a violation endangers.
    pub concern: Concern,
    /// A description in one line.
    pub summary: &'static str,
    /// The standard, annex, manual page or source code that the rule is based on.
    pub source: &'static str,
}

/// Makes the enum, the ids and the documentation from one table, so that they cannot differ.
macro_rules! rules {
    ($($variant:ident, $name:literal, $kind:ident, $default:ident, $concern:ident, $summary:literal, $source:literal;)*) => {
        /// The stable identity of a rule.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum RuleId {
            $(#[doc = $summary] $variant,)*
        }

        /// All rules, in the order of their ids.
        pub static RULES: &[Rule] = &[
            $(Rule {
                id: RuleId::$variant,
                name: $name,
                kind: RuleKind::$kind,
                default: Severity::$default,
                concern: Concern::$concern,
                summary: $summary,
                source: $source,
            },)*
        ];
    };
}

rules! {
    UnexpectedContinuation, "unexpected-continuation", Encoding, Error, Portability,
        "a byte 80..BF where a sequence should begin",
        "RFC 3629, section 4; Unicode Standard, D92 and table 3-7; ISO/IEC 10646-1 Amd. 2, R.7 class 2";
    Truncated, "truncated", Encoding, Error, Portability,
        "a lead byte without enough continuation bytes",
        "RFC 3629, section 4; Unicode Standard, D92 and table 3-7; ISO/IEC 10646-1 Amd. 2, R.7 class 1";
    Overlong, "overlong", Encoding, Error, Security,
        "a longer encoding than the code point needs",
        "RFC 3629, sections 3 and 10; Unicode Standard, D92 and table 3-7; utf-8(7)";
    NulSmuggling, "nul-smuggling", Encoding, Error, Security,
        "an overlong form of U+0000, or a NUL byte in a name",
        "RFC 3629, section 10; POSIX.1-2024, 3.141 Filename";
    SeparatorSmuggling, "separator-smuggling", Encoding, Error, Security,
        "an overlong form of `/` or `.`, or a `/` in a name",
        "RFC 3629, section 10; POSIX.1-2024, 3.141 Filename";
    Surrogate, "surrogate", Encoding, Error, Security,
        "a surrogate code point, U+D800..DFFF, on its own",
        "RFC 3629, section 3; Unicode Standard, D92 and table 3-7; M. Kuhn, UTF-8 and Unicode FAQ";
    SurrogatePair, "surrogate-pair", Encoding, Error, Security,
        "two surrogates for one scalar value (CESU-8)",
        "RFC 3629, section 3; Unicode Standard, D92 and table 3-7; Unicode Technical Report #26";
    AboveMax, "above-max", Encoding, Error, Security,
        "a code point above U+10FFFF in four bytes",
        "RFC 3629, sections 3, 4 and 10; Unicode Standard, D92 and table 3-7";
    FiveOrSixOctets, "five-or-six-octets", Encoding, Error, Security,
        "a sequence of five or six bytes, as ISO/IEC 10646-1 had them from Amendment 2 (1996) on and RFC 3629 abolished",
        "RFC 3629, sections 3, 10 and 12; Unicode Standard, D92 and table 3-7; ISO/IEC 10646-1 Amd. 2, R.2";
    InvalidOctet, "invalid-octet", Encoding, Error, Portability,
        "the byte FE or FF, which UTF-8 never uses",
        "RFC 3629, section 1; Unicode Standard, D92 and table 3-7; ISO/IEC 10646-1 Amd. 2, R.7 class 3";

    EmptyName, "empty-name", Encoding, Error, Portability,
        "an empty name",
        "POSIX.1-2024, 3.141 Filename";
    DotName, "dot-name", Encoding, Error, Security,
        "`.` or `..`, which name the directory itself or its parent",
        "POSIX.1-2024, 3.141 Filename";

    C0Control, "c0-control", Scalar, Error, Security,
        "a control character U+0001..001F (escape, line feed, tab, ...)",
        "ISO/IEC 6429; Unicode Standard, section 23.1";
    Delete, "delete", Scalar, Error, Security,
        "U+007F DELETE",
        "ISO/IEC 6429; Unicode Standard, section 23.1";
    C1Control, "c1-control", Scalar, Error, Security,
        "a control character U+0080..009F",
        "ISO/IEC 6429; Unicode Standard, section 23.1";
    Iso2022Escape, "iso-2022-escape", Scalar, Error, Security,
        "an escape sequence that announces UTF-8 or returns from it (ESC % G, ESC % @, ESC % / G..I)",
        "ISO/IEC 10646-1 Amd. 2, R.6; utf-8(7)";
    LineSeparator, "line-separator", Scalar, Error, Security,
        "U+2028 LINE SEPARATOR or U+2029 PARAGRAPH SEPARATOR",
        "Unicode Standard, section 5.8";
    Noncharacter, "noncharacter", Scalar, Error, Security,
        "one of the 66 noncharacters (U+FDD0..FDEF and the last two of every plane)",
        "Unicode Standard, section 23.7; M. Kuhn, UTF-8 and Unicode FAQ";
    ByteOrderMark, "byte-order-mark", Scalar, Warn, Security,
        "U+FEFF: in front a byte order mark, which a name does not need; elsewhere a zero width no-break space, which is invisible",
        "RFC 3629, section 6";
    BidiControl, "bidi-control", Scalar, Error, Security,
        "a bidirectional control, which can change the order in which a name is shown",
        "Unicode Standard Annex #9, section 2; Unicode Technical Standard #55";
    DefaultIgnorable, "default-ignorable", Scalar, Error, Security,
        "an invisible code point (zero-width space, soft hyphen, joiners and selectors that their text does not need)",
        "Unicode Standard Annex #44, Default_Ignorable_Code_Point; Unicode Standard Annex #31, section 2.3";
    TagCharacter, "tag-character", Scalar, Error, Security,
        "U+E0000..E007F outside an emoji flag: invisible text",
        "Unicode Standard, section 23.9; Unicode Technical Standard #51, ED-14a";
    PrivateUse, "private-use", Scalar, Warn, Portability,
        "a private-use code point: other machines may show something else",
        "Unicode Standard, section 23.5";
    SmbPrivateUse, "smb-private-use", Scalar, Warn, Portability,
        "U+F001..F029, written by an SMB character mapping (SFM)",
        "Linux fs/smb/client/cifs_unicode.h";
    ReplacementCharacter, "replacement-character", Scalar, Warn, Portability,
        "U+FFFD: an earlier conversion lost the original character",
        "Unicode Standard, section 23.8";
    Unassigned, "unassigned", Scalar, Warn, Portability,
        "a code point that the stated version of Unicode does not assign",
        "Unicode Standard Annex #44, General_Category and Age";
    NonAsciiSpace, "non-ascii-space", Scalar, Warn, Security,
        "a space other than U+0020 that looks the same",
        "Unicode Standard Annex #44, General_Category=Zs";
    ReservedCharacter, "reserved-character", Scalar, Error, Portability,
        "a character that the target does not allow in names",
        "docs/PROFILES.md, by target";

    LeadingSpace, "leading-space", Shape, Warn, Portability,
        "the name begins with a space",
        "docs/PROFILES.md, by target";
    TrailingSpace, "trailing-space", Shape, Warn, Portability,
        "the name ends with a space",
        "docs/PROFILES.md, by target";
    LeadingDash, "leading-dash", Shape, Warn, Security,
        "the name begins with `-`: commands read it as an option",
        "POSIX.1-2024, 3.265 Portable Filename";
    LeadingTilde, "leading-tilde", Shape, Warn, Portability,
        "the name begins with `~`: shells and office programs interpret it",
        "docs/PROFILES.md, by target; POSIX.1-2024, XCU 2.6.1";
    TrailingDot, "trailing-dot", Shape, Warn, Portability,
        "the name ends with `.`",
        "docs/PROFILES.md, by target";
    ReservedName, "reserved-name", Shape, Error, Portability,
        "a name that the target reserves (devices, its own files)",
        "docs/PROFILES.md, by target";
    LeftBehind, "left-behind", Shape, Warn, Portability,
        "a name that the target's programs skip on purpose: the file stays behind",
        "docs/PROFILES.md, by target";
    NameTooLong, "name-too-long", Shape, Error, Portability,
        "the name is longer than the target allows",
        "docs/PROFILES.md, by target";
    NotInForm, "not-in-form", Shape, Warn, Portability,
        "the name is not in the required normalization form",
        "Unicode Standard Annex #15";
    MixedScript, "mixed-script", Shape, Warn, Security,
        "a word mixes scripts, such as a Latin word with a Cyrillic letter",
        "Unicode Technical Standard #39, section 5";
    DotGitLookalike, "dot-git-lookalike", Shape, Error, Security,
        "a name that Windows or macOS treats as `.git` or as a file that configures git",
        "git path.c (is_ntfs_dotgit), utf8.c (next_hfs_char); CVE-2014-9390";
    Mojibake, "mojibake", Shape, Warn, Portability,
        "text that was read in a wrong encoding",
        "RFC 3629, section 1: other text is rarely valid UTF-8; WHATWG Encoding Standard";
    LostCharacters, "lost-characters", Shape, Warn, Portability,
        "a word of question marks alone: a program could not write its letters, and other names became the same",
        "java.lang.String.getBytes: an encoding without a character writes its replacement, `?`";

    CollisionNormalization, "collision-normalization", Directory, Error, Security,
        "two names in one directory that are canonically equivalent",
        "RFC 3629, section 10; Unicode Standard Annex #15; Unicode Standard, definition D70";
    CollisionCase, "collision-case", Directory, Error, Portability,
        "two names in one directory that differ only in case",
        "Unicode Standard, definitions D144 and D145";
    CollisionConfusable, "collision-confusable", Directory, Warn, Security,
        "two names in one directory that look the same",
        "Unicode Technical Standard #39, section 4";

    CollisionKind, "collision-kind", Directory, Error, Portability,
        "a file and a directory of one name",
        "POSIX.1-2024, XBD chapter 4, Pathname Resolution; XSH, mkdir (EEXIST) and open (ENOTDIR)";

    PathTooLong, "path-too-long", Path, Error, Portability,
        "the path is longer than the target allows",
        "docs/PROFILES.md, by target";
}

impl RuleId {
    /// The entry of the rule in [`RULES`].
    pub fn rule(self) -> &'static Rule {
        &RULES[self as usize]
    }

    /// The stable name, as in `overlong`.
    pub fn name(self) -> &'static str {
        self.rule().name
    }

    /// Whether the rule is on in every policy and cannot be weakened.
    pub fn is_always_on(self) -> bool {
        self.rule().kind == RuleKind::Encoding
    }

    /// Whether the rule finds names that a program damaged. Suggested names repair damage whatever its severity.
    pub fn is_damage(self) -> bool {
        self.is_always_on() || self == Self::Mojibake
    }

    /// Whether the rule needs a parameter (which characters, which length), so that a severity alone does not switch it on.
    pub fn needs_parameter(self) -> bool {
        matches!(
            self,
            Self::ReservedCharacter
                | Self::ReservedName
                | Self::LeftBehind
                | Self::NameTooLong
                | Self::PathTooLong
                | Self::NotInForm
                | Self::CollisionNormalization
                | Self::CollisionCase
        )
    }
}

impl fmt::Display for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl From<Malformation> for RuleId {
    fn from(kind: Malformation) -> Self {
        match kind {
            Malformation::UnexpectedContinuation => Self::UnexpectedContinuation,
            Malformation::Truncated => Self::Truncated,
            Malformation::Overlong => Self::Overlong,
            Malformation::NulSmuggling => Self::NulSmuggling,
            Malformation::SeparatorSmuggling => Self::SeparatorSmuggling,
            Malformation::Surrogate => Self::Surrogate,
            Malformation::SurrogatePair => Self::SurrogatePair,
            Malformation::AboveMax => Self::AboveMax,
            Malformation::FiveOrSixOctets => Self::FiveOrSixOctets,
            Malformation::InvalidOctet => Self::InvalidOctet,
        }
    }
}

/// The rule that reports code points of a class.
impl From<Class> for RuleId {
    fn from(class: Class) -> Self {
        match class {
            Class::C0Control => Self::C0Control,
            Class::Delete => Self::Delete,
            Class::C1Control => Self::C1Control,
            Class::LineSeparator => Self::LineSeparator,
            Class::Noncharacter => Self::Noncharacter,
            Class::ByteOrderMark => Self::ByteOrderMark,
            Class::BidiControl => Self::BidiControl,
            Class::TagCharacter => Self::TagCharacter,
            Class::DefaultIgnorable => Self::DefaultIgnorable,
            Class::PrivateUse => Self::PrivateUse,
            Class::SmbPrivateUse => Self::SmbPrivateUse,
            Class::ReplacementCharacter => Self::ReplacementCharacter,
            Class::Unassigned => Self::Unassigned,
            Class::NonAsciiSpace => Self::NonAsciiSpace,
        }
    }
}

impl FromStr for RuleId {
    type Err = UnknownWord;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        RULES
            .iter()
            .find(|rule| rule.name == s)
            .map(|rule| rule.id)
            .ok_or_else(|| UnknownWord::new("rule", s, RULES.iter().map(|rule| rule.name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_stands_at_the_place_of_its_id_and_reads_back_from_its_name() {
        for (at, rule) in RULES.iter().enumerate() {
            assert_eq!(rule.id as usize, at);
            assert_eq!(rule.name.parse(), Ok(rule.id));
            assert!(rule.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'));
        }
    }

    #[test]
    fn an_unknown_rule_is_an_error_that_names_the_nearest() {
        let error = "trailing-spaces".parse::<RuleId>().unwrap_err();
        assert_eq!(error.to_string(), "unknown rule `trailing-spaces`; did you mean `trailing-space`?");
        let error = "qqqqqqqqq".parse::<RuleId>().unwrap_err();
        assert_eq!(error.to_string(), "unknown rule `qqqqqqqqq`");
    }
}
