//! The provider that serves a git repository.
//!
//! It reads the repository's files itself, with gitoxide's plumbing for the formats, from a directory that the plugin
//! was granted; nothing is run, nothing is written, and nothing beyond that directory is needed. What is served, and
//! under which paths, is told in `paths`.
//!
//! Two things shape the code. A repository may be far larger than the memory of the plugin, so no pack, index or list
//! of refs is ever read as a whole (`block_cache`, `odb`, `refs`), and every answer has a bound. And a repository is
//! somebody else's data, so whatever is damaged in it, or made to be, ends in an `error` that says where and what.
//!
//! From above: `provider` takes calls to `list`, `view`, `complete` and `changes`; these ask the `repo` for
//! revisions (`rev`), trees (`tree`), histories (`history`) and objects.

#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails, as it should"))]

mod block_cache;
mod changes;
mod complete;
mod error;
mod files;
mod history;
mod list;
mod odb;
mod paths;
mod provider;
mod refs;
mod repo;
mod resource_entry;
mod rev;
mod settings;
mod tree;
mod view;

pub use provider::Git;

mcp_provider::export!(Git);
