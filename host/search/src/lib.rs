//! Search: a full-text index of the resources that plugins list.
//!
//! The index is one SQLite database with FTS5 in the state directory. Each plugin whose config has a table `search` is
//! a *source*, with a task that keeps the index consistent with its default listing (`indexer`). A query is looked up
//! for one principal: a match is ranked, counted and returned only if this principal may list and read its resource.
//!
//! Search is a [built-in provider](mcp_host_engine::plugin::BuiltIn). The host calls it through that trait and
//! [`SearchService`]; search calls the host through [`SearchHost`].
//!
//! | module | subject |
//! |---|---|
//! | `tokens`, `language` | the indexed units of text; the language of a text |
//! | `document`, `snippet` | a resource in the index, and its passages; the displayed part of a text |
//! | `database`, `store`, `space` | the file; writes to it; its size |
//! | `query`, `frequency`, `bm25`, `lookup` | terms, conditions and candidates; the frequency of terms; ranking; reading from the index |
//! | `embeddings` | vectors of passages, and the nearest documents to a query |
//! | `context`, `passages` | the best selection of passages within a budget |
//! | `index` | the thread that writes, and the connections that read |
//! | `source_reader` | reads the resources of a plugin |
//! | `status`, `stored_status`, `counts` | the state of a source; the stored state for another process; the number of searches |
//! | `indexer`, `walk`, `change_poller`, `updater` | the task that indexes a plugin: reconciliation, polling for changes, reads and batched writes |
//! | `snapshot` | the shared index of the replicas of a cluster: one builds it, the others fetch snapshots |
//! | `request`, `results`, `error` | requests, results and errors |
//! | `service`, `searched`, `shares` | the tasks of all plugins; lookups over their sources; lookups of one principal at a time |
//! | `host_view` | the interface of search to the host |
//! | `access`, `filters` | search and context for a principal; validation of requests |
//! | `search_resources`, `context_resources`, `parameters` | the mounts `search:` and `context:`; query parameters of their URIs |
//!
//! # Guarantees
//!
//! - A resource that a principal may not list and read is not in the principal's results, their number, or snippets.
//!   The time of a lookup depends on all matches, and ranking on the frequencies of words in the whole index; scores
//!   are not returned.
//! - Any text with a word is a valid query. A lookup takes at most 200 ms; if the time ends, its result is partial. The
//!   result is also partial if a plugin is not completely indexed in which the principal may find any resource.
//! - A snapshot of another replica is not a permission: the rules of this replica decide what a principal finds.
//! - The index survives `kill -9` and a full disk. A damaged file is deleted, and everything is indexed again.

#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails, as it should"))]

mod access;
mod bm25;
mod change_poller;
mod context;
mod context_resources;
mod counts;
mod database;
mod document;
mod embeddings;
mod error;
mod filters;
mod frequency;
mod host_view;
mod index;
mod indexer;
mod language;
mod lookup;
mod parameters;
mod passages;
mod query;
mod request;
mod results;
mod search_resources;
mod searched;
mod service;
mod shares;
mod snapshot;
mod snippet;
mod source_reader;
mod space;
mod status;
mod store;
mod stored_status;
mod tokens;
mod updater;
mod walk;

pub use self::host_view::{HostView, SearchHost};
pub use self::results::to_json;
pub use self::service::SearchService;
pub use self::stored_status::{PassageCount, StoredStatus, index_status};

pub use self::context::{ContextPassage, ContextRequest, ContextSelection, estimate_tokens};
pub use self::request::SearchRequest;
pub use self::results::{SearchHit, SearchResults};
pub use self::snapshot::{IndexRole, SnapshotCounts};
pub use self::snippet::Snippet;
pub use self::status::SearchStatus;
