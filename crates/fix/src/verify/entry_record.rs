//! An entry of a tree as a record.

use std::io;

use namegate_core::name::casefold::{Fold, fold, key};
use namegate_core::name::normalize::Form;
use namegate_sys::stat::Stat;

use crate::plan_record::damaged;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Side {
    Source,
    Target,
}

/// An entry of one of the trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TreeEntry {
    pub side: Side,
    /// Its type, one of the `S_IF` constants.
    pub kind: u32,
    pub size: u64,
    pub links: u32,
    /// The path below its root.
    pub path: Vec<u8>,
    /// The path that it should have below the target.
    pub expected: Vec<u8>,
    /// The text of a symbolic link, as it should be at the target.
    pub text: Vec<u8>,
}

impl TreeEntry {
    pub fn new(side: Side, stat: &Stat, path: Vec<u8>, expected: Vec<u8>, text: Vec<u8>) -> Self {
        Self { side, kind: stat.kind, size: stat.size, links: stat.links, path, expected, text }
    }

    pub fn to_payload(&self) -> Vec<u8> {
        let mut payload = vec![self.side as u8];
        payload.extend(self.kind.to_le_bytes());
        payload.extend(self.links.to_le_bytes());
        payload.extend(self.size.to_le_bytes());
        for part in [&self.path, &self.expected, &self.text] {
            payload.extend((part.len() as u64).to_le_bytes());
            payload.extend_from_slice(part);
        }
        payload
    }

    pub fn from_payload(payload: &[u8]) -> io::Result<Self> {
        let read = || {
            let (side, rest) = payload.split_first()?;
            let (kind, rest) = rest.split_first_chunk()?;
            let (links, rest) = rest.split_first_chunk()?;
            let (size, mut rest) = rest.split_first_chunk()?;
            let mut part = || {
                let (len, behind) = rest.split_first_chunk()?;
                let len = usize::try_from(u64::from_le_bytes(*len)).ok()?;
                let (part, behind) = behind.split_at_checked(len)?;
                rest = behind;
                Some(part.to_vec())
            };
            Some(Self {
                side: if *side == Side::Source as u8 { Side::Source } else { Side::Target },
                kind: u32::from_le_bytes(*kind),
                links: u32::from_le_bytes(*links),
                size: u64::from_le_bytes(*size),
                path: part()?,
                expected: part()?,
                text: part()?,
            })
        };
        read().ok_or_else(damaged)
    }
}

/// The directory of a path and its last name.
pub(super) fn split_path(path: &[u8]) -> (&[u8], &[u8]) {
    memchr::memrchr(b'/', path).map_or((&b""[..], path), |at| (&path[..at], &path[at + 1..]))
}

/// A path in a form that is the same for all spellings which any target treats as one. Other paths can have the same form, too.
pub(super) fn loose_key(path: &[u8]) -> Vec<u8> {
    let loose = |name: &[u8]| match std::str::from_utf8(name) {
        Ok(text) => {
            key(&fold(text, Fold::Upcase), Some(Form::Nfkd), Some(Fold::Full)).into_owned().into_bytes()
        }
        Err(_) => name.to_vec(),
    };
    path.split(|&byte| byte == b'/').map(loose).collect::<Vec<_>>().join(&b'/')
}
