//! `namegate profiles`: lists the profiles and their rules. `docs/PROFILES.md` is its Markdown.

use std::io::{self, Write};

use anstyle::Style;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use namegate_core::policy::Policy;
use namegate_core::policy::profile::{ALL, Profile, ProfileRule, by_name};
use namegate_core::policy::rule::{RuleId, Severity};
use namegate_files::json::{self, TypedObject};
use namegate_scan::report::layout::{BOLD, DIM, DOUBT, severity_style, styled, write_wrapped};
use serde_json::{Value, json};

use super::format::FormatArgs;
use super::lists::{ListingFormat, markdown};
use super::rules::write_examples;
use super::{CliError, ExitStatus};

const EXAMPLES: &str = "\
Examples:
  namegate profiles                       # all profiles, one line each
  namegate profiles windows sharepoint    # the rules of these two
  namegate profiles --format markdown > profiles.md";

/// List the profiles, or show the rules of some of them
///
/// A profile is a list of rules with parameters: the limits of a migration target, or good practice. The rules of strict
/// UTF-8 belong to every profile and are not repeated. A rule that could not be verified only warns.
/// Markdown without names shows all profiles in full.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ProfilesArgs {
    /// Profiles to show in full; without any, all profiles are listed
    #[arg(value_name = "NAME", value_parser = parser())]
    names: Vec<&'static Profile>,
    #[command(flatten)]
    format: FormatArgs<ListingFormat>,
}

/// Reads the name of a profile; completions and the messages for misspelled ones come with it.
pub(super) fn parser() -> impl TypedValueParser<Value = &'static Profile> {
    PossibleValuesParser::new(words()).try_map(|name| by_name(&name))
}

/// The names of all profiles, each with its other names.
pub(super) fn words() -> Vec<PossibleValue> {
    ALL.iter().map(|profile| PossibleValue::new(profile.name).aliases(profile.aliases())).collect()
}

/// The profile's other names, after `before`; nothing if it has none.
fn also(profile: &Profile, before: &str, shown: impl Fn(&str) -> String) -> String {
    let aliases: Vec<String> = profile.aliases().map(shown).collect();
    if aliases.is_empty() { String::new() } else { format!("{before}{}", aliases.join(", ")) }
}

pub(super) fn run(args: &ProfilesArgs, out: &mut dyn Write) -> Result<ExitStatus, CliError> {
    let names = &args.names;
    match (args.format.format, names.is_empty()) {
        (ListingFormat::Text, true) => ALL.iter().try_for_each(|profile| entry(profile, out))?,
        (ListingFormat::Text, false) => {
            for (at, profile) in names.iter().enumerate() {
                if at > 0 {
                    writeln!(out)?;
                }
                text(profile, out)?;
            }
        }
        (ListingFormat::Json, true) => ALL.iter().try_for_each(|p| write_json(p, out))?,
        (ListingFormat::Json, false) => names.iter().try_for_each(|p| write_json(p, out))?,
        (ListingFormat::Markdown, true) => document(out)?,
        (ListingFormat::Markdown, false) => names.iter().try_for_each(|p| section(p, out))?,
    }
    Ok(ExitStatus::Clean)
}

fn entry(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    const NAME: usize = 14;
    write!(out, "{}  ", styled(BOLD, profile.name, NAME))?;
    let also = also(profile, "; also ", str::to_owned);
    write_wrapped(out, NAME + 2, Style::new(), &format!("{}{also}", profile.title))
}

fn text(profile: &'static Profile, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "{BOLD}{}{BOLD:#}: ", profile.name)?;
    write_wrapped(out, profile.name.len() + 2, Style::new(), profile.title)?;
    if !profile.includes.is_empty() {
        writeln!(out, "includes {}", includes(profile, |name| name.to_owned()))?;
    }
    let also = also(profile, "also called ", str::to_owned);
    if !also.is_empty() {
        writeln!(out, "{also}")?;
    }
    for rule in profile.rules {
        write_row(out, rule, None)?;
    }
    let policy = Policy::from_profiles(&[profile]);
    let mut rules: Vec<RuleId> = profile.all_rules().iter().map(|line| line.test.rule()).collect();
    rules.sort_unstable();
    rules.dedup();
    if !rules.is_empty() {
        writeln!(out, "\n{BOLD}Examples:{BOLD:#}")?;
    }
    rules.into_iter().try_for_each(|rule| write_examples(rule, &policy, out))
}

/// Describes a rule whose target accepts the name but does not keep it.
const STORED_OTHERWISE: &str = "accepted, but stored or shown as another name";

