//! Names of one directory that were read wrongly together: what one of them was is guessed from all of them.

use std::collections::{BTreeMap, HashMap};

use super::{GAIN_OF_LEGACY, Misread, Outer, Step, last_step, legacy_step, undo_after};
use crate::name::reading::{self, EncodingCounts, EncodingGuess};

/// So many names show how they were read.
const SAMPLE: usize = 96;
/// What the names must cost less in an encoding than in another one, to be sure that it is the one in which they were read.
const SURE: f32 = 10.0;

/// How the names of a directory were read wrongly that were text in other encodings than UTF-8.
///
/// ```
/// use namegate_core::name::misread::{SharedMisreading, undo};
/// let names = ["éµéÌ (read).txt", "éÞéÃé¦"];
/// let shared = SharedMisreading::of_names(names.into_iter()).unwrap();
/// assert_eq!(shared.undo(names[0]).unwrap().text, "よむ (read).txt");
/// assert_ne!(undo(names[0]).unwrap().text, "よむ (read).txt", "one name says too little");
/// ```
#[derive(Debug)]
pub struct SharedMisreading {
    /// The encoding in which they were read.
    outer: Outer,
    /// Whether they were read in no other.
    is_sure: bool,
    /// The encodings in which they were.
    guess: EncodingGuess,
    /// What each name costs if it is read alone.
    alone: HashMap<Box<str>, f32>,
}

impl SharedMisreading {
    /// Finds it in those of `names` that were read wrongly; `None` if fewer than two of them were.
    pub fn of_names<'n>(names: impl Iterator<Item = &'n str>) -> Option<Self> {
        // It must not depend on their order.
        let alone: BTreeMap<&str, f32> = names.filter_map(|name| Some((name, cost_alone(name)?))).collect();
        if alone.len() < 2 {
            return None;
        }
        let names: Vec<&str> = alone.keys().copied().collect();
        let sample = names.iter().step_by(names.len().div_ceil(SAMPLE));
        let sample: Vec<(&str, f32)> = sample.map(|&name| (name, reading::cost(name))).collect();
        let mut found: Vec<(f32, Self)> = Vec::new();
        for outer in Outer::WESTERN {
            let bytes: Vec<Vec<u8>> = sample.iter().filter_map(|(name, _)| outer.bytes(name)).collect();
            let names = bytes.iter().map(Vec::as_slice);
            let Some(guess) = EncodingGuess::for_names(names, &EncodingCounts::default()) else { continue };
            let shared = Self { outer, is_sure: true, guess, alone: HashMap::new() };
            let costs =
                sample.iter().map(|&(name, own)| shared.step(name, own).map_or(own, |step| step.cost));
            found.push((costs.sum(), shared));
        }
        found.sort_by(|a, b| a.0.total_cmp(&b.0));
        let next = found.get(1).map_or(f32::INFINITY, |(cost, _)| *cost);
        let (cost, mut shared) = found.into_iter().next()?;
        shared.is_sure = cost + SURE <= next;
        shared.alone = alone.into_iter().map(|(name, cost)| (name.into(), cost)).collect();
        Some(shared)
    }

    /// As [`undo`](super::undo) for `name`, one of the names; `None` if it was not read as they were.
    pub fn undo(&self, name: &str) -> Option<Misread> {
        let alone = *self.alone.get(name)?;
        let mut step = self.step(name, reading::cost(name))?;
        // Another program may have read it in another encoding.
        if step.cost > alone + GAIN_OF_LEGACY {
            return None;
        }
        step.is_sure &= step.cost <= alone;
        Some(undo_after(step))
    }

    fn step(&self, name: &str, own: f32) -> Option<Step> {
        legacy_step(name, own, self.outer, |bytes| {
            let reading = self.guess.read(bytes)?;
            let is_sure = self.is_sure && reading.is_likely;
            Some((reading.explanation.encoding()?, reading.text, is_sure))
        })
    }
}

/// What the text costs that `name` was by itself, if that was in another encoding than UTF-8 and was read wrongly.
fn cost_alone(name: &str) -> Option<f32> {
    last_step(name).filter(|step| step.reread.written_in.is_some()).map(|step| step.cost)
}
