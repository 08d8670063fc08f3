//! Every output in JSON fits its schema in `schema/`, and has no field that the schema does not name.
//!
//! Readers must ignore fields that they do not know, so the schemas of outputs allow more fields. Here they allow none: a field
//! that nobody has documented fails. What cannot be made on this machine prints SKIPPED.

#![allow(clippy::unwrap_used, reason = "a test ends where something is wrong")]

mod commands;
mod mounts;
mod published;
mod repairs;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use namegate_testkit::program::{run, stderr, stdout};

use crate::published::{Published, folder};

/// The commands with `--json`, and the schema of what each writes then.
const COMMANDS: &[(&str, &str)] = &[
    ("check", "findings"),
    ("doctor", "doctor"),
    ("explain", "explanation"),
    ("fix plan", "plan"),
    ("fix status", "fix-status"),
    ("guard check", "doctor"),
    ("guard events", "audit"),
    ("guard status", "guard-status"),
    ("list", "instance"),
    ("policy show", "policy"),
    ("probe", "probe"),
    ("profiles", "profile"),
    ("report", "findings"),
    ("rules", "rule"),
    ("scan", "findings"),
    ("status", "status"),
    ("verify", "verify"),
    ("watch", "audit"),
];

/// What the program reads too. It must not follow half of an instruction, so an unknown field there is an error.
const CLOSED: &[&str] = &["config", "decisions", "journal", "plan"];

/// The schemas, and what was compared with them.
struct Outputs {
    schemas: BTreeMap<String, Published>,
    commands: BTreeSet<&'static str>,
    /// An object of each kind, by schema and kind.
    examples: BTreeMap<(String, String), Value>,
    errors: Vec<String>,
    /// What could not be made here: schemas, kinds and commands.
    skipped: BTreeSet<&'static str>,
}

impl Outputs {
    fn new() -> Self {
        let files = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name());
        let names = files.map(|file| file.to_str().unwrap().strip_suffix(".schema.json").unwrap().to_owned());
        Self {
            schemas: names.map(|name| (name.clone(), Published::named(&name))).collect(),
            commands: BTreeSet::new(),
            examples: BTreeMap::new(),
            errors: Vec::new(),
            skipped: BTreeSet::new(),
        }
    }

    /// Says aloud that `what` cannot be made here.
    fn skip(&mut self, what: &'static str, why: &str) {
        println!("SKIPPED: {what}: {why}");
        self.skipped.insert(what);
    }

    /// Compares each line with the schema.
    fn check(&mut self, schema: &str, text: &str) {
        for line in text.lines() {
            let value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            self.check_value(schema, value);
        }
    }

    fn check_value(&mut self, schema: &str, value: Value) {
        match self.schemas[schema].kind_of(&value) {
            Ok(kind) => drop(self.examples.insert((schema.to_owned(), kind.to_owned()), value)),
            Err(error) => self.errors.push(format!("{schema}: {error}\n    {value}")),
        }
    }

    /// Runs a command, and compares what it writes with its schema.
    fn run<S: AsRef<OsStr>>(&mut self, command: &str, args: impl IntoIterator<Item = S>) -> Output {
        let words = command.split(' ').map(OsStr::new).map(OsStr::to_owned);
        let args = args.into_iter().map(|arg| arg.as_ref().to_owned());
        let output = run(words.chain(["--json".into()]).chain(args));
        self.check_command(command, &output);
        output
    }

    fn check_command(&mut self, command: &str, output: &Output) {
        assert!(!output.stdout.is_empty(), "{command}: {}", stderr(output));
        let schema = self.note(command);
        self.check(schema, stdout(output));
    }

    /// Records that the output of a command is compared. Returns its schema.
    fn note(&mut self, command: &str) -> &'static str {
        let (command, schema) =
            COMMANDS.iter().find(|(known, _)| *known == command).expect("a row in COMMANDS");
        self.commands.insert(command);
        schema
    }
}

#[test]
fn every_output_fits_its_schema() {
    let mut outputs = Outputs::new();
    commands::check(&mut outputs);
    repairs::check(&mut outputs);
    mounts::check(&mut outputs);
    assert!(outputs.errors.is_empty(), "{}", outputs.errors.join("\n"));
    for (command, _) in COMMANDS {
        let is_known = outputs.commands.contains(command) || outputs.skipped.contains(command);
        assert!(is_known, "no output of `{command}` was compared with its schema");
    }
    for (name, schema) in outputs.schemas.iter().filter(|(name, _)| !outputs.skipped.contains(&***name)) {
        for kind in schema.kinds.keys().filter(|kind| !outputs.skipped.contains(&***kind)) {
            let has_example = outputs.examples.contains_key(&(name.clone(), kind.clone()));
            assert!(
                has_example,
                "no output of the kind `{kind}` was compared with schema/{name}.schema.json"
            );
        }
    }
    a_field_of_a_later_version_is_ignored_in_outputs_alone(&outputs);
}

fn a_field_of_a_later_version_is_ignored_in_outputs_alone(outputs: &Outputs) {
    for ((schema, kind), value) in &outputs.examples {
        let mut later = value.clone();
        later["of_a_later_version"] = 1.into();
        let is_input = CLOSED.contains(&schema.as_str()) || kind == "request";
        assert_eq!(outputs.schemas[schema].open.is_valid(&later), !is_input, "{schema}: {later}");
    }
}

#[test]
fn every_command_with_json_has_a_schema() {
    let dir = tempfile::tempdir().unwrap();
    run(["man".as_ref(), dir.path().as_os_str()]);
    let mut found: Vec<String> = fs::read_dir(dir.path())
        .unwrap()
        .map(|page| page.unwrap().path())
        .filter(|page| fs::read_to_string(page).unwrap().contains("\\-\\-json\\fR"))
        .map(|page| {
            page.file_stem().unwrap().to_str().unwrap().replacen("namegate-", "", 1).replace('-', " ")
        })
        .collect();
    found.sort();
    let known: Vec<&str> = COMMANDS.iter().map(|(command, _)| *command).collect();
    assert_eq!(found, known, "the commands with --json, and those in COMMANDS");
}

#[test]
fn every_schema_says_its_version_and_is_documented() {
    let outputs = Outputs::new();
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let stability = fs::read_to_string(docs.join("STABILITY.md")).unwrap();
    let mut shared: BTreeMap<&String, &Value> = BTreeMap::new();
    for (name, schema) in &outputs.schemas {
        assert!(
            stability.contains(&format!("(../schema/{name}.schema.json)")),
            "{name} is not in STABILITY.md"
        );
        // A configuration is TOML, and written by people.
        if name != "config" {
            let version =
                |kind: &String| schema.text["$defs"][kind]["properties"]["version"]["const"].as_u64();
            let versions: BTreeSet<u64> = schema.kinds.keys().filter_map(version).collect();
            assert_eq!(versions, BTreeSet::from([1]), "{name}");
        }
        for (part, definition) in schema.text["$defs"].as_object().into_iter().flatten() {
            let is_shared = ["base64", "bytes", "confidence", "severity", "time", "metrics", "mode"];
            if is_shared.contains(&part.as_str()) {
                assert_eq!(shared.entry(part).or_insert(definition), &definition, "`{part}` in {name}");
            }
        }
    }
}
