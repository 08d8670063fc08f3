//! The guard's program: its object is of its source, and in the kernel it refuses the names that the policy refuses. And what commands show
//! of guards, whose maps any kernel can hold.
#![cfg(feature = "guard")]
#![expect(clippy::unwrap_used, reason = "a test ends where something is wrong")]

#[path = "schemas/published.rs"]
mod published;

use std::fs;
use std::io::ErrorKind::PermissionDenied;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Output};

use aya::Btf;
use aya::programs::{Lsm, ProgramError, SchedClassifier};
use namegate_core::policy::automaton::{Automaton, Coverage};
use namegate_core::policy::config::Config as PolicyFile;
use namegate_core::policy::profile::{self, ProfileRule};
use namegate_core::policy::{Policy, Verdict};
use namegate_files::json::JsonBytes;
use namegate_guard::note::GuardNote;
use namegate_guard::program::{HOOKS, OBJECT, Program, set_table};
use namegate_guard::table::{GuardScope, decode_devices, encode_devices, table};
use namegate_guard::target::GuardTarget;
use namegate_sys::bpf::BpfMap;
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use serde_json::Value;
use sha2::{Digest, Sha256};

#[test]
fn the_object_is_of_the_source() {
    let hash = Sha256::digest(include_bytes!("../crates/guard/src/guard.bpf.c"));
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    let is_there = OBJECT.windows(hash.len()).any(|window| window == hash.as_bytes());
    assert!(
        is_there,
        "crates/guard/src/guard.bpf.c changed: run scripts/build-guard, which makes guard.bpf.o of it"
    );
}

/// A BPF file system of the test's own.
struct Pins(tempfile::TempDir);

impl Pins {
    fn mount() -> Result<Self, Errno> {
        let dir = tempfile::tempdir().unwrap();
        mount(Some("bpf"), dir.path(), Some("bpf"), MsFlags::empty(), None::<&str>)?;
        Ok(Self(dir))
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        umount2(self.0.path(), MntFlags::MNT_DETACH).unwrap();
    }
}

/// The packet that asks about a name: a header of Ethernet with a type for experiments, the slot, the length, the name.
fn question(slot: u32, name: &[u8]) -> Vec<u8> {
    let mut question = [[0; 12].as_slice(), &[0x88, 0xB5]].concat();
    question.extend([slot, name.len() as u32].into_iter().flat_map(u32::to_ne_bytes));
    question.extend(name);
    question
}

/// Runs a program once on `data`, as BPF_PROG_TEST_RUN of bpf(2) does, and returns what the program returns.
#[expect(unsafe_code, reason = "no library makes this call")]
fn test_run(program: BorrowedFd<'_>, data: &[u8]) -> u32 {
    const PROG_TEST_RUN: libc::c_int = 10;
    #[repr(C)]
    struct TestRun {
        program: u32,
        result: u32,
        size_in: u32,
        size_out: u32,
        data_in: u64,
        rest: [u64; 7],
    }
    let (program, size_in, data_in) = (program.as_raw_fd() as u32, data.len() as u32, data.as_ptr() as u64);
    let mut run = TestRun { program, result: 0, size_in, size_out: 0, data_in, rest: [0; 7] };
    // SAFETY: the kernel reads `size_in` bytes at `data_in`, which outlive the call, and writes only the result.
    let done = unsafe { libc::syscall(libc::SYS_bpf, PROG_TEST_RUN, &raw mut run, size_of::<TestRun>()) };
    Errno::result(done).unwrap();
    run.result
}

/// What rules look for.
const PIECES: [&str; 14] = [
    "con",
    "aux",
    ".",
    " ",
    ":",
    "\n",
    "é",
    "日本",
    "\u{1F600}",
    "\u{2028}",
    "\u{10FFFF}",
    "~$",
    ".part",
    "x",
];

