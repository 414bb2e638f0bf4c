//! The result of a search as JSON: the content of `search:` resources, the result of the tool, and of the command line.

use serde_json::{Map, Value, json};

use super::{SearchHit, SearchResults};

/// Encodes a result: the hits, and what is to be known of the search.
pub(crate) fn to_json(results: SearchResults) -> Value {
    let SearchResults { hits, total, is_partial, indexing } = results;
    let mut members = Map::new();
    members.insert("results".to_owned(), hits.into_iter().map(hit_to_json).collect());
    members.insert("total".to_owned(), json!(total));
    members.insert("partial".to_owned(), json!(is_partial));
    if !indexing.is_empty() {
        members.insert("indexing".to_owned(), json!(indexing));
    }
    Value::Object(members)
}

fn hit_to_json(hit: SearchHit) -> Value {
    let SearchHit { resource, snippet, lines_uri } = hit;
    let mut members = Map::new();
    let mut add = |name: &str, value: Option<Value>| {
        members.extend(value.map(|value| (name.to_owned(), value)));
    };
    add("uri", Some(json!(resource.uri)));
    add("name", Some(json!(resource.name)));
    add("title", resource.title.map(Value::from));
    add("description", resource.description.map(Value::from));
    add("mimeType", resource.mime_type.map(Value::from));
    add("size", resource.size.map(Value::from));
    add("lastModified", resource.annotations.last_modified.map(|time| json!(time.as_str())));
    if let Some(snippet) = snippet {
        add("snippet", Some(json!(snippet.text)));
        add("lines", Some(json!([snippet.lines.0, snippet.lines.1])));
    }
    add("linesUri", lines_uri.map(|uri| json!(uri)));
    Value::Object(members)
}
