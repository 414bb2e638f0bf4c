//! The provider beside the `git` command: both read the same repositories, and must see the same in them.
//!
//! The repositories are made by `git` in temporary directories, with a fixed clock and no config but their own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::string_slice,
    reason = "a test that panics fails, as it should"
)]

mod changes;
mod commits;
mod completion;
mod damage;
mod files;
mod history;
mod repo;
mod revisions;
mod storage;
