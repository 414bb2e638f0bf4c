//! Notices: what the content of a resource is not. It may be a part of a larger whole, incomplete because a limit ended
//! a search, or older than its source.
//!
//! A provider returns notices in its `meta`, under [`NOTICES_META_KEY`], the only name with the host's prefix that a
//! provider may use: an array of objects with `kind` (`cut`, `incomplete`, `stale`), `text` (one sentence, for people
//! and models) and `next`, the path of the next part. A `next` that begins with `?` is the path of the content with
//! this query. Validation composes `next` with the mount, so clients get a whole URI in `_meta`. Tools and the command
//! line print notices as the last lines of the text. If `inText` is `true`, the notice is already the last line of the
//! text, for clients that do not show `_meta`, and is not printed again.
//!
//! At most [`MAX_NOTICES`] notices of one content are kept, each with a text of at most [`MAX_TEXT`] bytes.

use std::fmt;

use mcp_host_base::escape;
use mcp_host_base::text::truncate;
use serde_json::{Map, Value, json};

use super::Meta;

/// The name of notices in `_meta`.
pub const NOTICES_META_KEY: &str = "mcp-host/notices";

/// The maximum number of notices of one content.
const MAX_NOTICES: usize = 8;
/// The maximum length of a notice's text in bytes.
const MAX_TEXT: usize = 500;

/// The kind of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeKind {
    /// The content is a part of a larger whole.
    Cut,
    /// A part is missing: a limit ended the search for it, or it cannot be represented.
    Incomplete,
    /// The content may be older than its source.
    Stale,
}

/// One notice of a content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Its kind.
    pub kind: NoticeKind,
    /// One sentence.
    pub text: String,
    /// The URI of the next part; before validation, the provider's path.
    pub next: Option<String>,
    /// Whether the last line of the text is this notice.
    pub in_text: bool,
}

impl NoticeKind {
    const ALL: [Self; 3] = [Self::Cut, Self::Incomplete, Self::Stale];

    /// Returns its name in `_meta`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cut => "cut",
            Self::Incomplete => "incomplete",
            Self::Stale => "stale",
        }
    }
}

impl Notice {
    /// Reads one notice; none if it has no known kind or no text.
    fn from_json(value: &Value) -> Option<Self> {
        let kind = value.get("kind")?.as_str()?;
        let kind = NoticeKind::ALL.into_iter().find(|known| known.name() == kind)?;
        let text = value.get("text")?.as_str().filter(|text| !text.is_empty())?;
        let next = value.get("next").and_then(Value::as_str).map(str::to_owned);
        let in_text = value.get("inText").and_then(Value::as_bool).unwrap_or_default();
        Some(Self { kind, text: truncate(text.to_owned(), MAX_TEXT), next, in_text })
    }

    fn to_json(&self) -> Value {
        let mut members =
            Map::from_iter([("kind".to_owned(), json!(self.kind.name())), ("text".to_owned(), json!(self.text))]);
        members.extend(self.next.as_ref().map(|next| ("next".to_owned(), json!(next))));
        members.extend(self.in_text.then(|| ("inText".to_owned(), json!(true))));
        Value::Object(members)
    }

    /// Returns the notices in metadata.
    pub fn all_in(meta: &Meta) -> Vec<Self> {
        let notices = meta.get(NOTICES_META_KEY).and_then(Value::as_array);
        notices.into_iter().flatten().filter_map(Self::from_json).collect()
    }

    /// Replaces each notice in metadata by the function's result. Other values under this name are removed.
    pub fn replace_in(meta: &mut Meta, replace: impl FnMut(Self) -> Self) {
        if !meta.contains_key(NOTICES_META_KEY) {
            return;
        }
        let notices = Self::all_in(meta).into_iter().take(MAX_NOTICES).map(replace);
        let notices: Vec<_> = notices.map(|notice| notice.to_json()).collect();
        match notices.is_empty() {
            true => meta.remove(NOTICES_META_KEY),
            false => meta.insert(NOTICES_META_KEY.to_owned(), Value::Array(notices)),
        };
    }

    /// Creates a notice without a next part.
    pub fn new(kind: NoticeKind, text: String) -> Self {
        Self { kind, text, next: None, in_text: false }
    }

    /// Creates a notice that the content is a part.
    pub fn cut(text: String) -> Self {
        Self::new(NoticeKind::Cut, text)
    }

    /// Returns which part of the whole a content is, if it is a part.
    pub fn part(meta: &Meta) -> Option<String> {
        Self::all_in(meta).into_iter().find(|notice| notice.kind == NoticeKind::Cut).map(|notice| notice.text)
    }

    /// Appends the notice to the metadata.
    pub fn push_to(self, meta: &mut Meta) {
        match meta.get_mut(NOTICES_META_KEY).and_then(Value::as_array_mut) {
            Some(notices) => notices.push(self.to_json()),
            None => drop(meta.insert(NOTICES_META_KEY.to_owned(), Value::Array(vec![self.to_json()]))),
        }
    }

    /// Returns the approximate memory of the notice.
    pub fn footprint(&self) -> usize {
        let texts = self.text.capacity().saturating_add(self.next.as_ref().map_or(0, String::capacity));
        texts.saturating_add(size_of::<Self>())
    }

    /// Returns whether metadata has a valid value under the name of notices, for the conformance kit.
    pub fn are_valid(value: &Value) -> bool {
        let is_valid = |value: &Value| {
            let next = value.get("next").is_none_or(Value::is_string);
            let in_text = value.get("inText").is_none_or(Value::is_boolean);
            next && in_text && Self::from_json(value).is_some()
        };
        value.as_array().is_some_and(|notices| notices.len() <= MAX_NOTICES && notices.iter().all(is_valid))
    }
}

/// Displayed on one line, with line breaks of the provider's text escaped.
impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}: {}", self.kind.name(), escape::line(&self.text))?;
        match &self.next {
            Some(next) => write!(f, "; the next part is {next}]"),
            None => f.write_str("]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(notices: Value) -> Meta {
        Meta::from_iter([(NOTICES_META_KEY.to_owned(), notices)])
    }

    #[test]
    fn a_notice_is_one_line_with_the_uri_of_the_next_part() {
        let meta = meta(json!([
            { "kind": "cut", "text": "lines 1 to 10\nof 20", "next": "files:///a?lines=11-" },
            { "kind": "stale", "text": "it is an hour old" },
        ]));
        let lines: Vec<_> = Notice::all_in(&meta).iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            ["[cut: lines 1 to 10\\nof 20; the next part is files:///a?lines=11-]", "[stale: it is an hour old]"]
        );
    }

    #[test]
    fn what_is_no_notice_is_removed() {
        for wrong in [json!(true), json!([]), json!([{ "kind": "other", "text": "x" }]), json!([{ "kind": "cut" }])] {
            assert!(!Notice::are_valid(&wrong) || wrong == json!([]), "{wrong}");
            let mut meta = meta(wrong);
            Notice::replace_in(&mut meta, |notice| notice);
            assert!(meta.is_empty());
        }
        let many = vec![json!({ "kind": "cut", "text": "x".repeat(10_000) }); 100];
        let mut meta = meta(Value::Array(many));
        Notice::replace_in(&mut meta, |notice| notice);
        let kept = Notice::all_in(&meta);
        assert_eq!(kept.len(), MAX_NOTICES);
        assert!(kept.iter().all(|notice| notice.text.len() <= MAX_TEXT + "…".len()));
    }
}
