//! The guard's program: its object is of its source, and in the kernel it refuses the names that the policy refuses. And what commands show
//! of guards, whose maps any kernel can hold.
#![cfg(feature = "guard")]
#![expect(clippy::unwrap_used, reason = "a test ends where something is wrong")]

use std::fs;
use std::io::ErrorKind::PermissionDenied;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Output};

use aya::Btf;
use aya::programs::{Lsm, ProgramError, SchedClassifier};
use namegate::guard::note::GuardNote;
use namegate::guard::program::{HOOKS, OBJECT, Program, SLOTS};
use namegate::guard::table::{GuardScope, encode_devices, table};
use namegate::guard::target::GuardTarget;
use namegate::json::JsonBytes;
use namegate::policy::automaton::{Automaton, Coverage};
use namegate::policy::config::Config as PolicyFile;
use namegate::policy::profile::{self, ProfileRule};
use namegate::policy::{Policy, Verdict};
use namegate::sys::bpf::{BpfMap, test_run};
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use serde_json::Value;
use sha2::{Digest, Sha256};

#[test]
fn the_object_is_of_the_source() {
    let hash = Sha256::digest(include_bytes!("../src/guard/guard.bpf.c"));
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    let is_there = OBJECT.windows(hash.len()).any(|window| window == hash.as_bytes());
    assert!(
        is_there,
        "src/guard/guard.bpf.c changed: run scripts/build-guard, which makes guard.bpf.o of it"
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
    let mut covered = Vec::new();
    for (slot, policy) in (0..).zip(&policies) {
        let coverage = Coverage::new(policy);
        let scope = GuardScope { device: 1, root: None, refusal: Some(Errno::EINVAL) };
        program.set(slot, &table(scope, &Automaton::new(&coverage).unwrap(), b"").unwrap()).unwrap();
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
            let found = test_run(check, &question(slot, &name)).unwrap();
            assert_eq!(found, u32::from(expected), "policy {slot}: {:?}", name.escape_ascii().to_string());
        }
    }
    assert!((100_000..400_000).contains(&refused), "both answers are frequent: {refused} of 500,000 refused");
}

/// Maps of guards, pinned as `guard on` pins them, but for programs and links: no kernel has to run anything for them.
struct PinnedGuards {
    pins: Pins,
    program: Program,
    devices: Vec<u32>,
}

impl PinnedGuards {
    fn new(pins: Pins) -> Result<Self, String> {
        let dir = pins.0.path().join("namegate");
        fs::create_dir_all(dir.join("reader")).unwrap();
        let program = Program::new(&dir).map_err(|e| e.to_string())?;
        Ok(Self { pins, program, devices: vec![0; SLOTS as usize] })
    }

    /// A guard of `path` with the policy `windows`, which has counted these numbers.
    fn add(&mut self, slot: u32, path: &Path, refusal: Option<Errno>, counts: [u64; 3]) {
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
        self.program.set(slot, &table(scope, &automaton, &note.to_bytes()).unwrap()).unwrap();
        self.devices[slot as usize] = target.device;
        let map = |name: &str| BpfMap::open(&self.pins.0.path().join("namegate").join(name)).unwrap();
        map("devices").set(0, &encode_devices(&self.devices)).unwrap();
        let counts: Vec<u8> = counts.into_iter().flat_map(u64::to_ne_bytes).collect();
        map("counters").set(slot, &counts).unwrap();
    }

    /// Runs a shell script where these guards are the guards of the machine, with the program as `$namegate` and `dir` as `$dir`.
    fn run(&self, dir: &Path, script: &str) -> Output {
        let script = format!("mount --bind \"$pins\" /sys/fs/bpf || exit 99; {script}");
        let mut shell = Command::new("unshare");
        shell.args(["--mount", "--propagation", "private", "sh", "-c", &script]);
        shell.env("pins", self.pins.0.path()).env("dir", dir).env("namegate", env!("CARGO_BIN_EXE_namegate"));
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
    let rows: Vec<&Value> = rows.iter().filter(|row| row["state"] == "guard").collect();
    assert_eq!((rows.len(), &rows[1]["mode"], &rows[1]["uid"]), (2, &"audit".into(), &0.into()));
    assert_eq!((&rows[0]["source"], &rows[0]["mountpoint"]), (&first["path"], &Value::Null));

    let said = text(&guards.run(
        dir.path(),
        "$namegate guard off /nowhere; $namegate guard off $dir/tree; $namegate guard off --all; ls /sys/fs/bpf | grep namegate; $namegate guard off --all",
    ));
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("no guard is on for /nowhere; there are guards for: "), "{said}");
    assert!(lines[1].starts_with("guard off: ") && lines[1].ends_with("/tree"), "{said}");
    assert!(lines[2].starts_with("guard off: ") && lines[2].ends_with("/au\\u{1B}dit"), "{said}");
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
    assert_eq!((&status["mode"], &status["guards"][0]["path"]["shown"]), (&"enforcing".into(), &tree.into()));
    assert_eq!((&status["guards"][0]["refused"], &status["guards"][1]["audited"]), (&7.into(), &5.into()));
    assert!(said.contains(&format!("{tree}: enforcing, 7 names refused, 0 audited")), "{said}");
    assert!(
        said.contains(&format!("guard on {tree}: enforcing, 7 refused (0.0/s), 0 audited (0.0/s)")),
        "{said}"
    );
}
