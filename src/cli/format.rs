//! In which format findings are written.

use std::io::Write;

use clap::ValueEnum;

use crate::report::Report;
use crate::report::json::Json;
use crate::report::text::Text;

/// A format for findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// JSON Lines: one object a line, the summary last.
    Json,
}

impl Format {
    /// The report that writes this format to `out`, and to `faults` what would be lost among findings for people.
    pub fn report<'o>(
        self,
        out: &'o mut (dyn Write + Send),
        faults: &'o mut (dyn Write + Send),
    ) -> Box<dyn Report + 'o> {
        match self {
            Self::Text => Box::new(Text::new(out, faults)),
            Self::Json => Box::new(Json::new(out)),
        }
    }
}
