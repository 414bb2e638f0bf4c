//! Results of searches.

use super::snippet::Snippet;
use crate::resource::Resource;
use crate::uri::Uri;

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
