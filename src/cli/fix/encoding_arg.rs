//! The option `--encoding`.

use std::str::FromStr;

use namegate_core::name::reading::{Encoding, NotLegacy};

/// `auto` or an encoding.
#[derive(Clone, Copy, Debug)]
pub(super) struct EncodingArg(pub(super) Option<Encoding>);

impl FromStr for EncodingArg {
    type Err = NotLegacy;

    fn from_str(word: &str) -> Result<Self, NotLegacy> {
        if word.eq_ignore_ascii_case("auto") {
            return Ok(Self(None));
        }
        word.parse().map(|encoding| Self(Some(encoding)))
    }
}
