//! Converts answers of an upstream into answers of a provider: equal texts, with paths instead of URIs, and unchanged
//! metadata.

use std::time::Duration;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use mcp_host_model::provider::{Body, Contents, Entry, Icon, Template};
use mcp_host_model::resource::{Meta, Notice, Role, Theme};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::answer::{self, Annotations};

/// Base64 with or without padding: servers send both.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Converts a listed resource.
pub(crate) fn entry(
    resource: answer::Resource<'_>,
    path: String,
    ttl: Option<Duration>,
    is_subscribable: bool,
) -> Entry {
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

/// Converts a template.
pub(crate) fn template(template: answer::Template<'_>, path_template: String) -> Template {
    let mut converted = Template::new(path_template, template.name);
    converted.title = template.title;
    converted.description = template.description;
    converted.mime_type = template.mime_type;
    converted.meta = meta(template.meta);
    converted.icons = icons(template.icons);
    (converted.audience, converted.priority, converted.last_modified) = annotations(template.annotations);
    converted
}

/// Converts contents, with the known entry of their resource. Fails if a blob is not Base64, or if there is neither a
/// text nor a blob.
pub(crate) fn contents(contents: answer::Contents<'_>, entry: Entry) -> Result<Contents, String> {
    let body = match (contents.text, contents.blob) {
        (Some(text), _) => Body::Text(text),
        (None, Some(blob)) => {
            let bytes = BASE64.decode(blob.as_bytes());
            Body::Blob(bytes.map_err(|error| format!("a blob is not Base64: {error}"))?)
        }
        (None, None) => return Err("contents are neither text nor a blob".to_owned()),
    };
    let mut entry = entry;
    entry.mime_type = contents.mime_type.or(entry.mime_type);
    entry.meta = meta(contents.meta);
    Ok(Contents::new(entry, body))
}

fn meta(meta: Option<&RawValue>) -> Option<String> {
    let text = meta?.get();
    let is_empty = text.strip_prefix('{').is_some_and(|rest| rest.trim_ascii_start() == "}");
    (!is_empty).then(|| text.to_owned())
}

/// The notices in metadata.
#[derive(Deserialize)]
struct Noticed<'a> {
    #[serde(borrow, rename = "mcp-host/notices")]
    notices: Option<&'a RawValue>,
}

/// Returns the metadata, the text of an object with members, with another notice before all others. No tree of the
/// metadata is built.
pub(crate) fn with_notice(meta: Option<String>, notice: Notice) -> String {
    let mut own = Meta::new();
    notice.push_to(&mut own);
    let own = Value::Object(own).to_string();
    let Some(meta) = meta else { return own };
    let others = serde_json::from_str(&meta).ok().and_then(|Noticed { notices }| notices);
    let others = others.and_then(|others| others.get().strip_prefix('[')?.strip_suffix(']')).unwrap_or_default();
    let own = match others.trim_ascii().is_empty() {
        true => own,
        false => own.strip_suffix("]}").map(|own| format!("{own},{others}]}}")).unwrap_or(own),
    };
    // Of two members with one name, the last one holds.
    match (meta.trim_ascii_end().strip_suffix('}'), own.strip_prefix('{')) {
        (Some(meta), Some(own)) => format!("{meta},{own}"),
        _ => own,
    }
}

fn icons(icons: Vec<answer::Icon>) -> Vec<Icon> {
    let convert = |icon: answer::Icon| {
        let mut converted = Icon::new(icon.src);
        converted.mime_type = icon.mime_type;
        converted.sizes = icon.sizes;
        converted.theme = match icon.theme.as_deref() {
            Some("light") => Some(Theme::Light),
            Some("dark") => Some(Theme::Dark),
            _ => None,
        };
        converted
    };
    icons.into_iter().map(convert).collect()
}

fn annotations(annotations: Option<Annotations>) -> (Vec<Role>, Option<f64>, Option<String>) {
    let Some(annotations) = annotations else { return Default::default() };
    let role = |role: String| match role.as_str() {
        "user" => Some(Role::User),
        "assistant" => Some(Role::Assistant),
        _ => None,
    };
    (annotations.audience.into_iter().filter_map(role).collect(), annotations.priority, annotations.last_modified)
}

#[cfg(test)]
mod tests {
    use mcp_host_model::resource::NoticeKind;

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
    fn a_notice_is_added_to_metadata_and_to_notices() {
        let noticed = |meta: Option<&str>| -> Meta {
            let notice = Notice::new(NoticeKind::Incomplete, "1".to_owned());
            serde_json::from_str(&with_notice(meta.map(str::to_owned), notice)).unwrap()
        };
        let texts = |meta: &Meta| Notice::all_in(meta).into_iter().map(|notice| notice.text).collect::<Vec<_>>();
        assert_eq!(texts(&noticed(None)), ["1"]);
        for meta in [r#"{"a/b": [1] }"#, r#"{"a/b":[1],"mcp-host/notices":[ ]}"#, r#"{"a/b":[1],"mcp-host/notices":7}"#]
        {
            let meta = noticed(Some(meta));
            assert_eq!((texts(&meta), &meta["a/b"]), (vec!["1".to_owned()], &serde_json::json!([1])));
        }
        let meta = r#"{"mcp-host/notices":[{"kind":"stale","text":"2"}],"a/b":1}"#;
        assert_eq!(texts(&noticed(Some(meta))), ["1", "2"]);
    }

    #[test]
    fn a_blob_is_decoded_with_and_without_padding() {
        let read = |text: &str| {
            let mut answer = answer::list::<answer::Contents<'_>>(text, 1).unwrap();
            contents(answer.items.as_mut().unwrap().remove(0), Entry::new("x:a", ""))
        };
        for blob in ["/wA=", "/wA", r"\/wA"] {
            let text =
                format!(r#"{{"contents":[{{"uri":"x:a","mimeType":"image/png","blob":"{blob}","_meta":{{ }}}}]}}"#);
            let contents = read(&text).unwrap();
            assert_eq!((contents.body, contents.entry.size), (Body::Blob(vec![0xff, 0]), Some(2)));
            assert_eq!((contents.entry.mime_type.as_deref(), contents.entry.meta), (Some("image/png"), None));
        }
        assert!(read(r#"{"contents":[{"uri":"x:a","blob":"!"}]}"#).is_err());
        assert!(read(r#"{"contents":[{"uri":"x:a"}]}"#).is_err());
    }
}
