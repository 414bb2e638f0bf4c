//! Conversions from the SDK's types to the contract's.

use super::bindings::exports::mcp_host::provider::resource_provider as wit;
use super::prepare_bindings::exports::mcp_host::provider::prepare;
use crate::{
    Argument, Body, Changes, Completion, Contents, Entry, Failure, Icon, Info, Page, Progress, Retry, Role, Template,
    Theme,
};
use serde_json::{Map, Value};
use std::time::Duration;

impl From<Role> for wit::Role {
    fn from(role: Role) -> Self {
        match role {
            Role::User => Self::User,
            Role::Assistant => Self::Assistant,
        }
    }
}

impl From<Icon> for wit::Icon {
    fn from(icon: Icon) -> Self {
        let theme = icon.theme.map(|theme| match theme {
            Theme::Light => wit::Theme::Light,
            Theme::Dark => wit::Theme::Dark,
        });
        Self { src: icon.src, mime_type: icon.mime_type, sizes: icon.sizes, theme }
    }
}

impl From<Entry> for wit::Entry {
    fn from(entry: Entry) -> Self {
        let last_modified = entry.last_modified.map(crate::Timestamp::into_string);
        Self {
            path: entry.path,
            name: entry.name,
            title: entry.title,
            description: entry.description,
            mime_type: entry.mime_type,
            size: entry.size,
            annotations: annotations(entry.audience, entry.priority, last_modified),
            icons: entry.icons.into_iter().map(Into::into).collect(),
            listable: entry.listable,
            subscribable: entry.subscribable,
            ttl_ms: entry.ttl.map(milliseconds),
            meta: meta(entry.meta),
        }
    }
}

impl From<Contents> for wit::Contents {
    fn from(contents: Contents) -> Self {
        let body = match contents.body {
            Body::Text(text) => wit::Body::Text(text),
            Body::Blob(bytes) => wit::Body::Blob(bytes),
        };
        Self { entry: contents.entry.into(), body }
    }
}

impl From<Page> for wit::Page {
    fn from(page: Page) -> Self {
        Self { entries: page.entries.into_iter().map(Into::into).collect(), next_cursor: page.next_cursor }
    }
}

impl From<Template> for wit::EntryTemplate {
    fn from(template: Template) -> Self {
        Self {
            path_template: template.path_template,
            name: template.name,
            title: template.title,
            description: template.description,
            mime_type: template.mime_type,
            annotations: annotations(template.audience, template.priority, None),
            icons: template.icons.into_iter().map(Into::into).collect(),
            meta: meta(template.meta),
        }
    }
}

impl From<Failure> for wit::Failure {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::NotFound => Self::NotFound,
            Failure::InvalidRequest(expected) => Self::InvalidRequest(expected),
            Failure::Denied(reason) => Self::Denied(reason),
            Failure::Unavailable(Retry { reason, after }) => {
                Self::Unavailable(wit::Retry { reason, after_ms: after.map(milliseconds) })
            }
            Failure::Internal(fault) => Self::Internal(fault),
        }
    }
}

impl From<Info> for wit::ProviderInfo {
    fn from(info: Info) -> Self {
        Self {
            name: info.name,
            version: info.version,
            title: info.title,
            description: info.description,
            watches: info.watches,
        }
    }
}

impl From<wit::Argument> for Argument {
    fn from(argument: wit::Argument) -> Self {
        Self { name: argument.name, value: argument.value }
    }
}

impl From<Completion> for wit::Completion {
    fn from(completion: Completion) -> Self {
        Self { values: completion.values, total: completion.total, has_more: completion.has_more }
    }
}

impl From<Changes> for wit::ChangeSet {
    fn from(changes: Changes) -> Self {
        Self {
            token: changes.token,
            changed: changes.changed,
            listing_changed: changes.listing_changed,
            poll_after_ms: changes.poll_after.map(milliseconds),
        }
    }
}

