//! From the contract's types to the domain's: the one place where a provider's answer is checked.
//!
//! An entry survives what is wrong with its hints: a priority of 7, a date that is none, a bad icon or MIME type are dropped.
//! A path that leaves the mount drops the entry from a listing and refuses a read. Each such fault is the
//! provider's, is counted and goes to its log. An answer with more items than `limits.items` is refused as a whole.

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;

use std::time::Duration;

use serde_json::Value;

use super::bindings::contract;
use super::fault::Fault;
use super::faults::Faults;
use crate::resource::{
    Annotations, Body, Completion, Contents, Entry, EntryTemplate, Icon, Meta, Priority, Role, Theme, Timestamp,
};
use crate::uri::{Mount, Path};

/// What keys of `meta` begin with that are the host's.
const HOST_PREFIX: &str = "mcp-host/";
/// The longest token that a provider may give, in bytes.
const MAX_TOKEN: usize = 65536;
/// The longest cursor that a provider may give, in bytes.
const MAX_CURSOR: usize = 4096;

/// One page of a provider's listing.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<T> {
    /// What is on it. What was invalid is missing.
    pub items: Vec<T>,
    /// The provider's cursor for the page after it.
    pub next_cursor: Option<String>,
}

/// What changed since a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeSet {
    /// What to ask with next time.
    pub token: String,
    /// Those of the watched paths that changed.
    pub changed: Vec<Path>,
    /// Whether what is listed changed.
    pub listing_changed: bool,
    /// In how long the provider thinks that it makes sense to ask again.
    pub poll_after: Option<Duration>,
}

/// What the answers of one plugin are checked against.
pub(super) struct Checker<'a> {
    /// Where its URIs begin.
    pub(super) mount: &'a Mount,
    /// Whether it can tell what changed.
    pub(super) watches: bool,
    /// How many items one answer may have.
    pub(super) items: usize,
    /// Where what is dropped is told.
    pub(super) faults: &'a Faults,
}

