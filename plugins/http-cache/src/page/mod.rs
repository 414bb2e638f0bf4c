//! The content of a page: media type, text, metadata, and the served formats.

pub(crate) mod charset;
pub(crate) mod html;
pub(crate) mod media;

use crate::cache::head::{Content, Kind, digest};
use html::HeadMetadata;
use http::HeaderMap;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use media::MediaType;

/// Processes a received page. Returns its metadata, and its body in the served and stored form: text in UTF-8.
pub(crate) fn ingest(headers: &HeaderMap, body: Vec<u8>, name: &str) -> (Content, Vec<u8>) {
    let media = declared_media_type(headers).unwrap_or_else(|| MediaType::guess(name, &body));
    let (kind, body, about) = match media.kind() {
        Kind::Blob => (Kind::Blob, body, HeadMetadata::default()),
        kind => match charset::decode(body, media.charset.as_deref(), kind) {
            Ok(text) => {
                let about = if kind == Kind::Html { html::head_metadata(&text) } else { HeadMetadata::default() };
                (kind, text.into_bytes(), about)
            }
            Err(bytes) => (Kind::Blob, bytes, HeadMetadata::default()),
        },
    };
    let content = Content {
        kind,
        mime: media.essence,
        size: u64::try_from(body.len()).ok(),
        digest: digest(&body),
        title: about.title,
        description: about.description,
    };
    (content, body)
}

/// Returns the metadata that the headers of a page declare.
pub(crate) fn declared_content(headers: &HeaderMap, name: &str) -> Content {
    let media = declared_media_type(headers).unwrap_or_else(|| MediaType::guess(name, b""));
    let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.trim().parse().ok());
    // A page in another encoding is stored as UTF-8, so its size differs.
    let is_as_sent =
        media.kind() == Kind::Blob || media.charset.as_deref().is_none_or(|c| c.eq_ignore_ascii_case("utf-8"));
    Content {
        kind: media.kind(),
        mime: media.essence,
        size: length.filter(|_| is_as_sent),
        digest: String::new(),
        title: None,
        description: None,
    }
}

fn declared_media_type(headers: &HeaderMap) -> Option<MediaType> {
    headers.get(CONTENT_TYPE).and_then(|value| MediaType::parse(value.to_str().ok()?))
}
