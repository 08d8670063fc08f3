//! In which order renames are done: what lies deepest first, and in one directory so that no name is ever taken.
//!
//! A new name may be the old name of another entry, which then has to move first. Where entries trade their names in a
//! circle, no order will do: two are exchanged, of more one is put aside.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Directory, Rename, post_order};

/// One move. Entries are told by their place among the renames that were put in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The entry gets its new name, which is free now.
    Rename(usize),
    /// Both get the name of the other, at once: `RENAME_EXCHANGE`. Where a file system cannot do that, `Aside` of the
    /// first, `Rename` of the second and `Settle` of the first do the same.
    Exchange(usize, usize),
    /// The entry gets a name that nothing has; its old name is free now.
    Aside(usize),
    /// The entry that was put aside gets its new name, which is free now.
    Settle(usize),
}

/// What is done in one directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The directory.
    pub directory: Arc<Directory>,
    /// The steps, in order; entries are told by their place in what was given to [`order`].
    pub steps: Vec<Step>,
}

/// The steps for all of `renames`, directory by directory, each before the one that holds it: paths of old names are valid
/// when their turn comes.
///
/// Old names must be distinct in a directory, and new names too, as the check of a plan holds. Takes time by `n log n`.
pub fn order(renames: &[Rename]) -> Vec<Turn> {
    let mut places: Vec<usize> = (0..renames.len()).collect();
    places.sort_by(|&a, &b| {
        let (a, b) = (&renames[a], &renames[b]);
        post_order(&a.directory.path, &b.directory.path).then_with(|| a.old.cmp(&b.old))
    });
    let together = places.chunk_by(|&a, &b| renames[a].directory.path == renames[b].directory.path);
    together
        .map(|places| {
            let names: Vec<(&[u8], &[u8])> =
                places.iter().map(|&at| (&*renames[at].old, renames[at].new.as_bytes())).collect();
            let steps = steps(&names).into_iter().map(|step| step.over(places)).collect();
            Turn { directory: Arc::clone(&renames[places[0]].directory), steps }
        })
        .collect()
}

/// The steps for the renames of one directory, each an old and a new name. One that changes nothing needs no step.
///
/// ```
/// use namegate::fix::plan::{Step, order::steps};
/// let chain: [(&[u8], &[u8]); 2] = [(b"a", b"b"), (b"b", b"c")];
/// assert_eq!(steps(&chain), [Step::Rename(1), Step::Rename(0)]);
/// let swap: [(&[u8], &[u8]); 2] = [(b"a", b"b"), (b"b", b"a")];
/// assert_eq!(steps(&swap), [Step::Exchange(0, 1)]);
/// ```
pub fn steps(renames: &[(&[u8], &[u8])]) -> Vec<Step> {
    let by_old: HashMap<&[u8], usize> = renames.iter().enumerate().map(|(at, (old, _))| (*old, at)).collect();
    // Who has to move before `at` can.
    let before = |at: usize| by_old.get(renames[at].1).copied();
    let mut steps = Vec::with_capacity(renames.len());
    let mut standing = vec![Standing::Waits; renames.len()];
    let mut line = Vec::new();
    for first in 0..renames.len() {
        let mut next = Some(first).filter(|&at| standing[at] == Standing::Waits);
        while let Some(at) = next {
            standing[at] = Standing::InLine;
            line.push(at);
            next = before(at);
            match next.map(|next| standing[next]) {
                Some(Standing::Waits) => {}
                // The circle closes where it began: each old name is waited for by one new name only, unless two new
                // names are the same, which no order mends.
                Some(Standing::InLine) => {
                    let begin = line.iter().position(|&there| Some(there) == next).unwrap_or_default();
                    let circle = line.split_off(begin);
                    push_circle(&circle, &mut steps);
                    circle.into_iter().for_each(|at| standing[at] = Standing::Moved);
                    break;
                }
                Some(Standing::Moved) | None => break,
            }
        }
        while let Some(at) = line.pop() {
            steps.push(Step::Rename(at));
            standing[at] = Standing::Moved;
        }
    }
    steps
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    Waits,
    InLine,
    Moved,
}

/// The new name of each is the old name of the next, and that of the last the old name of the first.
fn push_circle(circle: &[usize], steps: &mut Vec<Step>) {
    match *circle {
        [] | [_] => {}
        [one, other] => steps.push(Step::Exchange(one, other)),
        [first, ref others @ ..] => {
            steps.push(Step::Aside(first));
            steps.extend(others.iter().rev().map(|&at| Step::Rename(at)));
            steps.push(Step::Settle(first));
        }
    }
}

impl Step {
    /// The entries that it moves.
    pub fn members(self) -> impl Iterator<Item = usize> {
        let (one, other) = match self {
            Self::Rename(at) | Self::Aside(at) | Self::Settle(at) => (at, None),
            Self::Exchange(one, other) => (one, Some(other)),
        };
        [Some(one), other].into_iter().flatten()
    }

    /// The same step, with entries told by what stands at their place in `places`.
    fn over(self, places: &[usize]) -> Self {
        match self {
            Self::Rename(at) => Self::Rename(places[at]),
            Self::Exchange(one, other) => Self::Exchange(places[one], places[other]),
            Self::Aside(at) => Self::Aside(places[at]),
            Self::Settle(at) => Self::Settle(places[at]),
        }
    }
}