/// Names of such pieces, and names as long as any file system stores.
fn names() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        6 => prop::sample::select(&PIECES[..]).prop_map(|piece| piece.as_bytes().to_vec()).boxed(),
        2 => any::<char>().prop_map(|c| c.to_string().into_bytes()).boxed(),
        1 => any::<u8>().prop_map(|byte| vec![byte]).boxed(),
    ];
    prop_oneof![
        9 => prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat()),
        1 => (prop::sample::select(&["a", "é", "日", "\u{1F600}"][..]), 100..=1024_usize)
            .prop_map(|(c, bytes)| c.repeat(bytes / c.len()).into_bytes()),
    ]
}

/// The program, with its maps in this kernel, or why there is none.
fn program(pins: &mut Option<Pins>) -> Result<Program, String> {
    if !nix::unistd::geteuid().is_root() {
        return Err("BPF programs need root".into());
    }
    let mounted = Pins::mount().map_err(|e| format!("cannot mount a BPF file system: {e}"))?;
    let program = Program::new(mounted.0.path());
    *pins = Some(mounted);
    program.map_err(|e| e.to_string())
}

#[test]
fn the_kernel_verifies_the_programs_of_all_hooks() {
    let mut pins = None;
    let (mut program, types) = match (program(&mut pins), Btf::from_sys_fs()) {
        (Ok(program), Ok(types)) => (program, types),
        (Err(e), _) => return println!("SKIPPED: {e}"),
        (_, Err(e)) => return println!("SKIPPED: the kernel does not describe its types: {e}"),
    };
    for hook in HOOKS {
        let hooked: &mut Lsm = program.object.program_mut(hook).unwrap().try_into().unwrap();
        match hooked.load(hook, &types) {
            Ok(()) => {}
            Err(ProgramError::LoadError { io_error, .. }) if io_error.kind() == PermissionDenied => {
                return println!("SKIPPED: this kernel takes no programs for security hooks: {io_error}");
            }
            Err(e) => panic!("{hook}: {e:?}"),
        }
    }
}

#[test]
fn in_the_kernel_the_program_refuses_exactly_what_the_policy_refuses() {
    let mut pins = None;
    let mut program = match program(&mut pins) {
        Ok(program) => program,
        Err(e) => return println!("SKIPPED: {e}"),
    };
    let policies: Vec<Policy> = ["utf8", "strict", "windows", "portable", "nextcloud"]
        .iter()
        .map(|name| Policy::from_profiles(&[profile::by_name(name).unwrap()]))
        .collect();
    let tables = BpfMap::open(&pins.as_ref().unwrap().0.path().join("guards")).unwrap();
    let mut covered = Vec::new();
    for (slot, policy) in (0..).zip(&policies) {
        let coverage = Coverage::new(policy);
        let scope = GuardScope { device: 1, root: None, refusal: Some(Errno::EINVAL) };
        let table = table(1, scope, &Automaton::new(&coverage).unwrap(), b"").unwrap();
        set_table(&tables, slot, &table).unwrap();
        let rules = coverage.covered.iter().map(|rule| ProfileRule::error(rule.test.clone(), "a test"));
        covered.push(rules.fold(Policy::builder(), |builder, rule| builder.rule(rule)).build().unwrap());
    }
    let check: &mut SchedClassifier = program.object.program_mut("check_name").unwrap().try_into().unwrap();
    check.load().unwrap();
    let check = check.fd().unwrap().as_fd();
    let mut runner = TestRunner::new_with_rng(Config::default(), TestRunner::deterministic().rng().clone());
    let names = names();
    let mut refused = 0;
    for _ in 0..100_000 {
        let name = names.new_tree(&mut runner).unwrap().current();
        for (slot, policy) in (0..).zip(&covered) {
            let expected = matches!(policy.verdict(&name), Verdict::Reject(_));
            refused += u32::from(expected);
            let found = test_run(check, &question(slot, &name));
            assert_eq!(found, u32::from(expected), "policy {slot}: {:?}", name.escape_ascii().to_string());
        }
    }
    assert!((100_000..400_000).contains(&refused), "both answers are frequent: {refused} of 500,000 refused");
}

