//! Enforces the policy in the kernel: a BPF program on the security hooks for new names.
//!
//! The program (`guard.bpf.c`) reads one table for each guard. The table says where the guard applies, and holds the policy
//! as an automaton.

pub mod program;
pub mod table;
