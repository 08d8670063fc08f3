//! `namegate explain`: a name byte by byte.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use data_encoding::{DecodeError, DecodeKind, Encoding, Specification, SpecificationError};
use namegate_core::name::display::display;
use namegate_core::policy::profile::Profile;
use namegate_files::json::{self, TypedObject};

use super::format::{FormatArgs, PlainFormat};
use super::{CliError, ExitStatus, profiles};
use crate::explain::{DEFAULT_PROFILES, Explanation, text};

const EXAMPLES: &str = "\
Examples:
  namegate explain 'caf\u{e9}.txt'
  namegate explain -- *            # every name in this directory
  namegate explain --hex 'C0 AF'   # bytes that no keyboard types
  namegate explain --profile windows aux.txt
  namegate explain --json --hex ff | jq .octets

Exit status: 0 all names are UTF-8, 1 some name is not, 2 the usage is wrong.";

/// Show a name byte by byte: bits, code points, errors, and the profiles that object to it
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ExplainArgs {
    /// Names to explain: names, not paths
    #[arg(value_name = "NAME", required_unless_present = "hex")]
    names: Vec<OsString>,
    /// Name in hexadecimal, such as 636166e9; spaces and colons are ignored; repeatable
    #[arg(long, value_name = "BYTES")]
    hex: Vec<OsString>,
    /// Profiles to check the names against [default: strict,security,portable]
    #[arg(long = "profile", value_name = "NAME,...", value_delimiter = ',', value_parser = profiles::parser())]
    #[arg(hide_possible_values = true)]
    profiles: Vec<&'static Profile>,
    #[command(flatten)]
    format: FormatArgs<PlainFormat>,
}

/// Explains the names as they were given, then those in hexadecimal.
pub(super) fn run(args: &ExplainArgs, out: &mut dyn Write) -> Result<ExitStatus, CliError> {
    let given = args.names.iter().map(|name| name.as_bytes().to_vec());
    // All of them are read before the first is explained: a mistyped digit is no reason to print half of the answer.
    let decoded: Vec<Vec<u8>> = args.hex.iter().map(|digits| decode(digits)).collect::<Result<_, _>>()?;
    let profiles = if args.profiles.is_empty() { DEFAULT_PROFILES } else { &args.profiles };
    let mut status = ExitStatus::Clean;
    for (at, name) in given.chain(decoded).enumerate() {
        let explanation = Explanation::new(&name, profiles);
        if !explanation.is_utf8 {
            status = ExitStatus::Findings;
        }
        match args.format.format {
            PlainFormat::Json => json::write_line(out, &TypedObject::new("explanation", &explanation))?,
            PlainFormat::Text => {
                if at > 0 {
                    text::write_divider(out)?;
                }
                text::write(out, &explanation)?;
            }
        }
    }
    Ok(status)
}

/// The bytes that `digits` spell.
fn decode(digits: &OsStr) -> Result<Vec<u8>, CliError> {
    let encoding = hexadecimal().map_err(CliError::new)?;
    let typed = digits.as_bytes();
    encoding.decode(typed).map_err(|DecodeError { position, kind }| {
        // The position counts bytes; a person counts characters, from 1.
        let before = String::from_utf8_lossy(&typed[..position]).chars().count();
        if kind == DecodeKind::Length {
            return CliError::new("--hex: an odd number of digits; every byte has two");
        }
        let rest = String::from_utf8_lossy(&typed[position..]);
        let wrong: String = rest.chars().take(1).collect();
        let wrong = display(wrong.as_bytes());
        CliError::new(format!("--hex: `{wrong}`, character {}, is not a hexadecimal digit", before + 1))
    })
}

fn hexadecimal() -> Result<Encoding, SpecificationError> {
    let mut specification = Specification::new();
    specification.symbols.push_str("0123456789abcdef");
    specification.translate.from.push_str("ABCDEF");
    specification.translate.to.push_str("abcdef");
    specification.ignore.push_str(" :\t\n");
    specification.encoding()
}
