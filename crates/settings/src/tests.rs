//! The table holds everywhere: each setting is accepted where it may stand and refused elsewhere, and means the same.

use std::collections::BTreeSet;

use super::*;

/// A value that is not the default, as it is written on the command line, and in a file.
fn example(setting: &Setting) -> (String, String) {
    let text = match setting.kind {
        SettingKind::Flag => (setting.default() == Some("false".into())).to_string(),
        SettingKind::Choice { words, .. } => words().last().expect("there are words").0.into(),
        SettingKind::Seconds => "2.5".into(),
        SettingKind::Count => "70000".into(),
        SettingKind::Path => format!("/x/{}", setting.name),
        SettingKind::Text => "some-text".into(),
        SettingKind::Address => "127.0.0.1:9630".into(),
        SettingKind::Profiles => "windows".into(),
    };
    let in_file = match setting.kind {
        SettingKind::Flag | SettingKind::Seconds | SettingKind::Count => text.clone(),
        _ => format!("{text:?}"),
    };
    (text, in_file)
}

fn shown(settings: &MountSettings) -> String {
    format!("{settings:#?}")
}

/// What the settings are that the text alone sets.
fn expected(setting: &Setting, text: &str) -> MountSettings {
    let mut expected = MountSettings::default();
    expected.set(setting, text.as_ref()).expect(setting.name);
    expected
}

/// Files and mount options accept a setting where it may stand, and refuse it elsewhere with a reason.
#[test]
fn every_word_says_what_its_long_option_says() {
    for setting in TABLE {
        let (text, in_file) = example(setting);
        let expected = expected(setting, &text);
        assert_ne!(shown(&expected), shown(&MountSettings::default()), "{setting:?}");
        let list = format!("{}={text}", setting.name.replace('-', "_"));
        match MountOptions::parse(&[list.into()], Strictness::Strict) {
            Ok(options) => {
                assert!(setting.may_stand(SettingPlace::MountOption), "{setting:?} is a mount option");
                assert_eq!(shown(&options.settings), shown(&expected));
            }
            Err(why) => {
                assert!(!setting.may_stand(SettingPlace::MountOption), "{why}");
                assert!(why.contains("is not a mount option: "), "{why}");
            }
        }
        let (table, key) = match setting.key {
            (_, "") => ("mount", setting.name),
            key => key,
        };
        let header = if table.is_empty() { String::new() } else { format!("[{table}]\n") };
        match MountFile::parse(&format!("{header}{key} = {in_file}\n")) {
            Ok(file) => {
                assert!(setting.may_stand(SettingPlace::File), "{setting:?} is a key");
                assert_eq!(shown(&file.settings), shown(&expected));
            }
            Err(error) => {
                let why = error.to_string();
                assert!(!setting.may_stand(SettingPlace::File), "{why}");
                assert!(why.contains(setting.elsewhere) && !setting.elsewhere.is_empty(), "{why}");
            }
        }
    }
}

#[test]
fn names_keys_and_words_are_unique_and_defaults_are_valid() {
    let mut names = BTreeSet::new();
    let mut keys = BTreeSet::new();
    for setting in TABLE {
        let all = setting.words.iter().map(|(word, _)| *word).chain([setting.name]);
        all.for_each(|name| assert!(names.insert(name), "{name} twice"));
        assert_eq!(setting.may_stand(SettingPlace::File), !setting.key.1.is_empty(), "{setting:?}");
        assert!(!setting.may_stand(SettingPlace::File) || keys.insert(setting.key), "{setting:?}");
        assert!(setting.words.is_empty() || matches!(setting.kind, SettingKind::Flag), "{setting:?}");
        assert!(
            setting.may_stand(SettingPlace::MountOption) || !setting.may_stand(SettingPlace::Remount),
            "{setting:?}"
        );
        assert!(!setting.may_stand(SettingPlace::Remount) || setting.kernel_flag.is_some(), "{setting:?}");
        if let Some(text) = setting.default() {
            let read = MountSettings::default().followed_by(&expected(setting, &text.to_string_lossy()));
            assert_eq!(read.get(setting), Some(text));
        }
    }
}

#[test]
fn what_comes_later_wins_and_only_what_differs_is_reported() {
    let setting = |name: &str| TABLE.iter().find(|setting| setting.name == name).expect("it exists");
    let mut file = expected(setting("check-targets"), "true");
    file.set(setting("audit-rate"), "5".as_ref()).unwrap();
    let given = expected(setting("check-targets"), "false");
    let both = file.clone().followed_by(&given);
    assert_eq!((both.check_targets, both.audit_rate().get()), (Some(false), 5));
    let nothing = MountSettings::default();
    assert_eq!(nothing.differences(&both, true), Vec::<String>::new(), "false is the default");
    assert_eq!(nothing.differences(&both, false), ["audit-rate: 5 (was 100)"]);
    let timeout = expected(setting("entry-timeout"), "0");
    assert_eq!(nothing.differences(&timeout, true), ["entry-timeout: 0 s (was 1 s)"]);
    let source = expected(setting("fsname"), "x");
    assert_eq!(nothing.differences(&source, false), ["fsname: x (was path of the source)"]);
}

#[test]
fn opposite_flags_of_the_kernel_come_of_every_word_for_them() {
    for setting in TABLE.iter().filter(|setting| setting.kernel_flag.is_some()) {
        let (flag, setter) = setting.kernel_flag.expect("it has one");
        for value in [true, false] {
            let expected = if value == setter { flag } else { MsFlags::empty() };
            let other = flag - expected;
            let words = setting
                .words
                .iter()
                .filter(|(_, meaning)| *meaning == value)
                .map(|(word, _)| (*word).to_owned());
            for word in words.chain([format!("{}={value}", setting.name)]) {
                let options = MountOptions::parse(&[word.clone().into()], Strictness::Strict).expect(&word);
                assert_eq!(options.settings.kernel_flags(other) & flag, expected, "{word}");
            }
        }
    }
}

/// A live setting is in effect as it was read last, any other as it was mounted; the rest has its default.
#[test]
fn the_values_in_effect_are_those_of_the_mount_and_of_its_last_reload() {
    let (mut mounted, mut reloaded) = (MountSettings::default(), MountSettings::default());
    for setting in TABLE {
        let (text, _) = example(setting);
        let (of_now, of_then) = (&mut reloaded, &mut mounted);
        (if setting.is_live { of_now } else { of_then }).set(setting, text.as_ref()).expect(setting.name);
    }
    let (none, some) = (MountSettings::default(), reloaded.values_in_effect(&mounted));
    let defaults = none.values_in_effect(&none);
    for setting in TABLE.iter().filter(|setting| setting.may_stand(SettingPlace::File)) {
        let Some(value) = some.get(setting.name) else {
            assert_eq!(setting.key.0, "", "{setting:?} is missing");
            continue;
        };
        let (_, in_file) = example(setting);
        assert_eq!(value.to_string().trim_end_matches(".0"), in_file.trim_end_matches(".0"), "{setting:?}");
        assert_eq!(defaults[setting.name].is_null(), setting.default().is_none(), "{setting:?}");
    }
    assert_eq!(some.len(), defaults.len());
}
