//! Streams of compressed archives that can skip bytes.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::rc::Rc;

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    None,
    Gzip,
    Bzip2,
    Xz,
    Zstd,
}

impl Compression {
    /// Recognizes the compression of a tar by its first bytes; `None` if they are not a tar.
    pub fn of(start: &[u8]) -> Option<Self> {
        match start {
            [0x1F, 0x8B, ..] => Some(Self::Gzip),
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => Some(Self::Bzip2),
            [0xFD, b'7', b'z', b'X', b'Z', 0, ..] => Some(Self::Xz),
            [0x28, 0xB5, 0x2F, 0xFD, ..] | [0x50..=0x5F, 0x2A, 0x4D, 0x18, ..] => Some(Self::Zstd),
            _ if super::tar::header::is_header(start) => Some(Self::None),
            // An empty tar consists of NULs.
            _ if start.len() >= 1024 && start[..1024].iter().all(|&b| b == 0) => Some(Self::None),
            _ => None,
        }
    }
}

/// Memory limit of a decoder for data that it refers back to.
const MAX_WINDOW: u64 = 512 << 20;

/// Beyond its limit, an archive may unpack to so many times its size. Texts and logs are below 50; zeros are more than 1,000, and nobody
/// packs gigabytes of them by accident, unless it is the image of a disk.
const MAX_RATIO: u64 = 200;

/// The bytes of a tar.
pub enum ArchiveStream {
    /// An uncompressed file; data between the headers need not be read.
    Plain { file: BufReader<File>, at: u64, len: u64 },
    /// A stream that can only be read in order.
    Flow {
        stream: Box<dyn Read>,
        /// How much of the archive was read, or the size of its file.
        packed: Rc<Cell<u64>>,
        len: u64,
        unpacked: u64,
        /// Bytes that any archive may unpack to.
        limit: u64,
    },
}

impl ArchiveStream {
    /// The tar in the regular file `file`, from its current position.
    ///
    /// # Errors
    /// As fstat(2) says.
    pub fn of_file(file: BufReader<File>, compression: Compression, limit: u64) -> io::Result<Self> {
        let len = file.get_ref().metadata()?.len();
        Ok(match compression {
            Compression::None => Self::Plain { file, at: 0, len },
            _ => Self::flowing(file, compression, len, limit),
        })
    }

    /// The tar in `stream`, of which `len` bytes are known to be there.
    pub(super) fn flowing(
        stream: impl BufRead + 'static,
        compression: Compression,
        len: u64,
        limit: u64,
    ) -> Self {
        let packed = Rc::new(Cell::new(0));
        let file = Counted { stream, count: Rc::clone(&packed) };
        let stream: Box<dyn Read> = match compression {
            Compression::None => Box::new(file),
            Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(file)),
            Compression::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(file)),
            Compression::Xz => {
                let limit = u32::try_from(MAX_WINDOW >> 10).expect("the limit is less than 4 TiB");
                Box::new(lzma_rust2::XzReader::new_mem_limit(file, true, limit))
            }
            Compression::Zstd => {
                let mut decoder = FrameDecoder::new();
                decoder.set_max_window_size(MAX_WINDOW);
                Box::new(Frames { stream: file, decoder })
            }
        };
        Self::Flow { stream, packed, len, unpacked: 0, limit }
    }

    /// Skips the next `count` bytes.
    ///
    /// # Errors
    /// There are fewer, or they cannot be read.
    pub fn skip(&mut self, count: u64) -> io::Result<()> {
        match self {
            Self::Plain { file, at, len } => {
                let end =
                    at.checked_add(count).filter(|end| end <= len).ok_or(io::ErrorKind::UnexpectedEof)?;
                *at = end;
                match i64::try_from(count) {
                    Ok(count) => file.seek_relative(count),
                    Err(_) => Err(io::ErrorKind::UnexpectedEof.into()),
                }
            }
            Self::Flow { .. } => {
                let passed = io::copy(&mut self.take(count), &mut io::sink())?;
                if passed < count { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
            }
        }
    }
}

impl Read for ArchiveStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain { file, at, .. } => {
                let read = file.read(buffer)?;
                *at += read as u64;
                Ok(read)
            }
            Self::Flow { stream, packed, len, unpacked, limit } => {
                let read = stream.read(buffer)?;
                *unpacked += read as u64;
                if unpacked > limit && *unpacked / MAX_RATIO > packed.get().max(*len) {
                    return Err(io::Error::other(format!(
                        "it unpacks to more than {limit} bytes and {MAX_RATIO} times its size, as an attack does; what follows is not read \
                         (`--archive-limit GIB` allows more)"
                    )));
                }
                Ok(read)
            }
        }
    }
}

/// A stream that counts the bytes read.
struct Counted<R> {
    stream: R,
    count: Rc<Cell<u64>>,
}

impl<R: BufRead> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(buffer)?;
        self.count.set(self.count.get() + read as u64);
        Ok(read)
    }
}

impl<R: BufRead> BufRead for Counted<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.stream.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.count.set(self.count.get() + amount as u64);
        self.stream.consume(amount);
    }
}

/// The consecutive frames of a Zstandard stream; the decoder reads one (RFC 8878, 3.1).
struct Frames<R> {
    stream: R,
    decoder: FrameDecoder,
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let step = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.stream, step).map_err(io::Error::other)?;
            }
            let read = self.decoder.read(buffer)?;
            if read > 0 || buffer.is_empty() || self.stream.fill_buf()?.is_empty() {
                return Ok(read);
            }
            match self.decoder.reset(&mut self.stream) {
                Ok(()) => {}
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    io::copy(&mut (&mut self.stream).take(u64::from(length)), &mut io::sink())?;
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
    }
}
