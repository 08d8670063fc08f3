//! A scan, a list, a plan and the audit log of a mount report the same violations for a directory.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

use data_encoding::HEXLOWER;
use serde_json::Value;

use namegate_testkit::mounted::{TestMount, can_mount, prepare};
use namegate_testkit::wait_until;

/// Names with violations of many kinds, and names that they collide with or would be repaired to.
const NAMES: [&[u8]; 26] = [
    b"plain.txt",
    b"Readme.md",
    b"README.md",
    b"a:b",
    b"a_b",
    b"A_B_2",
    b"con",
    b"aux.txt",
    b"trailing.",
    b"trailing ",
    b" leading",
    b"-dash",
    b"~tilde",
    b"tab\there",
    b"new\nline",
    b"caf\xE9",
    b"over\xC0\xAFlong",
    b"half\xED\xA0\x80",
    "e\u{301}".as_bytes(),
    "\u{E9}".as_bytes(),
    "zero\u{200B}width".as_bytes(),
    "right\u{202E}left".as_bytes(),
    "p\u{430}ypal".as_bytes(),
    "paypal".as_bytes(),
    "\u{FEFF}bom".as_bytes(),
    "\u{F022}mapped".as_bytes(),
];

/// The violations of a name: the rule, and whether it is an error.
type Violations = BTreeSet<(String, bool)>;

/// The findings of a report by name: violations and suggested name.
type Findings = BTreeMap<Vec<u8>, (Violations, Option<String>)>;

/// Runs the program with `args` and this standard input. Returns its lines of JSON.
fn lines(args: &[&OsStr], input: &[u8]) -> Vec<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_namegate"));
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn bytes(line: &Value, field: &str) -> Vec<u8> {
    HEXLOWER.decode(line[field].as_str().unwrap().as_bytes()).unwrap()
}

fn findings(args: &[&OsStr], input: &[u8]) -> Findings {
    let found = lines(args, input).into_iter().filter(|line| line["type"] == "finding");
    found
        .map(|line| {
            let violations = line["violations"].as_array().unwrap().iter();
            let violation =
                |v: &Value| (v["rule"].as_str().unwrap().to_owned(), v["severity"].as_str() == Some("error"));
            let repair = line["repair"].as_str().map(str::to_owned);
            (bytes(&line, "name_hex"), (violations.map(violation).collect(), repair))
        })
        .collect()
}

fn is_collision(rule: &str) -> bool {
    rule.starts_with("collision-")
}

/// The rules for which a plan renames: not for look-alikes, and not for collisions that are no errors.
fn rules(violations: &Violations) -> BTreeSet<&str> {
    violations.iter().map(|(rule, _)| &**rule).filter(|rule| *rule != "collision-confusable").collect()
}

/// Compares a plan with the findings of a scan.
fn compare_plan(plan: &[Value], found: &Findings, what: &str) {
    let mut planned = BTreeSet::new();
    for line in plan.iter().filter(|line| matches!(line["type"].as_str(), Some("rename" | "skipped"))) {
        let name = match line["old_hex"].is_string() {
            true => bytes(line, "old_hex"),
            false => bytes(line, "name_hex"),
        };
        let shown = name.escape_ascii();
        let (violations, repair) =
            found.get(&name).unwrap_or_else(|| panic!("{what}: only planned: {shown}"));
        let reasons: BTreeSet<&str> =
            line["reasons"].as_array().unwrap().iter().map(|reason| reason.as_str().unwrap()).collect();
        assert_eq!(reasons, rules(violations), "{what}: {shown}");
        // A plan chooses the encoding of names that are not UTF-8 for the whole tree.
        if std::str::from_utf8(&name).is_ok() && line["type"] == "rename" {
            assert_eq!(line["new"].as_str(), repair.as_deref(), "{what}: {shown}");
        }
        planned.insert(name);
    }
    for (name, (violations, _)) in found {
        let must_change = violations.iter().any(|(rule, is_error)| *is_error && !is_collision(rule));
        assert!(!must_change || planned.contains(name), "{what}: not planned: {}", name.escape_ascii());
    }
    let suggested = |name: &Vec<u8>| found[name].1.is_some();
    let forgotten: Vec<_> = found.keys().filter(|name| suggested(name) && !planned.contains(*name)).collect();
    assert!(forgotten.is_empty(), "{what}: suggested and not planned: {forgotten:?}");
}

