//! Bodies of requests that are rejected before the body was read.
//!
//! After the response to a request with an unread body, an HTTP/1.1 connection is closed. A client that sends the head
//! and the body separately may not have sent the body yet. It then keeps the connection and sends its next request on
//! it, which fails. Over HTTP/2 the stream is reset, and some clients (curl) lose a response that is followed by a
//! reset. So before the response to a rejected request is sent, the rest of its body is discarded, if it is at most
//! [`MAX_DISCARDED`] bytes long, counting short chunks as longer ones ([`shortfall`]), and arrives within [`MAX_WAIT`].
//! If not, a response over HTTP/1.1 declares that the connection is closed (RFC 9112, section 9.6).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::HttpBody;
use axum::http::header::{CONNECTION, EXPECT};
use axum::http::{HeaderValue, Request, Version};
use axum::response::Response;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Buf as _;
use mcp_host_base::bounded_body::shortfall;
use parking_lot::Mutex;
use tokio::time::timeout;

/// The maximum number of discarded bytes of a body.
const MAX_DISCARDED: usize = 1 << 20;
/// The maximum wait for a body.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// The body of a request. The rest of a body that is dropped before its end goes to [`UnreadBody`].
pub(super) struct RequestBody<B> {
    body: Option<B>,
    /// None if the body is empty.
    left: Option<Arc<Mutex<Option<B>>>>,
}

/// The unread rest of a request's body.
pub(super) struct UnreadBody<B> {
    left: Option<Arc<Mutex<Option<B>>>>,
    version: Version,
    /// Whether the client waits for `100 Continue` before it sends the body.
    is_withheld: bool,
}

/// Returns the request, and a handle to the unread rest of its body.
pub(super) fn track<B: HttpBody>(request: Request<B>) -> (Request<RequestBody<B>>, UnreadBody<B>) {
    let left = (!request.body().is_end_stream()).then(Arc::default);
    let (version, is_withheld) = (request.version(), request.headers().contains_key(EXPECT));
    let unread = UnreadBody { left: left.clone(), version, is_withheld };
    (request.map(|body| RequestBody { body: Some(body), left }), unread)
}

impl<B: HttpBody + Unpin> UnreadBody<B> {
    /// Discards the unread rest of the body before an error response. Returns the response.
    pub(super) async fn discard_before(self, mut response: Response) -> Response {
        let is_error = response.status().is_client_error() || response.status().is_server_error();
        let left = self.left.filter(|_| is_error).and_then(|left| left.lock().take());
        let Some(body) = left else { return response };
        let is_http1 = self.version < Version::HTTP_2;
        let is_withheld = self.is_withheld && is_http1;
        if (is_withheld || !timeout(MAX_WAIT, discard(body)).await.unwrap_or(false)) && is_http1 {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

/// Discards a body. Returns whether it was read to its end.
async fn discard<B: HttpBody + Unpin>(mut body: B) -> bool {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    let mut left = MAX_DISCARDED.checked_sub(announced).map(|_| MAX_DISCARDED);
    while let Some(allowed) = left {
        match body.frame().await {
            None => return true,
            Some(Ok(frame)) => {
                let length = frame.data_ref().map_or(0, |data| data.remaining());
                left = allowed.checked_sub(length.saturating_add(shortfall(length)));
            }
            Some(Err(_)) => return false,
        }
    }
    false
}

impl<B: HttpBody + Unpin> HttpBody for RequestBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = Pin::new(&mut *body).poll_frame(context);
        if matches!(frame, Poll::Ready(None | Some(Err(_)))) || body.is_end_stream() {
            self.left = None;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map(HttpBody::size_hint).unwrap_or_default()
    }
}

impl<B> Drop for RequestBody<B> {
    fn drop(&mut self) {
        if let Some(left) = &self.left {
            *left.lock() = self.body.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use axum::body::{Body, Bytes};
    use axum::http::StatusCode;
    use futures::{FutureExt as _, StreamExt as _, stream};

    use super::*;

    /// Answers a request without reading its body.
    async fn reject(request: Request<Body>, status: StatusCode) -> Response {
        let (request, unread) = track(request);
        drop(request);
        let mut response = Response::new(Body::empty());
        *response.status_mut() = status;
        unread.discard_before(response).await
    }

    async fn is_kept(body: Body, version: Version) -> bool {
        let request = Request::builder().version(version).body(body).unwrap();
        !reject(request, StatusCode::FORBIDDEN).await.headers().contains_key(CONNECTION)
    }

    fn silent() -> Body {
        Body::from_stream(stream::pending::<io::Result<Bytes>>())
    }

    #[tokio::test]
    async fn the_connection_is_kept_after_a_small_body_that_arrives_soon() {
        assert!(is_kept(Body::empty(), Version::HTTP_11).await);
        assert!(is_kept(Body::from(vec![0; MAX_DISCARDED]), Version::HTTP_11).await);
        assert!(!is_kept(Body::from(vec![0; MAX_DISCARDED + 1]), Version::HTTP_11).await);
        let endless = stream::repeat(0).map(|_| Ok::<_, io::Error>(Bytes::from_static(&[0; 1024])));
        assert!(!is_kept(Body::from_stream(endless), Version::HTTP_11).await);
        let short = |count| stream::iter((0..count).map(|_| Ok::<_, io::Error>(Bytes::from_static(&[0]))));
        assert!(is_kept(Body::from_stream(short(1000)), Version::HTTP_11).await);
        assert!(!is_kept(Body::from_stream(short(20_000)), Version::HTTP_11).await, "each chunk costs time");
        assert!(!is_kept(silent(), Version::HTTP_11).await);
        assert!(is_kept(silent(), Version::HTTP_2).await, "a stream of HTTP/2 is no connection");
        let broken = stream::once(async { Err::<Bytes, _>(io::Error::other("cut")) }).boxed();
        assert!(!is_kept(Body::from_stream(broken), Version::HTTP_11).await);
    }

    #[tokio::test]
    async fn a_body_that_the_client_withholds_is_not_waited_for() {
        let request = Request::builder().header(EXPECT, "100-continue").body(silent()).unwrap();
        let rejected = reject(request, StatusCode::UNAUTHORIZED).now_or_never().expect("nothing is waited for");
        assert_eq!(rejected.headers()[CONNECTION], "close");
    }

    #[tokio::test]
    async fn an_answer_that_is_no_error_does_not_wait_for_the_body() {
        let answered = reject(Request::new(silent()), StatusCode::OK).now_or_never().expect("nothing is waited for");
        assert!(answered.headers().is_empty());
    }

    #[tokio::test]
    async fn of_a_body_that_was_read_nothing_is_left() {
        let (request, unread) = track(Request::new(Body::from("text")));
        assert_eq!(request.into_body().collect().await.unwrap().to_bytes(), "text");
        assert!(unread.left.unwrap().lock().is_none());
    }
}
