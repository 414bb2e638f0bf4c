//! The domain's types as the objects of MCP, in the one place that knows both.
//!
//! The objects have everything that the newest revision knows. Clients of older ones ignore members that they do not know,
//! as the protocol asks of them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model as mcp;
use serde_json::{Value, json};

use crate::resource::{
    Annotations, Body, Completion, Contents, Entry, EntryTemplate, Icon, Listing, Meta, Missing, Role, Theme,
};

/// The key in `_meta` under which a merged listing names the plugins that are missing from it, each as
/// `{"plugin": …, "reason": …}`, with `"retryAfterMs"` where it is known when another try makes sense.
pub const MISSING: &str = "mcp-host/missing";

/// The result of `resources/list`.
pub fn list_result(listing: Listing<Entry>) -> mcp::ListResourcesResult {
    let mut result = mcp::ListResourcesResult::with_all_items(listing.items.into_iter().map(resource).collect());
    result.next_cursor = listing.next_cursor;
    result.meta = missing_meta(&listing.missing);
    result
}

/// The result of `resources/templates/list`.
pub fn templates_result(listing: Listing<EntryTemplate>) -> mcp::ListResourceTemplatesResult {
    let templates = listing.items.into_iter().map(resource_template).collect();
    let mut result = mcp::ListResourceTemplatesResult::with_all_items(templates);
    result.next_cursor = listing.next_cursor;
    result.meta = missing_meta(&listing.missing);
    result
}

/// The result of `resources/read`.
pub fn read_result(contents: Vec<Contents>) -> mcp::ReadResourceResult {
    mcp::ReadResourceResult::new(contents.into_iter().map(resource_contents).collect())
}

/// For how long, in milliseconds, a client may keep the result of a read: as long as it may all of its contents.
pub(super) fn ttl_ms(contents: &[Contents]) -> u64 {
    let ttl = contents.iter().map(|one| one.entry.ttl.unwrap_or_default()).min().unwrap_or_default();
    u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)
}

/// The result of `completion/complete`.
pub fn complete_result(completion: Completion) -> mcp::CompleteResult {
    let mut info = mcp::CompletionInfo::default();
    info.values = completion.values;
    info.total = completion.total;
    info.has_more = Some(completion.has_more);
    mcp::CompleteResult::new(info)
}

fn resource(entry: Entry) -> mcp::Resource {
    let mut resource = mcp::Resource::new(entry.uri.to_string(), entry.name);
    resource.title = entry.title;
    resource.description = entry.description;
    resource.mime_type = entry.mime_type;
    resource.size = entry.size;
    resource.icons = icons(entry.icons);
    resource.annotations = annotations(entry.annotations);
    resource.meta = meta(entry.meta);
    resource
}

fn resource_template(template: EntryTemplate) -> mcp::ResourceTemplate {
    let mut wire = mcp::ResourceTemplate::new(template.uri_template.to_string(), template.name);
    wire.title = template.title;
    wire.description = template.description;
    wire.mime_type = template.mime_type;
    wire.icons = icons(template.icons);
    wire.annotations = annotations(template.annotations);
    wire.meta = meta(template.meta);
    wire
}

fn resource_contents(contents: Contents) -> mcp::ResourceContents {
    let Contents { entry, body } = contents;
    let (uri, mime_type, meta) = (entry.uri.to_string(), entry.mime_type, meta(entry.meta));
    match body {
        Body::Text(text) => mcp::ResourceContents::TextResourceContents { uri, mime_type, text, meta },
        Body::Blob(bytes) => {
            mcp::ResourceContents::BlobResourceContents { uri, mime_type, blob: STANDARD.encode(bytes), meta }
        }
    }
}

fn annotations(given: Annotations) -> Option<mcp::Annotations> {
    if given.is_empty() {
        return None;
    }
    let mut wire = mcp::Annotations::default();
    if !given.audience.is_empty() {
        wire.audience = Some(given.audience.into_iter().map(role).collect());
    }
    // rmcp has single precision; what is shown is the shortest decimal, so 0.8 stays 0.8.
    #[allow(clippy::cast_possible_truncation, reason = "a hint between 0 and 1")]
    let priority = given.priority.map(|priority| priority.value() as f32);
    wire.priority = priority;
    wire.last_modified = given.last_modified.map(|timestamp| timestamp.to_string());
    Some(wire)
}

fn role(role: Role) -> mcp::Role {
    match role {
        Role::User => mcp::Role::User,
        Role::Assistant => mcp::Role::Assistant,
    }
}

fn icons(icons: Vec<Icon>) -> Option<Vec<mcp::Icon>> {
    (!icons.is_empty()).then(|| icons.into_iter().map(icon).collect())
}

fn icon(icon: Icon) -> mcp::Icon {
    let mut wire = mcp::Icon::new(icon.src());
    wire.mime_type = icon.mime_type;
    wire.sizes = (!icon.sizes.is_empty()).then_some(icon.sizes);
    wire.theme = icon.theme.map(|theme| match theme {
        Theme::Light => mcp::IconTheme::Light,
        Theme::Dark => mcp::IconTheme::Dark,
    });
    wire
}

fn meta(meta: Meta) -> Option<mcp::MetaObject> {
    (!meta.is_empty()).then_some(mcp::MetaObject(meta))
}

fn missing_meta(missing: &[Missing]) -> Option<mcp::MetaObject> {
    let listed = Meta::from_iter([(MISSING.to_owned(), missing.iter().map(missing_plugin).collect())]);
    (!missing.is_empty()).then_some(mcp::MetaObject(listed))
}

fn missing_plugin(missing: &Missing) -> Value {
    let mut members = json!({"plugin": missing.plugin, "reason": missing.reason});
    if let (Some(members), Some(wait)) = (members.as_object_mut(), missing.retry_after) {
        let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        members.insert("retryAfterMs".to_owned(), millis.into());
    }
    members
}
