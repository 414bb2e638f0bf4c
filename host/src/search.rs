//! Search: a full-text index of what plugins serve.
//!
//! The index is one SQLite database with FTS5 in the state directory. Each plugin whose config has a table `search` is a
//! *source*, and has a task that keeps the index level with its default listing (`indexer`). A query is looked up for one
//! principal: a match is ranked, counted and returned only if the principal may list and read its resource.
//!
//! | module | subject |
//! |---|---|
//! | `tokens`, `language` | the units of text that are indexed; the language of a text |
//! | `document`, `snippet` | a resource in the index, and its passages; the part of a text that is shown |
//! | `database`, `store`, `space`, `source` | the file; writing to it; its size; a plugin in it |
//! | `query`, `candidate`, `frequency`, `bm25`, `lookup` | what is looked up; what is ranked, by how frequent its words are; reading from the index |
//! | `embeddings` | vectors of passages, and the documents that are nearest to a query |
//! | `context`, `passages` | the best selection of passages within a budget |
//! | `index` | the thread that writes, and the connections that read |
//! | `source_reader` | reading what is indexed of a plugin |
//! | `status`, `stored_status` | what of it is in the index; the same for another process |
//! | `indexer`, `walk`, `change_poller`, `updater`, `batch` | the task that indexes a plugin; comparing its listing with the index; what has changed; reading and writing that |
//! | `request`, `results`, `json`, `error` | what a client asks for, and gets |
//! | `service`, `searched` | the tasks of all plugins, and searches; the plugins that a search is over |
//!
//! # Guarantees
//!
//! - What a principal may not list and read is not in its results, their number, or snippets. The time of a lookup depends
//!   on all matches, and ranking on the frequencies of words in the whole index; scores are not returned.
//! - Any text with a word is a valid query, and a lookup takes 200 ms at most: then it is partial. It is partial as well if the index does not
//!   have everything of a plugin that the principal may find something of.
//! - The index survives `kill -9` and a full disk. A damaged file is deleted, and everything is indexed again.

mod access;
mod batch;
mod bm25;
mod candidate;
mod change_poller;
mod context;
mod context_resources;
mod database;
mod document;
mod embeddings;
mod error;
mod filters;
mod frequency;
mod index;
mod indexer;
mod json;
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
mod snippet;
mod source;
mod source_reader;
mod space;
mod status;
mod store;
#[cfg(feature = "cli")]
mod stored_status;
mod tokens;
mod updater;
mod walk;

pub(crate) use self::access::{HostView, SearchHost};
#[cfg(feature = "cli")]
pub(crate) use self::json::to_json;
pub(crate) use self::service::SearchService;
#[cfg(feature = "cli")]
pub(crate) use self::stored_status::{PassageCount, StoredStatus, index_status};

pub use self::context::{ContextPassage, ContextRequest, ContextSelection, estimate_tokens};
pub use self::request::SearchRequest;
pub use self::results::{SearchHit, SearchResults};
pub use self::snippet::Snippet;
pub use self::status::SearchStatus;
