//! `namegate help TASK`: what it prints is what the page of the task says, and its commands do that.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use namegate_testkit::program::{run, stdout};
#[cfg(all(feature = "archive", feature = "parquet"))]
use parquet::basic::Compression;

use crate::help::{accepted_calls, bash, home};
#[cfg(all(feature = "archive", feature = "parquet"))]
use crate::parquet::write_keys;

const TASKS: [&str; 6] = ["migration", "repair", "share", "server", "repository", "keys"];

/// What the program prints about a task.
fn help(task: &str) -> String {
    let output = run(["help", task]);
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{task}");
    stdout(&output).to_owned()
}

/// The commands in the help of a task; one that goes on in the next line is one.
fn commands(help: &str) -> Vec<String> {
    let lines: Vec<&str> = help.lines().filter_map(|line| line.strip_prefix("  ")).collect();
    let text = lines.join("\n").replace("\\\n", "");
    text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

#[test]
fn every_task_has_ten_lines_that_are_on_its_page() {
    for task in TASKS {
        let help = help(task);
        let file = format!("docs/tasks/{}.md", task.to_uppercase());
        let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(&file)).unwrap();
        let count = help.lines().count();
        assert!((10..=12).contains(&count) && help.lines().all(|line| line.chars().count() <= 86), "{help}");
        let (text, more) = help.trim_end().rsplit_once('\n').unwrap();
        for line in text.lines() {
            let same = line.strip_prefix("  ").unwrap_or(line);
            assert!(page.lines().any(|there| there == same), "{file}: {line}");
        }
        let pages: Vec<&str> = more.strip_prefix("More: ").unwrap().split(", ").collect();
        assert!(pages.len() >= 2, "{more}");
        for page in pages {
            assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join(page).is_file(), "{file}: {page}");
        }
    }
}

#[test]
fn the_help_ends_with_the_tasks_and_the_manual_page_has_them() {
    let long = run(["--help"]);
    let (_, listed) = stdout(&long).split_once("\nTasks, step by step:\n").unwrap();
    let words: Vec<&str> =
        listed.lines().filter_map(|line| line.strip_prefix("  namegate help ")?.split(' ').next()).collect();
    assert_eq!(words, TASKS);
    let tasks = run(["help", "tasks"]);
    assert_eq!(stdout(&tasks).lines().skip(1).collect::<Vec<_>>(), listed.lines().collect::<Vec<_>>());
    let manual = run(["man"]);
    let text = stdout(&manual).replace("\\-", "-").replace("\\(rs\n", "");
    let one_space = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = one_space(&text);
    for task in TASKS {
        for command in commands(&help(task)) {
            let line = one_space(command.split(" #").next().unwrap());
            assert!(text.contains(&line), "{task}: {line}");
        }
    }
}

#[test]
fn an_unknown_task_leads_to_the_tasks_and_a_command_keeps_its_help() {
    for (word, tip) in [
        ("xyzzy", "migration, repair, share, server, repository, keys"),
        ("migraton", "namegate help migration"),
        ("repositry", "namegate help repository"),
    ] {
        let output = run(["help", word]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && text.contains(tip), "{word}: {text}");
    }
    assert!(stdout(&run(["help", "guard"])).contains("Usage: namegate guard"));
}

#[test]
fn every_command_of_a_task_is_accepted_by_the_parser() {
    let home = home();
    for task in TASKS {
        for command in commands(&help(task)) {
            let calls = accepted_calls(home.path(), &command);
            assert_eq!(calls > 0, command.starts_with("namegate "), "{command}");
        }
    }
}

/// Runs the commands of a task below `home`, in place of the root directory. `before` runs in front of the command that begins with its word.
fn run_task(home: &Path, task: &str, before: &[(&str, &str)]) -> BTreeMap<String, i32> {
    let root = home.to_str().unwrap();
    let mut statuses = BTreeMap::new();
    for command in commands(&help(task)) {
        let line = ["/srv", "/mnt", "/usr/share"]
            .iter()
            .fold(command.clone(), |line, path| line.replace(&format!(" {path}"), &format!(" {root}{path}")));
        let prepare =
            before.iter().filter(|(start, _)| command.starts_with(start)).map(|(_, script)| *script);
        let prepare: String = prepare.collect();
        let (status, said) = bash(home, &format!("PATH={root}/bin:$PATH\n{prepare}\n{line}"));
        assert!((0..=1).contains(&status), "{command}: {status}: {said}");
        statuses.insert(command, status);
    }
    statuses
}

