use std::num::NonZeroU32;
use std::time::Duration;

use namegate_core::gate::{Existing, IgnoreCase, Mode};
use namegate_core::name::substitutes::KnownMap;
use nix::errno::Errno;

use super::*;
use crate::{CacheMode, LockKeeping, Transport, schema};

const WHOLE: &str = r##"
source = "/srv/share"
mountpoint = "/mnt/share"

[policy]
profiles = ["strict", "windows"]
reserved-characters = "#\n["

[policy.rules]
leading-dash = "warn"

[policy.normalization]
form = "nfc"
on-mismatch = "match"

[policy.limits]
name-bytes = 200

[mount]
mode = "permissive"
substitutes = "catia"
ignore-case = "ascii"
existing = "hide"
errno = "EINVAL"
check-targets = true
entry-timeout = 0.5
attr-timeout = 60
cache = "coherent"
read-only = true
noexec = false
noatime = true
suid = false
dev = false
allow-other = true
sandbox = false
transport = "dev"
passthrough = false
locks = "backing"
survive = true
export = true
idmap = true
require-mount-point = true
require-marker = ".share"
stop-timeout = 30
fsname = "share, of all"

[audit]
file = "/var/log/namegate/share.jsonl"
group = "adm"
log = false
rate = 5
bytes = 5000

[metrics]
textfile = "/var/lib/node_exporter/share.prom"
interval = 5
listen = "[::1]:9101"
"##;

fn errors(text: &str) -> Vec<String> {
    let error = MountFile::parse(text).err().unwrap_or_else(|| panic!("{text} is taken"));
    let place = |m: &ConfigError| m.position.as_ref().map_or((0, 0), |p| (p.line(), p.column()));
    error.errors().iter().map(|m| format!("{}:{} {}", place(m).0, place(m).1, m.message)).collect()
}

#[test]
fn every_key_is_read_and_written() {
    let file = MountFile::parse(WHOLE).unwrap();
    file.check().unwrap();
    let expected = MountSettings {
        source: Some("/srv/share".into()),
        mountpoint: Some("/mnt/share".into()),
        mode: Some(Mode::Permissive),
        substitutes: Some(KnownMap::TO_CATIA),
        ignore_case: Some(Some(IgnoreCase::Ascii)),
        existing: Some(Existing::Hide),
        errno: Some(Some(Errno::EINVAL)),
        check_targets: Some(true),
        entry_timeout: Some(Duration::from_millis(500)),
        attr_timeout: Some(Duration::from_secs(60)),
        cache: Some(CacheMode::Coherent),
        read_only: Some(true),
        noexec: Some(false),
        noatime: Some(true),
        suid: Some(false),
        dev: Some(false),
        allow_other: Some(true),
        sandbox: Some(false),
        transport: Some(Transport::Dev),
        passthrough: Some(false),
        locks: Some(LockKeeping::Backing),
        survive: Some(true),
        export: Some(true),
        idmap: Some(true),
        require_mount_point: Some(true),
        require_marker: Some(".share".into()),
        stop_timeout: Some(Duration::from_secs(30)),
        fsname: Some("share, of all".into()),
        audit: Some("/var/log/namegate/share.jsonl".into()),
        audit_group: Some("adm".into()),
        audit_log: Some(false),
        audit_rate: NonZeroU32::new(5),
        audit_bytes: NonZeroU32::new(5000),
        metrics_textfile: Some("/var/lib/node_exporter/share.prom".into()),
        metrics_interval: Some(Duration::from_secs(5)),
        metrics_listen: Some("[::1]:9101".parse().unwrap()),
        ..MountSettings::default()
    };
    assert_eq!(format!("{:#?}", file.settings), format!("{expected:#?}"));
    let in_file = TABLE.iter().filter(|setting| setting.may_stand(SettingPlace::File));
    let missing: Vec<_> = in_file.filter(|setting| file.settings.get(setting).is_none()).collect();
    assert!(missing.is_empty(), "not in the example: {missing:?}");
    let written = file.to_toml();
    let again = MountFile::parse(&written).unwrap();
    assert_eq!(again.to_toml(), written);
    assert_eq!(format!("{:#?}", again.settings), format!("{expected:#?}"));
    let policy = |config: Option<Config>| config.unwrap().to_toml();
    assert_eq!(policy(again.policy), policy(file.policy));
}

