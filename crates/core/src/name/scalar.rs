//! Classes of code points that cause problems in file names, and the names and properties of code points.
//!
//! The property values come from the compiled Unicode data of `icu_properties`; no table is kept here. This module
//! does not look at neighbours (see [`super::context`]) and does not say whether a class is allowed.
//!
//! Sources: The Unicode Standard, chapter 23 (special areas and format characters); UAX #44 (properties
//! General_Category, Bidi_Control, Default_Ignorable_Code_Point, Noncharacter_Code_Point); ISO/IEC 6429 for the C0 and
//! C1 sets; Samba's `vfs_catia` and the SFM mapping for U+F001..U+F029.

use icu_properties::props::{
    BidiClass, BidiControl, DefaultIgnorableCodePoint, GeneralCategory, NoncharacterCodePoint, Script,
};
use icu_properties::{CodePointMapData, CodePointSetData, PropertyNamesLong};

/// The Unicode version of the property data compiled in: major, minor, update.
///
/// The data crate states its version only in text, so this constant repeats it; a test compares it with the code points that
/// are assigned.
pub const UNICODE_VERSION: (u8, u8, u8) = (18, 0, 0);

/// A class of code points that cause problems in file names.
///
/// Classes are disjoint; [`class`] documents the precedence.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// U+0000..U+001F.
    C0Control,
    /// U+007F.
    Delete,
    /// U+0080..U+009F, the next-line control U+0085 included.
    C1Control,
    /// U+2028 LINE SEPARATOR and U+2029 PARAGRAPH SEPARATOR.
    LineSeparator,
    /// The 66 code points that never become characters: U+FDD0..U+FDEF and the last two of each plane.
    Noncharacter,
    /// U+FEFF, wherever it stands.
    ByteOrderMark,
    /// Property Bidi_Control: marks, embeddings, overrides and isolates that reorder what a reader sees.
    BidiControl,
    /// U+E0000..U+E007F, the invisible copies of ASCII, unassigned code points of the block included.
    TagCharacter,
    /// Every other assigned code point that is invisible: joiners, variation selectors, soft hyphen, fillers.
    DefaultIgnorable,
    /// General category Co, except [`Class::SmbPrivateUse`].
    PrivateUse,
    /// U+F001..U+F029: stored by SMB clients and servers in place of characters that Windows refuses.
    SmbPrivateUse,
    /// U+FFFD, which a lossy conversion wrote.
    ReplacementCharacter,
    /// General category Cn in [`UNICODE_VERSION`], except noncharacters and tag characters.
    Unassigned,
    /// General category Zs, except U+0020.
    NonAsciiSpace,
}

impl Class {
    /// All classes, in declaration order.
    pub const ALL: [Self; 14] = [
        Self::C0Control,
        Self::Delete,
        Self::C1Control,
        Self::LineSeparator,
        Self::Noncharacter,
        Self::ByteOrderMark,
        Self::BidiControl,
        Self::TagCharacter,
        Self::DefaultIgnorable,
        Self::PrivateUse,
        Self::SmbPrivateUse,
        Self::ReplacementCharacter,
        Self::Unassigned,
        Self::NonAsciiSpace,
    ];
}

/// The class of `c`; `None` for ordinary code points.
///
/// If several properties apply, the first of these wins: [`Class::Noncharacter`], [`Class::ByteOrderMark`],
/// [`Class::TagCharacter`], [`Class::BidiControl`], [`Class::Unassigned`], [`Class::DefaultIgnorable`];
/// [`Class::SmbPrivateUse`] wins over [`Class::PrivateUse`]. So an unassigned code point that is reserved as ignorable,
/// such as U+2065, is `Unassigned`.
///
/// ```
/// use namegate_core::name::scalar::{Class, class};
/// assert_eq!(class('a'), None);
/// assert_eq!(class('語'), None);
/// assert_eq!(class('\u{85}'), Some(Class::C1Control));
/// assert_eq!(class('\u{FEFF}'), Some(Class::ByteOrderMark));
/// assert_eq!(class('\u{200D}'), Some(Class::DefaultIgnorable));
/// assert_eq!(class('\u{2065}'), Some(Class::Unassigned));
/// ```
#[inline]
pub fn class(c: char) -> Option<Class> {
    match c {
        ' '..='~' => None,
        '\0'..='\x1F' => Some(Class::C0Control),
        // Unified ideographs and Hangul syllables: too many and too common to look up each; a test walks them.
        '\u{4E00}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7A3}' => None,
        _ => class_beyond_ascii(c),
    }
}

fn class_beyond_ascii(c: char) -> Option<Class> {
    use GeneralCategory as Gc;
    match CodePointMapData::<Gc>::new().get(c) {
        Gc::Control if c == '\x7F' => Some(Class::Delete),
        Gc::Control => Some(Class::C1Control),
        Gc::LineSeparator | Gc::ParagraphSeparator => Some(Class::LineSeparator),
        Gc::SpaceSeparator => Some(Class::NonAsciiSpace),
        Gc::PrivateUse if ('\u{F001}'..='\u{F029}').contains(&c) => Some(Class::SmbPrivateUse),
        Gc::PrivateUse => Some(Class::PrivateUse),
        Gc::OtherSymbol if c == char::REPLACEMENT_CHARACTER => Some(Class::ReplacementCharacter),
        Gc::Unassigned if is_noncharacter(c) => Some(Class::Noncharacter),
        Gc::Unassigned if is_tag(c) => Some(Class::TagCharacter),
        Gc::Unassigned => Some(Class::Unassigned),
        Gc::Format => class_of_format(c),
        // No other category has a default-ignorable code point, and no letter below the first Hangul filler or mark
        // below the grapheme joiner is one: that spares most scripts the search. A test walks them all.
        Gc::OtherLetter if c >= '\u{115F}' && is_default_ignorable(c) => Some(Class::DefaultIgnorable),
        Gc::NonspacingMark if c >= '\u{34F}' && is_default_ignorable(c) => Some(Class::DefaultIgnorable),
        _ => None,
    }
}

