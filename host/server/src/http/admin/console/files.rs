//! The files of the console, built from `host/server/console/src` by `cargo xtask console` and embedded.
//!
//! A file is revalidated each time by its digest, so a new version of the program is visible immediately. The policy of
//! the page allows scripts, styles and requests of this origin only, no inline code, and no text that becomes markup
//! unless the sanitizer made it.

use std::sync::LazyLock;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;

use crate::http::layers::compress::AcceptedEncodings;

/// A file of the console.
pub(super) struct ConsoleFile {
    path: &'static str,
    media_type: &'static str,
    bytes: &'static [u8],
    etag: String,
}

/// The embedded files, each at a separate path.
static FILES: LazyLock<Vec<ConsoleFile>> = LazyLock::new(embedded);

/// Without the feature `console` there are none.
#[cfg(not(feature = "console"))]
fn embedded() -> Vec<ConsoleFile> {
    Vec::new()
}

#[cfg(feature = "console")]
fn embedded() -> Vec<ConsoleFile> {
    use std::fmt::Write as _;

    use ring::digest::{SHA256, digest};

    fn etag(bytes: &[u8]) -> String {
        let hexadecimal = digest(&SHA256, bytes).as_ref().iter().take(16).fold(String::new(), |mut text, byte| {
            // Writing into a text does not fail.
            let _ = write!(text, "{byte:02x}");
            text
        });
        format!("\"{hexadecimal}\"")
    }

    macro_rules! file {
        ($path:literal, $name:literal, $media_type:literal) => {{
            let bytes: &[u8] = include_bytes!(concat!("../../../../console/dist/", $name));
            ConsoleFile { path: $path, media_type: $media_type, bytes, etag: etag(bytes) }
        }};
    }
    vec![
        file!("/", "index.html", "text/html; charset=utf-8"),
        file!("/console.js", "console.js", "text/javascript; charset=utf-8"),
        file!("/chart.js", "chart.js", "text/javascript; charset=utf-8"),
        file!("/console.css", "console.css", "text/css; charset=utf-8"),
        file!("/preview.js", "preview.js", "text/javascript; charset=utf-8"),
        file!("/icon.svg", "icon.svg", "image/svg+xml"),
    ]
}

/// Whether this build has the console.
pub(super) fn exist() -> bool {
    !FILES.is_empty()
}

/// Returns the file at a path.
pub(super) fn find(path: &str) -> Option<&'static ConsoleFile> {
    FILES.iter().find(|file| file.path == path)
}

impl ConsoleFile {
    /// Answers a request for the file.
    pub(super) async fn respond(&self, request: &HeaderMap) -> Response {
        let etag = self.etag.as_str();
        let is_known = request
            .get(IF_NONE_MATCH)
            .and_then(|tags| tags.to_str().ok())
            .is_some_and(|tags| tags.split(',').any(|tag| tag.trim().trim_start_matches("W/") == etag));
        let mut response = Response::new(if is_known { Body::empty() } else { Body::from(self.bytes) });
        if is_known {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        }
        let fields: [(HeaderName, &str); 3] =
            [(CONTENT_TYPE, self.media_type), (ETAG, etag), (CACHE_CONTROL, "no-cache")];
        let fields = fields.into_iter().filter_map(|(name, value)| Some((name, HeaderValue::from_str(value).ok()?)));
        response.headers_mut().extend(fields);
        AcceptedEncodings::of(request).compress_uncharged(response).await
    }
}

#[cfg(all(test, feature = "console"))]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_file_of_the_bundle_is_served() {
        let dist = concat!(env!("CARGO_MANIFEST_DIR"), "/console/dist");
        let built = std::fs::read_dir(dist).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
        let built: BTreeSet<_> = built.filter(|name| name != "licenses.txt").collect();
        let served = FILES.iter().map(|file| file.path.trim_start_matches('/'));
        let served: BTreeSet<_> =
            served.map(|name| if name.is_empty() { "index.html" } else { name }.to_owned()).collect();
        assert_eq!(built, served);
    }

    #[tokio::test]
    async fn a_file_that_the_browser_has_is_not_sent_again() {
        let first = find("/console.js").unwrap().respond(&HeaderMap::new()).await;
        let known = HeaderMap::from_iter([(IF_NONE_MATCH, first.headers()[ETAG].clone())]);
        assert_eq!(find("/console.js").unwrap().respond(&known).await.status(), StatusCode::NOT_MODIFIED);
        assert_eq!(find("/console.css").unwrap().respond(&known).await.status(), StatusCode::OK);
    }
}
