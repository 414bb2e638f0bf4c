//! Indexes of directories: the host generates the content of a resource that only contains other resources.
//!
//! A *directory* is a listable resource of the MIME type `inode/directory`. The provider's content of a directory is
//! discarded: a provider does not know which children the principal may see, and its index would have the names, titles
//! and descriptions of all. The host lists the children instead, with the filter and the bounds of every other listing,
//! and writes the index of the visible ones, in one format for all providers (`text/markdown`). An index is not cached,
//! because it depends on the principal.
//!
//! An index is a listing: a token without the scopes of `list` can read the directory, but gets no index.
//!
//! An index has at most [`MAX_CHILDREN`] children, and at most the bytes of a page. If there are more, its last line
//! and a [notice](mcp_host_model::resource::Notice) have the URI of the next part: the URI of the directory with the
//! cursor of the listing as its fragment (`notes:///#cursor=…`). Paths of providers have no fragment, so such a URI
//! cannot collide with a provider's. The cursor is sealed and bound to the directory and the principal, like every
//! other.
//!
//! Contents of children beside the index are kept as [`read`](Host::read) filters them, except directories, whose
//! bodies would be indexes again.

use std::fmt::Write;

use mcp_host_base::escape;
use mcp_host_config::Operation;
use mcp_host_model::resource::{
    Error, Listing, NOTICES_META_KEY, Notice, NoticeKind, Resource, ResourceBody, ResourceContents,
};

use super::Host;
use super::generation::Generation;
use super::resolve::ResolvedTarget;
use crate::access::{CredentialScopes, Principal};
use crate::catalog::{Entries, PageRequest};

/// The maximum number of children in one part of an index.
const MAX_CHILDREN: usize = 500;

/// Separates the URI of a directory from the cursor of a part of its index.
const CURSOR: &str = "#cursor=";

/// The MIME type of an index.
const MARKDOWN: &str = "text/markdown";

/// Splits the URI of a part of an index into the URI of its directory and the cursor. Returns other URIs unchanged.
pub(super) fn split_cursor(uri: &str) -> (&str, Option<&str>) {
    match uri.split_once(CURSOR) {
        Some((directory, cursor)) => (directory, Some(cursor)),
        None => (uri, None),
    }
}

impl Host {
    /// Replaces the content of a directory by the index of the children that the principal may list, from `cursor` on.
    /// Keeps contents of other resources unchanged.
    pub(super) async fn with_index(
        &self,
        now: &Generation,
        principal: &Principal,
        target: &ResolvedTarget<'_>,
        cursor: Option<&str>,
        mut contents: Vec<ResourceContents>,
    ) -> Result<Vec<ResourceContents>, Error> {
        let mut directory: Option<Resource> = None;
        contents.retain(|one| {
            if !one.entry.is_directory() {
                return true;
            }
            if one.entry.uri == target.uri {
                directory.get_or_insert_with(|| one.entry.clone());
            }
            false
        });
        let Some(directory) = directory else {
            return match cursor {
                Some(_) => Err(Error::InvalidRequest { message: format!("{} has no index", target.uri) }),
                None => Ok(contents),
            };
        };
        if !CredentialScopes::current_include(Operation::List) {
            contents.insert(0, without_listing(directory));
            return Ok(contents);
        }
        let listing = match target.policy.allows(Operation::List, &target.uri) {
            true => {
                let viewer = now.viewer(principal);
                let request = now.page_request(&viewer, cursor);
                let request = PageRequest { scope: target.uri.as_str(), size: MAX_CHILDREN, ..request };
                let entries = Entries { parent: Some(&target.path) };
                self.catalog.page(&entries, std::slice::from_ref(target.slot), request).await?
            }
            false => Listing { items: Vec::new(), next_cursor: None, missing: Vec::new() },
        };
        let index = render(directory, &listing);
        if cursor.is_some() {
            // Contents of other resources belong to the first part only.
            contents.clear();
        }
        contents.insert(0, index);
        Ok(contents)
    }
}

/// Writes the replacement for an index, for a token without the scopes of `list`.
fn without_listing(mut directory: Resource) -> ResourceContents {
    let title = single_line(directory.title.as_deref().unwrap_or(&directory.name));
    let text = format!("# {title}\n\nThe entries are left out: the access token does not have the scopes of `list`.\n");
    // The provider's notices are about its own listing.
    directory.meta.remove(NOTICES_META_KEY);
    directory.mime_type = Some(MARKDOWN.to_owned());
    directory.size = u64::try_from(text.len()).ok();
    ResourceContents { entry: directory, body: ResourceBody::Text(text) }
}

