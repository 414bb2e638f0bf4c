//! What tools return: their outputs and errors.
//!
//! The text contains everything that a model needs. Links and structured content repeat it for programs, and exist only
//! if the config switches them on ([`Forms`]): some clients end a conversation at a link, and some show structured
//! content in place of the text. So by default an output has one copy of its data.
//!
//! An output holds the values of the domain, which a pull encoder encodes while the client reads ([`crate::json`]). Its
//! footprint is the size of these values, and is charged to the client in the same way as a read.

use mcp_host_base::escape;
use mcp_host_base::text::prefix;
use mcp_host_model::resource::{Error, Footprint, MissingPlugin, NOTICES_META_KEY, Resource};

use crate::json::{Members, Writer};
use crate::revision::Revision;

/// The maximum length of a resource's description in a line of a listing, in bytes.
const MAX_DESCRIPTION: usize = 200;
/// The maximum length of a template's description, which explains its variables.
pub(super) const MAX_TEMPLATE_DESCRIPTION: usize = 1000;

/// The forms of results besides text that the config and the client's revision allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Forms {
    /// Links to resources (`server.tool-links`).
    pub(super) links: bool,
    /// Structured content (`server.tool-structured-content`).
    pub(super) structured: bool,
}

impl Forms {
    /// The forms that a config switches on, in this revision.
    pub(super) fn new(server: &mcp_host_config::Server, revision: Revision) -> Self {
        let exist = revision.has_titles();
        Self { links: server.tool_links && exist, structured: server.tool_structured_content && exist }
    }
}

/// The output of a tool.
#[derive(Default)]
pub(super) struct Output {
    pub(super) content: Vec<Part>,
    pub(super) structured: Option<Structured>,
    pub(super) missing: Vec<MissingPlugin>,
}

/// An item of the content.
pub(super) enum Part {
    Text(String),
    /// An image, with its MIME type.
    Image(String, Vec<u8>),
    Link(Box<Resource>),
}

/// Structured content: a function that writes it, and the memory that the content holds until then.
pub(super) struct Structured {
    pub(super) footprint: usize,
    pub(super) write: Box<dyn FnOnce(&mut Writer<'_>) + Send>,
}

impl Output {
    /// An output of one text.
    pub(super) fn text(text: String) -> Self {
        Self { content: vec![Part::Text(text)], ..Self::default() }
    }

    /// The approximate memory of the output.
    pub(super) fn footprint(&self) -> usize {
        let content = self.content.iter().map(Part::footprint).fold(0, usize::saturating_add);
        content.saturating_add(self.structured.as_ref().map_or(0, |structured| structured.footprint))
    }
}

impl Structured {
    /// Structured content with values of this footprint.
    pub(super) fn new(footprint: usize, write: impl FnOnce(&mut Writer<'_>) + Send + 'static) -> Self {
        Self { footprint, write: Box::new(write) }
    }
}

impl Part {
    fn footprint(&self) -> usize {
        let values = match self {
            Self::Text(text) => text.capacity(),
            Self::Image(mime_type, bytes) => mime_type.capacity().saturating_add(bytes.capacity()),
            Self::Link(resource) => resource.footprint(),
        };
        values.saturating_add(size_of::<Self>())
    }

    /// Encodes the item.
    pub(super) fn write(self, writer: &mut Writer<'_>) {
        writer.object(|members| match self {
            Self::Text(text) => {
                members.text("type", "text");
                members.text("text", text);
            }
            Self::Image(mime_type, bytes) => {
                members.text("type", "image");
                members.member("data").base64(bytes);
                members.text("mimeType", mime_type);
            }
            Self::Link(resource) => {
                members.text("type", "resource_link");
                resource_members(members, *resource, false);
            }
        });
    }
}

/// Encodes the members of a resource that programs and models need. A link has no separate time of the last change,
/// because its `annotations` contain it, and no notices.
pub(super) fn resource_members(members: &mut Members<'_, '_>, resource: Resource, is_structured: bool) {
    let Resource { uri, name, title, description, mime_type, size, annotations, mut meta, .. } = resource;
    members.text("uri", uri);
    members.text("name", name);
    members.optional_text("title", title);
    members.optional_text("description", description);
    members.optional_text("mimeType", mime_type);
    if let Some(size) = size {
        members.serialize("size", &size);
    }
    if is_structured {
        members.optional_text("lastModified", annotations.last_modified.map(|time| time.as_str().to_owned()));
        if let Some(notices) = meta.remove(NOTICES_META_KEY) {
            members.member("notices").value(notices);
        }
    }
}

/// The reason why a tool has no output.
#[derive(Debug)]
pub(super) enum ToolError {
    /// The arguments are not valid.
    Arguments(String),
    /// An error of the façade.
    Host(Error),
}

impl From<Error> for ToolError {
    fn from(error: Error) -> Self {
        Self::Host(error)
    }
}

/// A resource in one line: its URI, the estimated number of tokens if its size is known, and its title and description.
pub(super) fn summary(resource: &Resource) -> String {
    let Resource { uri, name, title, description, mime_type, size, .. } = resource;
    let is_text = mime_type.as_deref().is_some_and(|kind| kind.starts_with("text/"));
    // An estimate from the size, for UTF-8 text with few characters beyond ASCII.
    let tokens = size.filter(|_| is_text).map(|size| size.div_ceil(4));
    // A name that the URI ends with adds nothing.
    let name = title.as_deref().or_else(|| (!uri.as_str().ends_with(name.as_str())).then_some(name.as_str()));
    one_line(uri.as_str(), tokens, name, description.as_deref(), MAX_DESCRIPTION)
}

/// A URI or a template with its known details in one line. Line breaks in the provider's texts are escaped, so a
/// provider cannot forge a line of the host or of another resource. A long description is truncated, with an ellipsis.
/// White space follows the URI, because models mistake a colon for a part of it.
pub(super) fn one_line(
    uri: &str,
    tokens: Option<u64>,
    name: Option<&str>,
    description: Option<&str>,
    max_description: usize,
) -> String {
    let tokens = tokens.map_or_else(String::new, |tokens| format!(" (~{tokens} tokens)"));
    let name = name.map_or_else(String::new, |name| format!(" - {}", escape::line(name)));
    let separator = if tokens.is_empty() && name.is_empty() { " - " } else { ": " };
    let description = description.map_or_else(String::new, |description| {
        let shown = prefix(description, max_description);
        let ellipsis = if shown.len() < description.len() { "…" } else { "" };
        format!("{separator}{}{ellipsis}", escape::line(shown))
    });
    format!("{uri}{tokens}{name}{description}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_follows_a_uri() {
        let line = |tokens, name| one_line("a:///b", tokens, name, Some("c"), 200);
        assert_eq!(line(None, None), "a:///b - c");
        assert_eq!(line(None, Some("n")), "a:///b - n: c");
        assert_eq!(line(Some(3), None), "a:///b (~3 tokens): c");
    }

    #[test]
    fn a_name_adds_no_line() {
        let line = one_line("a:///b", Some(3), Some("B\na:///c - C"), Some("d\u{2028}e"), 200);
        assert_eq!(line.lines().count(), 1);
        assert!(line.starts_with("a:///b (~3 tokens) - B") && !line.contains('\u{2028}'), "{line}");
    }

    #[test]
    fn a_long_description_is_cut_with_an_ellipsis() {
        let line = one_line("a:///b", None, None, Some(&"x".repeat(10_000)), 200);
        assert!(line.len() < 300 && line.ends_with('…'), "{line}");
    }
}
