//! Any bytes as a plan of `fix`: mistakes lie in its lines and act on no terminal; what is read leads nowhere outside of its
//! roots, is written and read again as the same, and its steps move each entry once.
#![no_main]

use libfuzzer_sys::fuzz_target;
use namegate::fix::plan::order::order;
use namegate::fix::plan::{Plan, name_objection, path_objection};
use namegate::name::display::acts_or_hides;

fuzz_target!(|text: &[u8]| {
    let plan = match Plan::parse(text) {
        Ok(plan) => plan,
        Err(mistakes) => {
            assert!(!mistakes.is_empty());
            let lines = text.split(|&b| b == b'\n').count();
            for mistake in mistakes {
                assert!(mistake.line <= lines);
                assert!(!mistake.message.chars().any(acts_or_hides), "{:?}", mistake.message);
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
    assert_eq!(Plan::parse(written.as_bytes()).as_ref(), Ok(&plan));
    let steps = order(&plan.renames).into_iter().flat_map(|turn| turn.steps);
    let moved: usize = steps
        .map(|step| match step {
            namegate::fix::plan::Step::Aside(_) => 0,
            step => step.members().count(),
        })
        .sum();
    assert_eq!(moved, plan.renames.len());
});
