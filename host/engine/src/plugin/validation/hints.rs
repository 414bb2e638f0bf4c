//! Hints of an entry or a template: MIME type, annotations, icons and metadata. An invalid hint is dropped alone.

use mcp_host_base::text::Excerpt;
use mcp_host_model::provider;
use mcp_host_model::resource::{Annotations, Meta, NOTICES_META_KEY, Notice, Priority, ResourceIcon, Role, Timestamp};
use serde_json::Value;

use super::Validator;

/// The reserved prefix of keys in `meta`. A provider may only use [`NOTICES_META_KEY`] of these.
pub const HOST_PREFIX: &str = "mcp-host/";
/// The maximum length of a MIME type in bytes.
const MAX_MIME_TYPE: usize = 255;

/// The part of an answer that metadata belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// An entry of a listing, or a template.
    Listed,
    /// A content.
    Contents,
}

impl Validator {
    pub(super) fn mime_type(&mut self, mime_type: Option<String>, path: &str) -> Option<String> {
        let mime_type = mime_type?;
        if is_mime_type(&mime_type) {
            return Some(mime_type);
        }
        self.dropped.record_hint("MIME type", path, &Excerpt(&mime_type), "a type such as `text/plain`");
        None
    }

    pub(super) fn annotations(
        &mut self,
        audience: Vec<Role>,
        priority: Option<f64>,
        last_modified: Option<String>,
        path: &str,
    ) -> Annotations {
        let priority = priority.and_then(|value| {
            let priority = Priority::new(value);
            if priority.is_none() {
                self.dropped.record_hint("priority", path, &value, "between 0.0 and 1.0");
            }
            priority
        });
        let last_modified = last_modified.and_then(|text| {
            let timestamp = Timestamp::try_new(text);
            timestamp
                .inspect_err(|text| {
                    self.dropped.record_hint(
                        "last-modified",
                        path,
                        &Excerpt(text),
                        "a timestamp such as 2025-01-12T15:00:58Z",
                    );
                })
                .ok()
        });
        Annotations { audience: deduplicate(audience), priority, last_modified }
    }

    pub(super) fn icons(&mut self, icons: Vec<provider::Icon>, path: &str) -> Vec<ResourceIcon> {
        let mut checked = Vec::with_capacity(icons.len());
        for given in icons {
            let mut icon = match ResourceIcon::try_new(given.src) {
                Ok(icon) => icon,
                Err(src) => {
                    self.dropped.record_hint("icon", path, &Excerpt(&src), "an `https:` or `data:` URI");
                    continue;
                }
            };
            icon.mime_type = self.mime_type(given.mime_type, path);
            icon.sizes = Vec::with_capacity(given.sizes.len());
            for size in given.sizes {
                if is_icon_size(&size) {
                    icon.sizes.push(size);
                } else {
                    self.dropped.record_hint("icon size", path, &Excerpt(&size), "a size such as `48x48`, or `any`");
                }
            }
            icon.theme = given.theme;
            checked.push(icon);
        }
        checked
    }

    /// Validates metadata whose values have been counted. Only contents have notices.
    pub(super) fn meta(&mut self, meta: Option<String>, path: &str, part: Part) -> Meta {
        let Some(text) = meta else { return Meta::new() };
        match serde_json::from_str(&text) {
            Ok(Value::Object(mut meta)) => {
                meta.retain(|key, _| {
                    !key.starts_with(HOST_PREFIX) || (key == NOTICES_META_KEY && part == Part::Contents)
                });
                Notice::replace_in(&mut meta, |notice| self.compose_next(notice, path));
                meta
            }
            _ => {
                self.dropped.record_hint("meta", path, &Excerpt(&text), "the text of a JSON object");
                Meta::new()
            }
        }
    }
}

