//! Answers of providers as JSON. Names are the contract's names; unset values are left out.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use mcp_host_base::time::saturating_millis;
use mcp_host_model::provider::{
    Body, ChangeSet, Contents, Entry, Failure, Icon, Page, ProviderInfo, Template, TemplatePage,
};
use mcp_host_model::resource::{Completion, Role, Theme};
use serde_json::{Map, Value, json};

use crate::bindings::Progress;

/// Creates an object of the fields that are set.
fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let set = fields.into_iter().filter(|(_, value)| !value.is_null());
    Value::Object(set.map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
}

fn millis(duration: Option<Duration>) -> Value {
    duration.map_or(Value::Null, |duration| json!(saturating_millis(duration)))
}

/// Encodes a list; null if it is empty.
fn list<T>(items: &[T], to_json: impl Fn(&T) -> Value) -> Value {
    if items.is_empty() { Value::Null } else { items.iter().map(to_json).collect() }
}

pub(crate) fn provider_info(info: &ProviderInfo) -> Value {
    let ProviderInfo { name, version, title, description, watches, .. } = info;
    object([
        ("name", json!(name)),
        ("version", json!(version)),
        ("title", json!(title)),
        ("description", json!(description)),
        ("watches", json!(watches)),
    ])
}

pub(crate) fn page(page: &Page) -> Value {
    let Page { entries, next_cursor, .. } = page;
    object([("entries", entries.iter().map(entry).collect()), ("next-cursor", json!(next_cursor))])
}

pub(crate) fn template_page(page: &TemplatePage) -> Value {
    let TemplatePage { templates, next_cursor, .. } = page;
    object([("templates", templates.iter().map(template).collect()), ("next-cursor", json!(next_cursor))])
}

pub(crate) fn entry(entry: &Entry) -> Value {
    object([
        ("path", json!(entry.path)),
        ("name", json!(entry.name)),
        ("title", json!(entry.title)),
        ("description", json!(entry.description)),
        ("mime-type", json!(entry.mime_type)),
        ("size", json!(entry.size)),
        ("audience", list(&entry.audience, role)),
        ("priority", json!(entry.priority)),
        ("last-modified", json!(entry.last_modified)),
        ("icons", list(&entry.icons, icon)),
        ("listable", json!(entry.listable)),
        ("subscribable", json!(entry.subscribable)),
        ("ttl-ms", millis(entry.ttl)),
        ("meta", json!(entry.meta)),
    ])
}

fn template(template: &Template) -> Value {
    object([
        ("path-template", json!(template.path_template)),
        ("name", json!(template.name)),
        ("title", json!(template.title)),
        ("description", json!(template.description)),
        ("mime-type", json!(template.mime_type)),
        ("audience", list(&template.audience, role)),
        ("priority", json!(template.priority)),
        ("last-modified", json!(template.last_modified)),
        ("icons", list(&template.icons, icon)),
        ("meta", json!(template.meta)),
    ])
}

fn role(role: &Role) -> Value {
    json!(match role {
        Role::User => "user",
        Role::Assistant => "assistant",
    })
}

fn icon(icon: &Icon) -> Value {
    let theme = icon.theme.map(|theme| match theme {
        Theme::Light => "light",
        Theme::Dark => "dark",
    });
    object([
        ("src", json!(icon.src)),
        ("mime-type", json!(icon.mime_type)),
        ("sizes", list(&icon.sizes, |size| json!(size))),
        ("theme", json!(theme)),
    ])
}

/// Encodes contents. A body is `{"text": …}`, even if it was returned as UTF-8 bytes, or `{"base64": …}`.
pub(crate) fn contents(contents: &[Contents]) -> Value {
    let one = |one: &Contents| {
        let body = match &one.body {
            Body::Text(text) => json!({ "text": text }),
            Body::TextBytes(bytes) | Body::Blob(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => json!({ "text": text }),
                Err(_) => json!({ "base64": BASE64_STANDARD.encode(bytes) }),
            },
        };
        let is_binary = matches!(one.body, Body::Blob(_)).then_some(true);
        object([("entry", entry(&one.entry)), ("body", body), ("blob", json!(is_binary))])
    };
    contents.iter().map(one).collect()
}

pub(crate) fn completion(completion: &Completion) -> Value {
    let Completion { values, total, has_more } = completion;
    object([("values", json!(values)), ("total", json!(total)), ("has-more", json!(has_more))])
}

pub(crate) fn change_set(changes: &ChangeSet) -> Value {
    object([
        ("token", json!(changes.token)),
        ("changed", json!(changes.changed)),
        ("listing-changed", json!(changes.listing_changed)),
        ("poll-after-ms", millis(changes.poll_after)),
    ])
}

pub(crate) fn progress(progress: &Progress) -> Value {
    object([
        ("next-token", json!(progress.next_token)),
        ("percent", json!(progress.percent)),
        ("message", json!(progress.message)),
        ("again-after-ms", millis(progress.again_after)),
    ])
}

pub(crate) fn failure(failure: &Failure) -> Value {
    match failure {
        Failure::NotFound => json!("not-found"),
        Failure::InvalidRequest(message) => json!({ "invalid-request": message }),
        Failure::Denied(message) => json!({ "denied": message }),
        Failure::Unavailable { reason, retry_after } => {
            json!({ "unavailable": object([("reason", json!(reason)), ("after-ms", millis(*retry_after))]) })
        }
        Failure::Internal(message) => json!({ "internal": message }),
    }
}

/// Encodes an optional argument.
pub(crate) fn optional(value: Option<&str>) -> Value {
    value.map_or(Value::Null, |value| json!(value))
}
