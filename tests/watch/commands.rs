//! `--exec`.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::watching::{TestFileSystem, Watching, bad};
use namegate_testkit::wait_until;

const ENGINE: [&str; 2] = ["--engine", "inotify"];

fn watch(place: &TestFileSystem, args: &[&str]) -> Watching {
    Watching::new(&[&place.top()], &[&ENGINE, args].concat())
}

#[test]
fn a_program_gets_the_exact_bytes_of_the_name_without_a_shell() {
    let place = TestFileSystem::plain();
    let record = place.beside("record");
    // The script writes its arguments and environment to files, separated by NUL.
    let script = "printf '%s\\0' \"$@\" >\"$0/args\"; env -0 | grep -za ^NAMEGATE_ | sort -z >\"$0/env\"";
    let record_path = record.to_str().unwrap();
    let args = ["--exec", "sh", "-c", script, record_path, "-x", "{}", "a{}", ";", "--warnings"];
    let watching = watch(&place, &args);
    let mut name = b"$(touch pwned)`id`;\n\"'&|*\\ -".to_vec();
    name.push(0xE9);
    let path = place.top().join(std::ffi::OsStr::from_bytes(&name));
    fs::write(&path, "").unwrap();
    wait_until("the program", || fs::read(record.join("env")).is_ok_and(|env| !env.is_empty()));
    let ended = watching.end();
    assert_eq!(ended.status, Some(1), "{}", ended.log);
    let args = fs::read(record.join("args")).unwrap();
    let args: Vec<&[u8]> = args.split(|&b| b == 0).collect();
    assert_eq!(args, [b"-x", path.as_os_str().as_bytes(), b"a{}", b""]);
    let env = fs::read(record.join("env")).unwrap();
    let env: Vec<&[u8]> = env.split(|&b| b == 0).collect();
    let of = |name: &str| {
        let prefix = format!("NAMEGATE_{name}=");
        env.iter().find_map(|line| line.strip_prefix(prefix.as_bytes())).unwrap()
    };
    assert_eq!(of("PATH"), path.as_os_str().as_bytes());
    assert_eq!(of("PARENT"), place.top().as_os_str().as_bytes());
    assert_eq!(of("NAME"), name);
    assert_eq!(of("NAME_HEX"), data_encoding::HEXLOWER.encode(&name).as_bytes());
    assert_eq!(of("NAME_SHOWN").iter().filter(|&&byte| byte == b'\n').count(), 0);
    assert_eq!((of("RULE"), of("OPERATION")), (&b"truncated"[..], &b"create"[..]));
    assert!(!Path::new("pwned").exists());
}

#[test]
fn programs_run_a_few_at_a_time_and_none_is_left_unreaped() {
    let place = TestFileSystem::plain();
    let at_work = place.beside("at-work");
    // Prints how many programs run, including itself.
    let script = "mkdir \"$0/$$\"; ls \"$0\" | wc -l >>\"$0.counts\"; sleep 0.05; rmdir \"$0/$$\"";
    let watching =
        watch(&place, &["--exec-jobs", "3", "--exec", "sh", "-c", script, at_work.to_str().unwrap()]);
    for number in 0..20 {
        fs::write(place.top().join(bad(&number.to_string())), "").unwrap();
    }
    let counts = at_work.with_extension("counts");
    let lines = || fs::read_to_string(&counts).map_or(0, |text| text.lines().count());
    wait_until("20 runs", || lines() == 20);
    wait_until("the last end", || {
        let children = format!("/proc/{0}/task/{0}/children", watching.pid());
        fs::read_dir(&at_work).unwrap().next().is_none()
            && fs::read_to_string(children).is_ok_and(|children| children.trim().is_empty())
    });
    let ended = watching.end();
    let most =
        fs::read_to_string(&counts).unwrap().lines().map(|line| line.trim().parse::<u32>().unwrap()).max();
    assert!(most <= Some(3), "{most:?} at a time");
    assert_eq!(ended.status, Some(1), "{}", ended.log);
}

#[test]
fn a_program_that_fails_is_reported_as_an_error() {
    let place = TestFileSystem::plain();
    let watching = watch(&place, &["--exec", "false"]);
    fs::write(place.top().join(bad("")), "").unwrap();
    wait_until("the failure", || watching.log().contains("exit status: 1"));
    let ended = watching.end();
    assert!(ended.log.contains("caf\\xE9"), "{}", ended.log);
    assert_eq!(ended.status, Some(2), "{}", ended.log);
}

#[test]
fn a_program_that_is_missing_is_an_error_before_there_is_anything_to_run_it_for() {
    let place = TestFileSystem::plain();
    for program in ["/nowhere/x", "no-such-program", "/tmp", "/dev/null"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_namegate"));
        let output = command.arg("watch").arg(place.top()).args(["--exec", program]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let expected = format!("--exec {program} cannot be started");
        assert!(output.status.code() == Some(2) && said.contains(&expected), "{said}");
    }
}

#[test]
fn requested_programs_are_completed_within_a_time_limit() {
    let place = TestFileSystem::plain();
    let watching = watch(&place, &["--exec-jobs", "1", "--once", "--exec", "sleep", "0.3"]);
    fs::write(place.top().join(bad("")), "").unwrap();
    let ended = watching.wait_for_end();
    assert_eq!(ended.status, Some(1), "{}", ended.log);
    let watching = watch(&place, &["--exec-jobs", "1", "--exec", "sh", "-c", "exec >&- 2>&-; sleep 30"]);
    (0..3).for_each(|number| fs::write(place.top().join(bad(&number.to_string())), "").unwrap());
    watching.wait_for(3);
    sleep(Duration::from_millis(100));
    let begin = Instant::now();
    let ended = watching.end();
    assert!(begin.elapsed() < Duration::from_secs(25), "it waited for {:?}", begin.elapsed());
    assert!(ended.log.contains("for 3 findings"), "{}", ended.log);
    assert_eq!(ended.status, Some(2));
}
