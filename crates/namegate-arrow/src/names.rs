//! Names one by one, without their directories.

use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::{Array, ArrayRef, StructArray};
use arrow_schema::ArrowError;
use namegate_core::policy::{CheckOutcome, EncodingHint, Policy};
use namegate_findings::split::MAX_NAME;

use crate::byte_column::ByteColumn;
use crate::schema;

/// Checks each name of a column by itself: one row of [`schema::checked_name`] for each. Names are not compared, so there are no
/// collisions, and a suggested name can be in use.
///
/// # Errors
/// The column has neither bytes nor text.
pub fn check_names(names: &ArrayRef, policy: &Policy) -> Result<StructArray, ArrowError> {
    let column = ByteColumn::new("name", names)?;
    let (mut verdicts, mut rules) = (StringBuilder::new(), ListBuilder::new(StringBuilder::new()));
    let [mut messages, mut repairs, mut confidences] = [(); 3].map(|()| StringBuilder::new());
    for at in 0..names.len() {
        let Some(name) = column.get(at) else {
            verdicts.append_null();
            rules.append_null();
            [&mut messages, &mut repairs, &mut confidences].into_iter().for_each(StringBuilder::append_null);
            continue;
        };
        if name.len() > MAX_NAME {
            verdicts.append_value("fault");
            rules.append(true);
            messages.append_value(format!("the name has more than {MAX_NAME} bytes"));
            [&mut repairs, &mut confidences].into_iter().for_each(StringBuilder::append_null);
            continue;
        }
        let check = policy.check(name);
        let outcome = check.outcome();
        verdicts.append_value(outcome.as_str());
        let mut seen = Vec::new();
        for violation in &check.violations {
            if !seen.contains(&violation.rule) {
                seen.push(violation.rule);
                rules.values().append_value(violation.rule.name());
            }
        }
        rules.append(true);
        // One of the violations that decide.
        let gravest = check.violations.iter().rev().max_by_key(|violation| violation.severity);
        messages.append_option(gravest.map(|violation| check.message(policy, violation)));
        let repair = match outcome {
            CheckOutcome::Accept => None,
            _ => policy.suggest_name(name, EncodingHint::Unknown, &mut |_| false),
        };
        repairs.append_option(repair.as_ref().map(|repair| &repair.name));
        confidences.append_option(repair.as_ref().map(|repair| repair.confidence.as_str()));
    }
    let columns: Vec<ArrayRef> = vec![
        Arc::new(verdicts.finish()),
        Arc::new(rules.finish()),
        Arc::new(messages.finish()),
        Arc::new(repairs.finish()),
        Arc::new(confidences.finish()),
    ];
    StructArray::try_new(schema::checked_name(), columns, None)
}
