//! How the value of a setting is written. Every place of a setting (command line, `-o`, file) hands text to the same parser.

use std::ffi::{OsStr, OsString};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use namegate_core::policy::UnknownWord;
use namegate_core::policy::profile::{self, Profile};

use super::choices::Choices;

/// What the values of a setting look like.
#[derive(Clone, Copy, Debug)]
pub enum SettingKind {
    /// `true` or `false`; the name alone means `true`.
    Flag,
    /// One word of a few.
    Choice {
        /// What a word stands for.
        what: &'static str,
        /// The words, each with its help.
        words: fn() -> Vec<(&'static str, &'static str)>,
    },
    /// A number of seconds, with or without a fraction.
    Seconds,
    /// A whole number of up to 32 bits.
    Count,
    /// A path; absolute in a file.
    Path,
    /// Text that can be shown in a table.
    Text,
    /// An address with a port.
    Address,
    /// Names of profiles, between commas or colons.
    Profiles,
}

impl SettingKind {
    /// What a value has to be, to go on "must be".
    pub(super) fn expected(self, minimum: f64) -> String {
        match self {
            Self::Flag => "`true` or `false`".into(),
            Self::Choice { words, .. } => {
                let words: Vec<&str> = words().into_iter().map(|(word, _)| word).collect();
                format!("one of {}", words.join(", "))
            }
            Self::Seconds if minimum > 0.0 => {
                format!("a number of seconds of at least {minimum}, such as 15")
            }
            Self::Seconds => "a number of seconds, such as 0, 0.5 or 60".into(),
            Self::Count => format!("a whole number from {minimum} to {}", u32::MAX),
            Self::Path => "a path".into(),
            Self::Text => "a text without control characters".into(),
            Self::Address => "an address and a port, such as \"127.0.0.1:9630\"".into(),
            Self::Profiles => "names of profiles".into(),
        }
    }
}

pub(super) trait SettingValue: Clone + Sized {
    /// What such values look like.
    const KIND: SettingKind;

    /// Reads a value.
    ///
    /// # Errors
    /// What is wrong, where that says more than what was expected.
    fn parse(text: &OsStr) -> Result<Self, Option<String>>;

    /// The text that reads back to this value.
    fn to_text(&self) -> OsString;

    /// The number that a minimum applies to.
    fn number(&self) -> f64 {
        f64::INFINITY
    }

    /// What both values mean, of which `later` was given after this one.
    fn followed_by(self, later: Self) -> Self {
        let _ = self;
        later
    }
}

fn from_str<T: std::str::FromStr>(text: &OsStr) -> Result<T, Option<String>> {
    text.to_str().and_then(|text| text.parse().ok()).ok_or(None)
}

impl SettingValue for bool {
    const KIND: SettingKind = SettingKind::Flag;

    fn parse(text: &OsStr) -> Result<Self, Option<String>> {
        match text.to_str() {
            Some("true" | "on") => Ok(true),
            Some("false" | "off") => Ok(false),
            _ => Err(None),
        }
    }

    fn to_text(&self) -> OsString {
        self.to_string().into()
    }
}

impl<T: Choices> SettingValue for T {
    const KIND: SettingKind = SettingKind::Choice {
        what: T::WHAT,
        words: || T::ALL.iter().map(|choice| (choice.word, choice.help)).collect(),
    };

    fn parse(text: &OsStr) -> Result<Self, Option<String>> {
        let word = text.to_string_lossy();
        T::from_word(&word).ok_or_else(|| {
            Some(UnknownWord::new(T::WHAT, &word, T::ALL.iter().map(|choice| choice.word)).to_string())
        })
    }

    fn to_text(&self) -> OsString {
        self.word().into()
    }
}

impl SettingValue for Duration {
    const KIND: SettingKind = SettingKind::Seconds;

    fn parse(text: &OsStr) -> Result<Self, Option<String>> {
        Self::try_from_secs_f64(from_str(text)?).map_err(|_| None)
    }

    fn to_text(&self) -> OsString {
        self.as_secs_f64().to_string().into()
    }

    fn number(&self) -> f64 {
        self.as_secs_f64()
    }
}

macro_rules! counts {
    ($($number:ty),*) => {$(
        impl SettingValue for $number {
            const KIND: SettingKind = SettingKind::Count;

            fn parse(text: &OsStr) -> Result<Self, Option<String>> {
                from_str(text)
            }

            fn to_text(&self) -> OsString {
                self.to_string().into()
            }

            fn number(&self) -> f64 {
                u32::from(*self).into()
            }
        }
    )*};
}
counts!(NonZeroU32, u32);

impl SettingValue for PathBuf {
    const KIND: SettingKind = SettingKind::Path;

    fn parse(text: &OsStr) -> Result<Self, Option<String>> {
        if text.is_empty() { Err(None) } else { Ok(text.into()) }
    }

    fn to_text(&self) -> OsString {
        self.clone().into()
    }
}

impl SettingValue for String {
    const KIND: SettingKind = SettingKind::Text;

    fn parse(text: &OsStr) -> Result<Self, Option<String>> {
        let text = text.to_str().filter(|text| !text.is_empty() && !text.contains(char::is_control));
        text.map(Self::from).ok_or(None)
    }

    fn to_text(&self) -> OsString {
        self.into()
    }
}

impl SettingValue for SocketAddr {
    const KIND: SettingKind = SettingKind::Address;

    /// A port alone is one of this machine.
    fn parse(text: &OsStr) -> Result<Self, Option<String>> {
        from_str(text).or_else(|_| Ok(Self::new(IpAddr::V4(Ipv4Addr::LOCALHOST), from_str(text)?)))
    }

    fn to_text(&self) -> OsString {
        self.to_string().into()
    }
}

impl SettingValue for Vec<&'static Profile> {
    const KIND: SettingKind = SettingKind::Profiles;

    fn parse(text: &OsStr) -> Result<Self, Option<String>> {
        let text = text.to_string_lossy();
        text.split([',', ':'])
            .map(|name| profile::by_name(name).map_err(|unknown| Some(unknown.to_string())))
            .collect()
    }

    fn to_text(&self) -> OsString {
        self.iter().map(|profile| profile.name).collect::<Vec<_>>().join(",").into()
    }

    /// Both apply.
    fn followed_by(self, later: Self) -> Self {
        [self, later].concat()
    }
}
