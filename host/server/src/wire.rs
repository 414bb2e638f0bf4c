//! The encoder of domain types as MCP objects: the only module that knows both.
//!
//! Objects have exactly the members that exist in the requested [`Revision`]. A pull encoder ([`super::json`]) encodes
//! them, so a result holds the domain's values and one chunk of JSON.

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use mcp_host_model::resource::{
    Annotations, Completion, Listing, Meta, MissingPlugin, Resource, ResourceBody, ResourceContents, ResourceIcon,
    ResourceTemplate, Role, Theme,
};
use mcp_resource_host::host::transport::{EncodedContents, EncodedResources, EncodingForm, ListedResources, MAX_TTL};
use serde_json::{Value, json};

use super::json::{Encoder, MAX_CHUNK, Members, Writer};
use super::revision::Revision;

/// The key in `_meta` under which a merged listing names the plugins that are missing from it, each as
/// `{"plugin": …, "reason": …}`, with `"retryAfterMs"` where the time of a retry is known.
const MISSING_PLUGINS_META_KEY: &str = "mcp-host/missing";

/// The approximate bytes of an object besides its longest member.
const OBJECT_OVERHEAD: usize = 512;

/// The approximate bytes of a resource besides its texts: the names of its members.
const MEMBERS_OVERHEAD: usize = 96;

/// The cache hints of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CacheHints {
    /// The time to live.
    pub(super) ttl: Duration,
    /// Whether the result is the same for every principal.
    pub(super) is_public: bool,
}

/// Encodes the result of `resources/list`. It is public if it is the same for every principal.
///
/// Its TTL is the minimum TTL of its entries, or zero if a plugin is missing.
pub fn list_result(listing: Listing<ListedResources>, revision: Revision, is_public: bool) -> Encoder {
    let now = Instant::now();
    let ttl = listing_ttl(&listing, listing.items.iter().map(|item| item.ttl(now)).min());
    let caching = CacheHints { ttl, is_public };
    Encoder::new(move |writer| {
        writer.reserve(listing.items.iter().map(listed_size).fold(OBJECT_OVERHEAD, usize::saturating_add));
        writer.object(|members| {
            page_members(members, listing.next_cursor, &listing.missing, revision, caching);
            let write = move |writer: &mut Writer<'_>, item| match item {
                ListedResources::One(entry) => resource(writer, entry, revision),
                ListedResources::Encoded(run) => writer.json(run.json()),
            };
            members.member("resources").array(listing.items, write);
        });
    })
}

/// Encodes the result of `resources/templates/list`. It is public if it is the same for every principal.
///
/// Its TTL is zero: providers give none for templates.
pub fn templates_result(listing: Listing<ResourceTemplate>, revision: Revision, is_public: bool) -> Encoder {
    let caching = CacheHints { ttl: Duration::ZERO, is_public };
    Encoder::new(move |writer| {
        writer.object(|members| {
            page_members(members, listing.next_cursor, &listing.missing, revision, caching);
            let write = move |writer: &mut Writer<'_>, template| resource_template(writer, template, revision);
            members.member("resourceTemplates").array(listing.items, write);
        });
    })
}

/// Encodes the result of `resources/read`. It is public if it is the same for every principal.
///
/// Its TTL is the minimum TTL of its contents.
pub fn read_result(contents: Vec<ResourceContents>, revision: Revision, is_public: bool) -> Encoder {
    let caching = CacheHints { ttl: Resource::min_ttl(contents.iter().map(|one| &one.entry)), is_public };
    Encoder::new(move |writer| {
        writer.reserve(contents.iter().map(|one| encoded_size(&one.body)).fold(OBJECT_OVERHEAD, usize::saturating_add));
        writer.object(|members| {
            result_type(members, revision);
            cache_hints(members, revision, caching);
            contents_array(members.member("contents"), contents, revision);
        });
    })
}

/// Encodes the result of `resources/read` with cached contents, and their remaining time to live.
pub(crate) fn cached_read_result(contents: &EncodedContents, revision: Revision, is_public: bool) -> Encoder {
    let caching = CacheHints { ttl: contents.expires.saturating_duration_since(Instant::now()), is_public };
    let json = contents.json.clone();
    Encoder::new(move |writer| {
        writer.reserve(json.len().saturating_add(OBJECT_OVERHEAD));
        writer.object(|members| {
            result_type(members, revision);
            cache_hints(members, revision, caching);
            members.member("contents").json(json);
        });
    })
}

/// Returns the form of contents and resources in this revision, which determines their encoding.
pub(super) fn encoding_form(revision: Revision) -> EncodingForm {
    EncodingForm(u8::from(revision.has_titles()) | u8::from(revision.has_icons()) << 1)
}

