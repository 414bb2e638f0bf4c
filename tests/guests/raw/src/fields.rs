//! A provider whose answers have one extreme field, selected by the config: too long, too numerous or too expensive to
//! validate.
//!
//! | config key | meaning |
//! |---|---|
//! | `field` | the field, such as `entry.name` or `icon.sizes`; all others are small and valid |
//! | `text` | the text to repeat |
//! | `length` | the length of each text of the field, in bytes |
//! | `count` | the number of items of the field, if it is a list |
//!
//! Every function returns an answer, so some request reaches each field.

use crate::bindings::exports::mcp_host::provider::resource_provider::{
    Annotations, Argument, Body, ChangeSet, Completion, Contents, Entry, EntryTemplate, Failure, Guest, Icon, Page,
    ProviderInfo, Retry, Role, TemplatePage,
};
use crate::config;

pub(crate) struct Fields {
    field: String,
    text: String,
    count: usize,
}

impl Fields {
    fn new() -> Self {
        let text = get("text");
        let length = number("length");
        let times = length.checked_div(text.len()).unwrap_or(0);
        Self { field: get("field"), text: text.repeat(times), count: number("count") }
    }

    fn is_selected(&self, field: &str) -> bool {
        self.field == field
    }

    /// Returns the value of a text field.
    fn text(&self, field: &str, default: &str) -> String {
        if self.is_selected(field) { self.text.clone() } else { default.to_owned() }
    }

    /// Returns the value of an optional text field.
    fn optional(&self, field: &str) -> Option<String> {
        self.is_selected(field).then(|| self.text.clone())
    }

    /// Returns the items of a list of texts.
    fn texts(&self, field: &str, default: &str) -> Vec<String> {
        if self.is_selected(field) { vec![self.text.clone(); self.count] } else { vec![default.to_owned()] }
    }

    /// Returns the items of any other list.
    fn items<T>(&self, field: &str, item: impl FnMut(usize) -> T) -> Vec<T> {
        (0..if self.is_selected(field) { self.count } else { 1 }).map(item).collect()
    }

    fn annotations(&self) -> Annotations {
        Annotations {
            audience: self.items("annotations.audience", |_| Role::User),
            priority: if self.is_selected("annotations.priority") { Some(7.0) } else { Some(0.5) },
            last_modified: self.optional("annotations.last-modified"),
        }
    }

    fn icon(&self) -> Icon {
        Icon {
            src: self.text("icon.src", "https://example.com/icon.png"),
            mime_type: self.optional("icon.mime-type"),
            sizes: self.texts("icon.sizes", "48x48"),
            theme: None,
        }
    }

    fn entry(&self, path: &str) -> Entry {
        Entry {
            path: self.text("entry.path", path),
            name: self.text("entry.name", "name"),
            title: self.optional("entry.title"),
            description: self.optional("entry.description"),
            mime_type: self.optional("entry.mime-type"),
            size: Some(u64::MAX),
            annotations: Some(self.annotations()),
            icons: self.items("entry.icons", |_| self.icon()),
            listable: true,
            subscribable: true,
            ttl_ms: Some(u64::MAX),
            meta: self.optional("entry.meta"),
        }
    }

    fn template(&self, number: usize) -> EntryTemplate {
        EntryTemplate {
            path_template: self.text("template.path-template", &format!("{{a}}/{number}")),
            name: self.text("template.name", "name"),
            title: self.optional("template.title"),
            description: self.optional("template.description"),
            mime_type: self.optional("template.mime-type"),
            annotations: Some(self.annotations()),
            icons: self.items("template.icons", |_| self.icon()),
            meta: self.optional("template.meta"),
        }
    }

    fn failure(&self) -> Option<Failure> {
        match self.field.as_str() {
            "failure.invalid-request" => Some(Failure::InvalidRequest(self.text.clone())),
            "failure.denied" => Some(Failure::Denied(self.text.clone())),
            "failure.unavailable" => {
                Some(Failure::Unavailable(Retry { reason: self.text.clone(), after_ms: Some(u64::MAX) }))
            }
            "failure.internal" => Some(Failure::Internal(self.text.clone())),
            _ => None,
        }
    }

    fn body(&self) -> Body {
        match self.field.as_str() {
            "body.text" => Body::Text(self.text.clone()),
            "body.text-bytes" => Body::TextBytes(self.text.clone().into_bytes()),
            "body.blob" => Body::Blob(self.text.clone().into_bytes()),
            _ => Body::Text("text".to_owned()),
        }
    }
}

impl Guest for Fields {
    fn describe() -> ProviderInfo {
        let it = Self::new();
        ProviderInfo {
            name: it.text("info.name", "raw"),
            version: it.text("info.version", env!("CARGO_PKG_VERSION")),
            title: it.optional("info.title"),
            description: it.optional("info.description"),
            watches: true,
        }
    }

    fn list_entries(_parent: Option<String>, _cursor: Option<String>, _limit: u32) -> Result<Page, Failure> {
        let it = Self::new();
        let entries = it.items("page.entries", |number| it.entry(&format!("path/{number}")));
        it.failure().map_or(Ok(Page { entries, next_cursor: it.optional("page.next-cursor") }), Err)
    }

    fn list_templates(_cursor: Option<String>) -> Result<TemplatePage, Failure> {
        let it = Self::new();
        let templates = it.items("page.templates", |number| it.template(number));
        it.failure().map_or(Ok(TemplatePage { templates, next_cursor: it.optional("page.next-cursor") }), Err)
    }

    fn read(path: String) -> Result<Vec<Contents>, Failure> {
        let it = Self::new();
        let contents = it.items("read.contents", |_| Contents { entry: it.entry(&path), body: it.body() });
        it.failure().map_or(Ok(contents), Err)
    }

    fn stat(path: String) -> Result<Entry, Failure> {
        let it = Self::new();
        it.failure().map_or(Ok(it.entry(&path)), Err)
    }

    fn complete(_template: String, _argument: Argument, _known: Vec<Argument>) -> Result<Completion, Failure> {
        let it = Self::new();
        let values = it.texts("completion.values", "value");
        it.failure().map_or(Ok(Completion { values, total: Some(u32::MAX), has_more: true }), Err)
    }

    fn changes(watched: Vec<String>, _since: Option<String>) -> Result<ChangeSet, Failure> {
        let it = Self::new();
        let changed = if it.is_selected("changes.changed") { it.texts("changes.changed", "") } else { watched };
        let token = it.text("changes.token", "token");
        it.failure().map_or(Ok(ChangeSet { token, changed, listing_changed: true, poll_after_ms: Some(0) }), Err)
    }
}

fn get(key: &str) -> String {
    config(key).unwrap_or_default()
}

fn number(key: &str) -> usize {
    get(key).parse().unwrap_or(0)
}
