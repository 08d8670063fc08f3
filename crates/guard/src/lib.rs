//! Enforces the policy in the kernel: a BPF program on the security hooks for new names.
//!
//! The program (`guard.bpf.c`) reads one table for each guard. The table says where the guard applies, holds the policy
//! as an automaton, and has a note with path and policy for whoever asks. Program, tables and counters are pinned in the BPF file
//! system: they stay in force without a process.

pub mod claim;
pub mod events;
pub mod guards;
pub mod note;
pub mod program;
pub mod report;
pub mod table;
pub mod target;