impl Checker<'_> {
    pub(super) fn change_set(&self, changes: contract::ChangeSet) -> Result<ChangeSet, Fault> {
        if changes.token.len() > MAX_TOKEN {
            let length = changes.token.len();
            return Err(Fault::Contract(format!("its token has {length} bytes; {MAX_TOKEN} are allowed")));
        }
        self.count("changes", &changes.changed)?;
        let changed = changes.changed.iter().filter_map(|path| {
            let located = self.mount.compose(path);
            located.map(|located| located.path).map_err(|error| self.faults.note_part(&error.to_string())).ok()
        });
        Ok(ChangeSet {
            changed: changed.collect(),
            token: changes.token,
            listing_changed: changes.listing_changed,
            poll_after: changes.poll_after_ms.map(Duration::from_millis),
        })
    }

    pub(super) fn page(&self, page: contract::Page, asked: Option<&str>) -> Result<Page<Entry>, Fault> {
        self.count("entries", &page.entries)?;
        let items = page.entries.into_iter().filter_map(|entry| {
            self.entry(entry)
                .inspect_err(|fault| self.faults.note_part(&format!("an entry was left out: {fault}")))
                .ok()
        });
        Ok(Page { items: items.collect(), next_cursor: next_cursor(page.next_cursor, asked)? })
    }

    pub(super) fn template_page(
        &self,
        page: contract::TemplatePage,
        asked: Option<&str>,
    ) -> Result<Page<EntryTemplate>, Fault> {
        self.count("templates", &page.templates)?;
        let items = page.templates.into_iter().filter_map(|template| {
            self.template(template)
                .inspect_err(|fault| self.faults.note_part(&format!("a template was left out: {fault}")))
                .ok()
        });
        Ok(Page { items: items.collect(), next_cursor: next_cursor(page.next_cursor, asked)? })
    }

    pub(super) fn contents(&self, contents: Vec<contract::Contents>, asked: &Path) -> Result<Vec<Contents>, Fault> {
        self.count("contents", &contents)?;
        if contents.is_empty() {
            return Err(Fault::Contract(format!("reading `{asked}` gave neither contents nor a failure")));
        }
        contents.into_iter().map(|one| self.one_contents(one)).collect()
    }

    fn one_contents(&self, contents: contract::Contents) -> Result<Contents, Fault> {
        let entry = self.entry(contents.entry)?;
        let body = match contents.body {
            contract::Body::Text(text) => Body::Text(text),
            contract::Body::TextBytes(bytes) => Body::Text(String::from_utf8(bytes).map_err(|error| {
                Fault::Contract(format!("the text of {} is not UTF-8: {}", entry.uri, error.utf8_error()))
            })?),
            contract::Body::Blob(bytes) => Body::Blob(bytes),
        };
        Ok(Contents { entry, body })
    }

    pub(super) fn stat_entry(&self, entry: contract::Entry, asked: &Path) -> Result<Entry, Fault> {
        let path = entry.path.clone();
        let entry = self.entry(entry)?;
        if self.mount.compose(asked.as_str()).is_ok_and(|located| located.uri == entry.uri) {
            Ok(entry)
        } else {
            Err(Fault::Contract(format!("asked about `{asked}`, it told about `{path}`")))
        }
    }

    /// The completion, cut to what a client may be shown.
    pub(super) fn completion(&self, mut given: contract::Completion) -> Result<Completion, Fault> {
        self.count("completions", &given.values)?;
        let has_more = given.has_more || given.values.len() > Completion::MAX_VALUES;
        given.values.truncate(Completion::MAX_VALUES);
        Ok(Completion { values: given.values, total: given.total, has_more })
    }

    /// Refuses an answer with too many items, before anything is made of them.
    fn count<T>(&self, what: &'static str, items: &[T]) -> Result<(), Fault> {
        let (found, most) = (items.len(), self.items);
        if found > most { Err(Fault::Items { what, found, most }) } else { Ok(()) }
    }

    fn entry(&self, entry: contract::Entry) -> Result<Entry, Fault> {
        let located = self.mount.compose(&entry.path).map_err(|error| {
            Fault::Contract(format!("its path `{}` is refused: {error}", entry.path.escape_debug()))
        })?;
        let name = if entry.name.is_empty() { last_segment(&located.path).to_owned() } else { entry.name };
        Ok(Entry {
            name,
            title: entry.title,
            description: entry.description,
            mime_type: self.mime_type(entry.mime_type, &entry.path),
            size: entry.size,
            annotations: self.annotations(entry.annotations, &entry.path),
            icons: self.icons(entry.icons, &entry.path),
            listable: entry.listable,
            subscribable: entry.subscribable && self.watches,
            ttl: entry.ttl_ms.map(Duration::from_millis),
            meta: self.meta(entry.meta, &entry.path),
            uri: located.uri,
        })
    }

    fn template(&self, template: contract::EntryTemplate) -> Result<EntryTemplate, Fault> {
        let of = &template.path_template;
        let uri_template = self
            .mount
            .compose_template(of)
            .map_err(|error| Fault::Contract(format!("`{}` is refused: {error}", of.escape_debug())))?;
        Ok(EntryTemplate {
            uri_template,
            name: template.name,
            title: template.title,
            description: template.description,
            mime_type: self.mime_type(template.mime_type, of),
            annotations: self.annotations(template.annotations, of),
            icons: self.icons(template.icons, of),
            meta: self.meta(template.meta, of),
        })
    }

    fn mime_type(&self, mime_type: Option<String>, of: &str) -> Option<String> {
        let mime_type = mime_type?;
        if is_mime_type(&mime_type) {
            return Some(mime_type);
        }
        self.dropped(of, "MIME type", &mime_type, "a type such as `text/plain`")
    }

    fn annotations(&self, annotations: Option<contract::Annotations>, of: &str) -> Annotations {
        let Some(given) = annotations else { return Annotations::default() };
        Annotations {
            audience: given.audience.into_iter().map(role).collect(),
            priority: given.priority.and_then(|value| {
                Priority::new(value).or_else(|| self.dropped(of, "priority", &value.to_string(), "between 0.0 and 1.0"))
            }),
            last_modified: given.last_modified.and_then(|text| {
                Timestamp::new(text.as_str())
                    .or_else(|| self.dropped(of, "last-modified", &text, "a timestamp such as 2025-01-12T15:00:58Z"))
            }),
        }
    }

    fn icons(&self, icons: Vec<contract::Icon>, of: &str) -> Vec<Icon> {
        let checked = icons.into_iter().filter_map(|given| {
            let Some(mut icon) = Icon::new(given.src.as_str()) else {
                return self.dropped(of, "icon", &given.src, "an `https:` or `data:` URI");
            };
            icon.mime_type = self.mime_type(given.mime_type, of);
            let sizes = given.sizes.into_iter().filter_map(|size| match is_icon_size(&size) {
                true => Some(size),
                false => self.dropped(of, "icon size", &size, "a size such as `48x48`, or `any`"),
            });
            icon.sizes = sizes.collect();
            icon.theme = given.theme.map(|theme| match theme {
                contract::Theme::Light => Theme::Light,
                contract::Theme::Dark => Theme::Dark,
            });
            Some(icon)
        });
        checked.collect()
    }

    fn meta(&self, meta: Option<String>, of: &str) -> Meta {
        let Some(text) = meta else { return Meta::new() };
        match serde_json::from_str(&text) {
            Ok(Value::Object(mut meta)) => {
                meta.retain(|key, _| !key.starts_with(HOST_PREFIX));
                meta
            }
            _ => self.dropped(of, "meta", &text, "the text of a JSON object").unwrap_or_default(),
        }
    }

    fn dropped<T>(&self, of: &str, what: &str, found: &str, expected: &str) -> Option<T> {
        self.faults.note_part(&format!(
            "{what} of `{}` dropped: expected {expected}, found `{}`",
            of.escape_debug(),
            found.escape_debug()
        ));
        None
    }
}

