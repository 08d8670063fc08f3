//! Bytes in JSON that need not be UTF-8.

use data_encoding::BASE64;
use serde::{Deserialize, Serialize};

use crate::name::display::display;

/// Bytes as JSON has them: readable and exact.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JsonBytes {
    /// Fit for display: what is not printable is escaped.
    pub shown: String,
    /// Exactly, in base64.
    pub base64: String,
}

impl JsonBytes {
    /// Encodes `bytes`.
    pub fn new(bytes: impl AsRef<[u8]>) -> Self {
        let bytes = bytes.as_ref();
        Self { shown: display(bytes).to_string(), base64: BASE64.encode(bytes) }
    }

    /// The bytes; `None` if a hostile server has sent something else.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        BASE64.decode(self.base64.as_bytes()).ok()
    }
}
