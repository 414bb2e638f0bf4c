//! Compression by `Accept-Encoding`, with gzip. All HTTP clients that decompress know it, and an encoder of brotli
//! would add a megabyte of tables and code to the program.
//!
//! Only bodies of at least 1 KiB are compressed, at the fastest level. Event streams are not compressed, because
//! compression would delay their events.
//!
//! An encoder exists until its response has been sent, so its memory is added to the [charge](ResponseCharge) of the
//! response. Without room for it, and without a charge, the response is not compressed. The files of the console have
//! no charge: their listener is for administrators, and limits its connections. The encoder gets pieces of at most
//! [`MAX_CHUNK`] bytes. At level 1 it has [384](ENCODER_MEMORY) KiB: window 64, hash chains 64 + 128, output 64,
//! symbols 48, state 12 (zlib-rs; miniz_oxide takes 320).

use std::convert::Infallible;
use std::future::ready;
use std::pin::Pin;
use std::task::{self, Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, VARY};
use axum::http::{HeaderMap, HeaderValue, Request};
use axum::response::Response;
use http_body::{Frame, SizeHint};
use tower::{Layer as _, ServiceExt as _, service_fn};
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{NotForContentType, Predicate, SizeAbove};

use super::accept::has_weight;
use crate::http::response::ResponseCharge;
use crate::json::MAX_CHUNK;

/// The minimum size of a compressed body, in bytes. A smaller one fits into one packet anyway.
const MIN_SIZE: u16 = 1024;
/// The memory of an encoder at level 1, with its 4 KiB for output.
const ENCODER_MEMORY: usize = 384 << 10;

/// The `Accept-Encoding` fields of a request.
#[derive(Clone, Debug)]
pub(in crate::http) struct AcceptedEncodings(Vec<HeaderValue>);

impl AcceptedEncodings {
    /// Takes the fields from these headers.
    pub(in crate::http) fn of(headers: &HeaderMap) -> Self {
        Self(headers.get_all(ACCEPT_ENCODING).into_iter().cloned().collect())
    }

    /// Compresses a response if the client accepts compression, the body is worth it, and the memory of the encoder can
    /// be added to the charge of the response. Any other response keeps its body, because the body type of the
    /// compression layer has room for an encoder, several KiB.
    pub(in crate::http) async fn compress(self, mut response: Response) -> Response {
        if !is_worthwhile(&response) {
            return response;
        }
        let charge = ResponseCharge::of(&response).filter(|charge| !self.0.is_empty() && charge.add(ENCODER_MEMORY));
        let Some(charge) = charge else {
            response.headers_mut().append(VARY, HeaderValue::from_static("accept-encoding"));
            return response;
        };
        let response = self.encode(response).await;
        if !response.headers().contains_key(CONTENT_ENCODING) {
            charge.subtract(ENCODER_MEMORY);
        }
        response
    }

    /// Compresses a response of the administration, which has no charge.
    pub(in crate::http) async fn compress_uncharged(self, response: Response) -> Response {
        if is_worthwhile(&response) { self.encode(response).await } else { response }
    }

    /// Encodes a response if the client accepts that.
    async fn encode(self, response: Response) -> Response {
        let mut request = Request::new(());
        for accepted in without_refused(self.0) {
            request.headers_mut().append(ACCEPT_ENCODING, accepted);
        }
        let mut response = Some(response.map(|body| Body::new(Pieces { body, rest: Bytes::new() })));
        let respond = service_fn(move |_: Request<()>| ready(Ok::<_, Infallible>(response.take().unwrap_or_default())));
        let layer = CompressionLayer::new().quality(CompressionLevel::Fastest).compress_when(worthwhile());
        match Box::pin(layer.layer(respond).oneshot(request)).await {
            Ok(compressed) => compressed.map(Body::new),
            Err(never) => match never {},
        }
    }
}

/// Returns the predicate of responses that are worth compressing.
fn worthwhile() -> impl Predicate {
    SizeAbove::new(MIN_SIZE).and(NotForContentType::SSE)
}

fn is_worthwhile(response: &Response) -> bool {
    worthwhile().should_compress(response)
}

/// A body in frames of at most [`MAX_CHUNK`] bytes. Shared JSON has longer ones, and a frame is compressed in one poll.
struct Pieces {
    body: Body,
    /// The rest of the current frame.
    rest: Bytes,
}

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        if self.rest.is_empty() {
            match task::ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                ended => return Poll::Ready(ended),
            }
        }
        let length = self.rest.len().min(MAX_CHUNK);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, behind) = (u64::try_from(self.rest.len()).unwrap_or(u64::MAX), self.body.size_hint());
        if let Some(size) = behind.exact() {
            return SizeHint::with_exact(size.saturating_add(rest));
        }
        let mut hint = SizeHint::new();
        hint.set_lower(behind.lower().saturating_add(rest));
        hint
    }
}

