//! Results of searches, and their form as JSON.

use mcp_host_model::resource::{NOTICES_META_KEY, Resource};
use mcp_host_model::uri::Uri;
use serde_json::{Map, Value, json};

use super::snippet::Snippet;

/// The member with the notices of a hit, such as that only a part of its text is indexed or was compared.
const NOTICES: &str = "notices";

/// The result of a search, for one principal.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SearchResults {
    /// The hits, the best first.
    pub hits: Vec<SearchHit>,
    /// The number of matching resources. `hits` has the best of them.
    pub total: u64,
    /// Whether there may be better hits or snippets, and more hits: the search was interrupted, or plugins are
    /// `incomplete`.
    pub is_partial: bool,
    /// Whether the query was also looked up by its embedding. If not, all hits contain words of the query.
    pub is_hybrid: bool,
    /// The searched plugins that are not completely indexed: they are being loaded or indexed, or some resources could
    /// not be indexed.
    pub incomplete: Vec<String>,
}

/// A found resource.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchHit {
    /// The resource, in its indexed state.
    pub resource: Resource,
    /// The best matching part of the text, or its beginning if only the name, title, description or path matches.
    pub snippet: Option<Snippet>,
    /// Whether there may be a better snippet, because the search was interrupted before all of the text was compared.
    /// The resource then has a notice of it.
    pub is_snippet_partial: bool,
    /// The URI of the snippet's lines, if the provider has lines.
    pub lines_uri: Option<Uri>,
}

/// Encodes a result as JSON: the content of `search:` resources, and the output of the command line.
pub fn to_json(results: SearchResults) -> Value {
    let SearchResults { hits, total, is_partial, incomplete, is_hybrid: _ } = results;
    let mut members = Map::new();
    members.insert("results".to_owned(), hits.into_iter().map(hit_to_json).collect());
    members.insert("total".to_owned(), json!(total));
    members.insert("partial".to_owned(), json!(is_partial));
    if !incomplete.is_empty() {
        members.insert("incomplete".to_owned(), json!(incomplete));
    }
    Value::Object(members)
}

fn hit_to_json(hit: SearchHit) -> Value {
    let SearchHit { mut resource, snippet, is_snippet_partial: _, lines_uri } = hit;
    let notices = resource.meta.remove(NOTICES_META_KEY);
    let mut members = resource.to_json();
    if let Some(snippet) = snippet {
        members.insert("snippet".to_owned(), json!(snippet.text));
        members.insert("lines".to_owned(), json!([snippet.lines.0, snippet.lines.1]));
    }
    members.extend(notices.map(|notices| (NOTICES.to_owned(), notices)));
    members.extend(lines_uri.map(|uri| ("linesUri".to_owned(), json!(uri))));
    members.into()
}
