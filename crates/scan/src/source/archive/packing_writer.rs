//! Writes a stream in one of the compressions that are read.

use std::fmt;
use std::io::{self, Write};
use std::mem;

use bzip2::write::BzEncoder;
use flate2::write::GzEncoder;
use lzma_rust2::{XzOptions, XzWriter};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::packed::Compression;

/// Bytes of a Zstandard frame: the encoder makes each at once, and a stream can have many (RFC 8878, 3.1).
const FRAME: usize = 8 << 20;

/// Compresses what is written.
pub struct PackingWriter<W: Write>(Packer<W>);

enum Packer<W: Write> {
    None(W),
    Gzip(GzEncoder<W>),
    Bzip2(BzEncoder<W>),
    Xz(Box<XzWriter<W>>),
    Zstd { out: W, frame: Vec<u8> },
}

impl<W: Write> fmt::Debug for PackingWriter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PackingWriter").finish_non_exhaustive()
    }
}

impl<W: Write> PackingWriter<W> {
    /// # Errors
    /// `out` cannot be written.
    pub fn new(out: W, compression: Compression) -> io::Result<Self> {
        Ok(Self(match compression {
            Compression::None => Packer::None(out),
            Compression::Gzip => Packer::Gzip(GzEncoder::new(out, flate2::Compression::default())),
            Compression::Bzip2 => Packer::Bzip2(BzEncoder::new(out, bzip2::Compression::default())),
            Compression::Xz => Packer::Xz(Box::new(XzWriter::new(out, XzOptions::default())?)),
            Compression::Zstd => Packer::Zstd { out, frame: Vec::new() },
        }))
    }

    /// Writes what is pending, and the end of the stream.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn finish(self) -> io::Result<()> {
        match self.0 {
            Packer::None(mut out) => out.flush(),
            Packer::Gzip(out) => out.finish().map(drop),
            Packer::Bzip2(out) => out.finish().map(drop),
            Packer::Xz(out) => out.finish().map(drop),
            Packer::Zstd { mut out, frame } => out.write_all(&pack_frame(&frame)),
        }
    }
}

fn pack_frame(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

impl<W: Write> Write for PackingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Packer::None(out) => out.write(bytes),
            Packer::Gzip(out) => out.write(bytes),
            Packer::Bzip2(out) => out.write(bytes),
            Packer::Xz(out) => out.write(bytes),
            Packer::Zstd { out, frame } => {
                let part = &bytes[..bytes.len().min(FRAME - frame.len())];
                frame.extend_from_slice(part);
                if frame.len() == FRAME {
                    out.write_all(&pack_frame(&mem::take(frame)))?;
                }
                Ok(part.len())
            }
        }
    }

    /// Does nothing: a flush would make the output larger.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
