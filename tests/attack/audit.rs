//! The audit log: how much disk space one user can fill with refusals, and whether records of other users are lost.

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::duration;
use namegate_testkit::acting::act_as;
use namegate_testkit::mounted::{TestMount, can_mount, prepare};

const FLOODING: u32 = 54_323;
const QUIET: u32 = 54_324;
/// Default limit of bytes of records per user and second.
const BOUND: u64 = 16 << 10;
/// The maximum size of a record.
const MAX_BYTES: usize = 2048;

#[test]
fn a_flood_of_refusals_under_deep_parents_fills_the_disk_no_faster_than_the_bound() {
    if !can_mount() {
        return;
    }
    let dir = prepare();
    let audit_log = dir.path().join("audit.log");
    // The log is standard error, in the most verbose format.
    let args = ["--audit", audit_log.to_str().unwrap(), "--log-format", "json"];
    let mut mounted = TestMount::of(dir, |dir| (dir.join("backing"), dir.join("mnt")), &args);
    let mut deep = mounted.mnt();
    // Some 3,800 bytes, of components that grow when they are escaped: the longest path that one call can name.
    while deep.as_os_str().len() + 256 < 3800 {
        deep.push("\u{202e}".repeat(85));
        fs::create_dir(&deep).unwrap();
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&deep, fs::Permissions::from_mode(0o777)).unwrap();
    }
    // Repetitions of one refusal would be one record.
    let hostile = |number: u64| -> PathBuf {
        let mut name = [0x1b; 255];
        name[235..].copy_from_slice(format!("{number:019}\u{1b}").as_bytes());
        name[254] = 0xFF;
        deep.join(std::ffi::OsStr::from_bytes(&name))
    };
    let begin = Instant::now();
    let flood = || {
        let mut refused = 0u64;
        while begin.elapsed() < duration() {
            assert_eq!(File::create(hostile(refused)).unwrap_err().raw_os_error(), Some(libc::EILSEQ));
            refused += 1;
        }
        refused
    };
    let calm = || {
        let mut refused = 0u64;
        while begin.elapsed() < duration() {
            let name = [format!("{refused}").as_bytes(), b"\xE9"].concat();
            assert!(File::create(mounted.mnt().join(std::ffi::OsStr::from_bytes(&name))).is_err());
            refused += 1;
            std::thread::sleep(Duration::from_millis(200));
        }
        refused
    };
    let (flooded, calmly) = std::thread::scope(|scope| {
        let flooding = scope.spawn(|| act_as(FLOODING, FLOODING, &[], 0, flood));
        let calm = scope.spawn(|| act_as(QUIET, QUIET, &[], 0, calm));
        (flooding.join().unwrap(), calm.join().unwrap())
    });
    let seconds = begin.elapsed().as_secs_f64();
    mounted.signal(Signal::SIGTERM);
    let (_, messages) = mounted.ended();
    let written = fs::read_to_string(&audit_log).unwrap();
    let lines = |text: &str| -> Vec<(Value, usize)> {
        let lines = text.lines().filter_map(|line| Some((serde_json::from_str(line).ok()?, line.len() + 1)));
        lines.collect()
    };
    let (in_audit_log, in_log) = (lines(&written), lines(&messages));
    let is_of = |value: &Value, uid: u32| value["uid"] == uid;
    let of = |uid: u32, kind: &str| {
        in_audit_log.iter().filter(|(v, _)| v["type"] == kind && is_of(v, uid)).count() as u64
    };
    let dropped: u64 = in_audit_log
        .iter()
        .filter(|(value, _)| value["type"] == "dropped" && is_of(value, FLOODING))
        .map(|(value, _)| value["count"].as_u64().unwrap())
        .sum();
    let longest = in_audit_log.iter().chain(&in_log).map(|(_, len)| *len).max().unwrap();
    let whose = format!("uid {FLOODING}");
    let bytes =
        in_audit_log.iter().filter(|(value, _)| is_of(value, FLOODING)).map(|(_, len)| len).sum::<usize>()
            + in_log
                .iter()
                .filter(|(value, _)| {
                    is_of(&value["fields"], FLOODING) || value["fields"]["whose"] == whose.as_str()
                })
                .map(|(_, len)| len)
                .sum::<usize>();
    let bytes = bytes as u64;
    println!(
        "{flooded} refusals in {seconds:.1} s: {} recorded, {dropped} counted; {:.0} bytes a second in both logs, the \
         longest record {longest} bytes; {} of {calmly} refusals of another user recorded",
        of(FLOODING, "refusal"),
        bytes as f64 / seconds,
        of(QUIET, "refusal"),
    );
    assert!(longest <= MAX_BYTES, "{longest}");
    // The bucket can save one second, and one more record is allowed.
    assert!(
        bytes as f64 <= BOUND as f64 * (seconds + 1.0) + 2.0 * MAX_BYTES as f64,
        "{bytes} in {seconds} s"
    );
    assert_eq!(of(FLOODING, "refusal") + dropped, flooded, "what is not recorded is counted");
    assert_eq!(of(QUIET, "refusal"), calmly, "{messages}");
    // The directory is represented by its hash; the exact bytes of the name are included.
    let record = in_audit_log.iter().map(|(value, _)| value).find(|value| is_of(value, FLOODING)).unwrap();
    assert_eq!(record["parent_hash"].as_str().map(str::len), Some(16), "{record}");
    assert_eq!(record["name_hex"].as_str().map(str::len), Some(510), "{record}");
}
