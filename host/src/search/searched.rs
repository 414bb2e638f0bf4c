//! What a lookup searches: the sources of the plugins that are loaded, by their ids in the index. What is found has the id and a
//! path; here it gets its URI, as the plugin is mounted now.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::context::{Candidate, ContextPassage, estimate_tokens};
use super::index::Index;
use super::lookup::Found;
use super::passages::FoundPassage;
use super::results::SearchHit;
use super::source::SourceId;
use crate::plugin::Plugin;
use crate::uri::{Mount, Uri};

/// A source that a lookup searches.
#[derive(Clone)]
pub(super) struct SearchedSource {
    pub(super) mount: Mount,
    pub(super) plugin: Arc<Plugin>,
    pub(super) has_lines: bool,
}

impl SearchedSource {
    /// The URI of a document; none if the config does not include it any more, and the index still has it.
    pub(super) fn uri(&self, path: &str) -> Option<String> {
        self.plugin.search_source()?.uri(&self.mount, path)
    }
}

/// What a lookup searches.
pub(super) struct Searched {
    pub(super) index: Arc<Index>,
    /// The sources that have an id in the index.
    pub(super) sources: Arc<BTreeMap<SourceId, SearchedSource>>,
    /// The names of the plugins of which the index does not have everything.
    pub(super) incomplete: Vec<String>,
}

/// Whether a URI is that one, or below it.
pub(crate) fn is_below(uri: &str, within: &str) -> bool {
    match uri.strip_prefix(within) {
        Some(rest) => rest.is_empty() || within.ends_with('/') || rest.starts_with(['/', '?']),
        None => false,
    }
}

/// The hit of a match, with the URI that it has now.
pub(super) fn to_hit(found: Found, sources: &BTreeMap<SourceId, SearchedSource>) -> Option<SearchHit> {
    let SearchedSource { mount, plugin, has_lines } = sources.get(&found.source)?;
    let uri = mount.compose(&found.path).ok()?.uri;
    let is_plain_text = found.entry.mime_type.as_deref().is_none_or(|kind| kind.starts_with("text/"));
    let lines = found.snippet.as_ref().filter(|_| *has_lines && is_plain_text && !found.path.contains('?'));
    let lines_uri = lines.and_then(|snippet| lines_uri(mount, &found.path, snippet.lines));
    let mut resource = found.entry.into_resource(uri);
    if let Some(title) = plugin.title() {
        resource.prefix_title(title);
    }
    Some(SearchHit { resource, snippet: found.snippet, lines_uri })
}

/// A passage that may be part of a context, with the URI that its resource has now.
pub(super) fn to_candidate(found: FoundPassage, sources: &BTreeMap<SourceId, SearchedSource>) -> Option<Candidate> {
    let FoundPassage { source, path, entry, text, line, relevance, words, is_nearest } = found;
    let SearchedSource { mount, has_lines, .. } = sources.get(&source)?;
    let uri = mount.compose(&path).ok()?.uri;
    let lines = (line, line.saturating_add(text.lines().count().saturating_sub(1)));
    let is_plain_text = entry.mime_type.as_deref().is_none_or(|kind| kind.starts_with("text/"));
    let has_lines = *has_lines && is_plain_text && !path.contains('?');
    let lines_uri = if has_lines { lines_uri(mount, &path, lines) } else { None };
    let priority = entry.priority.map(|priority| format!("priority {priority}"));
    let matches = (!words.is_empty()).then(|| format!("matches {}", words.join(", ")));
    let near = is_nearest.then(|| "near to the question".to_owned());
    let reason = matches.into_iter().chain(near).chain(priority).collect::<Vec<_>>().join("; ");
    let (tokens, resource) = (estimate_tokens(&text), entry.into_resource(uri));
    Some(Candidate { passage: ContextPassage { resource, lines_uri, text, lines, tokens, reason }, relevance })
}

fn lines_uri(mount: &Mount, path: &str, (first, last): (usize, usize)) -> Option<Uri> {
    Some(mount.compose(&format!("{path}?lines={first}-{last}")).ok()?.uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_a_uri_is_what_continues_it_with_a_slash() {
        for (uri, within, expected) in [
            ("files:///src/a", "files:///src", true),
            ("files:///src/a", "files:///src/", true),
            ("files:///src", "files:///src", true),
            ("files:///src?as=text", "files:///src", true),
            ("files:///srcs/a", "files:///src", false),
            ("files:///a", "files:///", true),
            ("notes:///a", "files:///", false),
        ] {
            assert_eq!(is_below(uri, within), expected, "{uri} in {within}");
        }
    }
}
