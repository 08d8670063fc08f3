//! Diagnoses of a machine, as `namegate doctor` and `namegate guard check` write them.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use crate::doctor::{Condition, Diagnosis};

#[derive(Serialize)]
pub(super) struct Examination<'c> {
    pub(super) r#type: &'static str,
    pub(super) condition: Condition,
    pub(super) checks: &'c [Diagnosis],
}

/// Writes results for people.
///
/// # Errors
/// The output cannot be written.
pub(super) fn text(checks: &[Diagnosis], out: &mut dyn Write) -> io::Result<()> {
    for check in checks {
        let style = style(check.condition);
        let word = check.condition.as_str();
        writeln!(out, "{style}{word:<7}{style:#}  {:<16}  {}", check.id, check.found)?;
        if let Some(advice) = &check.advice {
            writeln!(out, "{:<7}  {:<16}  -> {advice}", "", "")?;
        }
    }
    Ok(())
}

fn style(condition: Condition) -> Style {
    let colour = match condition {
        Condition::Ok => AnsiColor::Green,
        Condition::Unknown => AnsiColor::Cyan,
        Condition::Warn => AnsiColor::Yellow,
        Condition::Fail => AnsiColor::Red,
    };
    colour.on_default().bold()
}
