//! Compression by `Accept-Encoding`: brotli or gzip, whichever the client prefers.
//!
//! Only bodies of at least 1 KiB are compressed, at the fastest level. Event streams are not: their events would be
//! delayed.

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

/// The smallest body that is compressed, in bytes: a smaller one fits one packet anyway.
const MIN_SIZE: u16 = 1024;

/// The `Accept-Encoding` fields of a request.
#[derive(Clone, Debug)]
pub(super) struct AcceptedEncodings(Vec<HeaderValue>);

impl AcceptedEncodings {
    /// The fields among these.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        Self(headers.get_all(ACCEPT_ENCODING).into_iter().cloned().collect())
    }

    /// Compresses a response if the client accepts that, and it is worthwhile. Any other keeps its body: that of the layer has
    /// room for an encoder, several KiB.
    pub(super) async fn compress(self, mut response: Response) -> Response {
        let worthwhile = SizeAbove::new(MIN_SIZE).and(NotForContentType::SSE);
        if !worthwhile.should_compress(&response) {
            return response;
        }
        if self.0.is_empty() {
            response.headers_mut().append(VARY, HeaderValue::from_static("accept-encoding"));
            return response;
        }
        let mut request = Request::new(());
        for accepted in self.0 {
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
