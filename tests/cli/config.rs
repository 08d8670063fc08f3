//! `namegate config`, and `--config` with a mount configuration.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use namegate_testkit::program::{run, status, stderr, stdout};

const WHOLE: &str = "\
source = \"/srv/share\"
mountpoint = \"/mnt/share\"

[policy]
profiles = [\"strict\", \"windows\"]
reserved-characters = \"#\"
reserved-names = [\"Thumbs.db\"]
[policy.rules]
leading-dash = \"warn\"
[policy.normalization]
form = \"nfc\"
on-mismatch = \"match\"
[policy.limits]
name-bytes = 200

[mount]
mode = \"permissive\"
existing = \"hide\"
errno = \"EINVAL\"
check-targets = true
entry-timeout = 0.5
attr-timeout = 60
read-only = true
fsname = \"share\"

[audit]
file = \"/var/log/namegate/share.jsonl\"
rate = 5
";

fn schema() -> Value {
    let output = run(["config", "schema"]);
    assert_eq!(status(&output), 0);
    serde_json::from_str(stdout(&output)).unwrap()
}

/// Holds that the file is this text. With `NAMEGATE_UPDATE=1` it becomes the text.
fn holds(path: &Path, text: &str) {
    if std::env::var_os("NAMEGATE_UPDATE").is_some() {
        fs::write(path, text).unwrap();
    }
    let file = path.display();
    assert!(
        fs::read_to_string(path).unwrap() == text,
        "{file} is outdated: `NAMEGATE_UPDATE=1 cargo test --test cli config` writes it"
    );
}

#[test]
fn the_tables_of_the_settings_are_the_documented_ones() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/CONFIG.md");
    let document = fs::read_to_string(&path).unwrap();
    let (before, rest) = document.split_once("<!-- settings").expect("a marker");
    let (remark, rest) = rest.split_once("-->\n").expect("the end of the marker");
    let (_, after) = rest.split_once("<!-- end of settings -->").expect("a marker");
    let tables = namegate_settings::markdown();
    holds(&path, &format!("{before}<!-- settings{remark}-->\n\n{tables}\n<!-- end of settings -->{after}"));
}

#[test]
fn the_published_schema_is_the_one_that_is_printed() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema/config.schema.json");
    holds(&path, stdout(&run(["config", "schema"])));
}

/// What the schema says of a file, and what `config check` says.
fn checked(schema: &jsonschema::Validator, dir: &Path, text: &str) -> (bool, bool) {
    let value: toml::Table = text.parse().unwrap();
    let file = dir.join("instance.toml");
    fs::write(&file, text).unwrap();
    let output = run(["config".as_ref(), "check".as_ref(), file.as_os_str()]);
    (schema.is_valid(&serde_json::to_value(value).unwrap()), status(&output) == 0)
}

#[test]
fn the_schema_and_the_reader_take_and_refuse_the_same_files() {
    let dir = tempfile::tempdir().unwrap();
    let schema = jsonschema::validator_for(&schema()).unwrap();
    assert_eq!(checked(&schema, dir.path(), WHOLE), (true, true));
    assert_eq!(checked(&schema, dir.path(), "source = '/a'\nmountpoint = '/b'"), (true, true));
    for (word, wrong) in [
        ("\"/srv/share\"", "\"srv/share\""),
        ("\"/mnt/share\"", "3"),
        ("mountpoint", "montpoint"),
        ("[policy]", "[policies]"),
        ("\"windows\"", "\"widnows\""),
        ("\"#\"", "\"#/\""),
        ("\"Thumbs.db\"", "\"\""),
        ("leading-dash", "leading-dashes"),
        ("\"warn\"", "\"warning\""),
        ("leading-dash = \"warn\"", "overlong = \"off\""),
        ("\"nfc\"", "\"NFC\""),
        ("form = \"nfc\"", ""),
        ("name-bytes = 200", "name-bytes = 0"),
        ("name-bytes = 200", "name-byte = 200"),
        ("\"permissive\"", "\"lenient\""),
        ("\"hide\"", "true"),
        ("\"EINVAL\"", "\"ENOENT\""),
        ("check-targets = true", "check-targets = 1"),
        ("0.5", "-0.5"),
        ("0.5", "\"1s\""),
        ("read-only", "readonly"),
        ("\"share\"\n", "\"\"\n"),
        ("/var/log", "var/log"),
        ("rate = 5", "rate = 0"),
        ("rate = 5", "rate = 4294967296"),
    ] {
        let text = WHOLE.replacen(word, wrong, 1);
        assert_ne!(text, WHOLE, "{word}");
        assert_eq!(checked(&schema, dir.path(), &text), (false, false), "{wrong}");
    }
}

