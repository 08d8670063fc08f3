//! Every number that a report shows counts the same things in every format.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::Path;

use serde_json::Value;

use crate::trees;
use namegate_testkit::program::{namegate, status, stderr, stdout};

type ByRule = BTreeMap<String, u64>;

/// Scans a tree with every kind of bad name into a file of each format.
fn reports(dir: &Path) {
    let tree = dir.join("tree");
    trees::bad(&tree).unwrap();
    let tree = tree.join("more");
    fs::create_dir(&tree).unwrap();
    for name in
        ["a?b?c?.", "Same", "same", "SAME", "aux", " x", "dot.", "e\u{301}", "\u{e9}", "gnp.\u{202E}exe"]
    {
        File::create(tree.join(name)).unwrap();
    }
    let mut scan = namegate();
    scan.args(["scan", "tree", "--target", "windows,macos,s3", "--profile", "security", "-q"])
        .current_dir(dir);
    for format in ["text", "json", "csv", "sarif", "junit", "html", "parquet"] {
        scan.args(["-o", &format!("{format}:{format}")]);
    }
    let output = scan.output().unwrap();
    assert_eq!(status(&output), 1, "{}", stderr(&output));
}

/// The number at the beginning of a text, as people write it.
fn number(text: &str) -> u64 {
    let digits = text.trim().split(' ').next().unwrap().replace(',', "");
    digits.parse().unwrap_or_else(|_| panic!("no number in {text:?}"))
}

fn by_rule(counts: &Value) -> ByRule {
    let counts = counts.as_object().unwrap().iter();
    counts.map(|(rule, count)| (rule.clone(), count.as_u64().unwrap())).collect()
}

