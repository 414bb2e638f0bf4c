//! Notices about the limitations of a content.

use serde_json::{Map, Value};

/// A limitation of a content: it is a part of a larger whole, is incomplete, or may be older than its source.
///
/// Clients receive the notice as `mcp-host/notices` in `_meta`, models as the last line of the text of a tool, and
/// people on the terminal from `mcp-host read`.
///
/// ```
/// use mcp_provider::{Entry, Notice};
///
/// let notice = Notice::cut("lines 1 to 1000 of 5210").next("?lines=1001-");
/// let entry = Entry::new("big.log", "big.log").notice(notice);
/// assert_eq!(entry.meta["mcp-host/notices"][0]["next"], "?lines=1001-");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    kind: &'static str,
    text: String,
    next: Option<String>,
    in_text: bool,
}

impl Notice {
    /// The content is a part of a larger whole. `text` is one sentence that says which part, and why.
    pub fn cut(text: impl Into<String>) -> Self {
        Self { kind: "cut", text: text.into(), next: None, in_text: false }
    }

    /// Something is missing: a limit ended the search for it, or it has no form here.
    pub fn incomplete(text: impl Into<String>) -> Self {
        Self { kind: "incomplete", text: text.into(), next: None, in_text: false }
    }

    /// The content may be older than its source.
    pub fn stale(text: impl Into<String>) -> Self {
        Self { kind: "stale", text: text.into(), next: None, in_text: false }
    }

    /// Sets the path of the next part. A path that begins with `?` is the path of this content with that query. Clients
    /// receive an absolute URI.
    #[must_use]
    pub fn next(mut self, path: impl Into<String>) -> Self {
        self.next = Some(path.into());
        self
    }

    /// Declares that the last line of the content's text already contains the notice, for clients that do not show
    /// `_meta`. Tools and `mcp-host read` then do not repeat it.
    #[must_use]
    pub fn in_text(mut self) -> Self {
        self.in_text = true;
        self
    }

    pub(crate) fn into_value(self) -> Value {
        let mut members =
            Map::from_iter([("kind".to_owned(), Value::from(self.kind)), ("text".to_owned(), Value::from(self.text))]);
        members.extend(self.next.map(|next| ("next".to_owned(), Value::from(next))));
        members.extend(self.in_text.then(|| ("inText".to_owned(), Value::from(true))));
        Value::Object(members)
    }
}