/// One function decides for both, so that no configuration is called valid with which nothing can be mounted.
#[test]
fn what_a_mount_refuses_is_no_valid_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("share.toml");
    let place = |name: &str| dir.path().join(name).display().to_string();
    fs::create_dir_all(place("source/inside")).unwrap();
    fs::create_dir(place("mnt")).unwrap();
    let mnt = place("mnt");
    for (mountpoint, tables, why) in [
        ("mnt", "mount = { survive = true, locks = \"backing\" }", "--survive needs --locks kernel"),
        (
            "mnt",
            "mount = { survive = true, transport = \"uring\" }",
            "--survive needs --transport dev or auto",
        ),
        ("mnt", "mount = { export = true, transport = \"fuser\" }", "--export needs --transport dev"),
        ("mnt", "mount = { locks = \"backing\", transport = \"fuser\" }", "--locks backing needs"),
        ("mnt", "mount.require-marker = \"a/b\"", "not the name of an entry"),
        ("mnt", "audit.group = \"no such group\"", "there is no such group"),
        ("mnt", &format!("audit.file = \"{mnt}/audit\""), "must not be in the mount"),
        ("mnt", &format!("metrics.textfile = \"{mnt}/x.prom\""), "must not be in the mount"),
        ("source/inside", "", "which lies inside it"),
    ] {
        let (source, mountpoint) = (place("source"), place(mountpoint));
        fs::write(&path, format!("source = {source:?}\nmountpoint = {mountpoint:?}\n{tables}\n")).unwrap();
        let file = path.to_str().unwrap();
        for args in [&["config", "check", file][..], &["mount", "--check", "--config", file]] {
            let output = run(args);
            let said = format!("{}{}", stdout(&output), stderr(&output));
            assert!(status(&output) == 2 && said.contains(why), "{args:?}: {said}");
        }
    }
}

#[test]
fn what_is_shown_is_a_mount_configuration_that_says_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    fs::write(file("a.toml"), WHOLE).unwrap();
    let first = run(["config", "show", &file("a.toml")]);
    assert_eq!(status(&first), 0, "{}", stderr(&first));
    fs::write(file("b.toml"), stdout(&first)).unwrap();
    let second = run(["config", "show", &file("b.toml")]);
    assert_eq!(stdout(&second), stdout(&first));
    assert!(stdout(&first).contains("noexec = false"), "defaults are shown");
}

#[test]
fn every_mistake_of_a_file_is_told_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("share.toml");
    let file = path.to_str().unwrap();
    fs::write(&path, "source = \"srv\"\n[mount]\nmode = \"enforce\"\n").unwrap();
    let output = run(["config", "check", file]);
    assert_eq!(status(&output), 2);
    let said = stdout(&output);
    for expected in
        ["share.toml:1:10: `source` must be an absolute path", "share.toml:3:8: unknown mode `enforce`"]
    {
        assert!(said.contains(expected), "{said}");
    }
    let refused = run(["mount", "--config", file]);
    assert_eq!((status(&refused), stdout(&refused)), (2, ""));
    assert!(stderr(&refused).contains("share.toml:3:8: unknown mode `enforce`"));
    fs::write(&path, "[mount]\nmode = \"enforcing\"\n").unwrap();
    let output = run(["config", "check", file]);
    assert!(stdout(&output).contains("`source` is missing"), "{}", stdout(&output));
    let refused = run(["mount", "--config", file]);
    assert!(stderr(&refused).contains("share.toml: `source` is missing, on the command line too"));
    let refused = run(["mount"]);
    assert!(status(&refused) == 2 && stderr(&refused).contains("no source is given"), "{}", stderr(&refused));
    // A name is one of a known place, not of the working directory.
    let refused = run(["mount", "--config", "no-such-instance"]);
    assert!(
        stderr(&refused).contains("namegate/no-such-instance.toml: cannot be read"),
        "{}",
        stderr(&refused)
    );
}