fn class_of_format(c: char) -> Option<Class> {
    if c == '\u{FEFF}' {
        Some(Class::ByteOrderMark)
    } else if is_tag(c) {
        Some(Class::TagCharacter)
    } else if CodePointSetData::new::<BidiControl>().contains(c) {
        Some(Class::BidiControl)
    } else if is_default_ignorable(c) {
        Some(Class::DefaultIgnorable)
    } else {
        None
    }
}

fn is_tag(c: char) -> bool {
    ('\u{E0000}'..='\u{E007F}').contains(&c)
}

fn is_noncharacter(c: char) -> bool {
    CodePointSetData::new::<NoncharacterCodePoint>().contains(c)
}

/// Whether a reader sees nothing of `c` alone: a control, or a code point that is invisible where it is not supported
/// (Default_Ignorable_Code_Point), such as joiners, variation selectors and tags.
pub fn is_invisible(c: char) -> bool {
    c.is_control() || is_default_ignorable(c)
}

pub(crate) fn is_default_ignorable(c: char) -> bool {
    CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(c)
}

/// The character that an SMB client replaced by `c`, one of U+F001..U+F029: a control, a character that Windows
/// reserves, or the space or dot at the end of a name. Source: Linux fs/smb/client/cifs_unicode.h (the SFM map).
///
/// ```
/// use namegate_core::name::scalar::meant_by_smb;
/// assert_eq!(meant_by_smb('\u{F022}'), Some(':'));
/// assert_eq!(meant_by_smb('\u{F00A}'), Some('\n'));
/// assert_eq!(meant_by_smb('\u{F02A}'), None);
/// ```
pub fn meant_by_smb(c: char) -> Option<char> {
    const RESERVED: [char; 10] = ['"', '*', ':', '<', '>', '?', '\\', '|', ' ', '.'];
    match c {
        '\u{F001}'..='\u{F01F}' => char::from_u32(u32::from(c) - 0xF000),
        '\u{F020}'..='\u{F029}' => RESERVED.get(c as usize - 0xF020).copied(),
        _ => None,
    }
}

/// The Unicode name of `c`, or a label in angle brackets if it has none. Needs the feature `names`.
///
/// The table of names may have an older Unicode version than the properties; newer code points get the label
/// `<newer-than-the-names-…>`. Source: The Unicode Standard, section 4.8 (rule NR2 derives the names of ideographs).
///
/// ```
/// use namegate_core::name::scalar::character_name;
/// assert_eq!(character_name('é'), "LATIN SMALL LETTER E WITH ACUTE");
/// assert_eq!(character_name('\n'), "<control-000A>");
/// ```
#[cfg(feature = "names")]
pub fn character_name(c: char) -> String {
    use icu_properties::props::UnifiedIdeograph;
    if let Some(name) = unicode_names2::name(c) {
        return name.to_string();
    }
    let label = match general_category_name(c) {
        "Control" => "control",
        "Private_Use" => "private-use",
        "Unassigned" if is_noncharacter(c) => "noncharacter",
        "Unassigned" => "reserved",
        // The names of ideographs follow from their code points, even where the table of names is older.
        "Other_Letter" if CodePointSetData::new::<UnifiedIdeograph>().contains(c) => {
            return format!("CJK UNIFIED IDEOGRAPH-{:04X}", u32::from(c));
        }
        "Other_Letter" if script_name(c) == "Tangut" => {
            return format!("TANGUT IDEOGRAPH-{:04X}", u32::from(c));
        }
        _ => "newer-than-the-names",
    };
    format!("<{label}-{:04X}>", u32::from(c))
}

/// The long name of the general category of `c`, as in PropertyValueAliases.txt.
///
/// ```
/// assert_eq!(namegate_core::name::scalar::general_category_name('é'), "Lowercase_Letter");
/// assert_eq!(namegate_core::name::scalar::general_category_name('\u{200D}'), "Format");
/// ```
pub fn general_category_name(c: char) -> &'static str {
    let value = CodePointMapData::<GeneralCategory>::new().get(c);
    PropertyNamesLong::<GeneralCategory>::new().get(value).unwrap_or("Unassigned")
}

/// The long name of the script of `c` (property Script, not Script_Extensions).
///
/// ```
/// assert_eq!(namegate_core::name::scalar::script_name('ж'), "Cyrillic");
/// assert_eq!(namegate_core::name::scalar::script_name('1'), "Common");
/// ```
pub fn script_name(c: char) -> &'static str {
    let value = CodePointMapData::<Script>::new().get(c);
    PropertyNamesLong::<Script>::new().get(value).unwrap_or("Unknown")
}

/// The long name of the bidirectional class of `c` (UAX #9, table 4).
///
/// ```
/// assert_eq!(namegate_core::name::scalar::bidi_class_name('a'), "Left_To_Right");
/// assert_eq!(namegate_core::name::scalar::bidi_class_name('\u{202E}'), "Right_To_Left_Override");
/// ```
pub fn bidi_class_name(c: char) -> &'static str {
    let value = CodePointMapData::<BidiClass>::new().get(c);
    PropertyNamesLong::<BidiClass>::new().get(value).unwrap_or("Unknown")
}

#[cfg(test)]
mod tests;