#[test]
fn every_mistake_has_its_place_and_its_nearest_word() {
    let text = "source = \"share\"\nmontpoint = \"/mnt\"\nprofiles = [\"strict\"]\n[policy]\nprofiles = [\"widnows\"]\n\
                [mount]\nmode = \"enforce\"\nexisting = 3\nentry-timeout = -1\nfsname = \"\"\nreadonly = true\n\
                attr-timeout = \"1s\"\nnoexec = 1\n[audit]\nrate = 5_000_000_000\nfile = \"a\"\n[metrics]\nlisten = \"9101\"\n";
    let expected = [
        "1:10 `source` must be an absolute path: it begins with `/`",
        "2:1 unknown key `montpoint`; did you mean `mountpoint`?",
        "3:1 unknown key `profiles`: this key belongs to the table `[policy]`",
        "5:13 unknown profile `widnows`; did you mean `windows`?",
        "7:8 unknown mode `enforce`; did you mean `enforcing`? (one of \"enforcing\", \"permissive\", \"encode\")",
        "8:12 `existing` must be one of \"escape\", \"show\", \"hide\", not an integer",
        "9:17 `entry-timeout` must be a number of seconds, such as 0, 0.5 or 60",
        "10:10 `fsname` must be a text without control characters",
        "11:1 unknown key `readonly`; did you mean `read-only`?",
        "12:16 `attr-timeout` must be a number of seconds, not a string",
        "13:10 `noexec` must be `true` or `false`, not an integer",
        "15:1 `rate` must be a whole number from 1 to 4294967295",
        "16:8 `file` must be an absolute path: it begins with `/`",
        "18:10 `listen` must be an address and a port, such as \"127.0.0.1:9630\"",
    ];
    assert_eq!(errors(text), expected);
}

#[test]
fn what_a_mount_needs_and_the_file_does_not_say_is_named() {
    let check = |text: &str| {
        let error = MountFile::parse(text).unwrap().check().unwrap_err();
        error.errors().iter().map(|m| m.message.clone()).collect::<Vec<_>>()
    };
    let missing = |key: &str| format!("`{key}` is missing: an absolute path");
    assert_eq!(check("[mount]"), [missing("source"), missing("mountpoint")]);
    let parameter = "rule `not-in-form` is on but has no form: set `normalization.form`".to_owned();
    assert_eq!(
        check("source = '/a'\n[policy.rules]\nnot-in-form = 'warn'"),
        [missing("mountpoint"), parameter]
    );
}

/// The properties of an object in the schema, with the path that leads to it.
fn keys_of(schema: &serde_json::Value, path: &str, found: &mut Vec<String>) {
    for (key, value) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}{key}");
        keys_of(value, &format!("{path}."), found);
        found.push(path);
    }
}

#[test]
fn the_schema_knows_the_keys_that_the_reader_knows() {
    let mut in_schema = Vec::new();
    keys_of(&schema(), "", &mut in_schema);
    in_schema.sort();
    let mut asked = reader::keys(|top| {
        read_top(top);
    });
    asked.sort();
    assert_eq!(in_schema, asked);
}

proptest::proptest! {
    /// Pieces of a file that is good, in any order and cut anywhere.
    #[test]
    fn whatever_is_read_is_written_and_read_again_and_mistakes_act_on_no_terminal(
        pieces in proptest::collection::vec((0..WHOLE.len(), 0..120usize, "[\\PC\n]{0,4}"), 0..12),
    ) {
        let mut text = WHOLE.to_owned();
        for (at, len, new) in pieces {
            let start = (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap();
            let end = (start + len..).find(|&at| at >= text.len() || text.is_char_boundary(at)).unwrap().min(text.len());
            text.replace_range(start..end, &new);
        }
        match MountFile::parse(&text) {
            Ok(file) => {
                let written = file.to_toml();
                proptest::prop_assert_eq!(MountFile::parse(&written).unwrap().to_toml(), written);
            }
            Err(error) => {
                let shown = error.in_file("x").to_string();
                let acts = |c: char| c != '\n' && namegate_core::name::display::acts_or_hides(c);
                proptest::prop_assert!(!shown.is_empty() && !shown.chars().any(acts), "{:?}", shown);
            }
        }
    }
}