/// The names that the layer knows, each with its aliases (RFC 9110, section 8.4.1.3).
const CODINGS: [&[&str]; 3] = [&["gzip", "x-gzip"], &["identity"], &["*"]];

/// Returns the fields without the codings that any field refuses by a weight of zero (RFC 9110, section 12.5.3), even
/// if they are also named with another weight: the layer would use the largest weight. Takes linear time.
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
    use std::net::Ipv4Addr;
    use std::sync::Arc;
    use std::time::Duration;

    use axum::body::to_bytes;
    use http_body_util::BodyExt as _;

    use super::*;
    use crate::budget::{Account, Budget, Limits};
    use crate::client_id::ClientId;

    const COST: usize = 100 << 10;

    /// The account of a client that may have this number of unsent bytes.
    fn account(limit: usize) -> Arc<Account> {
        let (connection, client, principal, overall) = (limit, limit, limit, limit);
        let limits = Limits { connection, client, principal, overall, wait: Duration::ZERO };
        Budget::new(move || limits).account(ClientId::from_address(Ipv4Addr::LOCALHOST.into()))
    }

    /// Compresses a response with a charge of [`COST`]. Returns its encoding and the charged bytes.
    async fn compressed(accepted: &'static str, limit: usize) -> (Option<String>, usize) {
        let mut response = Response::new(Body::from(vec![b'x'; 3 * MAX_CHUNK]));
        ResponseCharge::attach(&mut response, account(limit).charge(COST).await.unwrap());
        let headers = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(accepted))]);
        let mut response = AcceptedEncodings::of(&headers).compress(response).await;
        assert!(response.headers().contains_key(VARY));
        let encoding = response.headers().get(CONTENT_ENCODING).map(|value| value.to_str().unwrap().to_owned());
        let charge = ResponseCharge::take_from(&mut response).unwrap();
        let size = to_bytes(response.into_body(), usize::MAX).await.unwrap().len();
        assert_eq!(size == 3 * MAX_CHUNK, encoding.is_none());
        (encoding, charge.bytes())
    }

    #[tokio::test]
    async fn the_memory_of_an_encoder_is_charged_with_its_response() {
        let limit = COST + ENCODER_MEMORY;
        for (accepted, encoding, memory) in [("gzip", Some("gzip"), ENCODER_MEMORY), ("br", None, 0)] {
            let (found, charged) = compressed(accepted, limit).await;
            assert_eq!((found.as_deref(), charged), (encoding, COST + memory), "{accepted}");
        }
    }

    #[tokio::test]
    async fn a_response_is_not_compressed_without_room_for_the_encoder_or_without_a_charge() {
        assert_eq!(compressed("gzip", COST + ENCODER_MEMORY - 1).await, (None, COST));
        let headers = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static("gzip"))]);
        let response = || Response::new(Body::from(vec![b'x'; 10_000]));
        let uncharged = AcceptedEncodings::of(&headers).compress(response()).await;
        assert_eq!(uncharged.headers().get(CONTENT_ENCODING), None);
        let of_console = AcceptedEncodings::of(&headers).compress_uncharged(response()).await;
        assert_eq!(of_console.headers()[CONTENT_ENCODING], "gzip");
    }

    #[tokio::test]
    async fn an_encoder_gets_pieces_of_a_bounded_size() {
        let sent: Vec<u8> = (0..=250).cycle().take(2 * MAX_CHUNK + 7).collect();
        let mut pieces = Pieces { body: Body::from(sent.clone()), rest: Bytes::new() };
        let (mut sizes, mut received) = (Vec::new(), Vec::new());
        while let Some(frame) = pieces.frame().await {
            let data = frame.unwrap().into_data().unwrap();
            sizes.push(data.len());
            received.extend_from_slice(&data);
            let rest = u64::try_from(sent.len() - received.len()).unwrap();
            assert_eq!(pieces.size_hint().exact(), Some(rest));
        }
        assert_eq!((sizes, received), (vec![MAX_CHUNK, MAX_CHUNK, 7], sent));
        assert!(pieces.is_end_stream());
    }

    #[test]
    fn a_coding_that_is_refused_once_is_not_accepted() {
        let accepted = |fields: &[&'static str]| {
            let fields = fields.iter().map(|field| HeaderValue::from_static(field)).collect();
            without_refused(fields).iter().map(|field| field.to_str().unwrap().replace(' ', "")).collect::<Vec<_>>()
        };
        assert_eq!(accepted(&["gzip;q=0.1, identity"]), ["gzip;q=0.1,identity"]);
        for refusing in ["gzip;q=0, gzip", "gzip, GZIP; Q=0.000", "x-gzip;q=0, gzip;q=1", "gzip, x-gzip ;q=0"] {
            assert_eq!(accepted(&[refusing]), [""], "{refusing}");
        }
        assert_eq!(accepted(&["gzip", "identity;q=0.5", "br", "gzip;q=0"]), ["identity;q=0.5"]);
    }
}
