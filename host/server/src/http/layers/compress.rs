//! Compression by `Accept-Encoding`: brotli or gzip, whichever the client prefers.
//!
//! Only bodies of at least 1 KiB are compressed, at the fastest level. Event streams are not compressed, because compression would
//! delay their events.

use std::convert::Infallible;
use std::future::ready;

use axum::body::Body;
use axum::http::header::{ACCEPT_ENCODING, VARY};
use axum::http::{HeaderMap, HeaderValue, Request};
use axum::response::Response;
use tower::{Layer as _, ServiceExt as _, service_fn};
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{NotForContentType, Predicate as _, SizeAbove};

use super::accept::has_weight;

/// The minimum size of a compressed body, in bytes. A smaller one fits into one packet anyway.
const MIN_SIZE: u16 = 1024;

/// The `Accept-Encoding` fields of a request.
#[derive(Clone, Debug)]
pub(in crate::http) struct AcceptedEncodings(Vec<HeaderValue>);

impl AcceptedEncodings {
    /// Takes the fields from these headers.
    pub(in crate::http) fn of(headers: &HeaderMap) -> Self {
        Self(headers.get_all(ACCEPT_ENCODING).into_iter().cloned().collect())
    }

    /// Compresses a response if the client accepts compression and the body is worth it. Any other response keeps its body, because
    /// the body type of the compression layer has room for an encoder, several KiB.
    pub(in crate::http) async fn compress(self, mut response: Response) -> Response {
        let worthwhile = SizeAbove::new(MIN_SIZE).and(NotForContentType::SSE);
        if !worthwhile.should_compress(&response) {
            return response;
        }
        if self.0.is_empty() {
            response.headers_mut().append(VARY, HeaderValue::from_static("accept-encoding"));
            return response;
        }
        let mut request = Request::new(());
        for accepted in without_refused(self.0) {
            request.headers_mut().append(ACCEPT_ENCODING, accepted);
        }
        let mut response = Some(response);
        let respond = service_fn(move |_: Request<()>| ready(Ok::<_, Infallible>(response.take().unwrap_or_default())));
        let layer = CompressionLayer::new().quality(CompressionLevel::Fastest).compress_when(worthwhile);
        match Box::pin(layer.layer(respond).oneshot(request)).await {
            Ok(compressed) => compressed.map(Body::new),
            Err(never) => match never {},
        }
    }
}

/// The names that the layer knows, each with its aliases (RFC 9110, section 8.4.1.3).
const CODINGS: [&[&str]; 4] = [&["br"], &["gzip", "x-gzip"], &["identity"], &["*"]];

/// Returns the fields without the codings that any field refuses by a weight of zero (RFC 9110, section 12.5.3), even if they are
/// also named with another weight: the layer would use the largest weight. Takes linear time.
fn without_refused(fields: Vec<HeaderValue>) -> Vec<HeaderValue> {
    let elements = || fields.iter().filter_map(|field| field.to_str().ok()).flat_map(|field| field.split(','));
    let refuses = |element: &str| !element.split(';').skip(1).map(str::trim).all(has_weight);
    let refused = CODINGS.map(|names| elements().any(|element| is_one_of(names, element) && refuses(element)));
    if !refused.contains(&true) {
        return fields;
    }
    let is_accepted = |element: &&str| {
        CODINGS.iter().zip(refused).any(|(names, is_refused)| !is_refused && is_one_of(names, element))
    };
    let accepted: Vec<_> = elements().filter(is_accepted).collect();
    HeaderValue::try_from(accepted.join(",")).into_iter().collect()
}

/// Returns whether an element names one of these codings.
fn is_one_of(names: &[&str], element: &str) -> bool {
    let name = element.split(';').next().unwrap_or_default().trim();
    names.iter().any(|one| one.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coding_that_is_refused_once_is_not_accepted() {
        let accepted = |fields: &[&'static str]| {
            let fields = fields.iter().map(|field| HeaderValue::from_static(field)).collect();
            without_refused(fields).iter().map(|field| field.to_str().unwrap().replace(' ', "")).collect::<Vec<_>>()
        };
        assert_eq!(accepted(&["gzip;q=0.1, br"]), ["gzip;q=0.1,br"]);
        for refusing in ["gzip;q=0, gzip", "gzip, GZIP; Q=0.000", "x-gzip;q=0, gzip;q=1", "gzip, x-gzip ;q=0"] {
            assert_eq!(accepted(&[refusing]), [""], "{refusing}");
        }
        assert_eq!(accepted(&["gzip", "br;q=0.5", "gzip;q=0"]), ["br;q=0.5"]);
    }
}
