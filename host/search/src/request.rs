//! Search requests.

/// A search request.
///
/// ```
/// use mcp_host_search::SearchRequest;
///
/// let request = SearchRequest::new("circuit breaker").within("git://linux/").kind("text").limit(5);
/// assert_eq!(request.query, "circuit breaker");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchRequest {
    /// The words to search for. A text in double quotes is a phrase that every result contains; a result contains at
    /// least one of the other words.
    pub query: String,
    /// A URI below a searched mount: only this resource, and the resources below it, are searched.
    pub within: Option<String>,
    /// A MIME type, or its part before the slash, like a [`KindFilter`](mcp_host_config::search::KindFilter): only
    /// resources of this type are searched.
    pub kind: Option<String>,
    /// A [`LanguageCode`](mcp_host_config::search::LanguageCode): only texts that are likely to be in this language are
    /// searched.
    pub language: Option<String>,
    /// The maximum number of hits: at most [`MAX_LIMIT`](Self::MAX_LIMIT).
    pub limit: usize,
}

impl SearchRequest {
    /// The maximum number of hits.
    pub const MAX_LIMIT: usize = 100;
    /// The default number of hits.
    pub const DEFAULT_LIMIT: usize = 20;
    /// The maximum length of a query in bytes.
    pub const MAX_QUERY_LEN: usize = 4096;

    /// Creates a search for these words, with at most 20 hits.
    pub fn new(query: impl Into<String>) -> Self {
        Self { query: query.into(), within: None, kind: None, language: None, limit: Self::DEFAULT_LIMIT }
    }

    /// Searches only a resource, and the resources below it.
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
