//! A bound on the records of a stream.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

/// A stream that fails when more is read than is left for one record.
pub struct BoundedReader<R> {
    stream: R,
    left: Rc<Cell<u64>>,
    too_long: fn() -> io::Error,
}

impl<R: Read> BoundedReader<R> {
    /// Bounds `stream`. To be set before each record: how many more bytes may be read for it.
    pub fn new(stream: R, too_long: fn() -> io::Error) -> (Self, Rc<Cell<u64>>) {
        let left = Rc::new(Cell::new(0));
        (Self { stream, left: Rc::clone(&left), too_long }, left)
    }
}

impl<R: Read> Read for BoundedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(buffer)?;
        self.left.set(self.left.get().checked_sub(read as u64).ok_or_else(self.too_long)?);
        Ok(read)
    }
}
