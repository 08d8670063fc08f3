//! `namegate rules`: the table of rules. `docs/RULES.md` is its Markdown.

use std::io::{self, Write};

use anstyle::Style;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use namegate_core::name::display::display;
use namegate_core::name::reading::Encoding;
use namegate_core::policy::profile::{ALL, Profile};
use namegate_core::policy::rule::{RULES, Rule, RuleId, RuleKind};
use namegate_core::policy::{EntryKind, NameCheck, Policy};
use namegate_files::json::{self, TypedObject};
use namegate_scan::report::layout::{BOLD, DIM, PLAIN, severity_style, styled, write_wrapped};
use serde_json::json;

use super::format::FormatArgs;
use super::lists::{ListingFormat, markdown};
use super::rule_examples::examples;
use super::{CliError, ExitStatus};

const EXAMPLES: &str = "\
Examples:
  namegate rules
  namegate rules truncated reserved-name    # these two in full
  namegate rules --encodings | grep -i koi8
  namegate rules --json | jq -r 'select(.concern == \"security\").rule'";

/// List all rules with their severities and sources, or show some in full
///
/// The severity is the default: a profile or a configuration file may set another one, or not use the rule.
/// Rules of the kind `encoding` are always on.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct RulesArgs {
    /// Rules to show in full; without any, all rules are listed
    #[arg(value_name = "NAME", value_parser = parser(), hide_possible_values = true)]
    names: Vec<RuleId>,
    #[command(flatten)]
    format: FormatArgs<ListingFormat>,
    /// List the encodings of --encoding instead, with their other labels
    #[arg(long, conflicts_with = "names")]
    encodings: bool,
}

/// Reads the name of a rule; completions and the messages for misspelled ones come with it.
fn parser() -> impl TypedValueParser<Value = RuleId> {
    PossibleValuesParser::new(RULES.iter().map(|rule| rule.name)).try_map(|name| name.parse::<RuleId>())
}

pub(super) fn run(args: &RulesArgs, out: &mut dyn Write) -> Result<ExitStatus, CliError> {
    if args.encodings {
        encodings(args.format.format, out)?;
        return Ok(ExitStatus::Clean);
    }
    let named: Vec<&Rule> = args.names.iter().map(|id| id.rule()).collect();
    let listed = if named.is_empty() { RULES.iter().collect() } else { named.clone() };
    match args.format.format {
        ListingFormat::Text if named.is_empty() => listed.iter().try_for_each(|rule| text(rule, out))?,
        ListingFormat::Text => {
            for (at, rule) in named.iter().enumerate() {
                if at > 0 {
                    writeln!(out)?;
                }
                full_text(rule, out)?;
            }
        }
        ListingFormat::Json => listed.iter().try_for_each(|rule| json(rule, out))?,
        ListingFormat::Markdown if named.is_empty() => document(out)?,
        ListingFormat::Markdown => table(&named, out)?,
    }
    Ok(ExitStatus::Clean)
}

/// Lists all encodings with their labels.
fn encodings(format: ListingFormat, out: &mut dyn Write) -> io::Result<()> {
    if format == ListingFormat::Markdown {
        writeln!(out, "| encoding | other labels |\n|---|---|")?;
    }
    for (encoding, labels) in Encoding::all() {
        let (name, joined) = (encoding.name(), labels.join(", "));
        match format {
            ListingFormat::Text => {
                const INDENT: usize = 16;
                write!(out, "{}", styled(BOLD, name, INDENT))?;
                write_wrapped(out, INDENT, PLAIN, &joined)?;
            }
            ListingFormat::Json => {
                let object = json!({ "encoding": name, "labels": labels });
                json::write_line(out, &TypedObject::new("encoding", object))?;
            }
            ListingFormat::Markdown => writeln!(out, "| `{name}` | {joined} |")?,
        }
    }
    Ok(())
}

