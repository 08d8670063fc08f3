//! Checks file names and object keys in Arrow batches, with the findings of `namegate scan --list`.
//!
//! Collisions and suggested names are properties of whole directories. So an engine with many tasks needs two steps, with a
//! shuffle in between:
//!
//! 1. [`PairSplitter`] splits keys into pairs: the name of the key and those of the directories above, each with its parent.
//!    Pairs can occur several times.
//! 2. The engine brings all pairs with the same parent to one task.
//! 3. [`DirectoryChecker`] checks whole directories, and makes a batch of findings and one summary row for each task.
//!
//! Both are pure, so an engine may run a task again. Memory is bounded, whatever a task receives: what does not fit is kept in
//! temporary files without a name. A key that cannot be checked, because it is null, too long or too deep, becomes a row of the
//! findings with the verdict `fault`: nothing is lost.
//!
//! ```
//! use std::sync::Arc;
//!
//! use arrow_array::{ArrayRef, BinaryArray};
//! use namegate_arrow::{CheckSettings, DirectoryChecker, PairSettings, PairSplitter};
//! use namegate_core::policy::{Policy, profile};
//!
//! let keys: ArrayRef = Arc::new(BinaryArray::from_vec(vec![b"a/README", b"a/readme", b"b/\xFF"]));
//! let mut pairs = Vec::new();
//! PairSplitter::new(PairSettings::default()).split(&keys, &mut |batch| pairs.push(batch))?;
//!
//! let policy = Policy::from_profiles(&[profile::by_name("windows").expect("there is one")]);
//! let mut checker = DirectoryChecker::new(CheckSettings::new(Arc::new(policy)));
//! let mut findings = Vec::new();
//! for batch in &pairs {
//!     findings.extend(checker.add(batch)?);
//! }
//! let mut reader = checker.finish()?;
//! for batch in &mut reader {
//!     findings.push(batch?);
//! }
//! assert_eq!(findings.iter().map(|batch| batch.num_rows()).sum::<usize>(), 3);
//! let summary = reader.summary();
//! assert_eq!((summary.names, summary.directories, summary.collisions), (5, 3, 1));
//! # Ok::<(), arrow_schema::ArrowError>(())
//! ```

#![warn(missing_docs)]

mod byte_column;
mod candidates;
mod check;
mod columns;
mod finding_table;
mod names;
mod numbers;
mod pairs;
mod rows;
pub mod schema;
mod task_summary;

pub use candidates::{CandidateChecker, CandidateKind};
pub use check::{CheckSettings, DirectoryChecker, FindingsReader};
pub use finding_table::{FindingRow, FindingTable, ViolationRow};
pub use names::{CheckedItems, check_names};
pub use numbers::{CandidateFinder, number_names};
pub use pairs::{PairSettings, PairSplitter};
pub use rows::FindingRows;
pub use task_summary::TaskSummary;
