//! The table of settings as documents: Markdown for `docs/CONFIG.md`, roff for namegate.toml(5).

use std::fmt::Write as _;

use super::file::{TABLES, of_table, to_toml};
use super::{Setting, SettingKind, SettingPlace, TABLE};

/// The tables of settings in `docs/CONFIG.md`.
pub fn markdown() -> String {
    let mut text = String::new();
    for table in std::iter::once("").chain(TABLES) {
        let _ = match table {
            "" => writeln!(text, "### At the top of the file\n"),
            table => writeln!(text, "### `[{table}]`\n"),
        };
        text.push_str("| key | value | default | meaning | option | `-o` | changes with |\n|---|---|---|---|---|---|---|\n");
        for setting in of_table(table) {
            let _ = writeln!(text, "| `{}` {}", setting.key.1, row(setting, true));
        }
        text.push('\n');
    }
    text.push_str("### Only on the command line and in `-o`\n\n| value | default | meaning | option | `-o` | changes with |\n|---|---|---|---|---|---|\n");
    for setting in TABLE.iter().filter(|setting| !setting.may_stand(SettingPlace::File)) {
        let _ = writeln!(text, "{}", row(setting, false).trim_start());
    }
    text
}

/// The columns after the key.
fn row(setting: &Setting, is_in_file: bool) -> String {
    let default = match setting.default() {
        Some(text) if is_in_file => format!("`{}`", to_toml(setting.kind, &text)),
        Some(_) => format!("`{}`", setting.shown_default()),
        None => setting.shown_default(),
    };
    let names =
        |words: Vec<String>| words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    let mount_options = match setting.may_stand(SettingPlace::MountOption) {
        true => names(setting.mount_options()),
        false => String::new(),
    };
    let changes = match (setting.is_live, setting.may_stand(SettingPlace::Remount)) {
        (true, _) => "reload",
        (_, true) => "remount",
        _ => "next mount",
    };
    let help = setting.help.replace('|', "\\|");
    format!(
        "| {} | {default} | {help} | `{}` | {mount_options} | {changes} |",
        values(setting),
        setting.usage()
    )
}

/// The possible values, in Markdown.
fn values(setting: &Setting) -> String {
    match setting.kind {
        SettingKind::Flag => "boolean".into(),
        SettingKind::Choice { words, .. } => {
            words().iter().map(|(word, _)| format!("`{word}`")).collect::<Vec<_>>().join(", ")
        }
        SettingKind::Seconds if setting.minimum > 0.0 => format!("seconds, from {}", setting.minimum),
        SettingKind::Seconds => "seconds, with or without a fraction".into(),
        SettingKind::Count => format!("integer from {}", setting.minimum),
        SettingKind::Path if setting.may_stand(SettingPlace::File) => "absolute path".into(),
        SettingKind::Path => "path or name".into(),
        SettingKind::Text => "string".into(),
        SettingKind::Address => "address and port".into(),
        SettingKind::Profiles => "[profiles](PROFILES.md)".into(),
    }
}

/// The sections of namegate.toml(5) about the tables of settings.
pub fn manual() -> String {
    let mut text = String::new();
    for table in TABLES {
        let _ = writeln!(text, ".SS [{table}]");
        for setting in of_table(table) {
            let _ = writeln!(text, ".TP\n.B {}\n{}.", roff(setting.key.1), roff(setting.help));
            if let SettingKind::Choice { words, .. } = setting.kind {
                let each = words()
                    .into_iter()
                    .map(|(word, help)| format!("\\(dq{}\\(dq: {}", roff(word), roff(help)));
                let _ = writeln!(text, "{}.", each.collect::<Vec<_>>().join("; "));
            }
            let _ = writeln!(text, "Default: {}.", roff(&setting.shown_default()));
        }
    }
    text
}

/// Text as roff shows it.
fn roff(text: &str) -> String {
    let escaped = text.replace('\\', "\\e").replace('-', "\\-");
    match escaped.starts_with(['.', '\'']) {
        true => format!("\\&{escaped}"),
        false => escaped,
    }
}
