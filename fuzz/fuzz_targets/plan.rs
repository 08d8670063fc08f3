//! Any bytes as a plan of `fix`: errors are in its lines and safe on a terminal; a valid plan leads nowhere outside of its roots,
//! is written and read again unchanged, and its order renames each entry once.
#![no_main]

use libfuzzer_sys::fuzz_target;
use namegate_fix::plan::order::order_names;
use namegate_fix::plan::{name_objection, path_objection};
use namegate_fix::stored_plan::StoredPlanError;
use namegate_core::name::display::acts_or_hides;

#[path = "../../tests/fix/whole_plan.rs"]
mod whole_plan;

use whole_plan::Plan;

fuzz_target!(|text: &[u8]| {
    let plan = match Plan::parse(text) {
        Ok(plan) => plan,
        Err(StoredPlanError::File(error)) => panic!("{error}"),
        Err(StoredPlanError::Lines(errors)) => {
            assert!(!errors.is_empty());
            let lines = text.split(|&b| b == b'\n').count();
            for error in errors {
                assert!(error.line <= lines);
                assert!(!error.message.chars().any(acts_or_hides), "{:?}", error.message);
            }
            return;
        }
    };
    for rename in &plan.renames {
        assert!(plan.header.covers(&rename.directory.path, &rename.old));
        assert_eq!(path_objection(&rename.directory.path), None);
        assert_eq!(name_objection(rename.new.as_bytes()), None);
    }
    let lines = [plan.header.to_line()]
        .into_iter()
        .chain(plan.renames.iter().map(|rename| rename.to_line()))
        .chain(plan.retargets.iter().map(|retarget| retarget.to_line()))
        .chain(plan.skipped.iter().map(|skipped| skipped.to_line()));
    let written = lines.collect::<Vec<_>>().join("\n");
    assert!(!written.chars().any(|c| c != '\n' && acts_or_hides(c)));
    assert_eq!(Plan::parse(written.as_bytes()).expect("it is a plan"), plan);
    for renames in plan.renames.chunk_by(|a, b| a.directory == b.directory) {
        let names: Vec<(&[u8], &[u8])> = renames.iter().map(|r| (&*r.old, r.new.as_bytes())).collect();
        let mut renamed = order_names(&names).concat();
        renamed.sort_unstable();
        assert!(renamed.into_iter().eq(0..renames.len()));
    }
});
