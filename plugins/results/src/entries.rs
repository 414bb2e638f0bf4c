//! Entries of results.

use crate::catalog::Published;
use crate::route::Route;
use mcp_provider::Entry;
use std::time::{Duration, SystemTime};

/// Returns the entry of a result. Its time to live ends when it expires.
pub(crate) fn result(result: &Published, now: SystemTime) -> Entry {
    let entry = describe(Entry::new(Route::Result(result.id.clone()).path(), name(result)), result, now);
    match result.files.as_slice() {
        [only] => entry.size(only.item.size),
        files => entry.meta("results/types", files.iter().map(|file| file.mime_type).collect::<Vec<_>>()),
    }
}

/// Returns the entry of a collection whose content is its newest result, such as `latest`. The entry contains nothing
/// of that result, because a client may be allowed to see the collection and not the result.
pub(crate) fn collection(route: &Route, title: String) -> Entry {
    Entry::new(route.path(), route.path()).title(title).listable().subscribable()
}

/// Returns the entry of the directory of all keys.
pub(crate) fn keys() -> Entry {
    Entry::directory(Route::Keys.path(), "by").title("Results by key").subscribable()
}

fn name(result: &Published) -> &str {
    folder::last_name(&result.id)
}

fn describe(mut entry: Entry, result: &Published, now: SystemTime) -> Entry {
    let metadata = &result.metadata;
    entry = entry.last_modified(result.created).subscribable();
    if let Some(file) = result.files.first() {
        entry = entry.mime_type(file.mime_type);
    }
    if let Some(title) = &metadata.title {
        entry = entry.title(title);
    }
    if let Some(description) = &metadata.description {
        entry = entry.description(description);
    }
    if let Some(confidence) = metadata.confidence {
        entry = entry.priority(confidence);
    }
    if let Some(expires) = metadata.expires {
        entry = entry.ttl(expires.duration_since(now).unwrap_or(Duration::ZERO));
    }
    for (name, text) in [("results/key", &metadata.key), ("results/model", &metadata.model)] {
        if let Some(text) = text {
            entry = entry.meta(name, text.as_str());
        }
    }
    // The ids of superseding and superseded results are omitted, because a client that may read this result may not be
    // allowed to know them.
    if result.superseded_by.is_some() {
        entry = entry.meta("results/superseded", true);
    }
    if let Some(inputs) = &metadata.inputs {
        entry = entry.meta("results/inputs", inputs.clone());
    }
    if !metadata.faults.is_empty() {
        entry = entry.meta("results/faults", metadata.faults.clone());
    }
    entry
}
