//! Checks the numbers in the pages that the program can count.

use clap::CommandFactory;
use namegate::cli::Cli;
use namegate_core::policy::profile;
use namegate_core::policy::rule;

use super::markdown::{pages, prose, read};

/// Maximum length of the README.
const README_LINES: usize = 150;

/// The numbers before `noun`, as in `23 profiles`, `**23** profiles`.
fn counted(prose: &str, noun: &str) -> Vec<usize> {
    let plain = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
    let words: Vec<String> = prose.split_whitespace().map(plain).collect();
    let pairs = words.windows(2).filter(|pair| pair[1] == noun);
    pairs.filter_map(|pair| pair[0].replace(',', "").parse().ok()).collect()
}

#[test]
fn pages_count_profiles_rules_and_commands_as_the_program_does() {
    let commands = Cli::command().get_subcommands().filter(|command| command.get_name() != "help").count();
    let truth = [("profiles", profile::ALL.len()), ("rules", rule::RULES.len()), ("commands", commands)];
    let (mut wrong, mut checked) = (Vec::new(), 0);
    for page in pages() {
        let prose = prose(&read(&page));
        for (noun, truth) in truth {
            for said in counted(&prose, noun) {
                checked += 1;
                if said != truth {
                    wrong.push(format!("{page} says {said} {noun}, there are {truth}"));
                }
            }
        }
    }
    assert!(checked >= 3, "only {checked} numbers were found: the README has one of each");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_readme_is_short_and_names_the_two_commands() {
    let readme = read("README.md");
    let lines = readme.lines().count();
    assert!(lines <= README_LINES, "the README has {lines} lines");
    for command in ["scripts/test", "scripts/quickstart"] {
        assert!(readme.contains(command), "the README does not name {command}");
    }
}

#[test]
fn the_readme_asks_for_the_rust_that_the_manifest_asks_for() {
    let manifest: toml::Table = read("Cargo.toml").parse().unwrap();
    let version = manifest["workspace"]["package"]["rust-version"].as_str().unwrap();
    assert!(read("README.md").contains(&format!("Rust {version} or newer")), "it is Rust {version}");
}

#[test]
fn numbers_are_found_in_front_of_their_noun() {
    assert_eq!(counted("**23** profiles, 1,024 rules; the profiles", "profiles"), [23]);
    assert_eq!(counted("1,024 rules", "rules"), [1024]);
    assert_eq!(counted("many rules", "rules"), [0; 0]);
}
