//! Finds the names that collide when they are in one directory of a target.
//!
//! `cargo run --example collisions -- windows Makefile makefile README`

use std::error::Error;

use namegate_core::check::DirectoryNames;
use namegate_core::name::arena::Arena;
use namegate_core::name::display::display;
use namegate_core::policy::{Policy, profile};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args_os().skip(1).map(|arg| arg.into_encoded_bytes());
    let target = String::from_utf8(args.next().ok_or("usage: collisions PROFILE NAME...")?)?;
    let policy = Policy::from_profiles(&[profile::by_name(&target)?]);
    let mut names = Arena::new();
    for name in args {
        names.push(&name)?;
    }
    let Some(check) = policy.check_directory(&DirectoryNames::new(&names)) else {
        println!("{target} accepts all names");
        return Ok(());
    };
    for collision in &check.collisions {
        let members: Vec<String> =
            collision.members.iter().map(|&at| display(check.names[at]).to_string()).collect();
        println!("{}: {}", collision.violations[0].rule, members.join(", "));
    }
    for (at, suggested) in check.suggested_names(&policy, None) {
        println!("rename {} to {}", display(check.names[at]), display(suggested.name.as_bytes()));
    }
    Ok(())
}
