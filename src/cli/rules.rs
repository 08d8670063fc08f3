//! `namegate rules`: the table of rules. `docs/RULES.md` is its Markdown.

use std::io::{self, Write};

use anstyle::Style;
use serde_json::json;

use super::format::FormatArgs;
use super::lists::{ListingFormat, markdown};
use super::{CliError, ExitStatus};
use crate::policy::rule::{RULES, Rule, RuleKind};
use crate::report::layout::{BOLD, DIM, severity_style, styled, write_wrapped};

const EXAMPLES: &str = "\
Examples:
  namegate rules
  namegate rules --json | jq -r 'select(.concern == \"security\").rule'";

/// List all rules with their severities and sources
///
/// The severity is the default: a profile or a configuration file may set another one, or not use the rule.
/// Rules of the kind `encoding` are always on.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct RulesArgs {
    #[command(flatten)]
    format: FormatArgs<ListingFormat>,
}

pub(super) fn run(args: &RulesArgs, out: &mut dyn Write) -> Result<ExitStatus, CliError> {
    match args.format.0 {
        ListingFormat::Text => RULES.iter().try_for_each(|rule| text(rule, out))?,
        ListingFormat::Json => RULES.iter().try_for_each(|rule| json(rule, out))?,
        ListingFormat::Markdown => document(out)?,
    }
    Ok(ExitStatus::Clean)
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

fn json(rule: &Rule, out: &mut dyn Write) -> io::Result<()> {
    let line = json!({
        "rule": rule.name,
        "kind": rule.kind.as_str(),
        "severity": rule.default.as_str(),
        "concern": rule.concern.as_str(),
        "description": rule.summary,
        "source": rule.source,
    });
    writeln!(out, "{line}")
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
        writeln!(out, "| rule | severity | concern | what it looks for | source |\n|---|---|---|---|---|")?;
        for rule in RULES.iter().filter(|rule| rule.kind == kind) {
            // Summaries are written with code spans, as in Markdown; nothing else in them is special there.
            let summary = rule.summary.replace('|', "\\|");
            let Rule { name, default, concern, .. } = rule;
            writeln!(out, "| `{name}` | {default} | {concern} | {summary} | {} |", markdown(rule.source))?;
        }
    }
    Ok(())
}
