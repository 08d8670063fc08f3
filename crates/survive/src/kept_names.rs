//! Names that the kernel keeps until it is made to drop them, for a successor: it has missed changes, so it has all of them dropped.
//!
//! They are in two halves. When one is full, all names in it are dropped, while the other one takes new ones. A record is the number of
//! a directory and a name with its length; it counts from the moment the length of its half is stored.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::atomic::{AtomicU64, Ordering};

use namegate_mount::KeptNames;

use super::layout::KEPT_WORDS;
use super::state::{SurvivalState, head, load_bytes, store_bytes};

/// Words that only names get which the kernel keeps in any case.
const RESERVED: usize = KEPT_WORDS / 16;

/// Words of the head: the length of each half, and which one takes names.
const LENS: [usize; 2] = [head::KEPT_NAMES, head::KEPT_NAMES + 1];
const CURRENT: usize = head::KEPT_NAMES + 2;

impl SurvivalState {
    fn half(&self, half: usize) -> &'static [AtomicU64] {
        let first = self.kept_names_begin() + half * KEPT_WORDS;
        &self.memory.words()[first..first + KEPT_WORDS]
    }

    fn len_of(&self, half: usize) -> usize {
        usize::try_from(self.get(LENS[half])).map_or(KEPT_WORDS, |len| len.min(KEPT_WORDS))
    }

    fn current(&self) -> usize {
        usize::from(self.get(CURRENT) != 0)
    }
}

impl KeptNames for SurvivalState {
    fn note(&self, parent: u64, name: &OsStr, is_kept: bool) -> bool {
        let half = self.current();
        let used = self.len_of(half);
        let most = if is_kept { KEPT_WORDS } else { KEPT_WORDS - RESERVED };
        let len = 1 + (1 + name.len()).div_ceil(8);
        let (Ok(name_len), true) = (u8::try_from(name.len()), used + len <= most) else { return false };
        let words = &self.half(half)[used..used + len];
        words[0].store(parent, Ordering::Relaxed);
        store_bytes(&words[1..], &[&[name_len], name.as_bytes()]);
        self.set(LENS[half], (used + len) as u64);
        true
    }

    fn can_part(&self) -> bool {
        self.len_of(1 - self.current()) == 0
    }

    fn part(&self) -> bool {
        // If there was nothing to part, the end of one drop could forget what was parted for the next one.
        let parts = self.can_part() && self.len_of(self.current()) > 0;
        if parts {
            self.set(CURRENT, 1 - self.current() as u64);
        }
        parts
    }

    fn forget_parted(&self) {
        self.set(LENS[1 - self.current()], 0);
    }

    fn all(&self) -> Vec<(u64, OsString)> {
        let mut all = Vec::new();
        for half in 0..2 {
            let mut rest = &self.half(half)[..self.len_of(half)];
            while let Some((parent, name)) = rest.split_first() {
                let len = name.first().map_or(0, |word| word.load(Ordering::Relaxed).to_ne_bytes()[0]);
                let Some((words, behind)) = name.split_at_checked((1 + usize::from(len)).div_ceil(8)) else {
                    break;
                };
                let bytes = load_bytes(words, 1 + usize::from(len)).split_off(1);
                all.push((parent.load(Ordering::Relaxed), OsString::from_vec(bytes)));
                rest = behind;
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_there_until_those_before_a_parting_are_forgotten() {
        let state = SurvivalState::with_buffers(1 << 12).unwrap();
        let name = |len: usize| OsString::from("n".repeat(len));
        let noted: Vec<_> = (0..=255).map(|len| (7 + len as u64, name(len))).collect();
        for (parent, name) in &noted {
            assert!(state.note(*parent, name, false));
        }
        assert!(!state.note(1, &name(256), true), "no name of the kernel is longer");
        assert_eq!(state.all(), noted);
        assert!(state.part() && !state.can_part());
        assert!(state.note(1, OsStr::new("later"), false));
        assert_eq!(state.all().len(), noted.len() + 1);
        assert!(!state.part(), "the first ones may not be dropped yet");
        state.forget_parted();
        assert_eq!(state.all(), [(1, OsString::from("later"))]);
        assert!(state.part());
        state.forget_parted();
        assert!(state.all().is_empty() && state.can_part() && !state.part());
    }

    #[test]
    fn a_full_half_takes_only_what_is_kept_in_any_case_and_a_damaged_one_ends_the_list() {
        let state = SurvivalState::with_buffers(1 << 12).unwrap();
        let name = OsString::from("n".repeat(255));
        let count = (0..KEPT_WORDS).take_while(|i| state.note(*i as u64, &name, false)).count();
        assert!(count < KEPT_WORDS && state.note(1, &name, true));
        assert_eq!(state.all().len(), count + 1);
        state.set(LENS[0], u64::MAX);
        assert!(state.all().len() > count);
    }
}
