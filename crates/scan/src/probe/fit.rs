//! Makes the policy of a target from what was tried there: a profile that fits, and the differences from it.

use std::collections::{BTreeMap, BTreeSet};

use namegate_core::name::casefold::{Fold, key};
use namegate_core::name::normalize::Form;
use namegate_core::name::scalar::class;
use namegate_core::policy::Policy;
use namegate_core::policy::config::{Config, EqualNames};
use namegate_core::policy::profile::{Profile, UTF8, by_name};
use namegate_core::policy::rule::{RuleId, Severity};

use super::samples::{SHAPES, sample_of};
use super::target_facts::TargetFacts;
use super::trial_dir::Arrival;
use super::trials::{NamePair, Trials, TriedName};

/// The profiles that fit file systems of several types, in the order of preference.
const CANDIDATES: [&str; 4] = ["utf8", "exfat", "windows", "android"];

/// A name that the policy refuses and the target stores costs this much less than one that it does not refuse.
const DANGER: usize = 10;

/// The policy of a target.
#[derive(Debug)]
pub struct PolicyFit {
    /// The profile that fits best.
    pub profile: &'static Profile,
    /// The policy: the profile, and what differs from it.
    pub config: Config,
    /// Names and pairs about which the policy says something else than the target: no policy file can say it.
    pub inexact: Vec<String>,
    /// How the target compares names.
    pub equal: EqualNames,
}

impl PolicyFit {
    /// Finds the policy. What was not tried comes from the profile for the type of the file system.
    pub fn find(facts: &TargetFacts, trials: &Trials) -> Self {
        let by_type = facts.profile();
        let others = CANDIDATES.iter().filter_map(|name| by_name(name).ok());
        let candidates = std::iter::once(by_type).chain(others.filter(|_| trials.failure.is_none()));
        let equal = find_equality(&trials.pairs);
        let adjusted = candidates.map(|profile| {
            let config = adjust(profile, facts, trials, equal);
            let inexact = config.policy().map_or(Vec::new(), |policy| differences(&policy, trials));
            let cost: usize = inexact.iter().map(|(_, cost)| cost).sum();
            // Of policies that say the same, that which adds the least to its profile fits.
            let added = config.reserved_characters.chars().count() + config.reserved_names.len();
            (
                cost,
                config.to_toml().lines().count() + added,
                Self { profile, config, inexact: inexact.into_iter().map(|(text, _)| text).collect(), equal },
            )
        });
        let best = adjusted.min_by_key(|(cost, length, _)| (*cost, *length));
        best.expect("the profile for the type is a candidate").2
    }
}

/// How the target compares names: the fold and the form that say of the fewest pairs something else than it does.
fn find_equality(pairs: &[NamePair]) -> EqualNames {
    let folds = std::iter::once(None).chain(Fold::ALL.map(Some));
    let forms = [None, Some(Form::Nfd), Some(Form::Nfkd)];
    let all = folds.flat_map(|case| forms.map(|form| EqualNames { case, form }));
    let cost = |equal: &EqualNames| -> usize { pairs.iter().map(|pair| cost_of_pair(*equal, pair)).sum() };
    all.min_by_key(cost).unwrap_or_default()
}

fn cost_of_pair(equal: EqualNames, pair: &NamePair) -> usize {
    let [first, second] = pair.names.each_ref().map(|name| key(name, equal.form, equal.case));
    match (first == second, pair.are_one) {
        (false, true) => DANGER,
        (true, false) => 1,
        _ => 0,
    }
}

/// Whether the target stores the name, if only in another case or normalization form.
pub fn is_stored(tried: &TriedName) -> bool {
    let loose =
        |name| std::str::from_utf8(name).ok().map(|text| key(text, Some(Form::Nfd), Some(Fold::Full)));
    match &tried.arrival {
        Arrival::Kept => true,
        Arrival::Changed(arrived) => loose(arrived).is_some() && loose(arrived) == loose(&tried.name),
        Arrival::Lost | Arrival::Refused(_) => false,
    }
}

