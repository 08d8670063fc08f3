//! How findings are written: the options that every command with findings has.

use std::io::Write;

use clap::ValueEnum;

use crate::name::reading::Encoding;
use crate::report::Report;
use crate::report::json::Json;
use crate::report::text::Text;

/// The options.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct ReportArgs {
    /// How the findings are written.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// The encoding of names that are not UTF-8, for the proposed repairs; guessed from the names if not given.
    #[arg(long, value_name = "NAME")]
    pub encoding: Option<Encoding>,
}

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
