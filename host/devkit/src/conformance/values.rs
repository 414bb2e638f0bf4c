//! Checks of values in answers: paths, hints, texts and sizes. A host drops or refuses invalid values.

use std::collections::HashSet;

use mcp_host_base::text::Excerpt;
use mcp_host_engine::plugin::{HOST_PREFIX, is_icon_size, is_mime_type};
use mcp_host_model::provider::{Body, Contents, Entry, Icon, Template};
use mcp_host_model::resource::{NOTICES_META_KEY, Notice, Priority, ResourceIcon, Timestamp};
use mcp_host_model::uri::ResourceId;

use super::{Check, Session, advice};

impl Session<'_> {
    /// Checks a path, and returns it normalized.
    pub(super) fn check_path(&mut self, what: &str, path: &str) -> Option<String> {
        match self.mount().compose(path) {
            Ok(ResourceId { path, .. }) => Some(path.as_str().to_owned()),
            Err(error) => {
                let message = format!("{what} `{}`: {error}", Excerpt(path));
                self.report.problem_with(Check::Paths, message, advice::PATH_ENCODING);
                None
            }
        }
    }

    /// Checks the hints of an entry.
    pub(super) fn check_entry(&mut self, entry: &Entry) {
        let Entry { path, mime_type, priority, last_modified, icons, meta, .. } = entry;
        let (mime_type, last_modified, meta) = (mime_type.as_deref(), last_modified.as_deref(), meta.as_deref());
        self.check_hints(path, mime_type, *priority, last_modified, icons, meta);
        self.check_name(path, &entry.name);
        if entry.subscribable && !self.watches() {
            let path = Excerpt(path);
            self.report.note(
                Check::Hints,
                format!("`{path}` is subscribable, and `describe` says that the provider does not watch, so clients cannot subscribe"),
            );
        }
    }

    /// Checks the hints of a template.
    pub(super) fn check_template(&mut self, template: &Template) {
        let Template { path_template, mime_type, priority, last_modified, icons, meta, .. } = template;
        let (mime_type, last_modified, meta) = (mime_type.as_deref(), last_modified.as_deref(), meta.as_deref());
        self.check_hints(path_template, mime_type, *priority, last_modified, icons, meta);
        self.check_name(path_template, &template.name);
    }

    fn check_name(&mut self, path: &str, name: &str) {
        if name.trim().is_empty() {
            let message = format!("the name of `{}` is empty", Excerpt(path));
            self.report.problem_with(Check::Hints, message, advice::EMPTY_NAME);
        }
    }

    fn check_hints(
        &mut self,
        path: &str,
        mime_type: Option<&str>,
        priority: Option<f64>,
        last_modified: Option<&str>,
        icons: &[Icon],
        meta: Option<&str>,
    ) {
        let mut invalid = |what: &str, found: &str, expected: &str, advice: &'static str| {
            let (path, found) = (Excerpt(path), Excerpt(found));
            let message = format!("{what} of `{path}`: expected {expected}, found `{found}`");
            self.report.problem_with(Check::Hints, message, advice);
        };
        if let Some(found) = mime_type.filter(|mime_type| !is_mime_type(mime_type)) {
            invalid("MIME type", found, "a type such as `text/plain`", advice::MIME_TYPE);
        }
        if let Some(found) = priority.filter(|priority| Priority::new(*priority).is_none()) {
            invalid("priority", &found.to_string(), "0.0 to 1.0", Check::Hints.advice());
        }
        if let Some(found) = last_modified.filter(|time| Timestamp::new(*time).is_none()) {
            invalid("last-modified", found, "a timestamp such as `2025-01-12T15:00:58Z`", advice::TIMESTAMP);
        }
        for icon in icons {
            if ResourceIcon::new(&icon.src).is_none() {
                invalid("icon", &icon.src, "an `https:` or `data:` URI", advice::ICON);
            }
            if let Some(found) = icon.mime_type.as_deref().filter(|mime_type| !is_mime_type(mime_type)) {
                invalid("MIME type of an icon", found, "a type such as `image/png`", advice::MIME_TYPE);
            }
            for size in icon.sizes.iter().filter(|size| !is_icon_size(size)) {
                invalid("icon size", size, "a size such as `48x48`, or `any`", advice::ICON);
            }
        }
        match meta.map(serde_json::from_str::<serde_json::Map<_, _>>) {
            Some(Err(_)) => invalid("meta", meta.unwrap_or_default(), "the text of a JSON object", advice::META),
            Some(Ok(members)) => {
                let is_reserved = |name: &&String| name.starts_with(HOST_PREFIX) && *name != NOTICES_META_KEY;
                for name in members.keys().filter(is_reserved) {
                    invalid("name in meta", name, "a name that does not begin with `mcp-host/`", advice::META);
                }
                if let Some(notices) = members.get(NOTICES_META_KEY).filter(|notices| !Notice::are_valid(notices)) {
                    let expected =
                        "up to eight objects with `kind` (`cut`, `incomplete` or `stale`), `text` and perhaps `next`";
                    invalid("value of `mcp-host/notices` in meta", &notices.to_string(), expected, advice::META);
                }
            }
            None => {}
        }
    }

    /// Checks the contents of a read resource with the listed entry `listed`.
    pub(super) fn check_contents(&mut self, requested: &str, contents: &[Contents], listed: Option<&Entry>) {
        if contents.is_empty() {
            let message = format!("`{}` has neither contents nor a failure", Excerpt(requested));
            self.report.problem_with(Check::Readable, message, advice::NO_CONTENTS);
        }
        // A collection may return contents of resources below it.
        let is_single = listed.is_some_and(|listed| !listed.listable);
        let mut seen = HashSet::new();
        for content in contents {
            let path = self.check_path("a content's path", &content.entry.path);
            self.check_entry(&content.entry);
            let len = u64::try_from(content.body.size()).unwrap_or(u64::MAX);
            let shown = Excerpt(&content.entry.path);
            if let Some(path) = path.as_deref().filter(|path| is_single && *path != requested) {
                let message = format!("`{}` is read, and has the contents of `{}`", Excerpt(requested), Excerpt(path));
                self.report.problem_with(Check::Readable, message, advice::OTHER_PATH);
            }
            if !seen.insert((&content.entry.path, &content.entry.mime_type)) {
                let kind =
                    content.entry.mime_type.as_deref().map_or("of no type".to_owned(), |kind| format!("`{kind}`"));
                let message = format!("`{}` has several contents of `{shown}`, {kind}", Excerpt(requested));
                self.report.problem_with(Check::Readable, message, advice::SAME_CONTENTS);
            }
            if let Body::TextBytes(bytes) = &content.body
                && let Err(error) = std::str::from_utf8(bytes)
            {
                self.report.problem(Check::Utf8, format!("`{shown}` is read as text: {error}"));
            }
            if let Some(size) = content.entry.size.filter(|size| *size != len) {
                self.report
                    .problem(Check::Sizes, format!("the size of `{shown}` is {size} bytes, and the content has {len}"));
            }
            let Some(listed) = listed.filter(|listed| path.as_deref() == Some(listed.path.as_str())) else { continue };
            let is_same_format = contents.len() == 1 && listed.mime_type == content.entry.mime_type;
            if let Some(size) = listed.size.filter(|size| is_same_format && *size != len) {
                self.report.problem(Check::Sizes, format!("`{shown}` is listed with {size} bytes and has {len}"));
            }
        }
    }
}

/// The entry without its time to live, which decreases over time.
pub(super) fn without_ttl(entry: &Entry) -> Entry {
    let mut entry = entry.clone();
    entry.ttl = None;
    entry
}