/// Maps of guards, pinned as `guard on` pins them, but for programs and links: no kernel has to run anything for them.
struct PinnedGuards {
    pins: Pins,
    program: Program,
}

impl PinnedGuards {
    fn new(pins: Pins) -> Result<Self, String> {
        let dir = pins.0.path().join("namegate");
        fs::create_dir_all(dir.join("reader")).unwrap();
        let program = Program::new(&dir).map_err(|e| e.to_string())?;
        Ok(Self { pins, program })
    }

    /// A guard of `path` with the policy `windows`, which has counted these numbers.
    fn add(&mut self, slot: u32, path: &Path, refusal: Option<Errno>, counts: [u64; 3]) {
        self.add_as(u64::from(slot) + 1, slot, path, refusal, false);
        let counts: Vec<u8> = counts.into_iter().flat_map(u64::to_ne_bytes).collect();
        self.map("counters").set(slot, &counts).unwrap();
    }

    fn map(&self, name: &str) -> BpfMap {
        BpfMap::open(&self.pins.0.path().join("namegate").join(name)).unwrap()
    }

    /// A guard with the number `id`, which has ended or not.
    fn add_as(&mut self, id: u64, slot: u32, path: &Path, refusal: Option<Errno>, has_ended: bool) {
        let target = GuardTarget::from_path(path, true).unwrap();
        let policy = Policy::from_profiles(&[profile::by_name("windows").unwrap()]);
        let note = GuardNote {
            path: JsonBytes::new(path.as_os_str().as_bytes()),
            is_top: false,
            filesystem: target.kind,
            since: "2026-01-02T03:04:05Z".into(),
            profiles: vec!["windows".into()],
            policy: PolicyFile::from_policy(&policy).unwrap().to_toml(),
        };
        let scope = GuardScope { device: target.device, root: None, refusal };
        let automaton = Automaton::new(&Coverage::new(&policy)).unwrap();
        let mut table = table(id, scope, &automaton, &note.to_bytes()).unwrap();
        // Behind three numbers of eight bytes and ten of four.
        table[64] = has_ended.into();
        set_table(&self.map("guards"), slot, &table).unwrap();
        let map = self.map("devices");
        let mut devices = decode_devices(&map.get(0).unwrap());
        devices[slot as usize] = target.device;
        map.set(0, &encode_devices(&devices)).unwrap();
    }

    /// Has the program report names as the guards in these slots do, or says why this kernel cannot.
    fn report(&mut self, slots_and_names: &[(u32, &[u8])]) -> Result<(), String> {
        let report: &mut SchedClassifier =
            self.program.object.program_mut("report_name").unwrap().try_into().unwrap();
        match report.load() {
            Ok(()) | Err(ProgramError::AlreadyLoaded) => {}
            Err(e) => return Err(format!("this kernel cannot report without a hook: {e}")),
        }
        let report = report.fd().unwrap().as_fd();
        for (slot, name) in slots_and_names {
            assert_eq!(test_run(report, &question(*slot, name)), 0);
        }
        Ok(())
    }

    /// Reports whether this machine would run programs on its hooks, so that `guard on` goes on with these guards. In scripts,
    /// `$modules` makes the list of security modules visible.
    fn can_be_turned_on(&self, dir: &Path) -> bool {
        self.run(dir, "$modules 2>/dev/null; grep -q bpf /sys/kernel/security/lsm").status.success()
    }

    /// Runs a shell script where these guards are the guards of the machine, with the program as `$namegate` and `dir` as `$dir`.
    fn run(&self, dir: &Path, script: &str) -> Output {
        let script = format!("mount --bind \"$pins\" /sys/fs/bpf || exit 99; {script}");
        let mut shell = Command::new("unshare");
        shell.args(["--mount", "--propagation", "private", "sh", "-c", &script]);
        shell.env("pins", self.pins.0.path()).env("dir", dir).env("namegate", env!("CARGO_BIN_EXE_namegate"));
        shell.env("modules", "mount -t securityfs securityfs /sys/kernel/security");
        shell.env("NAMEGATE_RUNTIME_DIR", dir).env_remove("RUST_LOG").output().unwrap()
    }
}

