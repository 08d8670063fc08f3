//! The guard's program: its object is of its source, and in the kernel it refuses the names that the policy refuses.
#![cfg(feature = "guard")]
#![expect(clippy::unwrap_used, reason = "a test ends where something is wrong")]

use std::io::ErrorKind::PermissionDenied;
use std::os::fd::AsFd;

use aya::Btf;
use aya::programs::{Lsm, ProgramError, SchedClassifier};
use namegate::guard::program::{HOOKS, OBJECT, Program};
use namegate::guard::table::{GuardScope, table};
use namegate::policy::automaton::{Automaton, Coverage};
use namegate::policy::profile::{self, ProfileRule};
use namegate::policy::{Policy, Verdict};
use namegate::sys::bpf::test_run;
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
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