/// Writes the index of a directory.
fn render(mut directory: Resource, listing: &Listing<Resource>) -> ResourceContents {
    let mut text = format!("# {}\n\n", single_line(directory.title.as_deref().unwrap_or(&directory.name)));
    for child in &listing.items {
        write_child(&mut text, child);
    }
    if listing.items.is_empty() && listing.next_cursor.is_none() {
        text.push_str("There are no entries.\n");
    }
    // Writing to a string cannot fail.
    for missing in &listing.missing {
        let _ = write!(text, "\nThis is not all; the rest cannot be listed: {}\n", single_line(&missing.reason));
    }
    if let Some(cursor) = &listing.next_cursor {
        let next = format!("{}{CURSOR}{cursor}", directory.uri);
        let _ = write!(text, "\nThis is a part of the index; the next part is <{next}>\n");
        let text = format!("{} entries of the index", listing.items.len());
        Notice { kind: NoticeKind::Cut, text, next: Some(next), in_text: true }.push_to(&mut directory.meta);
    }
    directory.mime_type = Some(MARKDOWN.to_owned());
    directory.size = u64::try_from(text.len()).ok();
    ResourceContents { entry: directory, body: ResourceBody::Text(text) }
}

/// Writes the line of a child: its title and URI, its type, size and time, and its description.
fn write_child(text: &mut String, child: &Resource) {
    let title = single_line(child.title.as_deref().unwrap_or(&child.name));
    let mime_type = if child.is_directory() { Some("directory") } else { child.mime_type.as_deref() };
    let size = child.size.map(|size| if size == 1 { "1 byte".to_owned() } else { format!("{size} bytes") });
    let time = child.annotations.last_modified.as_ref().map(|time| time.as_str().to_owned());
    let facts: Vec<_> = [mime_type.map(single_line), size, time].into_iter().flatten().collect();
    // No URI contains an angle bracket, but some contain parentheses. Writing to a string cannot fail.
    let _ = write!(text, "- [{title}](<{}>)", child.uri);
    if !facts.is_empty() {
        let _ = write!(text, " ({})", facts.join(", "));
    }
    if let Some(description) = &child.description {
        let _ = write!(text, ": {}", single_line(description));
    }
    text.push('\n');
}

/// Formats text of a provider for one line of Markdown: white space becomes one space. Escapes characters that imitate
/// other text, end a link's text, or begin markup.
fn single_line(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    let words = words.join(" ");
    let mut line = String::with_capacity(words.len());
    for c in escape::line(&words).chars() {
        if matches!(c, '[' | ']' | '\\' | '`' | '<' | '*' | '_') {
            line.push('\\');
        }
        line.push(c);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_host_model::uri::Mount;

    fn resource(path: &str, name: &str) -> Resource {
        Resource::named("x:///".parse::<Mount>().unwrap().compose(path).unwrap().uri, name)
    }

    fn index(items: Vec<Resource>, next_cursor: Option<&str>) -> ResourceContents {
        let next_cursor = next_cursor.map(str::to_owned);
        render(resource("dir", "dir"), &Listing { items, next_cursor, missing: Vec::new() })
    }

    fn text(contents: &ResourceContents) -> &str {
        std::str::from_utf8(contents.body.as_bytes()).unwrap()
    }

    #[test]
    fn a_line_has_the_title_the_uri_and_what_is_known_of_a_child() {
        let child = Resource {
            title: Some("one\n[two]".to_owned()),
            description: Some("x\n# y".to_owned()),
            mime_type: Some("text/plain".to_owned()),
            size: Some(3),
            ..resource("dir/c(1).md", "c(1).md")
        };
        let index = index(vec![child], None);
        let line = "- [one \\[two\\]](<x:///dir/c(1).md>) (text/plain, 3 bytes): x # y\n";
        assert_eq!(text(&index), format!("# dir\n\n{line}"));
        assert_eq!(index.entry.size, Some(text(&index).len() as u64));
    }

    #[test]
    fn an_index_without_children_says_so() {
        assert_eq!(text(&index(Vec::new(), None)), "# dir\n\nThere are no entries.\n");
    }

    #[test]
    fn a_part_of_an_index_ends_with_the_uri_of_the_next() {
        let index = index(vec![resource("dir/a", "a")], Some("abc"));
        assert!(text(&index).ends_with("the next part is <x:///dir#cursor=abc>\n"), "{}", text(&index));
        let notices = Notice::all_in(&index.entry.meta);
        assert_eq!(notices[0].next.as_deref(), Some("x:///dir#cursor=abc"));
        assert_eq!(split_cursor("x:///dir#cursor=abc"), ("x:///dir", Some("abc")));
        assert_eq!(split_cursor("x:///dir"), ("x:///dir", None));
    }
}
