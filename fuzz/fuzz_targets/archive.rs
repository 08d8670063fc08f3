//! Any bytes as an archive of `fix archive`: a copy is an archive that is read without a fault, with as many members; without anything to
//! rename or to mark, a zip is the same. Otherwise there is no copy.
#![no_main]

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{env, fmt, fs, process};

use libfuzzer_sys::fuzz_target;
use namegate_core::policy::config::Config;
use namegate_core::policy::{Confidence, Policy};
use namegate_fix::archive::{CopyTally, MemberNames, MemberSource};
use namegate_fix::plan::PlanHeader;
use namegate_fix::propose::PlanSettings;
use namegate_fix::propose::members::propose_for_members;
use namegate_fix::stored_plan::StoredPlan;
use namegate_scan::progress::Observer;
use namegate_scan::source::archive::MemberEncoding;

#[derive(Default)]
struct Faults(AtomicU64);

impl Observer for Faults {
    fn problem(&self, _: &dyn fmt::Display) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

thread_local! {
    static POLICY: Cell<Option<&'static Policy>> = const { Cell::new(None) };
}

fn policy() -> &'static Policy {
    POLICY.get().unwrap_or_else(|| {
        let config = Config::parse("profiles = [\"windows\"]\n").expect("it is valid");
        let policy = Box::leak(Box::new(config.policy().expect("it is valid")));
        POLICY.set(Some(policy));
        policy
    })
}

/// The copy of the archive at `path`; `None` if there is none, because programs read the archive differently or it depends on names.
fn copy(path: &Path) -> Option<(Vec<u8>, CopyTally, u64)> {
    let (source, faults) = (MemberSource::open(path, 1 << 24).ok()?, Faults::default());
    let draft = propose_for_members(&source, policy(), &PlanSettings::default(), 1, &faults).ok()?;
    let header = PlanHeader { roots: draft.roots.clone(), ..PlanHeader::default() };
    let plan = StoredPlan::from_draft(&header, &draft).expect("what was planned is a plan");
    if faults.0.into_inner() > 0 {
        return None;
    }
    let (mut names, mut out) = (MemberNames::new(&plan, Confidence::Guess).ok()?, Vec::new());
    let tally = source.copy(&mut names, MemberEncoding::Auto, &mut out, &Faults::default()).ok()?;
    Some((out, tally, plan.renames(Confidence::Guess)))
}

fuzz_target!(|bytes: &[u8]| {
    let path = |name: &str| -> PathBuf { env::temp_dir().join(format!("namegate-fuzz-{}-{name}", process::id())) };
    let (archive, copied) = (path("archive"), path("copy"));
    fs::write(&archive, bytes).expect("there is space");
    if let Some((out, tally, renames)) = copy(&archive) {
        if renames == 0 && tally.marked == 0 && bytes.starts_with(b"PK") {
            assert_eq!(out, bytes);
        }
        fs::write(&copied, &out).expect("there is space");
        let (_, again, _) = copy(&copied).expect("a copy is read without a fault");
        assert_eq!(again.members, tally.members);
    }
});