/// Two guards, one of a directory whose name must not reach a terminal, or why there are none.
fn pinned_guards(dir: &Path) -> Result<PinnedGuards, String> {
    if !nix::unistd::geteuid().is_root() {
        return Err("BPF maps need root".into());
    }
    let pins = Pins::mount().map_err(|e| format!("cannot mount a BPF file system: {e}"))?;
    let mut guards = PinnedGuards::new(pins)?;
    for name in ["tree", "au\x1bdit"] {
        fs::create_dir(dir.join(name)).unwrap();
    }
    guards.add(0, &dir.join("tree"), Some(Errno::EILSEQ), [7, 0, 1]);
    guards.add(31, &dir.join("au\x1bdit"), None, [0, 5, 0]);
    match guards.run(dir, "exit 0").status.code() {
        Some(0) => Ok(guards),
        _ => Err("there is no unshare, or no /sys/fs/bpf to mount over".into()),
    }
}

/// Compares an output with its schema: `tests/schemas`.
fn assert_fits(schema: &str, value: &Value) {
    if let Err(error) = published::Published::named(schema).kind_of(value) {
        panic!("{schema}: {error}: {value}");
    }
}

fn text(output: &Output) -> String {
    [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat()
}

#[test]
fn status_and_list_show_the_guards_and_off_ends_them() {
    let dir = tempfile::tempdir().unwrap();
    let guards = match pinned_guards(dir.path()) {
        Ok(guards) => guards,
        Err(e) => return println!("SKIPPED: {e}"),
    };
    let output = guards.run(dir.path(), "$namegate guard status --json");
    let status: Value = serde_json::from_str(text(&output).trim()).unwrap();
    assert_fits("guard-status", &status);
    // Programs are not pinned here: the status must not say that all is good.
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        (&status["type"], &status["hooks"][5]["is_attached"]),
        (&"guard-status".into(), &false.into())
    );
    let [first, second] = [0, 1].map(|at| &status["guards"][at]);
    let documented =
        include_str!("../docs/JSON.md").split("## `namegate guard status --json`").nth(1).unwrap();
    let rows = documented.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    assert_eq!(first.as_object().unwrap().keys().collect::<Vec<_>>().len(), rows.clone().count());
    assert!(rows.clone().all(|field| first.get(field).is_some()), "{:?}", rows.collect::<Vec<_>>());
    assert_eq!(first["path"]["shown"], dir.path().join("tree").to_str().unwrap());
    assert_eq!([&first["mode"], &first["errno"], &first["scope"]], ["enforcing", "EILSEQ", "filesystem"]);
    assert_eq!((&first["is_reachable"], &first["profiles"][0]), (&true.into(), &"windows".into()));
    assert_eq!(first["counts"], serde_json::json!({"refused": 7, "audited": 0, "lost_events": 1}));
    assert_eq!(first["unchecked_rules"], serde_json::json!(["collision-case", "path-too-long"]));
    assert_eq!((&second["mode"], &second["errno"]), (&"audit".into(), &Value::Null));

    let said = text(&guards.run(dir.path(), "$namegate guard status; $namegate list"));
    assert!(
        said.contains("bad names are refused with EILSEQ") && said.contains("0 refused, 5 audited"),
        "{said}"
    );
    assert!(said.contains("MISSING") && said.contains("/au\\u{1B}dit") && !said.contains('\x1b'), "{said}");
    let listed = text(&guards.run(dir.path(), "$namegate list --json"));
    let rows: Vec<Value> = listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    rows.iter().for_each(|row| assert_fits("instance", row));
    let rows: Vec<&Value> = rows.iter().filter(|row| row["state"] == "guard").collect();
    assert_eq!((rows.len(), &rows[1]["mode"], &rows[1]["uid"]), (2, &"audit".into(), &0.into()));
    assert_eq!((&rows[0]["source"], &rows[0]["mountpoint"]), (&first["path"], &Value::Null));

    let said = text(&guards.run(
        dir.path(),
        "$namegate guard off /nowhere; $namegate guard off $dir/tree; $namegate guard off --all; ls /sys/fs/bpf | grep namegate; $namegate guard off --all",
    ));
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("no guard is on for /nowhere; there are guards for: "), "{said}");
    assert!(
        lines[1].starts_with("guard off: ")
            && lines[1].ends_with("/tree (7 refused, 0 audited; 1 event lost)"),
        "{said}"
    );
    assert!(
        lines[2].starts_with("guard off: ") && lines[2].contains("/au\\u{1B}dit (0 refused, 5 aud"),
        "{said}"
    );
    assert_eq!(lines[3..], ["no guard is on"], "nothing is pinned any more: {said}");
}

