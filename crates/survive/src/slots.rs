//! Tables of slots with a fixed number of words.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// A table in shared memory. The first word of a slot is 0 while the slot is free.
#[derive(Debug)]
pub(super) struct SlotTable {
    words: &'static [AtomicU64],
    size: usize,
    /// Number of slots that were ever used.
    used: &'static AtomicU64,
    free: Mutex<Vec<u32>>,
}

/// A slot that is in use, until this is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    table: &'static SlotTable,
    index: u32,
}

impl SlotTable {
    /// The table in `words`, with slots of `size` words; `used` counts the slots that were ever used.
    pub(super) fn new(words: &'static [AtomicU64], size: usize, used: &'static AtomicU64) -> Self {
        Self { words, size, used, free: Mutex::default() }
    }

    /// A free slot, whose first word is 0: the caller fills in the others, and then that one. `None` if all are in use.
    pub(super) fn claim(&'static self) -> Option<Slot> {
        let mut free = self.free.lock();
        let index = match free.pop() {
            Some(index) => index,
            None => {
                let next = self.used.load(Ordering::Relaxed);
                if (next as usize + 1) * self.size > self.words.len() {
                    return None;
                }
                self.used.store(next + 1, Ordering::Relaxed);
                next as u32
            }
        };
        Some(Slot { table: self, index })
    }

    /// The slot with this index, which is in use.
    pub(super) fn slot(&'static self, index: u32) -> Slot {
        Slot { table: self, index }
    }

    /// Stores a word of a slot, after all that this thread has stored before.
    pub(super) fn set(&self, index: u32, word: usize, value: u64) {
        self.words[index as usize * self.size + word].store(value, Ordering::Release);
    }

    /// Number of slots that were ever used.
    fn used(&self) -> usize {
        let most = self.words.len() / self.size;
        usize::try_from(self.used.load(Ordering::Relaxed)).map_or(most, |used| used.min(most))
    }

    /// This word of all slots that are in use.
    pub(super) fn column(&'static self, word: usize) -> impl Iterator<Item = u64> {
        let slots = self.words.chunks_exact(self.size).take(self.used());
        let in_use = slots.filter(|slot| slot[0].load(Ordering::Acquire) != 0);
        in_use.map(move |slot| slot[word].load(Ordering::Acquire))
    }

    /// Sets this word to 0 in all slots in use in which it is of no use any more. Nothing else may use the table.
    pub(super) fn clear(&'static self, word: usize, is_useless: impl Fn(u64) -> bool) {
        let slots = self.words.chunks_exact(self.size).take(self.used());
        for slot in slots.filter(|slot| is_useless(slot[word].load(Ordering::Acquire))) {
            slot[word].store(0, Ordering::Release);
        }
    }

    /// The slots that a predecessor has used. To be called once, before anything else.
    pub(super) fn take_over(&'static self) -> Vec<Slot> {
        let (mut free, mut taken) = (self.free.lock(), Vec::new());
        free.clear();
        for index in 0..self.used() as u32 {
            match self.words[index as usize * self.size].load(Ordering::Acquire) {
                0 => free.push(index),
                _ => taken.push(Slot { table: self, index }),
            }
        }
        taken
    }
}

impl Slot {
    /// Keeps the slot in use, and returns its index.
    pub(super) fn keep(self) -> u32 {
        let index = self.index;
        std::mem::forget(self);
        index
    }

    pub(super) fn index(&self) -> usize {
        self.index as usize
    }

    pub(super) fn words(&self) -> &'static [AtomicU64] {
        let begin = self.index() * self.table.size;
        &self.table.words[begin..begin + self.table.size]
    }

    pub(super) fn get(&self, word: usize) -> u64 {
        self.words()[word].load(Ordering::Acquire)
    }

    /// Stores a word, after all that this thread has stored before.
    pub(super) fn set(&self, word: usize, value: u64) {
        self.words()[word].store(value, Ordering::Release);
    }

    /// Whether this slot belongs to `table`.
    pub(super) fn is_in(&self, table: &'static SlotTable) -> bool {
        std::ptr::eq(self.table, table)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.set(0, 0);
        self.table.free.lock().push(self.index);
    }
}
