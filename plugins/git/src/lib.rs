//! A provider that serves a git repository.
//!
//! It reads the repository's files itself, with gitoxide's plumbing crates for the formats, from a directory that the
//! plugin was granted. It executes nothing, writes nothing there, and needs no access beyond that directory. The module
//! `paths` documents the resources and their paths.
//!
//! Two requirements shape the code. A repository may be far larger than the plugin's memory, so no pack, index or list
//! of refs is ever read as a whole (`block_cache`, `odb`, `refs`), and every response is bounded. And a repository is
//! untrusted data, so any damage, accidental or malicious, results in an `error` that states location and cause.
//!
//! The results of history walks can be cached in a bucket (`learned`).
//!
//! From the top: `provider` dispatches calls to `list`, `view`, `complete` and `changes`; these query the `repo` for
//! revisions (`rev`), trees (`tree`), histories (`history`) and objects.

#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test that overflows must fail"))]

mod blame;
mod block_cache;
mod budget;
mod changes;
mod chunks;
mod commit_graph;
mod commits;
mod complete;
mod error;
mod files;
mod history;
mod id_table;
mod layout;
mod learned;
mod list;
mod odb;
mod paths;
mod provider;
mod refs;
mod renames;
mod repo;
mod resource_entry;
mod rev;
mod settings;
mod similarity;
mod tree;
mod view;

pub use provider::Git;

mcp_provider::export!(Git);
mcp_provider::needs! {
    "dirs": [{ "guest": "/repo", "mode": "ro", "why": "the repository: a work tree with its .git, or a bare one" }],
    "keyvalue": [{ "bucket": "histories", "optional": true, "why": "what was learned of histories: without a commit-graph, a search that ended early goes on at the next request" }],
    "config": {
        "dir": { "type": "string", "default": "/repo", "why": "the repository, at its guest path" },
        "rev": { "type": "string", "default": "HEAD", "why": "the revision whose files are listed" },
        "refs": { "type": "table", "why": "the refs that are served: lists `allow` and `hide` of full names" },
        "max-blob": { "type": "string", "default": "16MiB", "why": "the largest file that is served" },
        "max-diff": { "type": "string", "default": "1MiB", "why": "the maximum size of the diff of a commit" }
    }
}
