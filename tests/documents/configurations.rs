//! Checks the blocks of pages that are not commands: configurations, units, lines of fstab, workflows, programs.

use std::fs;
use std::path::Path;
use std::process::Command;

use clap::CommandFactory;
use namegate::cli::Cli;
use namegate_core::policy::config::Config;
use namegate_settings::MountFile;

use super::markdown::{Block, read};

/// What is wrong with a block. A language that nothing checks is wrong, too.
pub fn error(block: &Block) -> Option<String> {
    let text = block.lines.join("\n") + "\n";
    match block.language {
        "toml" => configuration(&text),
        "fstab" => block.lines.iter().find_map(|line| fstab(line)),
        "ini" => unit(&text),
        "yaml" => yaml(&text),
        "python" => python(&text),
        // A documentation test of the crate.
        "rust" => None,
        other => {
            Some(format!("a block is `console`, `sh`, `text` or something that a test checks, not `{other}`"))
        }
    }
}

/// A policy, or the configuration of a mount.
fn configuration(text: &str) -> Option<String> {
    if text.lines().any(|line| line.starts_with("source = ")) {
        return MountFile::parse(text)
            .map_err(|error| error.to_string())
            .and_then(|file| file.check().map_err(|error| error.to_string()))
            .err();
    }
    Config::parse(text).and_then(|config| config.policy()).err().map(|error| error.to_string())
}

/// What is wrong with a line of fstab: mount(8) calls the program with it, and `-f` has it only read.
fn fstab(line: &str) -> Option<String> {
    if line.starts_with('#') {
        return None;
    }
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [_, _, kind, options, _, _] = fields[..] else {
        return Some(format!("{line}: {} fields", fields.len()));
    };
    if kind != "namegate" {
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let helper = dir.path().join("mount.namegate");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_namegate"), &helper).unwrap();
    let output =
        Command::new(helper).arg(dir.path()).arg(dir.path()).args(["-f", "-o", options]).output().unwrap();
    (!output.status.success()).then(|| format!("{line}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// What systemd says to a unit or a drop-in, and the program to its command.
fn unit(text: &str) -> Option<String> {
    for command in text.lines().filter_map(|line| line.strip_prefix("ExecStart=/usr/bin/")) {
        if let Err(error) = Cli::command().try_get_matches_from(command.split_whitespace()) {
            return Some(error.to_string());
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let service = dir.path().join("shown.service");
    let drop_ins = dir.path().join("shown.service.d");
    fs::create_dir(&drop_ins).unwrap();
    fs::write(&service, "[Service]\nExecStart=/bin/true\n").unwrap();
    // The program need not be installed.
    fs::write(drop_ins.join("shown.conf"), text.replace("/usr/bin/namegate", "/bin/true")).unwrap();
    let verify = Command::new("systemd-analyze")
        .args(["verify", "--man=no", "--recursive-errors=no"])
        .arg(&service)
        .output();
    let Ok(output) = verify else {
        println!("SKIPPED: no systemd-analyze");
        return None;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    let of_it = said.lines().find(|line| line.contains("shown.conf"));
    of_it.map(str::to_owned)
}

/// Hooks and inputs that exist, and what Prometheus says to its configuration.
fn yaml(text: &str) -> Option<String> {
    let value = |line: &str, key: &str| {
        line.trim().trim_start_matches("- ").strip_prefix(key).map(|rest| rest.trim().to_owned())
    };
    if text.starts_with("repos:") {
        let hooks = read(".pre-commit-hooks.yaml");
        let mut named = text.lines().filter_map(|line| value(line, "id:"));
        return named.find(|id| !hooks.lines().any(|line| value(line, "id:").as_ref() == Some(id)));
    }
    if text.contains("/namegate@") {
        let action = read("action.yml");
        let inputs = text
            .split("with:")
            .nth(1)
            .unwrap_or_default()
            .lines()
            .filter_map(|line| line.trim().split_once(':'));
        let mut unknown = inputs.filter(|(input, _)| !action.contains(&format!("\n  {input}:\n")));
        return unknown.next().map(|(input, _)| format!("action.yml has no input `{input}`"));
    }
    if text.starts_with("scrape_configs:") {
        return prometheus(text);
    }
    Some("no test knows what this is".to_owned())
}

fn prometheus(text: &str) -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("prometheus.yml");
    fs::write(&file, text).unwrap();
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/prometheus-alerts.yml");
    fs::copy(rules, dir.path().join("namegate-alerts.yml")).unwrap();
    match Command::new("promtool").args(["check", "config"]).arg(&file).output() {
        Ok(output) => {
            (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
        }
        Err(_) => {
            println!("SKIPPED: no promtool");
            None
        }
    }
}

/// What Python says to the syntax, and functions that the package does not have.
fn python(text: &str) -> Option<String> {
    let known = ["__init__.py", "_namegate.pyi", "duckdb.py", "polars.py", "spark.py"]
        .map(|file| read(&format!("crates/python/python/namegate/{file}")))
        .concat();
    for call in text.split("namegate.").skip(1) {
        let name = call.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
        let is_module = ["duckdb", "polars", "spark"].contains(&name);
        if !is_module && !known.contains(&format!("def {name}(")) {
            return Some(format!("the package has no `{name}`"));
        }
    }
    let compile = "import sys; compile(sys.stdin.read(), 'page', 'exec')";
    let script = format!("python3 -c \"{compile}\" <<'END'\n{text}\nEND");
    match Command::new("sh").args(["-c", &script]).output().unwrap() {
        output if output.status.code() == Some(127) => println!("SKIPPED: no python3"),
        output if !output.status.success() => {
            return Some(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        _ => {}
    }
    None
}

#[test]
fn errors_in_blocks_are_found() {
    let of = |language, text: &'static str| {
        error(&Block { language, not_run: None, lines: text.lines().collect(), first: 0 })
    };
    let cases = [
        ("toml", "profiles = [\"strict\"]", "profiles = [\"nothing\"]"),
        (
            "toml",
            "source = \"/a\"\nmountpoint = \"/b\"",
            "source = \"/a\"\nmountpoint = \"/b\"\n[mount]\nmode = \"no\"",
        ),
        ("fstab", "/a /b namegate profile=strict,nofail 0 0", "/a /b namegate profile=nothing 0 0"),
        ("ini", "[Service]\nWatchdogSec=5min", "[Service]\nExecStart=\nExecStart=/usr/bin/namegate nothing"),
        ("yaml", "repos:\n- hooks:\n  - id: namegate", "repos:\n- hooks:\n  - id: nothing"),
        ("python", "import namegate\nnamegate.check(keys)", "namegate.nothing()"),
        ("python", "a = 1", "a = = 1"),
    ];
    for (language, right, wrong) in cases {
        assert_eq!(of(language, right), None);
        assert!(of(language, wrong).is_some(), "{wrong}");
    }
    assert!(of("", "a").is_some());
}