/// Encodes contents for the cache, chunk by chunk.
pub(super) async fn encode_contents(contents: Vec<ResourceContents>, revision: Revision) -> Bytes {
    let size = contents.iter().map(|one| encoded_size(&one.body)).fold(OBJECT_OVERHEAD, usize::saturating_add);
    let mut encoder = Encoder::new(move |writer| contents_array(writer, contents, revision));
    let mut json = BytesMut::with_capacity(size);
    while let Some(chunk) = encoder.next_chunk() {
        if !json.is_empty() {
            tokio::task::yield_now().await;
        }
        json.extend_from_slice(&chunk);
    }
    json.freeze()
}

/// Encodes resources for the cache, chunk by chunk.
pub(super) async fn encode_resources(entries: Vec<Resource>, revision: Revision) -> EncodedResources {
    let mut json = BytesMut::new();
    let mut items = Vec::with_capacity(entries.len());
    let mut next_yield = MAX_CHUNK;
    for entry in entries {
        if !json.is_empty() {
            json.extend_from_slice(b",");
        }
        let uri = entry.uri.clone();
        let mut encoder = Encoder::new(move |writer| resource(writer, entry, revision));
        while let Some(chunk) = encoder.next_chunk() {
            json.extend_from_slice(&chunk);
        }
        items.push((uri, json.len()));
        if json.len() > next_yield {
            tokio::task::yield_now().await;
            next_yield = json.len().saturating_add(MAX_CHUNK);
        }
    }
    EncodedResources { json: json.freeze(), items }
}

fn contents_array(writer: &mut Writer<'_>, contents: Vec<ResourceContents>, revision: Revision) {
    writer.array(contents, move |writer: &mut Writer<'_>, one| resource_contents(writer, one, revision));
}

/// Encodes the result of `completion/complete`.
pub(crate) fn complete_result(completion: Completion, revision: Revision) -> Encoder {
    Encoder::new(move |writer| {
        writer.object(|members| {
            result_type(members, revision);
            members.member("completion").object(|members| {
                members.member("values").array(completion.values, |writer, value| writer.text(value));
                if let Some(total) = completion.total {
                    members.serialize("total", &total);
                }
                members.serialize("hasMore", &completion.has_more);
            });
        });
    })
}

/// Encodes the first members of a result.
pub(super) fn result_type(members: &mut Members<'_, '_>, revision: Revision) {
    // The revision without sessions has both members.
    if revision.has_cache_hints() {
        members.text("resultType", "complete");
    }
}

/// Encodes the first members of a page.
pub(super) fn page_members(
    members: &mut Members<'_, '_>,
    next_cursor: Option<String>,
    missing: &[MissingPlugin],
    revision: Revision,
    caching: CacheHints,
) {
    result_type(members, revision);
    if !missing.is_empty() {
        let listed =
            Meta::from_iter([(MISSING_PLUGINS_META_KEY.to_owned(), missing.iter().map(missing_plugin).collect())]);
        members.member("_meta").value(Value::Object(listed));
    }
    // A cursor is valid for one principal, so the pages behind it are private, too.
    let is_public = caching.is_public && next_cursor.is_none();
    members.optional_text("nextCursor", next_cursor);
    cache_hints(members, revision, CacheHints { is_public, ..caching });
}

/// Returns the TTL of a listing whose items have this minimum TTL.
pub(super) fn listing_ttl<T>(listing: &Listing<T>, min_ttl: Option<Duration>) -> Duration {
    match listing.missing.is_empty() {
        true => min_ttl.unwrap_or_default(),
        false => Duration::ZERO,
    }
}

/// Encodes the cache hints, in revisions that have them. The TTL is the time for which the host caches such a response,
/// even if this response is not cached.
pub(super) fn cache_hints(members: &mut Members<'_, '_>, revision: Revision, caching: CacheHints) {
    if revision.has_cache_hints() {
        members.serialize("ttlMs", &u64::try_from(caching.ttl.min(MAX_TTL).as_millis()).unwrap_or(u64::MAX));
        members.text("cacheScope", if caching.is_public { "public" } else { "private" });
    }
}

/// Encodes a resource.
pub(super) fn resource(writer: &mut Writer<'_>, entry: Resource, revision: Revision) {
    writer.object(|members| resource_members(members, entry, revision, Precision::Single));
}

/// The precision of numbers that are hints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Precision {
    /// Single precision, as clients of the official SDKs parse them: 0.8 stays 0.8.
    Single,
    /// Double precision, as the provider gives them.
    Double,
}