impl Validator {
    /// Composes the path of the next part with the mount. The query of a path that begins with `?` replaces the
    /// query of the content's path. A path that leaves the mount is dropped alone.
    fn compose_next(&mut self, mut notice: Notice, path: &str) -> Notice {
        notice.next = notice.next.and_then(|next| {
            let next = match next.starts_with('?') {
                true => [path.split('?').next().unwrap_or(path), next.as_str()].concat(),
                false => next,
            };
            match self.context.mount.compose_uri(&next) {
                // The URI may be longer than the provider's text.
                Ok(uri) if self.work.charge(uri.as_str().len()).is_ok() => Some(uri.as_str().to_owned()),
                _ => {
                    self.dropped.record_hint(
                        "next part",
                        path,
                        &Excerpt(&next),
                        "the path of a resource of this provider",
                    );
                    None
                }
            }
        });
        notice
    }
}

/// Returns each role once, in the order of first occurrence.
fn deduplicate(given: Vec<Role>) -> Vec<Role> {
    let mut audience = Vec::new();
    for role in given {
        if !audience.contains(&role) {
            audience.push(role);
        }
    }
    audience
}

/// Returns whether this is `type/subtype` with optional parameters (RFC 6838, section 4.2; RFC 9110, section
/// 8.3.1).
pub fn is_mime_type(text: &str) -> bool {
    let essence = text.split(';').next().unwrap_or(text).trim_end();
    let is_token = |token: &str| {
        !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte))
    };
    let is_type = |essence: &str| essence.split_once('/').is_some_and(|(kind, sub)| is_token(kind) && is_token(sub));
    text.len() <= MAX_MIME_TYPE && text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) && is_type(essence)
}

/// Returns whether this is `48x48` or `any` (MCP 2025-11-25, "Icons").
pub fn is_icon_size(text: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.len() <= 5 && part.bytes().all(|byte| byte.is_ascii_digit());
    text == "any" || text.split_once('x').is_some_and(|(width, height)| is_number(width) && is_number(height))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::fuzzing::{block_on, validator};
    use super::*;

    fn with_notices(path: &str, next: &[&str]) -> provider::Entry {
        let notices: Vec<_> =
            next.iter().map(|next| json!({ "kind": "cut", "text": "a part", "next": next })).collect();
        let mut entry = provider::Entry::new(path, "");
        entry.meta = Some(json!({ "mcp-host/notices": notices, "mcp-host/other": 1 }).to_string());
        entry
    }

    #[test]
    fn the_next_part_of_a_content_is_a_whole_uri_below_its_mount() {
        let given = ["a?page=2", "?page=2", "../b", "/c", "%61?page=2"];
        let contents = vec![provider::Contents::text(with_notices("a?page=1", &given), "text")];
        let contents = block_on(validator(100, 1 << 20, false).contents(contents, "a?page=1", |_| true)).unwrap();
        let meta = &contents[0].entry.meta;
        let mount = contents[0].entry.uri.as_str().strip_suffix("a?page=1").unwrap();
        let second = Some(format!("{mount}a?page=2"));
        let next: Vec<_> = Notice::all_in(meta).into_iter().map(|notice| notice.next).collect();
        assert_eq!(next, [second.clone(), second.clone(), None, None, second]);
        assert_eq!(meta.len(), 1, "other names with the host's prefix are dropped");
    }

    #[test]
    fn entries_of_a_listing_have_no_notices() {
        let page = provider::Page { entries: vec![with_notices("a", &["a?page=2"])], next_cursor: None };
        let page = block_on(validator(100, 1 << 20, false).page(page, None, Some)).unwrap();
        assert!(page.items.iter().all(|entry| entry.meta.is_empty()));
    }

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
    fn icon_sizes_are_numbers_or_any() {
        assert!(is_icon_size("48x48") && is_icon_size("any"));
        assert!(!is_icon_size("48") && !is_icon_size("x") && !is_icon_size("48X48"));
    }

    #[test]
    fn a_role_is_in_an_audience_once() {
        let given = [Role::Assistant, Role::User].repeat(1000);
        assert_eq!(deduplicate(given), [Role::Assistant, Role::User]);
    }
}