fn text(rule: &Rule, out: &mut dyn Write) -> io::Result<()> {
    const INDENT: usize = 4;
    let severity = severity_style(rule.default);
    writeln!(
        out,
        "{}  {:9}  {severity}{:5}{severity:#}  {}",
        styled(BOLD, rule.name, 25),
        rule.kind.as_str(),
        rule.default,
        rule.concern
    )?;
    write!(out, "{:INDENT$}", "")?;
    write_wrapped(out, INDENT, Style::new(), rule.summary)?;
    write!(out, "{:INDENT$}", "")?;
    write_wrapped(out, INDENT, DIM, rule.source)
}

/// The entry of a rule with its examples and the profiles that use it.
fn full_text(rule: &Rule, out: &mut dyn Write) -> io::Result<()> {
    const INDENT: usize = 4;
    const NAME: usize = 14;
    text(rule, out)?;
    writeln!(out, "\n{BOLD}Examples:{BOLD:#}")?;
    write_examples(rule.id, &policy_with(rule.id), out)?;
    writeln!(out, "\n{BOLD}Profiles:{BOLD:#}")?;
    if rule.id.is_always_on() {
        return writeln!(out, "{:INDENT$}all: this rule is always on", "");
    }
    for profile in ALL {
        for line in profile.rules.iter().filter(|line| line.test.rule() == rule.id) {
            let severity = styled(severity_style(line.severity), line.severity, 5);
            write!(out, "{:INDENT$}{}  {severity}  ", "", styled(BOLD, profile.name, NAME))?;
            let details = [line.test.parameter(), Some(line.source.to_owned())];
            for (at, text) in details.into_iter().flatten().enumerate() {
                let at = if at == 0 { 0 } else { INDENT + NAME + 9 };
                write!(out, "{:at$}", "")?;
                write_wrapped(out, INDENT + NAME + 9, Style::new(), &text)?;
            }
        }
    }
    let including = ALL.iter().filter(|profile| {
        let has = |profile: &Profile| profile.rules.iter().any(|line| line.test.rule() == rule.id);
        !has(profile) && profile.all_rules().iter().any(|line| line.test.rule() == rule.id)
    });
    let including: Vec<&str> = including.map(|profile| profile.name).collect();
    if !including.is_empty() {
        write!(out, "{:INDENT$}", "")?;
        write_wrapped(
            out,
            INDENT,
            DIM,
            &format!("and those that include one of them: {}", including.join(", ")),
        )?;
    }
    Ok(())
}

/// A policy that has this rule: that of a profile, or of the rule alone.
fn policy_with(rule: RuleId) -> Policy {
    let using = |profile: &&&Profile| profile.rules.iter().any(|line| line.test.rule() == rule);
    match ALL.iter().find(using) {
        Some(profile) => Policy::from_profiles(&[profile]),
        None => {
            let alone = Policy::builder().severity(rule, Some(rule.rule().default)).build();
            alone.unwrap_or_else(|_| Policy::from_profiles(&[]))
        }
    }
}

/// Writes the examples of `rule` that break it under `policy`, each with the message about it.
pub(super) fn write_examples(rule: RuleId, policy: &Policy, out: &mut dyn Write) -> io::Result<()> {
    for (name, message) in broken_examples(rule, policy) {
        const NAME: usize = 24;
        write!(out, "    {}  ", styled(PLAIN, shortened(name), NAME))?;
        write_wrapped(out, NAME + 6, DIM, &message)?;
    }
    Ok(())
}