#[test]
fn mounts_and_watches_tell_of_guards_beside_them() {
    let dir = tempfile::tempdir().unwrap();
    let guards = match pinned_guards(dir.path()) {
        Ok(guards) => guards,
        Err(e) => return println!("SKIPPED: {e}"),
    };
    let tree = dir.path().join("tree");
    let tree = tree.to_str().unwrap();
    let said = text(&guards.run(
        dir.path(),
        "$namegate status; $namegate status $dir/tree; $namegate watch --for 0.1s $dir/tree/..; $namegate watch --for 0.1s $pins",
    ));
    assert!(said.contains("no instance is running; `namegate guard status` shows the guards"), "{said}");
    assert!(said.contains("; a guard is on there, which `namegate guard status` shows"), "{said}");
    let note = format!("a guard refuses names in the file system of {tree}: they never appear here");
    assert!(said.contains(&note) && said.matches("a guard refuses").count() == 1, "{said}");
    // The same file system, at a place that no path of a guard tells of.
    let said = text(&guards.run(dir.path(), "mkdir $dir/beside; $namegate watch --for 0.1s $dir/beside"));
    assert!(said.contains(&note), "{said}");

    let script = "mkdir $dir/source $dir/mnt; $namegate mount $dir/source $dir/mnt 2>/dev/null & server=$!
        i=0; until $namegate status >/dev/null 2>&1; do i=$((i + 1)); [ $i -lt 300 ] || exit 98; sleep 0.1; done
        $namegate status --json; $namegate status; $namegate top --once --interval 0.1; umount $dir/mnt; wait $server";
    let output = guards.run(dir.path(), script);
    if output.status.code() == Some(98) {
        return println!("SKIPPED: nothing can be mounted here");
    }
    let said = text(&output);
    let status: Value = serde_json::from_str(said.lines().next().unwrap()).unwrap();
    assert_fits("status", &status);
    assert_eq!((&status["mode"], &status["guards"][0]["path"]["shown"]), (&"enforcing".into(), &tree.into()));
    assert_eq!((&status["guards"][0]["refused"], &status["guards"][1]["audited"]), (&7.into(), &5.into()));
    assert!(said.contains(&format!("{tree}: enforcing, 7 names refused, 0 audited")), "{said}");
    assert!(
        said.contains(&format!("guard on {tree}: enforcing, 7 refused (0.0/s), 0 audited (0.0/s)")),
        "{said}"
    );
}

/// The lines of a file of JSON Lines.
fn json_lines(path: &Path) -> Vec<Value> {
    fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Starts a reader of events, waits until it has written as many as `$1` says, and ends it. Its output is in `$dir/out`.
const READ_EVENTS: &str = r#"read_events() {
    rm -f $dir/out $dir/audit; touch $dir/out
    $namegate guard events --json --audit $dir/audit >$dir/out 2>$dir/log & reader=$!
    i=0; until [ "$(wc -l <$dir/out)" -ge "$1" ]; do i=$((i + 1)); [ $i -lt 600 ] || exit 97; sleep 0.1; done
    kill $reader; wait $reader
}
"#;

