//! Plans as CSV: `namegate fix plan --format csv` and `namegate fix apply plan.csv`.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Output};

use csv::StringRecord;

use namegate_testkit::program::{status, stderr, stdout};

fn fix(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_namegate"));
    command.env("XDG_STATE_HOME", dir).current_dir(dir).arg("fix").args(args).output().unwrap()
}

/// The rows of a table, without the mark at its beginning.
fn rows(path: &Path) -> Vec<StringRecord> {
    let text = fs::read(path).unwrap();
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&text);
    csv::ReaderBuilder::new().has_headers(false).from_reader(text).records().map(Result::unwrap).collect()
}

/// Writes rows as a program of another country does.
fn write(path: &Path, rows: &[StringRecord]) {
    let mut writer = csv::WriterBuilder::new().delimiter(b';').from_path(path).unwrap();
    rows.iter().for_each(|row| writer.write_record(row).unwrap());
    writer.flush().unwrap();
}

fn names(root: &Path) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(root).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().as_bytes().to_vec()).collect();
    names.sort();
    names
}

#[test]
fn a_table_is_edited_and_applied_like_the_plan() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("tree");
    fs::create_dir(&root).unwrap();
    let made: [&[u8]; 7] =
        [b"caf\xE9", b"\xE9t\xE9 2004", b"na\xEFve", b"=1+1\xE8.", b"line\nfeed", b"a\"b,c;d?", b"keep."];
    made.iter().for_each(|name| fs::write(root.join(OsStr::from_bytes(name)), "").unwrap());
    let plan = ["plan", "tree", "--profile", "windows", "--encoding", "latin1"];
    let output = fix(dir.path(), &[&plan[..], &["-o", "plan.csv"]].concat());
    assert_eq!((status(&output), stdout(&output)), (0, "7 renames\n"), "{}", stderr(&output));
    let shown = fix(dir.path(), &[&plan[..], &["--format", "csv"]].concat());
    assert!(shown.stdout.starts_with(b"\xEF\xBB\xBFtype,directory,old,new,confidence,"));
    let other = fix(dir.path(), &[&plan[..], &["--format", "csv", "-o", "other"]].concat());
    assert_eq!(stdout(&other), "7 renames\n");
    let (table, path) = (rows(&dir.path().join("plan.csv")), dir.path().join("plan.csv"));
    let without_time = |rows: &[StringRecord]| rows[2..].to_vec();
    assert_eq!(without_time(&table), without_time(&rows(&dir.path().join("other"))));
    assert!(table.iter().all(|row| row.iter().all(|cell| !cell.contains(char::is_control))), "{table:?}");
    // The formula cannot run, one name is edited, one stays.
    let edited = table.iter().filter(|row| &row[2] != "keep.").map(|row| {
        assert!(!row.iter().any(|cell| cell.starts_with(['=', '+', '-', '@'])), "{row:?}");
        let is_edited = row[2].starts_with("na");
        row.iter().enumerate().map(|(at, cell)| if is_edited && at == 3 { "'2-3" } else { cell }).collect()
    });
    write(&path, &edited.collect::<Vec<StringRecord>>());
    let output = fix(dir.path(), &["apply", "plan.csv", "--yes"]);
    assert_eq!(status(&output), 0, "{}{}", stdout(&output), stderr(&output));
    let mut expected = ["café", "été 2004", "2-3", "=1+1è", "line feed", "a_b,c;d", "keep."].map(Vec::from);
    expected.sort();
    assert_eq!(names(&root), expected);
    let output = fix(dir.path(), &["apply", "plan.csv", "--resume"]);
    assert!(stdout(&output).contains("the plan is done"), "{}", stdout(&output));
    let output = fix(dir.path(), &["undo", "--last", "--yes"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let mut before = made.map(Vec::from);
    before.sort();
    assert_eq!(names(&root), before);
}

#[test]
fn a_guess_is_left_out_until_its_row_is_certain() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("tree");
    fs::create_dir(&root).unwrap();
    fs::write(root.join(OsStr::from_bytes(b"caf\xE9")), "").unwrap();
    let path = dir.path().join("plan.csv");
    assert_eq!(status(&fix(dir.path(), &["plan", "tree", "-o", "plan.csv"])), 0);
    let output = fix(dir.path(), &["apply", "plan.csv", "--yes"]);
    let expected =
        "1 line of the plan left out, less certain than `likely`; see the column `confidence` for guess;";
    assert!(stdout(&output).contains(expected), "{}", stdout(&output));
    let edited = rows(&path).into_iter().map(|row| {
        row.iter()
            .enumerate()
            .map(|(at, cell)| if at == 4 && cell == "guess" { "certain" } else { cell })
            .collect()
    });
    write(&path, &edited.collect::<Vec<StringRecord>>());
    assert_eq!(status(&fix(dir.path(), &["apply", "plan.csv", "--yes"])), 0);
    assert_eq!(names(&root), ["café".as_bytes()]);
}

#[test]
fn errors_of_a_table_name_line_and_column_and_nothing_is_changed() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("tree");
    fs::create_dir(&root).unwrap();
    ["a?", "b?"].iter().for_each(|name| fs::write(root.join(name), "").unwrap());
    assert_eq!(status(&fix(dir.path(), &["plan", "tree", "--profile", "windows", "-o", "plan.csv"])), 0);
    let table = rows(&dir.path().join("plan.csv"));
    for (row, column, cell, expected) in [
        (2, 3, "x/y", "edited.csv: line 3: the new name `x/y` contains a `/`"),
        (2, 2, "A?", "edited.csv: line 3: column `old`: differs from the column `record`"),
        (3, 4, "sure", "edited.csv: line 4: column `confidence`: must be one of"),
        (3, 8, "{}", "edited.csv: line 4: column `record`: missing field"),
        (0, 8, "notes", "edited.csv: line 1: neither JSON Lines nor a table with the column `record`"),
    ] {
        let edited = table.iter().enumerate().map(|(at, cells)| {
            let change = |(there, old)| if (at, there) == (row, column) { cell } else { old };
            cells.iter().enumerate().map(change).collect()
        });
        write(&dir.path().join("edited.csv"), &edited.collect::<Vec<StringRecord>>());
        let output = fix(dir.path(), &["apply", "edited.csv", "--yes"]);
        assert_eq!(status(&output), 2, "{}", stdout(&output));
        assert!(stderr(&output).contains(expected), "{expected}: {}", stderr(&output));
        assert_eq!(names(&root), [b"a?", b"b?"]);
    }
    fs::write(dir.path().join("noise"), b"\x7FELF\x02\x01\n\xFF").unwrap();
    let output = fix(dir.path(), &["apply", "noise"]);
    assert!(stderr(&output).contains("noise: line 1: neither JSON Lines nor a table"), "{}", stderr(&output));
}
