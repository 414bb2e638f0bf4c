//! Bodies of requests that are being received, within [limits](crate::config::HttpServerLimits) of the config.
//!
//! | limit | holds for | one more byte |
//! |---|---|---|
//! | `body` | one body | 413 |
//! | `receive` | the time until it is whole | 408 |
//! | a quarter of `bodies`, or one body if that is more | all bodies of one connection | 503, `Retry-After` |
//! | `bodies` | all bodies but the first [`SMALL`] bytes of each | 503, `Retry-After` |
//!
//! Bytes count when they are received, not when they are announced, so a client that claims much and sends little uses up
//! little. Small bodies, which nearly all are, do not need room beside others: who fills it up keeps nobody from reading
//! resources. Refusing at once instead of waiting for room keeps bodies that are half there from waiting for each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use tokio::time::timeout;

use crate::config::HttpServerLimits;

/// The bytes of each body that need no room beside other bodies.
const SMALL: usize = 4 << 10;
/// How much the buffer of a body that has grown out of this size grows at once.
const STEP: usize = 64 << 10;

/// The bodies of all connections, or those of one, that are being received.
#[derive(Clone, Debug, Default)]
pub(super) struct Bodies(Arc<AtomicUsize>);

/// A body, which counts as being received until it is dropped.
#[derive(Debug, Default)]
pub(super) struct Received {
    text: Vec<u8>,
    room: Vec<Reserved>,
}

/// Bytes that count.
#[derive(Debug)]
struct Reserved {
    bodies: Bodies,
    bytes: usize,
}

/// Why a body is not received.
enum Refused {
    TooLong(u64),
    TooSlow,
    NoRoom,
    Broken,
}

impl Bodies {
    /// Receives the body of a request.
    pub(super) async fn receive(
        &self,
        body: Body,
        head: &Parts,
        limits: &HttpServerLimits,
    ) -> Result<Received, Response> {
        let most = limits.receive.duration();
        match timeout(most, self.collect(body, head.extensions.get::<Self>(), limits)).await {
            Ok(received) => received,
            Err(_) => Err(Refused::TooSlow),
        }
        .map_err(IntoResponse::into_response)
    }

    async fn collect(
        &self,
        mut body: Body,
        connection: Option<&Self>,
        limits: &HttpServerLimits,
    ) -> Result<Received, Refused> {
        let [most, all] = [limits.body.bytes(), limits.bodies.bytes()].map(to_usize);
        let mut received = Received::default();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|_| Refused::Broken)?.into_data() else { continue };
            let before = received.text.len();
            let length = before.saturating_add(data.len());
            if length > most {
                return Err(Refused::TooLong(limits.body.bytes()));
            }
            if let Some(connection) = connection {
                received.room.extend(connection.reserve(data.len(), most.max(all / 4))?);
            }
            let beyond = length.saturating_sub(SMALL.max(before));
            received.room.extend(self.reserve(beyond, all)?);
            received.push(&data);
        }
        Ok(received)
    }

    /// Counts bytes, unless that would be too many.
    fn reserve(&self, bytes: usize, most: usize) -> Result<Option<Reserved>, Refused> {
        if bytes == 0 {
            return Ok(None);
        }
        let more = |now: usize| now.checked_add(bytes).filter(|sum| *sum <= most);
        match self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(Some(Reserved { bodies: self.clone(), bytes })),
            Err(_) => Err(Refused::NoRoom),
        }
    }
}

impl Received {
    /// Adds what has come. The buffer grows by factors of four once it is large: what it had before is not given back to the
    /// system at once.
    fn push(&mut self, data: &[u8]) {
        let needed = self.text.len().saturating_add(data.len());
        if needed > self.text.capacity() && needed > STEP {
            let capacity = self.text.capacity().saturating_mul(4).max(needed);
            self.text.reserve_exact(capacity.saturating_sub(self.text.len()));
        }
        self.text.extend_from_slice(data);
    }
}

impl std::ops::Deref for Received {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.text
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.bodies.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        match self {
            Self::TooLong(most) => {
                (StatusCode::PAYLOAD_TOO_LARGE, format!("the body is longer than {most} bytes\n")).into_response()
            }
            Self::TooSlow => (StatusCode::REQUEST_TIMEOUT, "the body takes too long\n").into_response(),
            Self::Broken => (StatusCode::BAD_REQUEST, "the body breaks off\n").into_response(),
            Self::NoRoom => {
                let text = "the server is receiving as much as `http.limits.bodies` allows; try again\n";
                (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "1")], text).into_response()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    async fn receive(
        all: &Bodies,
        connection: &Bodies,
        bytes: usize,
        limits: &HttpServerLimits,
    ) -> Result<Received, StatusCode> {
        let mut head = Request::new(()).into_parts().0;
        head.extensions.insert(connection.clone());
        all.receive(Body::from(vec![b' '; bytes]), &head, limits).await.map_err(|response| response.status())
    }

    fn limits() -> HttpServerLimits {
        let (body, bodies) = ("1MiB".parse().unwrap(), "8MiB".parse().unwrap());
        HttpServerLimits { body, bodies, ..HttpServerLimits::default() }
    }

    #[tokio::test]
    async fn bodies_of_one_connection_leave_room_for_those_of_others() {
        let (all, limits) = (Bodies::default(), limits());
        let (first, second) = (Bodies::default(), Bodies::default());
        let mut kept = Vec::new();
        while let Ok(body) = receive(&all, &first, 1 << 20, &limits).await {
            kept.push(body);
        }
        assert_eq!(kept.len(), 2, "a quarter of 8 MiB");
        assert!(receive(&all, &second, 1 << 20, &limits).await.is_ok());
        drop(kept);
        assert!(receive(&all, &first, 1 << 20, &limits).await.is_ok());
        assert_eq!(all.0.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn a_small_body_is_received_when_there_is_no_room() {
        let (all, limits) = (Bodies::default(), limits());
        let mut kept = Vec::new();
        while let Ok(body) = receive(&all, &Bodies::default(), 1 << 20, &limits).await {
            kept.push(body);
        }
        assert_eq!(kept.len(), 8);
        let refused = receive(&all, &Bodies::default(), 1 << 20, &limits).await;
        assert_eq!(refused.unwrap_err(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(receive(&all, &Bodies::default(), SMALL, &limits).await.is_ok());
    }

    #[tokio::test]
    async fn a_body_that_is_too_long_is_refused() {
        let refused = receive(&Bodies::default(), &Bodies::default(), (1 << 20) + 1, &limits()).await;
        assert_eq!(refused.unwrap_err(), StatusCode::PAYLOAD_TOO_LARGE);
    }
}
