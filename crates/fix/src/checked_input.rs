//! A file that is checked while it is read, and why a plan, or decisions about it, cannot be used.

use std::fmt;
use std::io::{self, Read};

use sha2::{Digest, Sha256};

use super::plan::PlanError;

/// Why a plan cannot be used.
#[derive(Debug)]
pub enum StoredPlanError {
    /// It cannot be read, or a temporary file cannot be written.
    File(io::Error),
    Lines(Vec<PlanError>),
}

impl From<io::Error> for StoredPlanError {
    fn from(error: io::Error) -> Self {
        Self::File(error)
    }
}

impl fmt::Display for StoredPlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => write!(f, "{error}"),
            Self::Lines(errors) => errors.iter().try_for_each(|error| writeln!(f, "{error}")),
        }
    }
}

impl std::error::Error for StoredPlanError {}

/// Computes the length and the CRC-32 of what is read, and the SHA-256 if decisions need it.
pub(super) struct CheckedInput<R> {
    pub(super) input: R,
    pub(super) bytes: u64,
    pub(super) check: crc32fast::Hasher,
    pub(super) sha256: Option<Sha256>,
}

impl<R> CheckedInput<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, bytes: 0, check: crc32fast::Hasher::new(), sha256: None }
    }
}

impl<R: Read> Read for CheckedInput<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.input.read(buffer)?;
        self.bytes += len as u64;
        self.check.update(&buffer[..len]);
        if let Some(sha256) = &mut self.sha256 {
            sha256.update(&buffer[..len]);
        }
        Ok(len)
    }
}