/// Compares the refusals of a mount with the findings of a scan.
fn compare_refusals(config: &Path, profile: &str, found: &Findings) {
    let dir = prepare();
    let log = dir.path().join("audit");
    let files = [config, &log].map(|file| file.to_str().unwrap());
    let args = ["--config", files[0], "--audit", files[1], "--audit-rate", "100000", "--audit-log=off"];
    let mounted = TestMount::of(dir, |dir| (dir.join("backing"), dir.join("mnt")), &args);
    let refused: BTreeSet<&[u8]> = NAMES
        .into_iter()
        .filter(|name| fs::File::create_new(mounted.mnt().join(OsStr::from_bytes(name))).is_err())
        .collect();
    let records = || fs::read_to_string(&log).unwrap_or_default();
    wait_until("the last record", || records().lines().count() >= refused.len());
    let recorded: BTreeMap<Vec<u8>, String> = records()
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|record| (bytes(&record, "name_hex"), record["rule"].as_str().unwrap().to_owned()))
        .collect();
    for name in NAMES {
        let errors: BTreeSet<&str> = found.get(name).map_or_else(BTreeSet::new, |(violations, _)| {
            let errors = violations.iter().filter(|(rule, is_error)| *is_error && !is_collision(rule));
            errors.map(|(rule, _)| &**rule).collect()
        });
        let (shown, rule) = (name.escape_ascii(), recorded.get(name));
        assert_eq!(refused.contains(name), !errors.is_empty(), "{profile}: {shown}: {errors:?}");
        assert!(rule.is_none_or(|rule| errors.contains(&**rule)), "{profile}: {shown}: {rule:?}, {errors:?}");
        assert_eq!(rule.is_some(), refused.contains(name), "{profile}: {shown}");
    }
}

/// The arguments `words`, followed by the policy of the file `config`.
fn by<'w>(config: &'w OsStr, words: &[&'w str]) -> Vec<&'w OsStr> {
    let words = words.iter().map(|word| OsStr::new(*word));
    words.chain([OsStr::new("--config"), config]).collect()
}

/// Whether `name` matches one of the globs, which have at most a final `*`.
fn is_excluded(exclude: &[&str], name: &[u8]) -> bool {
    exclude.iter().any(|glob| match glob.strip_suffix('*') {
        Some(start) => name.starts_with(start.as_bytes()),
        None => name == glob.as_bytes(),
    })
}

#[test]
fn scan_list_plan_and_mount_give_one_answer() {
    let (dir, config) = (tempfile::tempdir().unwrap(), tempfile::NamedTempFile::new().unwrap());
    for name in NAMES {
        fs::write(dir.path().join(OsStr::from_bytes(name)), "").unwrap();
    }
    let (tree, policy) = (dir.path().as_os_str(), config.path().as_os_str());
    let can_mount = can_mount();
    let mut compared = 0;
    for profile in ["strict", "security", "windows", "macos", "sharepoint", "portable"] {
        // A plan enables `mojibake` by itself.
        let text = format!("profiles = [{profile:?}]\n[rules]\nmojibake = \"warn\"\n");
        fs::write(config.path(), text).unwrap();
        for exclude in [&[][..], &["README.md"], &["e\u{301}", "a_b"], &["caf*", "con"]] {
            let what = format!("{profile}, without {exclude:?}");
            let excluded = exclude.iter().flat_map(|glob| ["--exclude", glob]).map(OsStr::new);
            let below: Vec<&OsStr> = excluded.chain([tree]).collect();

            let scanned = findings(&[by(policy, &["scan", "--format", "json"]), below.clone()].concat(), b"");

            let listed = NAMES.into_iter().filter(|name| !is_excluded(exclude, name));
            let listed: Vec<u8> = listed.flat_map(|name| [name, b"\0"].concat()).collect();
            let mut from_list =
                findings(&by(policy, &["scan", "--format", "json", "--list", "-", "-0"]), &listed);
            let mut expected = scanned.clone();
            // SharePoint refuses a tilde in front of a folder. A list does not know what the name is of, and warns.
            if profile == "sharepoint" {
                expected.remove(&b"~tilde"[..]);
                let warned = from_list.remove(&b"~tilde"[..]);
                assert!(
                    warned.is_some_and(|(rules, _)| rules.iter().all(|(_, is_error)| !is_error)),
                    "{what}"
                );
            }
            // A list does not know excluded names, so it may suggest a name that is in use.
            if !exclude.is_empty() {
                from_list.values_mut().chain(expected.values_mut()).for_each(|(_, repair)| *repair = None);
            }
            assert_eq!(from_list, expected, "{what}");

            let plan = lines(&[by(policy, &["fix", "plan"]), below].concat(), b"");
            compare_plan(&plan, &scanned, &what);
            compared += scanned.len();
            if exclude.is_empty() && can_mount {
                compare_refusals(config.path(), profile, &scanned);
            }
        }
    }
    assert!(compared > 200, "{compared}");
}
