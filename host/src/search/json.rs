//! The result of a search as JSON: the content of `search:` resources, the result of the tool, and of the command line.

use serde_json::{Map, Value, json};

use super::results::{SearchHit, SearchResults};
use crate::resource::NOTICES_META_KEY;

/// The member with what a hit is not: only a part of its text is indexed.
const NOTICES: &str = "notices";

/// Encodes a result: the hits, and what is to be known of the search.
pub(crate) fn to_json(results: SearchResults) -> Value {
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
    let SearchHit { mut resource, snippet, lines_uri } = hit;
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
