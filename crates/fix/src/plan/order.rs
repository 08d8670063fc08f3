//! The order of the renames in a directory, so that every new name is free.
//!
//! A new name may be the old name of another entry, which has to move first. Entries that trade names form a cycle: no order
//! works, so they are renamed as a group, through a temporary name.

use std::collections::HashMap;

/// Orders the renames of one directory, each an old and a new name. A rename that changes nothing is left out.
///
/// ```
/// use namegate_fix::plan::order::order_names;
/// let chain: [(&[u8], &[u8]); 2] = [(b"a", b"b"), (b"b", b"c")];
/// assert_eq!(order_names(&chain), [[1], [0]]);
/// let swap: [(&[u8], &[u8]); 2] = [(b"a", b"b"), (b"b", b"a")];
/// assert_eq!(order_names(&swap), [[0, 1]]);
/// ```
pub fn order_names(renames: &[(&[u8], &[u8])]) -> Vec<Vec<usize>> {
    let by_old: HashMap<&[u8], usize> = renames.iter().enumerate().map(|(at, (old, _))| (*old, at)).collect();
    // The entry that has to move before `at` can.
    let before = |at: usize| by_old.get(renames[at].1).copied();
    let mut groups = Vec::with_capacity(renames.len());
    let mut states = vec![ChainState::Waiting; renames.len()];
    let mut chain = Vec::new();
    for first in 0..renames.len() {
        let mut next = Some(first).filter(|&at| states[at] == ChainState::Waiting);
        while let Some(at) = next {
            states[at] = ChainState::InChain;
            chain.push(at);
            next = before(at);
            match next.map(|next| states[next]) {
                Some(ChainState::Waiting) => {}
                // The cycle closes where it began: only one new name waits for each old name, unless two new names are equal,
                // which no order can fix.
                Some(ChainState::InChain) => {
                    let begin = chain.iter().position(|&there| Some(there) == next).unwrap_or_default();
                    let cycle = chain.split_off(begin);
                    cycle.iter().for_each(|&at| states[at] = ChainState::Ordered);
                    if cycle.len() > 1 {
                        groups.push(cycle);
                    }
                    break;
                }
                Some(ChainState::Ordered) | None => break,
            }
        }
        while let Some(at) = chain.pop() {
            groups.push(vec![at]);
            states[at] = ChainState::Ordered;
        }
    }
    groups
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ChainState {
    Waiting,
    InChain,
    Ordered,
}
