//! Receiving bodies of requests, within the [limits](mcp_host_config::http::HttpServerLimits) of the config.
//!
//! | limit | applies to | beyond it |
//! |---|---|---|
//! | `body` | one body | 413 |
//! | about 65,000 short chunks ([`ChunkCounter`]) | one body | 400 |
//! | `read-timeout` | the time until it is complete | 408 |
//! | a quarter of `body-memory`, or one body if that is more | all bodies of one client on one connection | 503, `Retry-After` |
//! | `client-share` or `principal-share` of `body-memory`, or one body if that is more | all bodies of one client but the first [`UNCOUNTED_BYTES`] bytes of each | 503, `Retry-After` |
//! | `body-memory` | all bodies but the first [`UNCOUNTED_BYTES`] bytes of each | 503, `Retry-After` |
//!
//! Bytes count when they are received, not when they are announced, so a client that announces much and sends little
//! uses little. Small bodies, the usual case, need no room in shared limits, so a client that exhausts a limit does not
//! keep others from reading resources. Immediate rejection (load shedding), instead of waiting for room, avoids a
//! deadlock of incomplete bodies.

use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use mcp_host_base::bounded_body::{ChunkCounter, ShortChunks};
use mcp_host_base::share_limiter::{LimitReached, ShareLimiter, ShareLimits, SharePermit};
use mcp_host_config::http::HttpServerLimits;
use tokio::time::timeout;

use crate::client_id::ClientId;

/// The number of first bytes of each body that are not counted.
const UNCOUNTED_BYTES: usize = 4 << 10;
/// The size from which the buffer of a body grows by a factor of four.
const GROWTH_THRESHOLD: usize = 64 << 10;

/// The limiter of bytes of bodies that are being received, for all connections or for one.
#[derive(Clone, Debug, Default)]
pub(super) struct BodyLimiter(ShareLimiter<ClientId>);

/// A received body, which is counted until it is dropped.
#[derive(Debug)]
pub(super) struct ReceivedBody {
    bytes: Vec<u8>,
    /// The counted bytes for the connection, and for the client: one permit each, however many frames the body has.
    of_connection: Option<SharePermit<ClientId>>,
    of_client: SharePermit<ClientId>,
}

/// The reason for rejecting a body.
enum BodyRejection {
    TooLarge(u64),
    Timeout,
    NoCapacity(LimitReached),
    Incomplete,
    ShortChunks(ShortChunks),
}

impl BodyLimiter {
    /// Receives the body of a request of this client, within the limits of the connection, if there are any, and the
    /// shared limits.
    pub(super) async fn receive(
        &self,
        body: Body,
        connection: Option<&Self>,
        client: &ClientId,
        limits: &HttpServerLimits,
    ) -> Result<ReceivedBody, Response> {
        let most = limits.read_timeout.duration();
        match timeout(most, self.collect(body, connection, client, limits)).await {
            Ok(received) => received,
            Err(_) => Err(BodyRejection::Timeout),
        }
        .map_err(IntoResponse::into_response)
    }

    async fn collect(
        &self,
        mut body: Body,
        connection: Option<&Self>,
        client: &ClientId,
        limits: &HttpServerLimits,
    ) -> Result<ReceivedBody, BodyRejection> {
        let [most, all] = [limits.body.bytes(), limits.body_memory.bytes()].map(to_usize);
        let of_connection = most.max(all / 4);
        // Over one connection, a proxy may send requests of several clients. Each has its own limit on that connection.
        let of_connection = ShareLimits { client: of_connection, overall: usize::MAX };
        let of_client = ShareLimits { client: client.share_of(all, limits).max(most), overall: all };
        let mut received = ReceivedBody {
            bytes: Vec::new(),
            of_connection: connection.map(|connection| connection.0.empty_permit(client.clone())),
            of_client: self.0.empty_permit(client.clone()),
        };
        let mut chunks = ChunkCounter::default();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|_| BodyRejection::Incomplete)?.into_data() else { continue };
            let before = received.bytes.len();
            let length = before.saturating_add(data.len());
            if length > most {
                return Err(BodyRejection::TooLarge(limits.body.bytes()));
            }
            chunks.count(data.len()).map_err(BodyRejection::ShortChunks)?;
            if let Some(permit) = &mut received.of_connection {
                permit.grow(data.len(), of_connection).map_err(BodyRejection::NoCapacity)?;
            }
            let beyond = length.saturating_sub(UNCOUNTED_BYTES.max(before));
            received.of_client.grow(beyond, of_client).map_err(BodyRejection::NoCapacity)?;
            received.push(&data);
        }
        Ok(received)
    }
}

