//! Pages for browsers. A page is one file and loads nothing: its Content-Security-Policy allows its style and its script by their
//! hashes, and no address. Data is in blocks of JSON without markup, and scripts insert it as text only.

use std::io::{self, Write};

use data_encoding::BASE64;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::json;

const HEAD: &str = include_str!("page/head.html");
/// The style and the script that all pages share, before their own.
const STYLE: &str = include_str!("page/base.css");
const SCRIPT: &str = include_str!("page/base.js");

/// A kind of page, without its data.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Until the script sets another.
    pub title: &'static str,
    pub style: &'static str,
    pub body: &'static str,
    pub script: &'static str,
}

impl Page {
    /// Writes everything before the first block of data.
    pub fn begin(&self, out: &mut dyn Write) -> io::Result<()> {
        let hash = |own: &str, base: &str| {
            BASE64.encode(&Sha256::new().chain_update(base).chain_update(own).finalize())
        };
        let (style, script) = (hash(self.style, STYLE), hash(self.script, SCRIPT));
        let policy = format!(
            "default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; base-uri 'none'; form-action 'none'"
        );
        let head = HEAD.replace("{policy}", &policy).replace("{title}", self.title);
        let Self { style, body, .. } = self;
        write!(out, "{head}<style>{STYLE}{style}</style>\n</head>\n{body}")
    }

    /// Writes the script, and everything after it.
    pub fn end(&self, out: &mut dyn Write) -> io::Result<()> {
        write!(out, "<script>{SCRIPT}{}</script>\n</body>\n</html>\n", self.script)
    }
}

/// Begins the block of data `id`, which [`end_block`] ends. Its JSON must be from [`json::write_in_markup`].
pub fn begin_block(out: &mut dyn Write, id: &str) -> io::Result<()> {
    write!(out, "<script type=\"application/json\" id=\"{id}\">")
}

pub fn end_block(out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b"</script>\n")
}

/// Writes the block of data `id`.
pub fn write_block(out: &mut dyn Write, id: &str, data: &impl Serialize) -> io::Result<()> {
    begin_block(out, id)?;
    json::write_in_markup(out, data)?;
    end_block(out)
}
