//! The table of a guard and the list of their devices, as the program in the kernel reads them: `struct table` and
//! `struct devices` in `guard.bpf.c`.

use std::fmt;

use namegate_core::policy::automaton::Automaton;
use nix::errno::Errno;

/// Maximum number of guards.
pub const SLOTS: u32 = 32;

/// Maximum number of transitions in a table. The largest profile, `portable`, needs 36,146.
const CELLS: usize = 1 << 16;

/// Maximum size of a note in bytes.
const NOTE: usize = 1 << 15;

/// Where the numbers of four bytes begin: behind three of eight.
const NUMBERS_AT: usize = 3 * 8;

/// Where the note begins: behind twelve numbers of four bytes, the class of each byte and the transitions, which end with 256 that
/// no state reaches.
const NOTE_AT: usize = NUMBERS_AT + 12 * 4 + 256 + 2 * (CELLS + 256);

/// Size of a table in bytes.
pub const SIZE: u32 = (NOTE_AT + NOTE) as u32;

/// The generation of a directory whose file system tells none.
const ANY_GENERATION: u64 = u64::MAX;

/// The directory at the top of a guard's tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardRoot {
    pub inode: u64,
    /// The generation of the inode, where the file system tells it: inode numbers are used again.
    pub generation: Option<u32>,
}

/// Where a guard applies, and what it does with a name that its policy refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardScope {
    /// The device number of the file system in the kernel: its major number times 2^20, plus its minor number.
    pub device: u32,
    /// The top directory of the tree; `None` for the whole file system.
    pub root: Option<GuardRoot>,
    /// The errno for the caller; `None` reports the name and allows it.
    pub refusal: Option<Errno>,
}

impl GuardScope {
    /// `tree` or `filesystem`.
    pub fn extent(&self) -> &'static str {
        if self.root.is_some() { "tree" } else { "filesystem" }
    }

    /// `enforcing` or `audit`.
    pub fn mode(&self) -> &'static str {
        if self.refusal.is_some() { "enforcing" } else { "audit" }
    }
}

/// The policy does not fit into a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableError {
    /// It has this many transitions.
    Transitions(usize),
    /// Its description has this many bytes.
    Note(usize),
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transitions(count) => {
                write!(f, "the policy needs {count} transitions, and a guard has room for {CELLS}")?;
            }
            Self::Note(bytes) => {
                write!(f, "path and policy take {bytes} bytes, and a guard has room for {NOTE}")?;
            }
        }
        f.write_str(": reserve fewer names")
    }
}

impl std::error::Error for TableError {}

/// What a table says beside the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableHead<'t> {
    /// The guard's own number, which no other guard gets.
    pub id: u64,
    /// Where it applies.
    pub scope: GuardScope,
    /// Whether the guard has ended, because its file system was unmounted.
    pub has_ended: bool,
    /// What [`super::note`] wrote about it.
    pub note: &'t [u8],
}

/// Encodes the table of the guard with the number `id`. The program does not read the note.
///
/// # Errors
/// [`TableError`] for policies with thousands of reserved names.
pub fn table(id: u64, scope: GuardScope, automaton: &Automaton, note: &[u8]) -> Result<Vec<u8>, TableError> {
    let cells = automaton.transitions();
    if cells.len() > CELLS {
        return Err(TableError::Transitions(cells.len()));
    }
    if note.len() > NOTE {
        return Err(TableError::Note(note.len()));
    }
    let error = -(scope.refusal.unwrap_or(Errno::EPERM) as i32);
    let limits = automaton.limits();
    let root = scope
        .root
        .map_or([0, ANY_GENERATION], |root| [root.inode, root.generation.map_or(ANY_GENERATION, u64::from)]);
    // The program does not multiply: its states are the indexes of their transitions.
    let stride = automaton.stride() as u32;
    let index = |state: u16| u32::from(state) * stride;
    let numbers = [
        scope.device,
        scope.refusal.is_none().into(),
        error.cast_unsigned(),
        index(automaton.start()),
        index(automaton.first_refusing()),
        limits.bytes,
        limits.utf16,
        limits.code_points,
        // Each unit has at least one byte.
        limits.utf16.min(limits.code_points),
        note.len() as u32,
        // The program sets the first of them when the file system ends.
        0,
        0,
    ];
    let mut bytes = Vec::with_capacity(SIZE as usize);
    bytes.extend(root.into_iter().chain([id]).flat_map(u64::to_ne_bytes));
    bytes.extend(numbers.into_iter().flat_map(u32::to_ne_bytes));
    bytes.extend(automaton.classes());
    bytes.extend(cells.iter().flat_map(|&cell| (index(cell) as u16).to_ne_bytes()));
    bytes.resize(NOTE_AT, 0);
    bytes.extend(note);
    bytes.resize(SIZE as usize, 0);
    Ok(bytes)
}