impl From<Progress> for prepare::Progress {
    fn from(progress: Progress) -> Self {
        Self {
            next_token: progress.next_token,
            percent: progress.percent,
            message: progress.message,
            again_after_ms: progress.again_after.map(milliseconds),
        }
    }
}

impl From<Failure> for prepare::Failure {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Unavailable(Retry { reason, after }) => Self { reason, retry_after_ms: after.map(milliseconds) },
            failure => Self { reason: failure.to_string(), retry_after_ms: None },
        }
    }
}

fn annotations(audience: Vec<Role>, priority: Option<f64>, last_modified: Option<String>) -> Option<wit::Annotations> {
    if audience.is_empty() && priority.is_none() && last_modified.is_none() {
        return None;
    }
    Some(wit::Annotations { audience: audience.into_iter().map(Into::into).collect(), priority, last_modified })
}

fn meta(meta: Map<String, Value>) -> Option<String> {
    (!meta.is_empty()).then(|| Value::Object(meta).to_string())
}

/// Converts to milliseconds, rounded up so that a short duration never becomes zero.
fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_arrives_whole() {
        let entry = Entry::new("a/b", "b")
            .title("B")
            .description("the letter")
            .mime_type("text/plain")
            .size(7)
            .audience([Role::User, Role::Assistant])
            .priority(0.5)
            .last_modified("2025-01-12T15:00:58Z")
            .icon(Icon::new("https://example.com/i.png").size("48x48").theme(Theme::Dark))
            .listable()
            .subscribable()
            .ttl(Duration::from_secs(2))
            .meta("example.com/n", 1);
        let entry = wit::Entry::from(entry);
        assert_eq!((entry.path.as_str(), entry.name.as_str()), ("a/b", "b"));
        assert_eq!((entry.title.as_deref(), entry.description.as_deref()), (Some("B"), Some("the letter")));
        assert_eq!((entry.mime_type.as_deref(), entry.size), (Some("text/plain"), Some(7)));
        let annotations = entry.annotations.unwrap();
        assert_eq!(annotations.audience, [wit::Role::User, wit::Role::Assistant]);
        assert_eq!(annotations.priority, Some(0.5));
        assert_eq!(annotations.last_modified.as_deref(), Some("2025-01-12T15:00:58Z"));
        assert_eq!(entry.icons[0].sizes, ["48x48"]);
        assert_eq!(entry.icons[0].theme, Some(wit::Theme::Dark));
        assert!(entry.listable && entry.subscribable);
        assert_eq!(entry.ttl_ms, Some(2000));
        assert_eq!(entry.meta.as_deref(), Some(r#"{"example.com/n":1}"#));
    }

    #[test]
    fn an_entry_that_says_nothing_has_no_annotations_and_no_meta() {
        let entry = wit::Entry::from(Entry::new("a", "a"));
        assert!(entry.annotations.is_none() && entry.meta.is_none() && entry.ttl_ms.is_none());
    }

    #[test]
    fn a_short_while_is_never_none_at_all() {
        assert_eq!(milliseconds(Duration::from_nanos(1)), 1);
        assert_eq!(milliseconds(Duration::ZERO), 0);
        assert_eq!(milliseconds(Duration::MAX), u64::MAX);
    }

    #[test]
    fn bodies_and_failures_keep_their_kind() {
        let text = wit::Contents::from(Contents::text(Entry::new("a", "a"), "t"));
        assert!(matches!(text.body, wit::Body::Text(text) if text == "t"));
        let blob = wit::Contents::from(Contents::blob(Entry::new("a", "a"), [0xff]));
        assert!(matches!(blob.body, wit::Body::Blob(bytes) if bytes == [0xff]));
        let retry = Failure::from(Retry::new("locked").after(Duration::from_millis(5)));
        assert!(matches!(wit::Failure::from(retry), wit::Failure::Unavailable(retry) if retry.after_ms == Some(5)));
        assert!(matches!(wit::Failure::from(Failure::NotFound), wit::Failure::NotFound));
    }
}