/// The rules other than those of the encoding by which the policy refuses a name.
fn refused_by(policy: &Policy, name: &[u8]) -> BTreeSet<RuleId> {
    let check = policy.check(name);
    let errors = check.violations.iter().filter(|violation| violation.severity == Severity::Error);
    errors.map(|violation| violation.rule).filter(|rule| !rule.is_always_on()).collect()
}

/// The names that are text, with whether the target stores them.
fn texts(trials: &Trials) -> impl Iterator<Item = (&str, bool)> {
    trials.names.iter().filter_map(|tried| Some((std::str::from_utf8(&tried.name).ok()?, is_stored(tried))))
}

/// What the policy says of names and pairs that is not so, with its cost.
fn differences(policy: &Policy, trials: &Trials) -> Vec<(String, usize)> {
    let shown = |name: &str| match name.chars().next() {
        Some(first) if name.len() > 40 => format!("{} times {first:?}", name.chars().count()),
        _ => format!("{name:?}"),
    };
    let names = texts(trials).filter_map(|(name, is_stored)| {
        match (refused_by(policy, name.as_bytes()).is_empty(), is_stored) {
            (true, false) => {
                Some((format!("{} is not stored, and the policy allows it", shown(name)), DANGER))
            }
            (false, true) => Some((format!("{} is stored, and the policy refuses it", shown(name)), 1)),
            _ => None,
        }
    });
    let pairs = trials.pairs.iter().filter_map(|pair| {
        let [first, second] = &pair.names;
        let found = policy.collisions(&[first.as_bytes(), second.as_bytes()]);
        let is_error = |severity| severity == Severity::Error;
        let is_one = found.iter().flat_map(|one| &one.violations).any(|one| is_error(one.severity));
        match (is_one, pair.are_one) {
            (false, true) => Some((format!("{first:?} and {second:?} are one name"), DANGER)),
            (true, false) => Some((format!("{first:?} and {second:?} are two names"), 1)),
            _ => None,
        }
    });
    names.chain(pairs).collect()
}

/// The profile with what differs from it, as far as a policy file can say it.
fn adjust(profile: &'static Profile, facts: &TargetFacts, trials: &Trials, equal: EqualNames) -> Config {
    let mut config = Config::based_on(&[profile]);
    config.limits.path_bytes = Some(facts.path_bytes_left.max(1));
    switch_off(&mut config, trials);
    if profile.name == UTF8.name {
        config.severities.insert(RuleId::CollisionKind, Some(Severity::Error));
        if trials.longest.is_empty() {
            config.limits.name_bytes = facts.stated_name_max;
        }
    }
    add_equality(&mut config, trials, equal);
    add_lengths(&mut config, trials);
    add_classes(&mut config, trials);
    add_names(&mut config, trials);
    config
}

fn refusals(config: &Config, name: &str) -> BTreeSet<RuleId> {
    config.policy().map(|policy| refused_by(&policy, name.as_bytes())).unwrap_or_default()
}

/// Switches off the rules of which every name that breaks them is stored, and the equivalences that are none.
fn switch_off(config: &mut Config, trials: &Trials) {
    let Ok(policy) = config.policy() else { return };
    let mut stored = BTreeMap::<RuleId, bool>::new();
    for (name, is_stored) in texts(trials) {
        for rule in refused_by(&policy, name.as_bytes()) {
            *stored.entry(rule).or_insert(true) &= is_stored;
        }
    }
    for pair in &trials.pairs {
        for one in policy.collisions(&pair.names.each_ref().map(|name| name.as_bytes())) {
            for violation in one.violations.iter().filter(|one| one.severity == Severity::Error) {
                *stored.entry(violation.rule).or_insert(true) &= !pair.are_one;
            }
        }
    }
    let unneeded = stored.into_iter().filter(|(_, is_stored)| *is_stored).map(|(rule, _)| (rule, None));
    config.severities.extend(unneeded);
}