#[test]
fn what_waits_in_the_kernel_is_recorded_or_counted_as_lost_and_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut guards = match pinned_guards(dir.path()) {
        Ok(guards) => guards,
        Err(e) => return println!("SKIPPED: {e}"),
    };
    guards.add(0, &dir.path().join("tree"), Some(Errno::EINVAL), [0; 3]);
    if let Err(e) = guards.report(&[(0, &b"a:b"[..]); 3000]) {
        return println!("SKIPPED: {e}");
    }
    let counts = guards.map("counters").get(0).unwrap();
    let [refused, lost] = [0, 16].map(|at| u64::from_ne_bytes(counts[at..at + 8].try_into().unwrap()));
    assert_eq!(refused, 3000);
    assert!((1500..2500).contains(&lost), "the buffer has room for over a thousand: {lost}");
    let read = 3000 - lost;
    let output = guards.run(dir.path(), &format!("{READ_EVENTS} read_events {read}"));
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let (out, audit) = (json_lines(&dir.path().join("out")), json_lines(&dir.path().join("audit")));
    out.iter().chain(&audit).for_each(|line| assert_fits("audit", line));
    let of_type = |kind: &str| audit.iter().filter(|row| row["type"] == kind).cloned().collect::<Vec<_>>();
    let (recorded, dropped) = (of_type("refusal"), of_type("dropped"));
    assert_eq!(
        (out.len() as u64, recorded.len() as u64, audit.len()),
        (read, read, recorded.len() + dropped.len())
    );
    let by_buffer = |row: &Value| (row["reason"] == "buffer").then(|| row["count"].as_u64().unwrap());
    assert_eq!(dropped.iter().map(|row| by_buffer(row).unwrap()).sum::<u64>(), lost, "{dropped:?}");
    assert!(recorded.iter().all(|row| row["rule"] == "reserved-character"), "{:?}", recorded[0]);

    // The next reader has nothing to say of them, and the last ones are counted when nobody will read them.
    guards.report(&[(0, &b"a:b"[..]); 3]).unwrap();
    assert_eq!(guards.run(dir.path(), &format!("{READ_EVENTS} read_events 3")).status.code(), Some(1));
    let audit = json_lines(&dir.path().join("audit"));
    assert_eq!(audit.iter().map(|row| row["type"].as_str().unwrap()).collect::<Vec<_>>(), ["refusal"; 3]);
    guards.report(&[(0, b"a:b"), (31, b"x ")]).unwrap();
    let said = text(&guards.run(dir.path(), "$namegate guard off $dir/tree; $namegate guard off --all"));
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].contains(&format!("(3,004 refused, 0 audited; {},", lost / 1000)), "{said}");
    assert_eq!(lines[2..], ["2 events that nobody had read are gone with the last guard"], "{said}");
}