fn includes(profile: &Profile, shown: impl Fn(&str) -> String) -> String {
    profile.includes.iter().map(|p| shown(p.name)).collect::<Vec<_>>().join(", ")
}

/// Writes one rule as rows of text: rule, severity, parameter, profiles and source.
pub(super) fn write_row(out: &mut dyn Write, line: &ProfileRule, by: Option<&str>) -> io::Result<()> {
    /// The longest name of a rule that profiles use.
    const RULE: usize = 23;
    const SEVERITY: usize = 5;
    const DETAILS: usize = RULE + SEVERITY + 4;
    let rule = line.test.rule();
    write!(out, "{rule:RULE$}  {}  ", styled(severity_style(line.severity), line.severity, SEVERITY))?;
    let parameter = line.test.parameter().map(|parameter| (Style::new(), parameter));
    let otherwise = line.stored_otherwise.then(|| (Style::new(), STORED_OTHERWISE.to_owned()));
    let by = by.map(|by| (Style::new(), format!("required by {by}")));
    let source = match line.verified {
        true => (DIM, line.source.to_owned()),
        false => (DOUBT, format!("not verified: {}", line.source)),
    };
    for (at, (style, text)) in parameter.into_iter().chain(otherwise).chain(by).chain([source]).enumerate() {
        let indent = if at == 0 { 0 } else { DETAILS };
        write!(out, "{:indent$}", "")?;
        write_wrapped(out, DETAILS, style, &text)?;
    }
    Ok(())
}

fn write_json(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let object = json!({
        "profile": profile.name,
        "title": profile.title,
        "aliases": profile.aliases().collect::<Vec<_>>(),
        "includes": profile.includes.iter().map(|p| p.name).collect::<Vec<_>>(),
        "lines": profile.rules.iter().map(line_json).collect::<Vec<_>>(),
    });
    json::write_line(out, &TypedObject::new("profile", object))
}

pub(super) fn line_json(line: &ProfileRule) -> Value {
    json!({
        "rule": line.test.rule().name(),
        "severity": line.severity.as_str(),
        "parameter": line.test.parameter(),
        "source": line.source,
        "verified": line.verified,
        "stored_otherwise": line.stored_otherwise,
    })
}

fn document(out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "# Profiles\n")?;
    writeln!(
        out,
        "Made by `namegate profiles --format markdown`; a test keeps it equal to the tables in the program.\n"
    )?;
    writeln!(
        out,
        "The encoding [rules](RULES.md) belong to every profile and are not repeated. Profiles combine: a policy"
    )?;
    writeln!(
        out,
        "has the rules of all its profiles, and of equal rules the stricter severity. A rule marked **not verified**"
    )?;
    writeln!(out, "is based on a source that could not be checked: it warns and never refuses a name.\n")?;
    writeln!(out, "| profile | what it stands for | errors | warnings |\n|---|---|---|---|")?;
    for profile in ALL {
        let lines = profile.all_rules();
        let errors = lines.iter().filter(|line| line.severity == Severity::Error).count();
        let warnings = lines.len() - errors;
        writeln!(
            out,
            "| [`{0}`](#{0}) | {1} | {errors} | {warnings} |",
            profile.name,
            markdown(profile.title)
        )?;
    }
    for profile in ALL {
        writeln!(out)?;
        section(profile, out)?;
    }
    Ok(())
}

fn section(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let also = also(profile, " Also called ", |name| format!("`{name}`"));
    let end = if also.is_empty() { "" } else { "." };
    writeln!(out, "## {}\n\n{}.{also}{end}\n", profile.name, markdown(profile.title))?;
    if !profile.includes.is_empty() {
        writeln!(out, "Includes {}.\n", includes(profile, |name| format!("[`{name}`](#{name})")))?;
    }
    if profile.rules.is_empty() {
        return writeln!(out, "No rules of its own.");
    }
    writeln!(out, "| rule | severity | parameter | source |\n|---|---|---|---|")?;
    for line in profile.rules {
        let otherwise = line.stored_otherwise.then(|| STORED_OTHERWISE.to_owned());
        let parameter: Vec<String> = line.test.parameter().into_iter().chain(otherwise).collect();
        let parameter = parameter.join("; ");
        let doubt = if line.verified { "" } else { "**not verified**: " };
        let (rule, severity) = (line.test.rule(), line.severity);
        writeln!(
            out,
            "| `{rule}` | {severity} | {} | {doubt}{} |",
            markdown(&parameter),
            markdown(line.source)
        )?;
    }
    Ok(())
}
