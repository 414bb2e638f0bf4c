//! Responses whose body is a document that is encoded chunk by chunk.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::http::header::CONTENT_LENGTH;
use axum::response::Response;
use futures::stream::{self, Stream, StreamExt as _};

use super::json_response::json_response;
use crate::server::budget::Charge;
use crate::server::json::{Encoder, MAX_CHUNK, MAX_SHARED_CHUNK};

/// Returns a response with a document, with its `Content-Length` where that is known before it is encoded.
pub(super) fn document_response(status: StatusCode, mut json: Encoder) -> Response {
    let first = json.next_chunk().unwrap_or_default();
    if json.is_finished() {
        return json_response(status, first);
    }
    let (begun, rest) = (first.len(), json.known_len());
    let body = stream::iter([first]).chain(chunks(json, None, begun));
    let mut response = json_response(status, Body::from_stream(body.map(Ok::<_, Infallible>)));
    if let Some(rest) = rest {
        response.headers_mut().insert(CONTENT_LENGTH, begun.saturating_add(rest).into());
    }
    response
}

/// Returns the chunks of a document, of which `encoded` bytes have been encoded without a pause; each is encoded when it is polled
/// for, and the charge is dropped with the stream. The task yields after each [`MAX_CHUNK`] bytes that it encodes and each
/// [`MAX_SHARED_CHUNK`] that it passes on, so that a client that reads as fast does not starve others. The stream is fused: a
/// compressing layer polls it again after its end.
pub(super) fn chunks(
    json: Encoder,
    charge: Option<Charge>,
    encoded: usize,
) -> impl Stream<Item = Bytes> + Send + 'static {
    stream::unfold((json, charge, encoded), async |(mut json, charge, mut encoded)| {
        if encoded >= MAX_CHUNK {
            tokio::task::yield_now().await;
            encoded = 0;
        }
        let weight = if json.next_is_shared() { MAX_SHARED_CHUNK / MAX_CHUNK } else { 1 };
        let piece = json.next_chunk()?;
        encoded = encoded.saturating_add(piece.len().div_euclid(weight));
        Some((piece, (json, charge, encoded)))
    })
    .fuse()
}
