//! Options of the command line, made from the table of settings.

use std::ffi::OsString;
use std::marker::PhantomData;

use clap::builder::{
    OsStringValueParser, PossibleValue, PossibleValuesParser, TypedValueParser, ValueParser,
};
use clap::error::Result;
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches, ValueHint};
use namegate_settings::{Choices, MountSettings, Setting, SettingKind, SettingPlace, TABLE};

use super::profiles;

/// Which settings a command takes as options.
pub trait SettingGroup: Send + Sync + 'static {
    fn has(setting: &Setting) -> bool;
}

/// The settings of a group that were given on the command line.
#[derive(Clone, Debug, Default)]
pub struct SettingArgs<G>(pub(super) Box<MountSettings>, PhantomData<G>);

/// Every setting that `namegate mount` takes.
#[derive(Clone, Debug, Default)]
pub struct MountGroup;

impl SettingGroup for MountGroup {
    fn has(setting: &Setting) -> bool {
        setting.may_stand(SettingPlace::CommandLine) || setting.may_stand(SettingPlace::Argument)
    }
}

impl<G: SettingGroup> clap::Args for SettingArgs<G> {
    fn augment_args(command: Command) -> Command {
        TABLE.iter().filter(|setting| G::has(setting)).fold(command, |command, setting| {
            let words = setting.words.iter().map(|(word, meaning)| {
                let help = format!("The same as --{}={meaning}", setting.name);
                let arg = Arg::new(*word).long(*word).help(help).action(ArgAction::SetTrue);
                arg.hide(true).conflicts_with(setting.name)
            });
            command.arg(option(setting)).args(words)
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<G: SettingGroup> FromArgMatches for SettingArgs<G> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self> {
        let mut settings = MountSettings::default();
        for setting in TABLE.iter().filter(|setting| G::has(setting)) {
            let values = matches.get_many::<OsString>(setting.name).into_iter().flatten().cloned();
            let meant = setting.words.iter().filter(|(word, _)| matches.get_flag(word));
            for text in values.chain(meant.map(|(_, meaning)| meaning.to_string().into())) {
                let set = settings.set(setting, &text);
                debug_assert!(set.is_ok(), "the parser has read the value of {} before", setting.name);
            }
        }
        Ok(Self(Box::new(settings), PhantomData))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<()> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn option(setting: &'static Setting) -> Arg {
    let arg = Arg::new(setting.name).value_name(setting.value_name).value_parser(parser(setting));
    if setting.may_stand(SettingPlace::Argument) {
        return arg.help(setting.help).value_hint(ValueHint::DirPath);
    }
    let arg = arg.long(setting.name).help(match (setting.default(), setting.default_text) {
        (None, "") => setting.help.to_owned(),
        _ => format!("{} [default: {}]", setting.help, setting.shown_default()),
    });
    let arg = match setting.kind {
        // The first thing that anybody wants to say.
        SettingKind::Profiles => arg.help_heading(None).display_order(1),
        _ if setting.is_policy => arg.help_heading("Policy"),
        _ => arg,
    };
    match setting.kind {
        SettingKind::Flag => {
            let arg = arg.num_args(0..=1).require_equals(true).default_missing_value("true");
            arg.value_name("true|false").hide_possible_values(true)
        }
        SettingKind::Profiles => {
            arg.value_delimiter(',').action(ArgAction::Append).hide_possible_values(true)
        }
        SettingKind::Choice { .. } => match setting.alone {
            Some(word) => {
                arg.ignore_case(true).num_args(0..=1).require_equals(true).default_missing_value(word)
            }
            None => arg.ignore_case(true),
        },
        SettingKind::Path => arg.value_hint(ValueHint::FilePath),
        _ => arg,
    }
}

/// Reads a value and leaves it as text, for [`SettingArgs`].
fn parser(setting: &'static Setting) -> ValueParser {
    let words = |values: Vec<PossibleValue>| PossibleValuesParser::new(values).map(OsString::from).into();
    match setting.kind {
        SettingKind::Flag => {
            words(vec![PossibleValue::new("true").alias("on"), PossibleValue::new("false").alias("off")])
        }
        SettingKind::Choice { words: choices, .. } => {
            words(choices().into_iter().map(|(word, help)| PossibleValue::new(word).help(help)).collect())
        }
        SettingKind::Profiles => words(profiles::words()),
        _ => OsStringValueParser::new()
            .try_map(|text| MountSettings::default().set(setting, &text).map(|()| text))
            .into(),
    }
}

/// Reads the word for a value of a few.
pub(super) fn choice_parser<T: Choices>() -> impl TypedValueParser<Value = T> {
    let words = T::ALL.iter().map(|choice| PossibleValue::new(choice.word).help(choice.help));
    PossibleValuesParser::new(words).try_map(|word| T::from_word(&word).ok_or("not a word for a value"))
}