impl ReceivedBody {
    /// Appends bytes. A large buffer grows by factors of four, because the allocator does not return the previous
    /// buffer to the system immediately.
    fn push(&mut self, data: &[u8]) {
        let needed = self.bytes.len().saturating_add(data.len());
        if needed > self.bytes.capacity() && needed > GROWTH_THRESHOLD {
            let capacity = self.bytes.capacity().saturating_mul(4).max(needed);
            self.bytes.reserve_exact(capacity.saturating_sub(self.bytes.len()));
        }
        self.bytes.extend_from_slice(data);
    }
}

impl std::ops::Deref for ReceivedBody {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

impl IntoResponse for BodyRejection {
    fn into_response(self) -> Response {
        match self {
            Self::TooLarge(most) => {
                (StatusCode::PAYLOAD_TOO_LARGE, format!("the body is longer than {most} bytes\n")).into_response()
            }
            Self::Timeout => (StatusCode::REQUEST_TIMEOUT, "the body takes too long\n").into_response(),
            Self::Incomplete => (StatusCode::BAD_REQUEST, "the body breaks off\n").into_response(),
            Self::ShortChunks(error) => (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
            Self::NoCapacity(exhausted) => {
                let text = match exhausted {
                    LimitReached::ClientShare => {
                        "the server is receiving as much of this client as `http.limits.body-memory` allows; try again\n"
                    }
                    LimitReached::Overall => {
                        "the server is receiving as much as `http.limits.body-memory` allows; try again\n"
                    }
                };
                (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "1")], text).into_response()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    async fn receive(
        all: &BodyLimiter,
        connection: &BodyLimiter,
        bytes: usize,
        limits: &HttpServerLimits,
    ) -> Result<ReceivedBody, StatusCode> {
        receive_of(1, all, connection, bytes, limits).await
    }

    async fn receive_of(
        client: u8,
        all: &BodyLimiter,
        connection: &BodyLimiter,
        bytes: usize,
        limits: &HttpServerLimits,
    ) -> Result<ReceivedBody, StatusCode> {
        let client = ClientId::from_address(Ipv4Addr::new(127, 0, 0, client).into());
        all.receive(Body::from(vec![b' '; bytes]), Some(connection), &client, limits)
            .await
            .map_err(|response| response.status())
    }

    fn limits() -> HttpServerLimits {
        let (body, bodies) = ("1MiB".parse().unwrap(), "8MiB".parse().unwrap());
        HttpServerLimits { body, body_memory: bodies, ..HttpServerLimits::default() }
    }

    #[tokio::test]
    async fn bodies_of_one_connection_leave_room_for_those_of_others() {
        let (all, limits) = (BodyLimiter::default(), limits());
        let (first, second) = (BodyLimiter::default(), BodyLimiter::default());
        let mut kept = Vec::new();
        while let Ok(body) = receive(&all, &first, 1 << 20, &limits).await {
            kept.push(body);
        }
        assert_eq!(kept.len(), 2, "a quarter of 8 MiB");
        assert!(receive(&all, &second, 1 << 20, &limits).await.is_ok());
        drop(kept);
        assert!(receive(&all, &first, 1 << 20, &limits).await.is_ok());
        assert_eq!(all.0.overall(), 0);
    }

    #[tokio::test]
    async fn a_small_body_is_received_when_there_is_no_room() {
        let (all, limits) = (BodyLimiter::default(), limits());
        let mut kept = Vec::new();
        while let Ok(body) = receive(&all, &BodyLimiter::default(), 1 << 20, &limits).await {
            kept.push(body);
        }
        assert_eq!(kept.len(), 7, "15/16 of 8 MiB and the first bytes of each");
        let refused = receive(&all, &BodyLimiter::default(), 1 << 20, &limits).await;
        assert_eq!(refused.unwrap_err(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(receive(&all, &BodyLimiter::default(), UNCOUNTED_BYTES, &limits).await.is_ok());
    }

    #[tokio::test]
    async fn bodies_of_one_client_leave_room_for_those_of_others() {
        let (all, limits) =
            (BodyLimiter::default(), HttpServerLimits { client_share: "1/2".parse().unwrap(), ..limits() });
        let mut held = Vec::new();
        for client in [1, 2] {
            let mut kept = Vec::new();
            while let Ok(body) = receive_of(client, &all, &BodyLimiter::default(), 1 << 20, &limits).await {
                kept.push(body);
            }
            assert_eq!(kept.len(), 4, "a half of 8 MiB");
            held.push(kept);
        }
        let smallest = HttpServerLimits { client_share: "1/64".parse().unwrap(), ..limits };
        assert!(
            receive(&BodyLimiter::default(), &BodyLimiter::default(), 1 << 20, &smallest).await.is_ok(),
            "one body always fits"
        );
    }

    /// A body in chunks of one byte.
    fn in_single_bytes(bytes: usize) -> Body {
        let frames = std::iter::repeat_n(axum::body::Bytes::from_static(b" "), bytes);
        Body::from_stream(futures::stream::iter(frames.map(Ok::<_, std::convert::Infallible>)))
    }

    #[tokio::test]
    async fn a_body_of_too_many_short_chunks_is_refused() {
        let (all, limits) = (BodyLimiter::default(), limits());
        let client = ClientId::from_address(Ipv4Addr::LOCALHOST.into());
        let refused = all.receive(in_single_bytes(70_000), None, &client, &limits).await.unwrap_err();
        assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
        let text = axum::body::to_bytes(refused.into_body(), 1000).await.unwrap();
        assert!(text.starts_with(b"the body consists of too many short chunks"), "{text:?}");
        assert_eq!(all.0.overall(), 0);
        assert!(all.receive(in_single_bytes(60_000), None, &client, &limits).await.is_ok());
    }

    #[test]
    fn a_body_costs_its_bytes_however_many_frames_it_comes_in() {
        const BYTES: usize = 60_000;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let (all, connection, limits) = (BodyLimiter::default(), BodyLimiter::default(), limits());
        let body = in_single_bytes(BYTES);
        let client = ClientId::from_address(Ipv4Addr::LOCALHOST.into());
        let mut received = None;
        let spent = allocation_counter::measure(|| {
            received = runtime.block_on(all.receive(body, Some(&connection), &client, &limits)).ok();
        });
        assert_eq!(received.as_ref().unwrap().len(), BYTES);
        assert_eq!((all.0.overall(), connection.0.overall()), (BYTES - UNCOUNTED_BYTES, BYTES));
        // The buffer may have grown by a factor of four just before.
        let most = 5 * BYTES;
        assert!(spent.bytes_max <= most as u64, "{} bytes for {BYTES}", spent.bytes_max);
        drop(received);
        assert_eq!((all.0.overall(), connection.0.overall()), (0, 0));
    }

    #[tokio::test]
    async fn a_body_that_is_too_long_is_refused() {
        let refused = receive(&BodyLimiter::default(), &BodyLimiter::default(), (1 << 20) + 1, &limits()).await;
        assert_eq!(refused.unwrap_err(), StatusCode::PAYLOAD_TOO_LARGE);
    }
}