/// Decodes what a table says beside the policy. `None` for bytes that are no table.
pub fn read_table(bytes: &[u8]) -> Option<TableHead<'_>> {
    let long = |at: usize| Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    let number = |at: usize| Some(u32::from_ne_bytes(*bytes.get(NUMBERS_AT + 4 * at..)?.first_chunk()?));
    let generation = u32::try_from(long(8)?).ok();
    let root = Some(long(0)?).filter(|&inode| inode != 0).map(|inode| GuardRoot { inode, generation });
    let is_audit = number(1)? != 0;
    let errno = Errno::from_raw(number(2)?.cast_signed().checked_neg()?);
    let scope = GuardScope { device: number(0)?, root, refusal: (!is_audit).then_some(errno) };
    let note = bytes.get(NOTE_AT..)?.get(..number(9)? as usize)?;
    Some(TableHead { id: long(16)?, scope, has_ended: number(10)? != 0, note })
}

/// Size of the encoded devices in bytes.
pub const DEVICES_SIZE: usize = 4 * (1 + SLOTS as usize);

/// Encodes the device of each slot, 0 for a free one, behind the number of slots that the program has to look at.
pub fn encode_devices(devices: &[u32]) -> Vec<u8> {
    let used = devices.iter().rposition(|&device| device != 0).map_or(0, |last| last as u32 + 1);
    let mut bytes: Vec<u8> =
        std::iter::once(&used).chain(devices).flat_map(|number| number.to_ne_bytes()).collect();
    bytes.resize(DEVICES_SIZE, 0);
    bytes
}

/// Decodes the device of each slot.
pub fn decode_devices(bytes: &[u8]) -> Vec<u32> {
    let (numbers, _) = bytes.as_chunks::<4>();
    numbers.iter().skip(1).map(|number| u32::from_ne_bytes(*number)).collect()
}

#[cfg(test)]
mod tests {
    use namegate_core::policy::automaton::Coverage;
    use namegate_core::policy::{Policy, profile};

    use super::*;

    #[test]
    fn devices_are_read_as_they_were_written_and_the_last_one_in_use_is_known() {
        let mut devices = vec![0; SLOTS as usize];
        for (slot, used) in [(None, 0), (Some(4), 5), (Some(31), 32), (Some(0), 32)] {
            slot.inspect(|&slot: &usize| devices[slot] = 8 << 20 | 1);
            let bytes = encode_devices(&devices);
            assert_eq!((bytes.len(), bytes[0]), (DEVICES_SIZE, used));
            assert_eq!(decode_devices(&bytes), devices);
        }
    }

    #[test]
    fn a_table_tells_where_it_applies_and_its_note() {
        let policy = Policy::from_profiles(&[profile::by_name("windows").unwrap()]);
        let automaton = Automaton::new(&Coverage::new(&policy)).unwrap();
        let root = |generation| Some(GuardRoot { inode: 1 << 40, generation });
        for (root, refusal, note) in [
            (None, None, &b"{}"[..]),
            (root(None), Some(Errno::EINVAL), b""),
            (root(Some(u32::MAX)), Some(Errno::EILSEQ), &[7; NOTE]),
        ] {
            let scope = GuardScope { device: 8 << 20 | 1, root, refusal };
            let mut bytes = table(1 << 40, scope, &automaton, note).unwrap();
            assert_eq!(bytes.len(), SIZE as usize);
            let head = TableHead { id: 1 << 40, scope, has_ended: false, note };
            assert_eq!(read_table(&bytes), Some(head));
            bytes[NUMBERS_AT + 4 * 10] = 1;
            assert_eq!(read_table(&bytes), Some(TableHead { has_ended: true, ..head }));
        }
        let scope = GuardScope { device: 1, root: None, refusal: None };
        assert_eq!(table(1, scope, &automaton, &[0; NOTE + 1]), Err(TableError::Note(NOTE + 1)));
        assert_eq!(read_table(&[0; 100]), None);
    }
}
