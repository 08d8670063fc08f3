//! Measures `namegate fix` against a bare loop of renameat2, in turns, on the same tree.
//!
//! `bench_fix NAMEGATE DIRECTORY [FILES] [DIRECTORIES] [RUNS]`: creates a tree of files with names in ISO-8859-15 below DIRECTORY
//! and prints medians, as rows of a table. Both give every file the same new name; the loop knows all names in advance, has all
//! directories open, and does nothing else.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use nix::fcntl::{RenameFlags, renameat2};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

type Failure = Box<dyn std::error::Error>;

/// Old and new name of the file with this number.
fn names(number: usize) -> (OsString, OsString) {
    let old = [format!("{number:06} r").as_bytes(), b"\xE9sum\xE9 d'\xE9t\xE9.txt"].concat();
    (OsString::from_vec(old), format!("{number:06} résumé d'été.txt").into())
}

fn make(root: &Path, files: usize, directories: usize) -> Result<Vec<File>, Failure> {
    let mut open = Vec::with_capacity(directories);
    for number in 0..directories {
        let path = root.join(format!("{}/{number}", number / 100));
        fs::create_dir_all(&path)?;
        open.push(File::open(&path)?);
    }
    for number in 0..files {
        let dir = number % directories;
        File::create(root.join(format!("{}/{dir}", dir / 100)).join(names(number).0))?;
    }
    Ok(open)
}

/// The bare loop; `back` restores the old names.
fn bare(open: &[File], files: usize, back: bool) -> Result<f64, Failure> {
    let all: Vec<(usize, OsString, OsString)> = (0..open.len())
        .flat_map(|dir| (dir..files).step_by(open.len()).map(move |number| (dir, number)))
        .map(|(dir, number)| {
            let (old, new) = names(number);
            if back { (dir, new, old) } else { (dir, old, new) }
        })
        .collect();
    let begun = Instant::now();
    for (dir, from, to) in &all {
        let dir = &open[*dir];
        renameat2(dir, from.as_os_str(), dir, to.as_os_str(), RenameFlags::RENAME_NOREPLACE)?;
    }
    Ok(begun.elapsed().as_secs_f64())
}

/// Runs the program; returns its time and its peak of memory in MiB.
fn run(program: &OsStr, state: &Path, args: &[&OsStr]) -> Result<(f64, f64), Failure> {
    let begun = Instant::now();
    let mut command = Command::new(program);
    command.arg("fix").args(args).env("XDG_STATE_HOME", state).stdout(Stdio::null());
    let mut child = command.spawn()?;
    let status = PathBuf::from(format!("/proc/{}/status", child.id()));
    let mut peak = 0.0_f64;
    let ended = loop {
        if let Some(line) =
            fs::read_to_string(&status).unwrap_or_default().lines().find(|l| l.starts_with("VmHWM:"))
        {
            let kib: f64 =
                line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or_default();
            peak = peak.max(kib / 1024.0);
        }
        if let Some(ended) = child.try_wait()? {
            break ended;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    };
    match ended.code() {
        Some(0) => Ok((begun.elapsed().as_secs_f64(), peak)),
        _ => Err(format!("{args:?}: {ended}").into()),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Result<(), Failure> {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let [program, dir, numbers @ ..] = &args[..] else {
        return Err("usage: bench_fix NAMEGATE DIRECTORY [FILES] [DIRECTORIES] [RUNS]".into());
    };
    let number = |at: usize, default: usize| -> Result<usize, Failure> {
        numbers.get(at).map_or(Ok(default), |text| Ok(text.to_str().ok_or("not a number")?.parse()?))
    };
    let (files, directories, runs) = (number(0, 100_000)?, number(1, 1000)?, number(2, 7)?);
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    let dir = tempfile::tempdir_in(dir)?;
    let (root, state, plan) = (dir.path().join("tree"), dir.path().join("state"), dir.path().join("plan"));
    let open = make(&root, files, directories)?;
    let os = |text: &'static str| OsStr::new(text);
    let (mut loops, mut plans, mut applies, mut undos) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut peak = [0.0_f64; 3];
    for turn in 0..=runs {
        let time = bare(&open, files, false)?;
        bare(&open, files, true)?;
        let _ = fs::remove_file(&plan);
        let (planned, mib) =
            run(program, &state, &[os("plan"), root.as_os_str(), os("-o"), plan.as_os_str()])?;
        peak[0] = peak[0].max(mib);
        let (applied, mib) = run(program, &state, &[os("apply"), os("--yes"), plan.as_os_str()])?;
        peak[1] = peak[1].max(mib);
        let last = fs::metadata(root.join("0/0").join(names(0).1));
        last.map_err(|error| format!("the first file was not renamed: {error}"))?;
        let (undone, mib) = run(program, &state, &[os("undo"), os("--last")])?;
        peak[2] = peak[2].max(mib);
        // The first turn warms up.
        if turn > 0 {
            loops.push(time);
            plans.push(planned);
            applies.push(applied);
            undos.push(undone);
        }
    }
    let both = plans.iter().zip(&applies).map(|(plan, apply)| plan + apply).collect();
    let floor = median(loops);
    println!("| {files} files in {directories} directories | seconds | × loop | MiB |");
    println!("|---|---|---|---|");
    println!("| bare loop of `renameat2` | {floor:.3} | 1.00 | |");
    for (what, times, peak) in [
        ("`fix plan`", plans, format!("{:.0}", peak[0])),
        ("`fix apply`", applies, format!("{:.0}", peak[1])),
        ("`fix plan` and `fix apply`", both, String::new()),
        ("`fix undo`", undos, format!("{:.0}", peak[2])),
    ] {
        let time = median(times);
        println!("| {what} | {time:.3} | {:.2} | {peak} |", time / floor);
    }
    Ok(())
}