#[test]
fn events_that_nobody_takes_from_a_pipe_are_in_the_audit_log_or_wait_for_the_next_reader() {
    const EVENTS: usize = 500;
    let dir = tempfile::tempdir().unwrap();
    let mut guards = match pinned_guards(dir.path()) {
        Ok(guards) => guards,
        Err(e) => return println!("SKIPPED: {e}"),
    };
    guards.add(0, &dir.path().join("tree"), Some(Errno::EINVAL), [0; 3]);
    let names: Vec<Vec<u8>> = (0..EVENTS).map(|n| format!("a:{n}").into_bytes()).collect();
    if let Err(e) = guards.report(&names.iter().map(|name| (0, &name[..])).collect::<Vec<_>>()) {
        return println!("SKIPPED: {e}");
    }
    // A pipe without room stays open for reading, so that a writer waits.
    let script = format!(
        r#"mkfifo $dir/full; exec 3<>$dir/full; head -c 65536 /dev/zero >&3
        $namegate guard events --json --audit $dir/first >&3 2>$dir/log & reader=$!
        until [ -s $dir/first ]; do i=$((i + 1)); [ $i -lt 600 ] || exit 97; sleep 0.1; done
        kill $reader; timeout 5 tail -f /dev/null --pid=$reader || exit 98; wait $reader; ended=$?
        touch $dir/second; $namegate guard events --format log --audit $dir/second 2>$dir/log & reader=$!; i=0
        until [ $(cat $dir/first $dir/second | wc -l) -ge {EVENTS} ]; do i=$((i + 1)); [ $i -lt 100 ] || break; sleep 0.1; done
        kill $reader; wait $reader; exit $ended"#
    );
    let output = guards.run(dir.path(), &script);
    assert_eq!(
        output.status.code(),
        Some(143),
        "{}{:?}",
        text(&output),
        fs::read_to_string(dir.path().join("log"))
    );
    let recorded: Vec<Value> =
        ["first", "second"].iter().flat_map(|log| json_lines(&dir.path().join(log))).collect();
    let mut found: Vec<Vec<u8>> = recorded
        .iter()
        .filter(|row| row["type"] == "refusal")
        .map(|row| row["name"].as_str().unwrap().as_bytes().to_vec())
        .collect();
    let mut expected = names;
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
}

#[test]
fn an_event_is_never_reported_under_another_guard_that_took_the_slot() {
    let dir = tempfile::tempdir().unwrap();
    let mut guards = match pinned_guards(dir.path()) {
        Ok(guards) => guards,
        Err(e) => return println!("SKIPPED: {e}"),
    };
    if let Err(e) = guards.report(&[(0, b"a:b"), (0, b"c:d")]) {
        return println!("SKIPPED: {e}");
    }
    fs::create_dir(dir.path().join("next")).unwrap();
    guards.add_as(77, 0, &dir.path().join("next"), Some(Errno::EINVAL), false);
    guards.report(&[(0, b"e:f")]).unwrap();
    let output = guards.run(dir.path(), &format!("{READ_EVENTS} read_events 3; cat $dir/log"));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let rows = json_lines(&dir.path().join("audit"));
    let rows: Vec<&Value> = rows.iter().filter(|row| row["type"] == "refusal").collect();
    assert_eq!(
        rows.iter().map(|row| row["name"].as_str().unwrap()).collect::<Vec<_>>(),
        ["a:b", "c:d", "e:f"]
    );
    for row in &rows[..2] {
        assert_eq!((&row["parent"], &row["rule"]), (&"\u{2026}".into(), &Value::Null), "{row}");
    }
    assert_eq!(rows[2]["rule"], "reserved-character");
    let out = fs::read_to_string(dir.path().join("out")).unwrap();
    assert!(!out.contains("/next"), "{out}");
}