/// Encodes the members of a resource.
pub(super) fn resource_members(
    members: &mut Members<'_, '_>,
    entry: Resource,
    revision: Revision,
    precision: Precision,
) {
    members.text("uri", entry.uri);
    members.text("name", entry.name);
    members.optional_text("title", entry.title.filter(|_| revision.has_titles()));
    members.optional_text("description", entry.description);
    members.optional_text("mimeType", entry.mime_type);
    if let Some(size) = entry.size {
        members.serialize("size", &size);
    }
    icons(members, entry.icons, revision);
    meta(members, entry.meta, revision);
    annotations(members, entry.annotations, revision, precision);
}

fn resource_template(writer: &mut Writer<'_>, template: ResourceTemplate, revision: Revision) {
    writer.object(|members| {
        members.text("uriTemplate", template.uri_template);
        members.text("name", template.name);
        members.optional_text("title", template.title.filter(|_| revision.has_titles()));
        members.optional_text("description", template.description);
        members.optional_text("mimeType", template.mime_type);
        icons(members, template.icons, revision);
        meta(members, template.meta, revision);
        annotations(members, template.annotations, revision, Precision::Single);
    });
}

fn resource_contents(writer: &mut Writer<'_>, contents: ResourceContents, revision: Revision) {
    let ResourceContents { entry, body: content } = contents;
    writer.object(|members| {
        members.text("uri", entry.uri);
        members.optional_text("mimeType", entry.mime_type);
        body(members, content);
        meta(members, entry.meta, revision);
    });
}

/// Encodes the body of a content.
pub(super) fn body(members: &mut Members<'_, '_>, body: ResourceBody) {
    match body {
        ResourceBody::Text(text) => members.text("text", text),
        ResourceBody::Blob(bytes) => members.member("blob").base64(bytes),
    }
}

/// Returns the approximate bytes of resources as JSON that is copied.
fn listed_size(item: &ListedResources) -> usize {
    match item {
        ListedResources::One(entry) => {
            let texts = [&entry.title, &entry.description, &entry.mime_type].into_iter().flatten();
            let texts = texts.map(String::len).chain([entry.uri.as_str().len(), entry.name.len(), MEMBERS_OVERHEAD]);
            texts.fold(0, usize::saturating_add)
        }
        ListedResources::Encoded(_) => 0,
    }
}

/// Returns the approximate bytes of a body as JSON.
fn encoded_size(body: &ResourceBody) -> usize {
    match body {
        ResourceBody::Text(text) => text.len(),
        ResourceBody::Blob(bytes) => bytes.len().div_ceil(3).saturating_mul(4),
    }
}

fn annotations(members: &mut Members<'_, '_>, given: Annotations, revision: Revision, precision: Precision) {
    let last_modified = given.last_modified.filter(|_| revision.has_titles());
    if given.audience.is_empty() && given.priority.is_none() && last_modified.is_none() {
        return;
    }
    members.member("annotations").object(|members| {
        if !given.audience.is_empty() {
            let write = |writer: &mut Writer<'_>, role| writer.text(role_name(role).to_owned());
            members.member("audience").array(given.audience, write);
        }
        #[allow(clippy::cast_possible_truncation, reason = "a hint between 0 and 1")]
        match (given.priority, precision) {
            (Some(priority), Precision::Single) => members.serialize("priority", &(priority.value() as f32)),
            (Some(priority), Precision::Double) => members.serialize("priority", &priority.value()),
            (None, _) => {}
        }
        members.optional_text("lastModified", last_modified.map(|timestamp| timestamp.to_string()));
    });
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Assistant => "assistant",
    }
}

fn icons(members: &mut Members<'_, '_>, icons: Vec<ResourceIcon>, revision: Revision) {
    if revision.has_icons() && !icons.is_empty() {
        members.member("icons").array(icons, icon);
    }
}

fn icon(writer: &mut Writer<'_>, icon: ResourceIcon) {
    writer.object(|members| {
        members.text("src", icon.src());
        members.optional_text("mimeType", icon.mime_type);
        if !icon.sizes.is_empty() {
            members.member("sizes").array(icon.sizes, |writer, size| writer.text(size));
        }
        match icon.theme {
            Some(Theme::Light) => members.text("theme", "light"),
            Some(Theme::Dark) => members.text("theme", "dark"),
            None => {}
        }
    });
}

fn meta(members: &mut Members<'_, '_>, meta: Meta, revision: Revision) {
    if revision.has_titles() && !meta.is_empty() {
        members.member("_meta").value(Value::Object(meta));
    }
}

fn missing_plugin(missing: &MissingPlugin) -> Value {
    let mut members = json!({"plugin": missing.plugin, "reason": missing.reason});
    if let (Some(members), Some(wait)) = (members.as_object_mut(), missing.retry_after) {
        let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        members.insert("retryAfterMs".to_owned(), millis.into());
    }
    members
}