#[test]
fn every_command_that_checks_takes_the_policy_of_a_mount_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("share.toml");
    let file = path.to_str().unwrap();
    let profiles = || {
        let output = run(["policy", "show", "--format", "json", "--config", file]);
        let policy: Value = serde_json::from_str(stdout(&output)).unwrap();
        policy["profiles"].clone()
    };
    fs::write(&path, "source = \"/a\"\n[policy]\nprofiles = [\"windows\"]\n").unwrap();
    assert_eq!(profiles(), json!(["windows"]));
    fs::write(&path, "source = \"/a\"\n").unwrap();
    assert_eq!(profiles(), json!(["utf8"]), "as the mount checks");
}

#[test]
fn the_documented_example_is_a_mount_configuration_and_every_key_is_documented() {
    let document = include_str!("../../docs/CONFIG.md");
    let (_, of_instances) = document.split_once("# Mount configurations\n").unwrap();
    let example = of_instances.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let schema = schema();
    let validator = jsonschema::validator_for(&schema).unwrap();
    assert_eq!(checked(&validator, dir.path(), example), (true, true));
    for (table, of_table) in schema["properties"].as_object().unwrap() {
        let keys = of_table["properties"].as_object().filter(|_| table != "policy");
        let keys = keys.map_or(vec![table], |keys| keys.keys().collect());
        for key in keys {
            assert!(
                of_instances.contains(&format!("`{key}`")) || table == "policy",
                "{table}.{key} is not documented"
            );
        }
    }
}

/// The status and the message of a mount that comes to nothing.
fn config_of(args: &[&str]) -> (i32, String) {
    let output = run(args.iter().copied());
    (status(&output), stderr(&output).to_owned())
}

#[test]
fn settings_are_options_of_the_mount_where_the_table_says_so_and_a_flag_of_a_file_can_be_unset() {
    use namegate_settings::{SettingKind, SettingPlace, TABLE};
    let help = run(["mount", "--help"]);
    for setting in TABLE {
        let is_shown = stdout(&help).contains(&format!("--{}", setting.name));
        let is_option =
            setting.may_stand(SettingPlace::CommandLine) || setting.may_stand(SettingPlace::ProgramOption);
        assert_eq!(is_shown, is_option, "{setting:?}");
    }
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    fs::create_dir_all(path("source/inside")).unwrap();
    // A mount that is refused after everything has been read.
    let text = format!("source = {:?}\nmountpoint = {:?}\n", path("source"), path("source/inside"));
    for setting in TABLE.iter().filter(|setting| matches!(setting.kind, SettingKind::Flag)) {
        let option = format!("--{}", setting.name);
        if !setting.may_stand(SettingPlace::File) {
            continue;
        }
        let (table, key) = setting.key;
        fs::write(path("m.toml"), format!("{text}[{table}]\n{key} = true\n")).unwrap();
        for option in
            [option.clone(), format!("{option}=true"), format!("{option}=false"), format!("{option}=off")]
        {
            let (code, why) = config_of(&["mount", "--config", &path("m.toml"), &option]);
            assert!(
                code == 2 && (why.contains("lies inside it") || why.contains("for root")),
                "{option}: {why}"
            );
        }
        let (code, why) = config_of(&["mount", "--config", &path("m.toml"), &format!("{option}=maybe")]);
        assert!(code == 2 && why.contains("invalid value 'maybe'"), "{why}");
    }
}