fn role(role: contract::Role) -> Role {
    match role {
        contract::Role::User => Role::User,
        contract::Role::Assistant => Role::Assistant,
    }
}

/// A cursor that leads on: short enough, and not the one that led here.
fn next_cursor(next: Option<String>, asked: Option<&str>) -> Result<Option<String>, Fault> {
    match next {
        Some(next) if next.len() > MAX_CURSOR => {
            Err(Fault::Contract(format!("its cursor has {} bytes; {MAX_CURSOR} are allowed", next.len())))
        }
        Some(next) if asked == Some(next.as_str()) => {
            Err(Fault::Contract("its cursor leads back to the page that it came with".to_owned()))
        }
        next => Ok(next),
    }
}

fn last_segment(path: &Path) -> &str {
    let path = path.as_str();
    let path = path.split('?').next().unwrap_or(path).trim_end_matches('/');
    path.rsplit('/').next().unwrap_or(path)
}

/// `type/subtype` with optional parameters (RFC 6838, section 4.2; RFC 9110, section 8.3.1).
fn is_mime_type(text: &str) -> bool {
    let essence = text.split(';').next().unwrap_or(text).trim_end();
    let is_token = |token: &str| {
        !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte))
    };
    let printable = text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    printable && text.len() <= 255 && essence.split_once('/').is_some_and(|(kind, sub)| is_token(kind) && is_token(sub))
}

/// `48x48` or `any` (MCP 2025-11-25, "Icons").
fn is_icon_size(text: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.len() <= 5 && part.bytes().all(|byte| byte.is_ascii_digit());
    text == "any" || text.split_once('x').is_some_and(|(width, height)| is_number(width) && is_number(height))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mime_types_have_a_type_and_a_subtype() {
        for text in ["text/plain", "text/html; charset=utf-8", "application/vnd.api+json", "inode/directory"] {
            assert!(is_mime_type(text), "{text}");
        }
        for text in ["", "text", "text/", "/plain", "text/pl ain", "text/plain\n", "text/plain/x", "téxt/plain"] {
            assert!(!is_mime_type(text), "{text:?}");
        }
    }

    #[test]
    fn a_cursor_that_does_not_lead_on_is_refused() {
        assert_eq!(next_cursor(Some("b".into()), Some("a")), Ok(Some("b".to_owned())));
        assert_eq!(next_cursor(None, Some("a")), Ok(None));
        next_cursor(Some("a".into()), Some("a")).unwrap_err();
        next_cursor(Some("x".repeat(MAX_CURSOR + 1)), None).unwrap_err();
    }

    #[test]
    fn icon_sizes_are_numbers_or_any() {
        assert!(is_icon_size("48x48") && is_icon_size("any"));
        assert!(!is_icon_size("48") && !is_icon_size("x") && !is_icon_size("48X48"));
    }
}
