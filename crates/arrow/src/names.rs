//! Names, keys and paths one by one, without their directories.

use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::{Array, ArrayRef, StructArray};
use arrow_schema::ArrowError;
use namegate_core::name::display::display;
use namegate_core::policy::rule::RuleId;
use namegate_core::policy::{CheckOutcome, EncodingHint, Entry, NameCheck, Policy, SuggestedName};
use namegate_findings::split::{MAX_NAME, Shape, TOO_DEEP, takes};

use crate::byte_column::ByteColumn;
use crate::schema;

/// Checks each item of a column by itself: one row of [`schema::checked_name`] for each. Of a key or a path each name is checked, and
/// the length of the whole. Items are not compared, so there are no collisions, and a suggested name can be in use.
///
/// # Errors
/// The column has neither bytes nor text.
pub fn check_names(items: &ArrayRef, shape: Shape, policy: &Policy) -> Result<CheckedItems, ArrowError> {
    let column = ByteColumn::new("name", items)?;
    let (mut verdicts, mut rules) = (StringBuilder::new(), ListBuilder::new(StringBuilder::new()));
    let [mut messages, mut repairs, mut confidences] = [(); 3].map(|()| StringBuilder::new());
    let (mut given, mut paths) = (0, 0);
    for at in 0..items.len() {
        let Some(item) = column.get(at) else {
            verdicts.append_null();
            rules.append_null();
            [&mut messages, &mut repairs, &mut confidences].into_iter().for_each(StringBuilder::append_null);
            continue;
        };
        given += 1;
        paths += usize::from(shape == Shape::Name && item.contains(&b'/'));
        let checked = match fault(item, shape) {
            Some(message) => CheckedItem { message: Some(message), ..CheckedItem::default() },
            None => CheckedItem::new(item, shape, policy),
        };
        verdicts.append_value(checked.outcome.map_or("fault", CheckOutcome::as_str));
        checked.rules.iter().for_each(|rule| rules.values().append_value(rule.name()));
        rules.append(true);
        messages.append_option(checked.message);
        repairs.append_option(checked.repair.as_ref().map(|repair| &repair.name));
        confidences.append_option(checked.repair.as_ref().map(|repair| repair.confidence.as_str()));
    }
    let columns: Vec<ArrayRef> = vec![
        Arc::new(verdicts.finish()),
        Arc::new(rules.finish()),
        Arc::new(messages.finish()),
        Arc::new(repairs.finish()),
        Arc::new(confidences.finish()),
    ];
    let rows = StructArray::try_new(schema::checked_name(), columns, None)?;
    Ok(CheckedItems { rows, given, paths })
}

/// The results of [`check_names`].
#[derive(Debug)]
pub struct CheckedItems {
    /// One row for each item.
    pub rows: StructArray,
    /// The number of items that are not null.
    pub given: usize,
    /// The number of names that have a `/`, so that they may be paths.
    pub paths: usize,
}

/// Why an item cannot be checked.
fn fault(item: &[u8], shape: Shape) -> Option<String> {
    let what = match shape {
        Shape::Name => "name",
        Shape::Key => "key",
        Shape::Path | Shape::File => "path",
    };
    if item.len() > MAX_NAME {
        return Some(format!("the {what} has more than {MAX_NAME} bytes"));
    }
    let is_deep = shape != Shape::Name && !takes(item);
    is_deep.then(|| format!("the {what} has {TOO_DEEP}"))
}

/// What was found about an item.
#[derive(Default)]
struct CheckedItem {
    /// `None` if it cannot be checked.
    outcome: Option<CheckOutcome>,
    /// The rules that it breaks, each once.
    rules: Vec<RuleId>,
    /// The message for one of the violations that decide.
    message: Option<String>,
    /// The whole item, with a suggested name for each name that breaks a rule.
    repair: Option<SuggestedName>,
}

impl CheckedItem {
    fn new(item: &[u8], shape: Shape, policy: &Policy) -> Self {
        let mut checked = Self { outcome: Some(CheckOutcome::Accept), ..Self::default() };
        for (name, kind) in shape.entries(item).into_iter().filter(|(name, _)| shape.is_name(name)) {
            checked.add(policy, &policy.check_entry(name, Entry::of_kind(kind)), |message| match shape {
                Shape::Name if name.contains(&b'/') => {
                    format!("{message}; check a path as one: shape `paths` or `keys`")
                }
                _ if name.len() < item.len() => format!("`{}`: {message}", display(name)),
                _ => message,
            });
        }
        if shape != Shape::Name && policy.checks_paths() {
            let check = NameCheck { name: item, violations: policy.check_path(item, shape.kind_of(item)) };
            checked.add(policy, &check, |message| message);
        }
        if !checked.rules.is_empty() {
            checked.repair = suggest(item, shape, policy);
        }
        checked
    }

    /// Adds the violations of a name, or of the path. The message is kept if they are graver than those before.
    fn add(&mut self, policy: &Policy, check: &NameCheck<'_>, in_context: impl Fn(String) -> String) {
        for violation in &check.violations {
            if !self.rules.contains(&violation.rule) {
                self.rules.push(violation.rule);
            }
        }
        let outcome = check.outcome();
        if self.outcome < Some(outcome) {
            self.outcome = Some(outcome);
            let gravest = check.violations.iter().rev().max_by_key(|violation| violation.severity);
            self.message = gravest.map(|violation| in_context(check.message(policy, violation)));
        }
    }
}

/// The item with a suggested name for each name that breaks a rule, as sure as the least sure of them; `None` if one of them has no
/// suggested name, or if no name breaks a rule.
fn suggest(item: &[u8], shape: Shape, policy: &Policy) -> Option<SuggestedName> {
    let (mut names, mut confidence) = (Vec::new(), None);
    for (component, kind) in shape.entries(item) {
        let is_valid = || policy.check_entry(component, Entry::of_kind(kind)).violations.is_empty();
        if !shape.is_name(component) || is_valid() {
            names.push(str::from_utf8(component).ok()?.to_owned());
            continue;
        }
        let repair = policy.suggest_name(component, EncodingHint::Unknown, &mut |_| false)?;
        confidence = confidence.max(Some(repair.confidence));
        names.push(repair.name);
    }
    let mut name = names.join("/");
    if shape == Shape::Key && item.ends_with(b"/") {
        name.push('/');
    }
    Some(SuggestedName { name, confidence: confidence?, is_shortened: false, decoded: None })
}
