//! Bodies of requests that are rejected by their head.
//!
//! After the response to a request whose body was not read, an HTTP/1.1 connection is closed. A client that sends the head and the
//! body separately may not have sent the body yet, keeps the connection, and sends its next request on it, which fails. So the
//! body is discarded first, if it is at most [`MAX_DISCARDED`] bytes long and arrives within [`MAX_WAIT`]. Otherwise the response
//! says that the connection is closed (RFC 9112, section 9.6).

use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::extract::Request;
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, Version};
use axum::response::Response;
use http_body_util::BodyExt as _;
use tokio::time::timeout;

/// The maximum size of a body that is discarded.
const MAX_DISCARDED: usize = 64 << 10;
/// The maximum time for which a body is waited for.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// Returns the response to a request that is rejected, after its body was discarded.
pub(super) async fn reject(request: Request, mut response: Response) -> Response {
    let version = request.version();
    if !timeout(MAX_WAIT, discard(request.into_body())).await.unwrap_or(false) && version < Version::HTTP_2 {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Discards a body. Returns whether nothing of it remains.
async fn discard(mut body: Body) -> bool {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    let mut left = MAX_DISCARDED.checked_sub(announced).map(|_| MAX_DISCARDED);
    while let Some(allowed) = left {
        match body.frame().await {
            None => return true,
            Some(Ok(frame)) => left = allowed.checked_sub(frame.data_ref().map_or(0, |data| data.len())),
            Some(Err(_)) => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::io;

    use axum::body::Bytes;
    use futures::{StreamExt as _, stream};

    use super::*;

    async fn is_kept(body: Body, version: Version) -> bool {
        let request = Request::builder().version(version).body(body).unwrap();
        !reject(request, Response::new(Body::empty())).await.headers().contains_key(CONNECTION)
    }

    #[tokio::test]
    async fn the_connection_is_kept_after_a_small_body_that_arrives_soon() {
        assert!(is_kept(Body::empty(), Version::HTTP_11).await);
        assert!(is_kept(Body::from(vec![0; MAX_DISCARDED]), Version::HTTP_11).await);
        assert!(!is_kept(Body::from(vec![0; MAX_DISCARDED + 1]), Version::HTTP_11).await);
        let endless = stream::repeat(0).map(|_| Ok::<_, io::Error>(Bytes::from_static(&[0; 1024])));
        assert!(!is_kept(Body::from_stream(endless), Version::HTTP_11).await);
        let silent = || Body::from_stream(stream::pending::<io::Result<Bytes>>());
        assert!(!is_kept(silent(), Version::HTTP_11).await);
        assert!(is_kept(silent(), Version::HTTP_2).await, "a stream of HTTP/2 is no connection");
        let broken = stream::once(async { Err::<Bytes, _>(io::Error::other("cut")) }).boxed();
        assert!(!is_kept(Body::from_stream(broken), Version::HTTP_11).await);
    }
}
