//! Checks names against profiles, explains their violations and suggests other names.
//!
//! `cargo run --example check_names -- windows,macos aux.txt report.txt`

use std::error::Error;

use namegate_core::name::display::display;
use namegate_core::policy::{EncodingHint, Policy, profile};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args_os().skip(1).map(|arg| arg.into_encoded_bytes());
    let profiles = String::from_utf8(args.next().ok_or("usage: check_names PROFILE[,PROFILE...] NAME...")?)?;
    let profiles = profiles.split(',').map(profile::by_name).collect::<Result<Vec<_>, _>>()?;
    let policy = Policy::from_profiles(&profiles);
    for name in args {
        let check = policy.check(&name);
        println!("{}: {}", display(&name), check.outcome().as_str());
        for violation in &check.violations {
            let message = check.message(&policy, violation);
            println!("  {} {}: {message}", violation.severity, violation.rule);
        }
        if let Some(suggested) = policy.suggest_name(&name, EncodingHint::Unknown, &mut |_| false) {
            let confidence = suggested.confidence.as_str();
            println!("  suggested name: {} ({confidence})", display(suggested.name.as_bytes()));
        }
    }
    Ok(())
}
