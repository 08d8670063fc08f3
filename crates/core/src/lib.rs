//! Checks file names: is a name well-formed UTF-8, does a target accept it, which names in a directory collide, and which
//! name could replace an invalid one.
//!
//! The crate is pure: it opens no file, reads no clock and writes no log. It builds on every platform with a standard library.
//! A *name* is one component of a path, as bytes.
//!
//! # Check a name
//!
//! A [`Policy`](policy::Policy) is compiled from [profiles](policy::profile). It decides about a name
//! ([`verdict`](policy::Policy::verdict)), or reports everything that is wrong with it ([`check`](policy::Policy::check)).
//!
//! ```
//! use namegate_core::policy::{Policy, Verdict, profile};
//!
//! let strict = Policy::from_profiles(&[profile::by_name("strict")?]);
//! assert_eq!(strict.verdict("café.txt".as_bytes()), Verdict::Accept("café.txt"));
//!
//! let check = strict.check(b"caf\xE9\x07.txt");
//! let found: Vec<_> = check.violations.iter().map(|v| (v.rule.name(), v.span.start)).collect();
//! assert_eq!(found, [("truncated", 3), ("c0-control", 4)]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Several targets at once
//!
//! Profiles combine. Each violation names the profiles that object.
//!
//! ```
//! use namegate_core::policy::{Policy, profile};
//!
//! let targets = Policy::from_profiles(&[profile::by_name("windows")?, profile::by_name("macos")?]);
//! let check = targets.check(b"aux.txt");
//! let violation = check.violations[0];
//! assert_eq!(violation.rule.name(), "reserved-name");
//! assert_eq!(violation.profiles.names().collect::<Vec<_>>(), ["windows"]);
//! println!("{}", check.message(&targets, &violation));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Collisions of a directory
//!
//! Some names are valid alone but collide on a target. [`check_directory`](policy::Policy::check_directory) checks all
//! names of a directory, by themselves and together.
//!
//! ```
//! use namegate_core::check::DirectoryNames;
//! use namegate_core::name::arena::Arena;
//! use namegate_core::policy::{Policy, profile};
//!
//! let mut names = Arena::new();
//! for name in ["Makefile", "readme", "README", "what?"] {
//!     names.push(name.as_bytes())?;
//! }
//! let windows = Policy::from_profiles(&[profile::by_name("windows")?]);
//! let check = windows.check_directory(&DirectoryNames::new(&names)).expect("two names collide");
//! assert_eq!(check.collisions[0].members, [1, 2]);
//! assert_eq!(check.violations[&3][0].rule.name(), "reserved-character");
//!
//! let suggested = check.suggested_names(&windows, None);
//! assert_eq!((&*suggested[&1].name, &*suggested[&3].name), ("readme_2", "what"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Suggested names
//!
//! The example above ends with suggested names for a whole directory. For one name there is
//! [`suggest_name`](policy::Policy::suggest_name), whose caller decides whether a name is in use.
//!
//! ```
//! use namegate_core::policy::{Confidence, EncodingHint, Policy, profile};
//!
//! let policy = Policy::from_profiles(&[profile::by_name("windows")?]);
//! let repair = policy.suggest_name(b"a:b.txt", EncodingHint::Unknown, &mut |other| other == "a_b.txt").unwrap();
//! assert_eq!((&*repair.name, repair.confidence), ("a_b_2.txt", Confidence::Likely));
//! assert_eq!(policy.suggest_name(b"fine.txt", EncodingHint::Unknown, &mut |_| false), None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # A gate
//!
//! A [`Gate`](gate::Gate) protects something that stores names, such as a file system. Functions behind the gate require an
//! [`Admitted`](gate::Admitted), which only a gate can make: code that forgets the check does not compile.
//!
//! ```
//! use namegate_core::gate::{Admitted, Gate, Intent, Mode, Refusal};
//! use namegate_core::policy::{Policy, profile};
//! use std::sync::Arc;
//!
//! fn store(name: &Admitted<'_>) -> usize {
//!     name.as_bytes().len()
//! }
//!
//! let gate = Gate::new(Arc::new(Policy::from_profiles(&[profile::by_name("windows")?])), Mode::Enforcing);
//! assert_eq!(store(&gate.admit_bytes(Intent::Create, b"report.txt")?), 10);
//! let refusal = gate.admit_bytes(Intent::Create, b"what?").unwrap_err();
//! assert!(matches!(refusal, Refusal::Violates(v) if v.rule.name() == "reserved-character"));
//! // A file that is already there stays reachable.
//! assert!(gate.admit_bytes(Intent::Address, b"what?").is_ok());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//!
//! All features are on by default. Without them the crate links fewer than 30 others.
//!
//! | feature | what it adds |
//! |---|---|
//! | `automaton` | policies as finite automata, for programs that cannot call this crate |
//! | `config` | policies as TOML files, and suggestions for misspelt words |
//! | `encodings` | decodes names that are not UTF-8 in legacy encodings, for diagnoses and suggested names |
//! | `names` | the Unicode names of characters |
//! | `serde` | `Serialize` and `Deserialize` for severities, sets of profiles and confidences |

#![warn(missing_docs)]

pub mod check;
pub mod gate;
pub mod name;
mod nearest;
pub mod policy;

/// Runs the examples of the README as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
