//! Resources, contents and templates as a principal sees them, with bounds for texts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mcp_host_config::Config;
use mcp_host_model::resource::{
    MissingPlugin, Notice, Resource, ResourceBody, ResourceContents, ResourceTemplate, Role,
};
use mcp_resource_host::access::Principal;
use mcp_resource_host::host::Host;

use super::browse_types::{ContentView, MissingView, ResourceView, TemplateView};

/// The maximum size of a text about a resource, as JSON.
const MAX_TEXT: usize = 4 << 10;
/// The estimated size of the texts about a resource in an answer.
const RESOURCE_BYTES: usize = 1 << 10;

/// The title of a resource's plugin, if the title of the resource begins with it, as in a merged listing.
fn title_prefix(config: &Config, uri: &str, title: &str) -> Option<String> {
    let plugin = config.plugins.iter().find(|plugin| uri.starts_with(plugin.mount.as_str()))?;
    let prefix = plugin.title.as_ref()?;
    title.strip_prefix(prefix.as_str())?.starts_with(": ").then(|| prefix.clone())
}

/// A resource, as a principal sees it.
pub(super) fn resource(host: &Host, viewer: &Principal, resource: Resource) -> ResourceView {
    let can = host.capabilities(viewer, &resource);
    let role = |role: Role| match role {
        Role::User => "user".to_owned(),
        Role::Assistant => "assistant".to_owned(),
    };
    ResourceView {
        listable: can.list,
        subscribable: can.subscribe,
        audience: resource.annotations.audience.into_iter().map(role).collect(),
        priority: resource.annotations.priority.map(|priority| priority.value()),
        modified: resource.annotations.last_modified.map(|time| time.as_str().to_owned()),
        language: None,
        notices: Notice::all_in(&resource.meta).iter().map(|notice| short(notice.to_string())).collect(),
        title_prefix: resource
            .title
            .as_deref()
            .and_then(|title| title_prefix(&host.config(), resource.uri.as_str(), title)),
        uri: String::from(resource.uri),
        name: short(resource.name),
        title: resource.title.map(short),
        description: resource.description.map(short),
        mime_type: resource.mime_type.map(short),
        size: resource.size,
    }
}

/// Truncates a text for display to [`MAX_TEXT`] bytes of JSON.
fn short(text: String) -> String {
    let (shown, _) = json_prefix(&text, MAX_TEXT);
    if shown.len() == text.len() { text } else { format!("{shown}…") }
}

/// Returns the longest prefix of a text that takes at most `max` bytes as JSON, and its size as JSON.
fn json_prefix(text: &str, max: usize) -> (&str, usize) {
    let mut left = max;
    let end = text.char_indices().find(|(_, c)| {
        let bytes = match c {
            '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
            '\0'..='\u{1f}' => 6,
            c => c.len_utf8(),
        };
        match left.checked_sub(bytes) {
            Some(rest) => {
                left = rest;
                false
            }
            None => true,
        }
    });
    let shown = end.and_then(|(end, _)| text.get(..end)).unwrap_or(text);
    (shown, max.saturating_sub(left))
}

/// A content, of which at most `left` bytes go into the answer.
pub(super) fn content(host: &Host, viewer: &Principal, content: ResourceContents, left: &mut usize) -> ContentView {
    let ResourceContents { entry, body } = content;
    let bytes = body.as_bytes().len();
    let (text, blob, shown) = match body {
        ResourceBody::Text(text) => {
            let (shown, size) = json_prefix(&text, *left);
            *left = if shown.len() < text.len() { 0 } else { left.saturating_sub(size) };
            (Some(shown.to_owned()), None, shown.len())
        }
        ResourceBody::Blob(bytes) => {
            let shown = bytes.get(..(*left).min(bytes.len())).unwrap_or_default();
            *left = left.saturating_sub(shown.len());
            (None, Some(STANDARD.encode(shown)), shown.len())
        }
    };
    // The texts about the resource have their own bounds.
    *left = left.saturating_sub(RESOURCE_BYTES);
    ContentView { resource: resource(host, viewer, entry), text, blob, bytes, cut: shown < bytes }
}

/// A template.
pub(super) fn template(template: ResourceTemplate) -> TemplateView {
    TemplateView {
        variables: template.uri_template.variables().map(str::to_owned).collect(),
        template: template.uri_template.as_str().to_owned(),
        name: template.name,
        title: template.title,
        description: template.description,
        mime_type: template.mime_type,
    }
}

/// The plugins that are missing in a listing.
pub(super) fn missing(plugins: Vec<MissingPlugin>) -> Vec<MissingView> {
    plugins.into_iter().map(|MissingPlugin { plugin, reason, .. }| MissingView { plugin, reason }).collect()
}
