//! What namegate reports about a directory, and the grouping of paths by directory.
//!
//! The program `namegate` and the crate `namegate-arrow` both get their findings from [`directory::DirectoryScan`], so the same
//! names have the same findings in a scan, in a list, and in any engine that reads Arrow. The only files that this crate opens are
//! temporary files without a name, for paths that do not fit into memory.
//!
//! ```
//! use namegate_core::policy::{Policy, profile};
//! use namegate_findings::directory::{CheckedNames, DirectoryScan};
//! use namegate_findings::located_names::LocatedNames;
//! use namegate_findings::group::Groups;
//! use namegate_findings::record::Detail;
//! use namegate_findings::split::Shape;
//!
//! let mut groups = Groups::new(Shape::Key, 1 << 20);
//! for (number, key) in (1..).zip(["a/README", "a/readme", "b/ok"]) {
//!     groups.add(key.as_bytes(), number)?;
//! }
//! let policy = Policy::from_profiles(&[profile::by_name("windows").expect("there is one")]);
//! let scan = DirectoryScan::new(&policy, Detail::Everything);
//! let mut found = Vec::new();
//! for part in groups.into_parts()? {
//!     let part = part.load()?;
//!     for directory in (0..part.len()).map(|at| part.directory(at)) {
//!         let names = LocatedNames::new(directory.names(b""), &directory.dir);
//!         scan.check(&names, CheckedNames::All, &mut |findings| found.extend(findings.records));
//!     }
//! }
//! assert_eq!(found[0].path(), b"a/README");
//! assert_eq!(found[0].objections[0].message, "differs in case alone from `readme`");
//! # Ok::<(), std::io::Error>(())
//! ```

#![warn(missing_docs)]

pub mod decode;
pub mod directory;
pub mod fingerprint;
pub mod group;
pub mod located_names;
pub mod location;
pub mod place_rules;
pub mod record;
pub mod records;
pub mod split;
pub mod temporary;
pub mod unmarked;
pub mod uri;
