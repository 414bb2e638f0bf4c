//! The domain's types as the objects of MCP, in the one place that knows both.
//!
//! Objects have the members that exist in the revision they are made for ([`Revision`] says which came when), and no others.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model as mcp;
use serde_json::{Value, json};

use super::revision::Revision;
use crate::resource::{
    Annotations, Body, Completion, Contents, Entry, EntryTemplate, Icon, Listing, Meta, Missing, Role, Theme,
};

/// The key in `_meta` under which a merged listing names the plugins that are missing from it, each as
/// `{"plugin": …, "reason": …}`, with `"retryAfterMs"` where it is known when another try makes sense.
pub const MISSING: &str = "mcp-host/missing";

/// The result of `resources/list`. It is public if every principal gets the same.
///
/// It may be kept as long as everything in it may; not at all, if anything is missing.
pub fn list_result(listing: Listing<Entry>, revision: Revision, is_public: bool) -> mcp::ListResourcesResult {
    let ttl = ttl_of(&listing);
    let resources = listing.items.into_iter().map(|entry| resource(entry, revision)).collect();
    let mut result = mcp::ListResourcesResult::with_all_items(resources);
    result.next_cursor = listing.next_cursor;
    result.meta = missing_meta(&listing.missing);
    (result.ttl_ms, result.cache_scope) = cache_hints(ttl, revision, is_public);
    result
}

/// The result of `resources/templates/list`. It is public if every principal gets the same.
///
/// Providers do not say for how long templates stay the same.
pub fn templates_result(
    listing: Listing<EntryTemplate>,
    revision: Revision,
    is_public: bool,
) -> mcp::ListResourceTemplatesResult {
    let templates = listing.items.into_iter().map(|template| resource_template(template, revision)).collect();
    let mut result = mcp::ListResourceTemplatesResult::with_all_items(templates);
    result.next_cursor = listing.next_cursor;
    result.meta = missing_meta(&listing.missing);
    (result.ttl_ms, result.cache_scope) = cache_hints(Duration::ZERO, revision, is_public);
    result
}

/// The result of `resources/read`. It is public if every principal gets the same.
///
/// It may be kept as long as all of its contents may.
pub fn read_result(contents: Vec<Contents>, revision: Revision, is_public: bool) -> mcp::ReadResourceResult {
    let ttl = least(contents.iter().map(|one| &one.entry));
    let contents = contents.into_iter().map(|contents| resource_contents(contents, revision)).collect();
    let mut result = mcp::ReadResourceResult::new(contents);
    (result.ttl_ms, result.cache_scope) = cache_hints(ttl, revision, is_public);
    result
}

/// For how long a listing may be kept.
pub(super) fn ttl_of(listing: &Listing<Entry>) -> Duration {
    match listing.missing.is_empty() {
        true => least(listing.items.iter()),
        false => Duration::ZERO,
    }
}

/// For how long all of them may be taken for unchanged; not at all, if one does not say or there are none.
pub(super) fn least<'a>(entries: impl Iterator<Item = &'a Entry>) -> Duration {
    entries.map(|entry| entry.ttl.unwrap_or_default()).min().unwrap_or_default()
}

/// What caches are told, in revisions that tell them anything.
pub(super) fn cache_hints(
    ttl: Duration,
    revision: Revision,
    is_public: bool,
) -> (Option<u64>, Option<mcp::CacheScope>) {
    if !revision.has_cache_hints() {
        return (None, None);
    }
    let scope = if is_public { mcp::CacheScope::Public } else { mcp::CacheScope::Private };
    (Some(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)), Some(scope))
}

/// The result of `completion/complete`.
pub fn complete_result(completion: Completion) -> mcp::CompleteResult {
    let mut info = mcp::CompletionInfo::default();
    info.values = completion.values;
    info.total = completion.total;
    info.has_more = Some(completion.has_more);
    mcp::CompleteResult::new(info)
}

/// A resource.
pub(super) fn resource(entry: Entry, revision: Revision) -> mcp::Resource {
    let mut resource = mcp::Resource::new(entry.uri.to_string(), entry.name);
    resource.title = entry.title.filter(|_| revision.has_titles());
    resource.description = entry.description;
    resource.mime_type = entry.mime_type;
    resource.size = entry.size;
    resource.icons = icons(entry.icons, revision);
    resource.annotations = annotations(entry.annotations, revision);
    resource.meta = meta(entry.meta, revision);
    resource
}

fn resource_template(template: EntryTemplate, revision: Revision) -> mcp::ResourceTemplate {
    let mut wire = mcp::ResourceTemplate::new(template.uri_template.to_string(), template.name);
    wire.title = template.title.filter(|_| revision.has_titles());
    wire.description = template.description;
    wire.mime_type = template.mime_type;
    wire.icons = icons(template.icons, revision);
    wire.annotations = annotations(template.annotations, revision);
    wire.meta = meta(template.meta, revision);
    wire
}

fn resource_contents(contents: Contents, revision: Revision) -> mcp::ResourceContents {
    let Contents { entry, body } = contents;
    let (uri, mime_type, meta) = (entry.uri.to_string(), entry.mime_type, meta(entry.meta, revision));
    match body {
        Body::Text(text) => mcp::ResourceContents::TextResourceContents { uri, mime_type, text, meta },
        Body::Blob(bytes) => {
            mcp::ResourceContents::BlobResourceContents { uri, mime_type, blob: STANDARD.encode(bytes), meta }
        }
    }
}

fn annotations(mut given: Annotations, revision: Revision) -> Option<mcp::Annotations> {
    given.last_modified = given.last_modified.filter(|_| revision.has_titles());
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

fn icons(icons: Vec<Icon>, revision: Revision) -> Option<Vec<mcp::Icon>> {
    (revision.has_icons() && !icons.is_empty()).then(|| icons.into_iter().map(icon).collect())
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

fn meta(meta: Meta, revision: Revision) -> Option<mcp::MetaObject> {
    (revision.has_titles() && !meta.is_empty()).then_some(mcp::MetaObject(meta))
}

/// What a listing says of the plugins that it lacks, if it lacks any.
pub(super) fn missing_meta(missing: &[Missing]) -> Option<mcp::MetaObject> {
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
