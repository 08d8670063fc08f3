//! Names from a stream: one behind the other, separated by NUL or by line feeds.

use std::io::{self, BufRead, Read};

/// The longest name that is taken, in bytes. A longer one is no name but a mistake, such as a list with the other
/// separator, and must not fill the memory.
pub const MAX_NAME: usize = 1 << 16;

/// Names read from a stream.
#[derive(Debug)]
pub struct Names<R> {
    stream: R,
    separator: u8,
    number: u64,
}

/// One name of a stream.
#[derive(Debug, PartialEq, Eq)]
pub enum Item {
    /// A name.
    Name(Vec<u8>),
    /// The name with this number, counted from 1, is longer than [`MAX_NAME`] and was passed over.
    TooLong(u64),
}

impl<R: BufRead> Names<R> {
    /// The names in `stream`, each followed by `separator`; behind the last it may be missing.
    pub fn new(stream: R, separator: u8) -> Self {
        Self { stream, separator, number: 0 }
    }

    fn read(&mut self) -> io::Result<Option<Item>> {
        let mut name = Vec::new();
        let limit = MAX_NAME as u64 + 1;
        let read = (&mut self.stream).take(limit).read_until(self.separator, &mut name)?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        if name.last() == Some(&self.separator) {
            name.pop();
        } else if name.len() > MAX_NAME {
            self.skip()?;
            return Ok(Some(Item::TooLong(self.number)));
        }
        Ok(Some(Item::Name(name)))
    }

    /// Passes over the rest of the current name.
    fn skip(&mut self) -> io::Result<()> {
        loop {
            let buffer = self.stream.fill_buf()?;
            let Some(at) = memchr::memchr(self.separator, buffer) else {
                let len = buffer.len();
                self.stream.consume(len);
                if len == 0 {
                    return Ok(());
                }
                continue;
            };
            self.stream.consume(at + 1);
            return Ok(());
        }
    }
}

impl<R: BufRead> Iterator for Names<R> {
    type Item = io::Result<Item>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(stream: &[u8], separator: u8) -> Vec<Item> {
        Names::new(stream, separator).map(|item| item.expect("memory does not fail")).collect()
    }

    fn name(bytes: &[u8]) -> Item {
        Item::Name(bytes.to_vec())
    }

    #[test]
    fn every_separator_ends_a_name_and_the_last_may_be_missing() {
        assert_eq!(names(b"", b'\n'), []);
        assert_eq!(names(b"\n", b'\n'), [name(b"")]);
        assert_eq!(names(b"a\nb", b'\n'), [name(b"a"), name(b"b")]);
        assert_eq!(names(b"a\n\nb\n", b'\n'), [name(b"a"), name(b""), name(b"b")]);
        assert_eq!(names(b"a\nb\0c\0", 0), [name(b"a\nb"), name(b"c")]);
    }

    #[test]
    fn a_name_without_end_is_passed_over_and_the_next_is_read() {
        let mut stream = vec![b'x'; MAX_NAME];
        assert_eq!(names(&stream, 0), [name(&stream)]);
        stream.extend(b"yz\0ok\0");
        assert_eq!(names(&stream, 0), [Item::TooLong(1), name(b"ok")]);
        assert_eq!(names(&vec![b'x'; MAX_NAME + 1], 0), [Item::TooLong(1)]);
    }
}
