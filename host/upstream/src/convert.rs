//! Answers of an upstream as answers of a provider: the same texts, with paths in the place of URIs.
//!
//! Metadata passes unchanged. A time to live is that of the answer; one that only the client of a single user may keep (`private`) is not
//! kept at all, as an answer of the host may be for others.

use std::time::Duration;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use mcp_host_model::provider::{Body, Contents, Entry, Icon, Template};
use mcp_host_model::resource::{Role, Theme};
use rmcp::model::{self, Annotations, CacheScope, IconTheme, MetaObject, ResourceContents};

/// Base64 with or without padding: both are sent.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The time for which an answer may be kept; none if the upstream does not say.
pub(crate) fn ttl(ttl_ms: Option<u64>, scope: Option<CacheScope>) -> Option<Duration> {
    match scope {
        Some(CacheScope::Private) => ttl_ms.map(|_| Duration::ZERO),
        _ => ttl_ms.map(Duration::from_millis),
    }
}

/// The entry of a listed resource.
pub(crate) fn entry(resource: model::Resource, path: String, ttl: Option<Duration>, is_subscribable: bool) -> Entry {
    let mut entry = Entry::new(path, resource.name);
    entry.title = resource.title;
    entry.description = resource.description;
    entry.mime_type = resource.mime_type;
    entry.size = resource.size;
    entry.subscribable = is_subscribable;
    entry.ttl = ttl;
    entry.meta = meta(resource.meta);
    entry.icons = icons(resource.icons);
    (entry.audience, entry.priority, entry.last_modified) = annotations(resource.annotations);
    entry
}

/// A template.
pub(crate) fn template(template: model::ResourceTemplate, path_template: String) -> Template {
    let mut converted = Template::new(path_template, template.name);
    converted.title = template.title;
    converted.description = template.description;
    converted.mime_type = template.mime_type;
    converted.meta = meta(template.meta);
    converted.icons = icons(template.icons);
    (converted.audience, converted.priority, converted.last_modified) = annotations(template.annotations);
    converted
}

/// The URI of contents.
pub(crate) fn uri_of(contents: &ResourceContents) -> &str {
    match contents {
        ResourceContents::TextResourceContents { uri, .. } | ResourceContents::BlobResourceContents { uri, .. } => uri,
        _ => "",
    }
}

/// Contents, with the entry that is known of them. An error if they are not Base64, or of a kind that is not known.
pub(crate) fn contents(contents: ResourceContents, entry: Entry) -> Result<Contents, String> {
    let (mime_type, body, content_meta) = match contents {
        ResourceContents::TextResourceContents { mime_type, text, meta, .. } => (mime_type, Body::Text(text), meta),
        ResourceContents::BlobResourceContents { mime_type, blob, meta, .. } => {
            let bytes = BASE64.decode(blob.as_bytes());
            (mime_type, Body::Blob(bytes.map_err(|error| format!("a blob is not Base64: {error}"))?), meta)
        }
        _ => return Err("contents are neither text nor a blob".to_owned()),
    };
    let mut entry = entry;
    entry.mime_type = mime_type.or(entry.mime_type);
    entry.meta = meta(content_meta);
    Ok(Contents::new(entry, body))
}

fn meta(meta: Option<MetaObject>) -> Option<String> {
    meta.filter(|meta| !meta.0.is_empty()).and_then(|meta| serde_json::to_string(&meta).ok())
}

fn icons(icons: Option<Vec<model::Icon>>) -> Vec<Icon> {
    let convert = |icon: model::Icon| {
        let mut converted = Icon::new(icon.src);
        converted.mime_type = icon.mime_type;
        converted.sizes = icon.sizes.unwrap_or_default();
        converted.theme = icon.theme.and_then(|theme| match theme {
            IconTheme::Light => Some(Theme::Light),
            IconTheme::Dark => Some(Theme::Dark),
            #[allow(unreachable_patterns, reason = "later versions of rmcp may know more")]
            _ => None,
        });
        converted
    };
    icons.unwrap_or_default().into_iter().map(convert).collect()
}

fn annotations(annotations: Option<Annotations>) -> (Vec<Role>, Option<f64>, Option<String>) {
    let Some(annotations) = annotations else { return Default::default() };
    let role = |role: model::Role| match role {
        model::Role::User => Some(Role::User),
        model::Role::Assistant => Some(Role::Assistant),
        #[allow(unreachable_patterns, reason = "later versions of rmcp may know more")]
        _ => None,
    };
    // rmcp has a single precision: 0.7 is to stay 0.7.
    let priority = annotations.priority.and_then(|priority| priority.to_string().parse().ok());
    let audience = annotations.audience.unwrap_or_default().into_iter().filter_map(role).collect();
    (audience, priority, annotations.last_modified)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_passes_and_a_priority_keeps_its_digits() {
        let text = r#"{"uri":"x:a","name":"a","title":"A","mimeType":"text/plain","size":3,"_meta":{"a/b":[1]},
            "annotations":{"audience":["user"],"priority":0.7},"icons":[{"src":"https://a.example/i","theme":"dark"}]}"#;
        let resource = serde_json::from_str(text).unwrap();
        let entry = entry(resource, "x:a".to_owned(), Some(Duration::from_secs(1)), true);
        assert_eq!((entry.name.as_str(), entry.title.as_deref(), entry.size), ("a", Some("A"), Some(3)));
        assert_eq!((entry.priority, entry.audience.as_slice()), (Some(0.7), [Role::User].as_slice()));
        assert_eq!(entry.meta.as_deref(), Some(r#"{"a/b":[1]}"#));
        assert_eq!(entry.icons[0].theme, Some(Theme::Dark));
        assert!(entry.subscribable && entry.ttl == Some(Duration::from_secs(1)));
    }

    #[test]
    fn what_is_private_is_not_kept() {
        assert_eq!(ttl(Some(5), Some(CacheScope::Public)), Some(Duration::from_millis(5)));
        assert_eq!(ttl(Some(5), Some(CacheScope::Private)), Some(Duration::ZERO));
        assert_eq!((ttl(None, Some(CacheScope::Private)), ttl(None, None)), (None, None));
    }

    #[test]
    fn a_blob_is_decoded_with_and_without_padding() {
        for blob in ["/wA=", "/wA"] {
            let blob = ResourceContents::blob(blob, "x:a").with_mime_type("image/png");
            let contents = contents(blob, Entry::new("x:a", "")).unwrap();
            assert_eq!((contents.body, contents.entry.size), (Body::Blob(vec![0xff, 0]), Some(2)));
            assert_eq!(contents.entry.mime_type.as_deref(), Some("image/png"));
        }
        assert!(contents(ResourceContents::blob("!", "x:a"), Entry::new("x:a", "")).is_err());
    }
}