#[test]
fn every_number_of_a_run_is_the_same_in_every_format() {
    let dir = tempfile::tempdir().unwrap();
    reports(dir.path());
    let read = |format: &str| fs::read_to_string(dir.path().join(format)).unwrap();

    // JSON Lines: the summary counts the lines.
    let lines: Vec<Value> = read("json").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let summary = lines.last().unwrap();
    let count = |key: &str| summary[key].as_u64().unwrap_or_else(|| panic!("{key}: {summary}"));
    let names: Vec<&Value> = lines.iter().filter(|line| line["type"] == "finding").collect();
    let (mut violations, mut names_by_rule) = (ByRule::new(), ByRule::new());
    for name in &names {
        let rules = name["violations"].as_array().unwrap().iter().map(|v| v["rule"].as_str().unwrap());
        let rules: Vec<String> = rules.map(str::to_owned).collect();
        rules.iter().for_each(|rule| *violations.entry(rule.clone()).or_default() += 1);
        let distinct: BTreeSet<&String> = rules.iter().collect();
        distinct.into_iter().for_each(|rule| *names_by_rule.entry(rule.clone()).or_default() += 1);
    }
    assert_eq!(
        (count("findings"), count("violation_count")),
        (names.len() as u64, violations.values().sum())
    );
    assert_eq!(by_rule(&summary["violations_by_rule"]), violations);
    assert_eq!(by_rule(&summary["names_by_rule"]), names_by_rule);
    assert!(violations != names_by_rule, "a name breaks a rule twice");
    let with = |verdict: &str| names.iter().filter(|name| name["verdict"] == verdict).count() as u64;
    assert_eq!((count("rejected"), count("warned")), (with("reject"), with("warn")));
    assert_eq!(count("collisions"), lines.iter().filter(|line| line["type"] == "collision").count() as u64);

    // Text.
    let text = read("text");
    let head = text.lines().find(|line| line.contains(" names with findings among ")).unwrap();
    let parts: Vec<u64> = head
        .split_once(" (")
        .map(|(counts, rest)| {
            let after = rest.rsplit_once("): ").unwrap().1;
            counts
                .split(" among ")
                .flat_map(|part| part.split(" in "))
                .chain(after.split(", "))
                .map(number)
                .collect()
        })
        .unwrap();
    assert_eq!(parts, ["findings", "names", "directories", "rejected", "warned"].map(count), "{head}");
    let concerns = text.lines().filter_map(|line| line.strip_suffix(" violations")?.split_once(", "));
    assert_eq!(concerns.map(|(_, sum)| number(sum)).sum::<u64>(), count("violation_count"));
    let from_head = &text[text.find(head).unwrap()..];
    let (counts, tables) = from_head.split_once("\n\n").unwrap();
    let shown: ByRule = counts
        .lines()
        .filter(|line| line.starts_with("     "))
        .map(|line| (line.split_whitespace().nth(1).unwrap().to_owned(), number(line)))
        .collect();
    assert_eq!(shown, violations);
    let cells = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let (readiness, rest) = tables.split_once("\n\nnames by rule").unwrap();
    let targets = summary["targets"].as_array().unwrap();
    for (line, target) in readiness.lines().skip(1).zip(targets) {
        let columns = ["ready", "refused", "changed", "merged", "path_too_long", "warned"];
        let expected: Vec<String> = columns.iter().map(|column| target[column].to_string()).collect();
        assert_eq!(cells(line)[1..7], expected, "{line}");
        let sum: u64 = columns.iter().map(|column| target[column].as_u64().unwrap()).sum();
        assert_eq!(sum, count("names"));
    }
    let (by_target, verdict) = rest.split_once("\n\n").unwrap();
    for line in by_target.lines().skip(1).map(cells) {
        for (cell, target) in line[1..].iter().zip(targets) {
            let expected = target["names_by_rule"].get(&line[0]).map_or("-".to_owned(), Value::to_string);
            assert_eq!(*cell, expected, "{line:?}");
        }
    }
    let arrive = verdict.rsplit_once(": ").unwrap().1;
    assert_eq!(number(arrive), count("lost_or_changed"), "{verdict}");

    // Formats with the summary of JSON.
    let html = read("html");
    let run = html.split_once("id=\"run\">").unwrap().1.split_once("</script>").unwrap().0;
    let run: Value = serde_json::from_str(run).unwrap();
    assert_eq!((&run["summary"], run["rows"].as_u64().unwrap()), (summary, count("findings")));
    for rule in run["rules"].as_array().unwrap() {
        let name = rule["name"].as_str().unwrap();
        let expected = |counts: &ByRule| counts.get(name).copied().unwrap_or_default();
        assert_eq!(rule["violations"], expected(&violations), "{name}");
        assert_eq!(rule["names"], expected(&names_by_rule), "{name}");
    }
    let sarif: Value = serde_json::from_str(&read("sarif")).unwrap();
    let run = &sarif["runs"][0];
    assert_eq!(&run["properties"]["summary"], summary);
    assert_eq!(run["results"].as_array().unwrap().len() as u64, count("violation_count"));
    let again = namegate().current_dir(dir.path()).args(["report", "parquet", "--json"]).output().unwrap();
    assert_eq!(&serde_json::from_str::<Value>(stdout(&again).lines().last().unwrap()).unwrap(), summary);

    // Formats with rows.
    let csv = read("csv");
    let mut table = csv::Reader::from_reader(csv.as_bytes());
    let rows: Vec<csv::StringRecord> = table.records().map(Result::unwrap).collect();
    let paths: BTreeSet<&str> = rows.iter().map(|row| &row[1]).collect();
    assert_eq!((rows.len() as u64, paths.len() as u64), (count("violation_count"), count("findings")));
    let junit = read("junit");
    assert_eq!(junit.matches("<testcase ").count() as u64, count("findings"));

    // Counts instead of findings.
    let args = [
        "scan",
        "tree",
        "--target",
        "windows,macos,s3",
        "--profile",
        "security",
        "--summary-by",
        "rule",
        "--json",
    ];
    let counted = namegate().current_dir(dir.path()).args(args).output().unwrap();
    let rows = stdout(&counted).lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let rows: Vec<Value> = rows.filter(|row| row["type"] == "count").collect();
    let column = |of: &str| -> ByRule {
        rows.iter().map(|row| (row["rule"].as_str().unwrap().to_owned(), row[of].as_u64().unwrap())).collect()
    };
    assert_eq!((column("violations"), column("names")), (violations, names_by_rule));
}