/// The names in a directory.
fn names(dir: &Path) -> Vec<OsString> {
    let mut names: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names
}

/// The status of the command that begins so.
fn status_of(statuses: &BTreeMap<String, i32>, start: &str) -> i32 {
    *statuses.iter().find(|(command, _)| command.starts_with(start)).expect("it was run").1
}

#[test]
fn the_task_migration_copies_everything_and_verifies_it() {
    let home = home();
    let (status, said) = bash(home.path(), "mkdir mnt/new");
    assert_eq!(status, 0, "{said}");
    let statuses = run_task(home.path(), "migration", &[]);
    assert_eq!(status_of(&statuses, "namegate scan /srv/share --target"), 1, "{statuses:?}");
    assert_eq!(status_of(&statuses, "namegate verify"), 0, "{statuses:?}");
    let page = fs::read_to_string(home.path().join("report.html")).unwrap();
    assert!(page.contains("sharepoint"));
    assert_eq!(names(&home.path().join("mnt/new")), names(&home.path().join("srv/share")));
}

#[test]
fn the_task_repair_renames_by_decisions_and_restores_every_name() {
    let home = home();
    let share = home.path().join("srv/share");
    let before = names(&share);
    // A person who accepts everything.
    let decide = r#"{
        printf '{"type":"decisions","version":1,"plan_sha256":"%s"}\n' "$(sha256sum plan.jsonl | cut -d ' ' -f 1)"
        grep '"type":"rename"' plan.jsonl | grep -o '"id":[^,}]*' | sed 's/.*/{&,"decision":"accept"}/'
    } >decisions.jsonl"#;
    let look = [("namegate fix apply", decide), ("namegate fix undo", "ls srv/share >renamed")];
    let statuses = run_task(home.path(), "repair", &look);
    assert_eq!(status_of(&statuses, "namegate scan"), 1, "{statuses:?}");
    let renamed = fs::read_to_string(home.path().join("renamed")).unwrap();
    assert!(renamed.contains("café") && !renamed.contains('?'), "{renamed}");
    assert_eq!(names(&share), before);
}

#[cfg(feature = "git")]
#[test]
fn the_task_repository_leaves_a_baseline_that_passes_and_a_hook() {
    let home = home();
    let hook = home.path().join("usr/share/doc/namegate/examples/hooks/pre-commit");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/hooks/pre-commit"), &hook).unwrap();
    let make = "git init -q . && git add 'here?' && git -c user.name=a -c user.email=a@b commit -qm a";
    let (status, said) = bash(home.path(), make);
    if said.contains("git: command not found") {
        return println!("SKIPPED: no git: the task about repositories was not run");
    }
    assert_eq!(status, 0, "{said}");
    let statuses = run_task(home.path(), "repository", &[]);
    assert_eq!(status_of(&statuses, "namegate scan --git . --profile"), 1, "{statuses:?}");
    assert!(!home.path().join("here?").exists() && home.path().join("known.jsonl").exists());
    let last = statuses.iter().find(|(command, _)| command.contains("--baseline known"));
    assert_eq!(last.unwrap().1, &0, "{statuses:?}");
    let mode = fs::metadata(home.path().join(".git/hooks/pre-commit")).unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0o111);
}

#[cfg(all(feature = "archive", feature = "parquet"))]
#[test]
fn the_task_keys_makes_one_report_of_an_inventory() {
    let home = home();
    let message = "message m { required int64 size; optional binary key; }";
    let keys = [b"2019/aux.txt".to_vec(), b"2019/caf\xE9".to_vec(), b"2020/fine".to_vec()].map(Some);
    write_keys(&home.path().join("keys.parquet"), message, Compression::SNAPPY, &keys);
    fs::write(home.path().join("keys.list"), "a/b?\0a/c\0").unwrap();
    let statuses = run_task(home.path(), "keys", &[]);
    assert_eq!(status_of(&statuses, "namegate list-pairs"), 0, "{statuses:?}");
    assert_eq!(status_of(&statuses, "namegate report"), 1, "{statuses:?}");
    assert_eq!(names(&home.path().join("pairs")).len(), 16);
    assert!(fs::read_to_string(home.path().join("names.html")).unwrap().contains("<html"));
}