/// The examples of `rule` that break it under `policy`, each with the message about it.
pub(super) fn broken_examples(rule: RuleId, policy: &Policy) -> Vec<(&'static [u8], String)> {
    let names = examples(rule);
    let of_name = |&name: &&'static [u8]| {
        let violations = match rule.rule().kind {
            RuleKind::Path => policy.check_path(name, EntryKind::File),
            _ => policy.check(name).violations,
        };
        let check = NameCheck { name, violations };
        let found = check.violations.iter().find(|violation| violation.rule == rule)?;
        Some((name, check.message(policy, found)))
    };
    match rule.rule().kind {
        // Only a list or an archive can have both.
        RuleKind::Directory if rule == RuleId::CollisionKind => {
            let applies = policy.rules().iter().any(|active| active.test.rule() == rule);
            let together = names.iter().map(|name| (*name, "together as keys".to_owned()));
            together.filter(|_| applies).collect()
        }
        RuleKind::Directory => {
            let collide = policy
                .collisions(names)
                .iter()
                .any(|collision| collision.violations.iter().any(|violation| violation.rule == rule));
            let together = names.iter().map(|name| (*name, "together in one directory".to_owned()));
            together.filter(|_| collide).collect()
        }
        _ => names.iter().filter_map(of_name).collect(),
    }
}

/// A name for people; of a long one its beginning and its length.
fn shortened(name: &[u8]) -> String {
    const LONG: usize = 40;
    match name {
        b"" => "(an empty name)".to_owned(),
        _ if name.len() <= LONG => display(name).to_string(),
        _ => format!("{}... ({} bytes)", display(&name[..10]), name.len()),
    }
}

fn json(rule: &Rule, out: &mut dyn Write) -> io::Result<()> {
    let line = json!({
        "rule": rule.name,
        "kind": rule.kind.as_str(),
        "severity": rule.default.as_str(),
        "concern": rule.concern.as_str(),
        "description": rule.summary,
        "source": rule.source,
    });
    json::write_line(out, &TypedObject::new("rule", line))
}

fn document(out: &mut dyn Write) -> io::Result<()> {
    const KINDS: [(RuleKind, &str); 5] = [
        (RuleKind::Encoding, "The bytes of the name. These rules are on in every policy, and always errors."),
        (RuleKind::Scalar, "Single code points, with their neighbours where these matter."),
        (RuleKind::Shape, "The name as a whole: its ends, its length, its words."),
        (RuleKind::Directory, "The names in one directory together."),
        (RuleKind::Path, "The path that leads to the name."),
    ];
    writeln!(out, "# Rules\n")?;
    writeln!(
        out,
        "Made by `namegate rules --format markdown`; a test keeps it equal to the table in the program.\n"
    )?;
    writeln!(
        out,
        "Configurations and reports contain the ids, whose meaning never changes. The severity is the"
    )?;
    writeln!(
        out,
        "default; a [profile](PROFILES.md) or a [configuration file](CONFIG.md) may set another. The concern"
    )?;
    writeln!(out, "says what such a name endangers: reports keep `security` and `portability` apart.")?;
    for (kind, about) in KINDS {
        writeln!(out, "\n## {}\n\n{about}\n", kind.as_str())?;
        let rules: Vec<&Rule> = RULES.iter().filter(|rule| rule.kind == kind).collect();
        table(&rules, out)?;
    }
    Ok(())
}

fn table(rules: &[&Rule], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "| rule | severity | concern | what it looks for | source |\n|---|---|---|---|---|")?;
    for Rule { name, default, concern, summary, source, .. } in rules {
        // Summaries are written with code spans, as in Markdown; nothing else in them is special there.
        let summary = summary.replace('|', "\\|");
        writeln!(out, "| `{name}` | {default} | {concern} | {summary} | {} |", markdown(source))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_has_examples_that_break_it() {
        for rule in RULES {
            let examples = examples(rule.id);
            assert!(!examples.is_empty(), "{}", rule.name);
            for name in examples {
                let policies = ALL.iter().map(|profile| Policy::from_profiles(&[profile]));
                let policies = policies.chain([policy_with(rule.id)]);
                let mut broken = policies.flat_map(|policy| broken_examples(rule.id, &policy));
                assert!(broken.any(|(broken, _)| broken == *name), "{}: {}", rule.name, display(name));
            }
            assert!(!broken_examples(rule.id, &policy_with(rule.id)).is_empty(), "{}", rule.name);
        }
    }
}
