//! Any text as a policy file: errors are inside the text and act on no terminal; a file that is read can be written and read
//! again, and gives the same policy.
#![no_main]

use libfuzzer_sys::fuzz_target;
use namegate_core::name::display::acts_or_hides;
use namegate_core::policy::config::Config;

fuzz_target!(|text: &str| {
    let config = match Config::parse(text) {
        Ok(config) => config,
        Err(error) => {
            assert!(!error.errors().is_empty());
            let lines = text.split('\n').count();
            let places = error.errors().iter().filter_map(|error| error.position.as_ref());
            places.for_each(|place| assert!((1..=lines).contains(&place.line()) && place.column() >= 1));
            let shown = error.in_file("policy.toml").to_string();
            assert!(!shown.chars().any(|c| c != '\n' && acts_or_hides(c)), "{shown:?}");
            return;
        }
    };
    let again = Config::parse(&config.to_toml()).expect("what is written can be read");
    assert_eq!(again.to_toml(), config.to_toml());
    let Ok(policy) = config.policy() else { return };
    let written = Config::from_policy(&policy).expect("a configuration asked for it").to_toml();
    let read = Config::parse(&written).and_then(|config| config.policy()).expect("what is written is whole");
    let seen = |policy: &namegate_core::policy::Policy| {
        let lines = policy.rules().iter().map(|line| (line.test.clone(), line.severity, line.profiles));
        (policy.normalization(), lines.collect::<Vec<_>>())
    };
    assert_eq!(seen(&read), seen(&policy));
});