#[test]
fn off_ends_all_guards_of_a_path_and_on_replaces_what_is_not_there_any_more() {
    let dir = tempfile::tempdir().unwrap();
    let mut guards = match pinned_guards(dir.path()) {
        Ok(guards) => guards,
        Err(e) => return println!("SKIPPED: {e}"),
    };
    let tree = dir.path().join("tree");
    guards.add(3, &tree, None, [0; 3]);
    guards.add_as(9, 4, &tree, Some(Errno::EPERM), true);
    let said = text(&guards.run(dir.path(), "$namegate guard status; $namegate list; $namegate guard off $dir/tree; $namegate guard off $dir/tree"));
    assert_eq!(said.matches("Its file system was unmounted: the guard has ended").count(), 1, "{said}");
    assert_eq!(said.matches(" guard  ").count(), 3, "one that has ended is not listed: {said}");
    assert_eq!(said.matches("guard off: ").count(), 3, "{said}");
    assert!(said.contains("no guard is on for "), "{said}");
    if !guards.can_be_turned_on(dir.path()) {
        return println!("SKIPPED: this kernel runs no program on its hooks");
    }

    // Of the whole file system and named by another path: that one is named, and stays without the option.
    guards.add(0, &tree, Some(Errno::EPERM), [0; 3]);
    let output = guards.run(
        dir.path(),
        "$modules 2>/dev/null; mkdir $dir/other; $namegate guard on $dir/other --whole-filesystem; echo $?
        $namegate guard on $dir/other --whole-filesystem --replace; $namegate guard off $dir/tree; $namegate guard status",
    );
    let said = text(&output);
    assert!(
        said.contains(&format!("guarded as {} already", tree.display())) && said.starts_with("2\n"),
        "{said}"
    );
    assert!(said.contains(&format!("It replaces the guard of {}.", tree.display())), "{said}");
    assert!(said.contains("guard replaced: ") && said.contains("refuses bad names with EPERM"), "{said}");
    assert!(said.contains(&format!("no guard is on for {}", tree.display())), "{said}");

    // A directory that was removed and made again.
    let output = guards.run(
        dir.path(),
        "$modules 2>/dev/null; mount -t tmpfs tmpfs $dir/other && mkdir $dir/other/share && $namegate guard on $dir/other/share --enforce
        for again in 1 2 3; do
            mkdir $dir/other/new; rmdir $dir/other/share; mv $dir/other/new $dir/other/share
            $namegate guard on $dir/other/share
        done
        $namegate guard off $dir/other/share; $namegate guard off $dir/other/share; umount $dir/other",
    );
    let said = text(&output);
    assert_eq!(said.matches("guard on: ").count(), 4, "{said}");
    assert_eq!(said.matches("refuses bad names").count(), 4, "the next one enforces, too: {said}");
    assert_eq!(said.matches("guard off: the directory that was ").count(), 3, "{said}");
    assert_eq!(
        (said.matches("guard off: /").count(), said.matches("no guard is on for").count()),
        (1, 1),
        "{said}"
    );
}

#[test]
fn a_kernel_that_forbids_the_programs_and_a_directory_of_others_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let pins = match Pins::mount() {
        Ok(pins) => pins,
        Err(e) => return println!("SKIPPED: cannot mount a BPF file system: {e}"),
    };
    let run = |script: &str| {
        let mut shell = Command::new("unshare");
        let script = format!("mount --bind {} /sys/fs/bpf || exit 99; {script}", pins.0.path().display());
        shell.args(["--mount", "--propagation", "private", "sh", "-c", &script]);
        shell.env("namegate", env!("CARGO_BIN_EXE_namegate")).env("dir", dir.path()).output().unwrap()
    };
    let output = run("$namegate guard check");
    let said = text(&output);
    if output.status.code() == Some(99) {
        return println!("SKIPPED: there is no /sys/fs/bpf to mount over");
    }
    assert!(!said.contains("`namegate guard check`"), "it does not point at itself: {said}");
    // The doctor says the same of it, where settings tell of no obstacle.
    let doctor = text(&run("$namegate doctor"));
    let of_doctor = doctor.lines().find(|line| line.split_whitespace().nth(1) == Some("guard")).unwrap();
    let settings_allow = said.lines().any(|line| line.starts_with("ok") && line.contains(" guard "));
    let loads = said.lines().any(|line| line.starts_with("ok") && line.contains(" guard-load "));
    assert_eq!(of_doctor.starts_with("ok"), settings_allow && loads, "{said}{doctor}");
    if said.contains("Operation not permitted") {
        assert!(said.contains("this kernel or its vendor forbids BPF LSM programs"), "{said}");
        assert!(said.contains("use `namegate mount` or `namegate watch`"), "{said}");
    }
    let said = text(&run(
        "mount -t securityfs securityfs /sys/kernel/security 2>/dev/null; $namegate guard on $dir",
    ));
    assert!(!said.contains("forbids") || said.contains("use `namegate mount` or `namegate watch`"), "{said}");
    let output =
        run("mkdir -m 700 /sys/fs/bpf/namegate && chown 65534 /sys/fs/bpf/namegate && $namegate guard check");
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("/sys/fs/bpf/namegate does not belong to root alone"), "{said}");
}
