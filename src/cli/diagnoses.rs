//! Diagnoses of a machine, as `namegate doctor` and `namegate guard check` write them.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use namegate_files::json::{self, TypedObject};
use serde::Serialize;

use super::format::PlainFormat;
use crate::doctor::{Condition, Diagnosis};

/// The results of checks, and the worst of them.
#[derive(Serialize)]
pub(super) struct Examination<'c> {
    #[serde(skip)]
    kind: &'static str,
    pub(super) condition: Condition,
    checks: &'c [Diagnosis],
}

impl<'c> Examination<'c> {
    /// `kind` is the type of the line of JSON.
    pub(super) fn new(kind: &'static str, checks: &'c [Diagnosis]) -> Self {
        let condition = checks.iter().map(|check| check.condition).max().unwrap_or(Condition::Ok);
        Self { kind, condition, checks }
    }

    /// Writes the results.
    ///
    /// # Errors
    /// The output cannot be written.
    pub(super) fn write(&self, format: PlainFormat, out: &mut dyn Write) -> io::Result<()> {
        if format == PlainFormat::Json {
            return json::write_line(out, &TypedObject::new(self.kind, self));
        }
        for check in self.checks {
            let style = style(check.condition);
            let word = check.condition.as_str();
            writeln!(out, "{style}{word:<7}{style:#}  {:<16}  {}", check.id, check.found)?;
            if let Some(advice) = &check.advice {
                writeln!(out, "{:<7}  {:<16}  -> {advice}", "", "")?;
            }
        }
        Ok(())
    }
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