/// Adds the equivalence, if the profile does not merge all that the target does.
fn add_equality(config: &mut Config, trials: &Trials, equal: EqualNames) {
    let Ok(policy) = config.policy() else { return };
    let is_missing = |pair: &&NamePair| {
        let [first, second] = &pair.names;
        pair.are_one && policy.collisions(&[first.as_bytes(), second.as_bytes()]).is_empty()
    };
    if trials.pairs.iter().any(|pair| is_missing(&pair)) {
        config.equal_names = equal;
        config.severities.remove(&RuleId::CollisionCase);
        config.severities.remove(&RuleId::CollisionNormalization);
    }
}

/// Adds limits, if the profile does not have those of the target.
fn add_lengths(config: &mut Config, trials: &Trials) {
    let is_allowed = |(c, fitting): &(char, usize)| {
        let is_over = refusals(config, &c.to_string().repeat(fitting + 1)).contains(&RuleId::NameTooLong);
        let is_within = !refusals(config, &c.to_string().repeat(*fitting)).contains(&RuleId::NameTooLong);
        is_over && is_within
    };
    if trials.longest.iter().all(is_allowed) {
        return;
    }
    let each = |width: fn(char) -> usize| trials.longest.iter().map(move |&(c, count)| (width(c), count));
    // Each name fits, and one with another character does not.
    let fits_all =
        |max: usize, width: fn(char) -> usize| each(width).all(|(width, count)| max / width == count);
    let most = |width: fn(char) -> usize| each(width).map(|(width, count)| width * count).max().unwrap_or(0);
    let (bytes, utf16) = (most(char::len_utf8), most(char::len_utf16));
    config.severities.remove(&RuleId::NameTooLong);
    if fits_all(bytes, char::len_utf8) {
        config.limits.name_bytes = Some(bytes);
    } else if fits_all(utf16, char::len_utf16) {
        config.limits.name_utf16 = Some(utf16);
    } else {
        // Two limits, or another unit: what fits in any case.
        let least = each(char::len_utf8).map(|(width, count)| width * count).min();
        config.limits.name_bytes = least.map(|least| least.max(1));
    }
}

/// Adds characters: the rule of a class of which no sample is stored, and single characters.
fn add_classes(config: &mut Config, trials: &Trials) {
    let mut classes = BTreeMap::<Option<RuleId>, Vec<(char, bool)>>::new();
    for (name, is_stored) in texts(trials) {
        let Some(Ok(sample)) = sample_of(name.as_bytes()).map(std::str::from_utf8) else { continue };
        let mut chars = sample.chars();
        if let (Some(c), None) = (chars.next(), chars.next()) {
            classes.entry(class(c).map(RuleId::from)).or_default().push((c, is_stored));
        }
    }
    for (class, samples) in classes {
        let are_all_refused = samples.iter().all(|(_, is_stored)| !is_stored);
        for (c, _) in samples.into_iter().filter(|(_, is_stored)| !is_stored) {
            match class.filter(|_| are_all_refused) {
                _ if !refusals(config, &format!("0{c}x")).is_empty() => {}
                Some(rule) => _ = config.severities.insert(rule, Some(Severity::Error)),
                None => config.reserved_characters.push(c),
            }
        }
    }
}

/// Adds names and their ends that are not stored and nothing refuses yet.
fn add_names(config: &mut Config, trials: &Trials) {
    let unexplained = |config: &Config, name: &str| refusals(config, name).is_empty();
    for (name, is_stored) in texts(trials) {
        if is_stored || sample_of(name.as_bytes()).is_some() || !unexplained(config, name) {
            continue;
        }
        let rule = match name.as_bytes() {
            [b' ', ..] => Some(RuleId::LeadingSpace),
            [.., b' '] => Some(RuleId::TrailingSpace),
            [.., b'.'] => Some(RuleId::TrailingDot),
            [b'-', ..] => Some(RuleId::LeadingDash),
            [b'~', ..] => Some(RuleId::LeadingTilde),
            _ => None,
        };
        match rule.filter(|_| SHAPES.contains(&name)) {
            Some(rule) => _ = config.severities.insert(rule, Some(Severity::Error)),
            // A long name has its limit.
            None if name.len() <= 16 => config.reserved_names.push(name.to_owned()),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests;
