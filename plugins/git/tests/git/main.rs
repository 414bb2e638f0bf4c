//! The provider compared with the `git` command: both read the same repositories and must return the same results.
//!
//! The repositories are created by `git` in temporary directories, with a fixed clock and an isolated config.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::string_slice,
    reason = "a test that panics fails, as it should"
)]

mod blame;
mod changes;
mod commit_graph;
mod commits;
mod completion;
mod damage;
mod diffs;
mod files;
mod hidden_refs;
mod history;
mod real_repository;
mod reftables;
mod repo;
mod revisions;
mod storage;
