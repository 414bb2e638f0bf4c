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
//! | `database`, `store`, `space`, `lookup`, `query` | the file; writing to it; its size; reading from it; what is looked up |
//! | `embeddings` | vectors of passages, and the documents that are nearest to a query |
//! | `context`, `passages` | the best selection of passages within a budget |
//! | `index` | the thread that writes, and the connections that read |
//! | `source`, `source_reader` | what is indexed of a plugin; reading that |
//! | `status`, `stored_status` | what of it is in the index; the same for another process |
//! | `indexer`, `walk`, `change_poller`, `batch` | the task that indexes a plugin; comparing its listing with the index; what has changed; what is written |
//! | `service` | the tasks of all plugins, and searches |
//!
//! # Guarantees
//!
//! - What a principal may not list and read is not in its results, their number, or snippets. The time of a lookup depends
//!   on all matches, and ranking on the frequencies of words in the whole index; scores are not returned.
//! - Any text is a valid query, and a lookup takes 200 ms at most: then it is partial. It is partial as well if the index does not
//!   have everything of a plugin that the principal may find something of.
//! - The index survives `kill -9` and a full disk. A damaged file is deleted, and everything is indexed again.

mod batch;
mod change_poller;
mod context;
mod database;
mod document;
mod embeddings;
mod index;
mod indexer;
mod json;
mod language;
mod lookup;
mod passages;
mod query;
mod service;
mod snippet;
mod source;
mod source_reader;
mod space;
mod status;
mod store;
#[cfg(feature = "cli")]
mod stored_status;
mod tokens;
mod walk;

use crate::resource::Resource;
use crate::uri::Uri;

pub(crate) use self::json::to_json;
pub(crate) use self::service::{SearchError, SearchService};
pub(crate) use self::source::SearchSource;
#[cfg(feature = "cli")]
pub(crate) use self::stored_status::index_status;

pub use self::context::{ContextPassage, ContextRequest, ContextSelection, estimate_tokens};
pub use self::snippet::Snippet;
pub use self::status::SearchStatus;

/// A request to search.
///
/// ```
/// use mcp_resource_host::search::SearchRequest;
///
/// let request = SearchRequest::new("circuit breaker").within("git://linux/").kind("text").limit(5);
/// assert_eq!(request.query, "circuit breaker");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SearchRequest {
    /// The words that are searched for. A text in double quotes is a phrase that every result has; of the other words a
    /// result has at least one.
    pub query: String,
    /// A URI: only that resource, and those below it, are searched.
    pub within: Option<String>,
    /// A MIME type, or its part before the slash: only resources of it are searched.
    pub kind: Option<String>,
    /// The ISO 639-1 code of a language: only texts that are likely to be in it are searched.
    pub language: Option<String>,
    /// The maximum number of hits: at most [`MAX_LIMIT`](Self::MAX_LIMIT).
    pub limit: usize,
}

impl SearchRequest {
    /// The maximum number of hits.
    pub const MAX_LIMIT: usize = 100;
    /// The number of hits unless set.
    pub const DEFAULT_LIMIT: usize = 20;
    /// The maximum length of a query in bytes.
    pub const MAX_QUERY_LEN: usize = 4096;

    /// A search for those words, for 20 hits.
    pub fn new(query: impl Into<String>) -> Self {
        Self { query: query.into(), within: None, kind: None, language: None, limit: Self::DEFAULT_LIMIT }
    }

    /// Searches only a resource, and those below it.
    #[must_use]
    pub fn within(mut self, uri: impl Into<String>) -> Self {
        self.within = Some(uri.into());
        self
    }

    /// Searches only resources of a MIME type, or of its part before the slash.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = Some(kind.into());
        self
    }

    /// Searches only texts in a language.
    #[must_use]
    pub fn language(mut self, language: impl Into<String>) -> Self {
        self.language = Some(language.into());
        self
    }

    /// Sets the maximum number of hits.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }
}

/// The result of a search, for one principal.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SearchResults {
    /// The hits, the best first.
    pub hits: Vec<SearchHit>,
    /// The number of resources that match, of which `hits` are the best.
    pub total: u64,
    /// Whether there may be better hits, and more: the search was interrupted, or plugins are `incomplete`.
    pub is_partial: bool,
    /// Whether the query was looked up by its embedding as well. If not, all hits have words of it.
    pub is_hybrid: bool,
    /// The plugins that are searched, and of which the index does not have everything: they are being loaded or indexed, or
    /// something could not be indexed.
    pub incomplete: Vec<String>,
}

/// A resource that was found.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SearchHit {
    /// The resource, as it was when it was indexed.
    pub resource: Resource,
    /// The part of its text that matches best; none if only its name, title, description or path matches.
    pub snippet: Option<Snippet>,
    /// The URI of the lines that the snippet is from, where the provider has lines.
    pub lines_uri: Option<Uri>,
}
