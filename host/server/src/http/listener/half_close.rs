//! Half-closed connections: a client may shut down its sending side after a request, and still wait for the answer (RFC
//! 9112, 9.6).
//!
//! TCP does not distinguish such a client from a disconnected one: each sends a FIN. At the end of the input hyper
//! drops the connection with its requests in progress, so that no answer is computed for a disconnected client.
//! Therefore the end of the input is withheld from hyper for at most [`MAX_WAIT`] while a response other than an event
//! stream is in progress. If bytes of the response are being sent by then, the end is withheld until they are sent,
//! because a disconnected client resets the connection. With hyper's own `half_close` no end would be noticed at all,
//! and a call would run until its deadline. A reset is an error of the read, which is not withheld.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::activity::Activity;

/// The time in which the answer to a request must begin after its client has half-closed the connection.
const MAX_WAIT: Duration = Duration::from_secs(2);
/// The interval at which the end of the response is checked, because hyper does not poll again by itself.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The socket of a connection, or its TLS session.
pub(super) struct HalfClose<S> {
    io: S,
    activity: Activity,
    /// Set at the end of the input, while it is withheld.
    withheld: Option<Withheld>,
}

/// The wait during which the end of the input is withheld.
struct Withheld {
    /// The time when the end is passed on to hyper, unless a response is being sent.
    until: Instant,
    next_check: Pin<Box<Sleep>>,
}

impl Withheld {
    fn new() -> Self {
        let now = Instant::now();
        let until = now.checked_add(MAX_WAIT).unwrap_or(now);
        Self { until, next_check: Box::pin(sleep(CHECK_INTERVAL)) }
    }
}

impl<S> HalfClose<S> {
    /// Wraps the socket of a connection with this activity.
    pub(super) fn new(io: S, activity: Activity) -> Self {
        Self { io, activity, withheld: None }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for HalfClose<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let withheld = match &mut this.withheld {
            Some(withheld) => withheld,
            None => {
                let (before, has_room) = (buffer.filled().len(), buffer.remaining() > 0);
                ready!(Pin::new(&mut this.io).poll_read(context, buffer))?;
                if buffer.filled().len() > before || !has_room || !this.activity.outlives_input() {
                    return Poll::Ready(Ok(()));
                }
                this.withheld.insert(Withheld::new())
            }
        };
        loop {
            let is_over = Instant::now() >= withheld.until && !this.activity.is_sending();
            if is_over || this.activity.is_idle() {
                return Poll::Ready(Ok(()));
            }
            ready!(withheld.next_check.as_mut().poll(context));
            withheld.next_check.set(sleep(CHECK_INTERVAL));
        }
    }
}

write_to_io!(HalfClose);

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::FutureExt as _;
    use http_body_util::BodyExt as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::time::timeout;

    use super::super::delivery::Delivery;
    use super::super::tracked_body::TrackedBody;
    use super::*;

    /// A connection whose client has sent one byte and then shut down its sending side.
    async fn ended(activity: &Activity) -> HalfClose<tokio::io::DuplexStream> {
        let (mut client, server) = tokio::io::duplex(16);
        client.write_all(b"x").await.unwrap();
        drop(client);
        let mut connection = HalfClose::new(server, activity.clone());
        assert_eq!(connection.read_u8().await.unwrap(), b'x');
        connection
    }

    #[tokio::test]
    async fn the_end_is_withheld_until_the_response_is_sent() {
        let activity = Activity::new();
        let mut connection = ended(&activity).await;
        let delivery = Arc::new(Delivery::new());
        let response = activity.begin(delivery.clone());
        assert!(connection.read_u8().now_or_never().is_none());
        drop(response);
        assert!(connection.read_u8().now_or_never().unwrap().is_err());
    }

    #[tokio::test]
    async fn the_end_of_an_event_stream_and_of_an_idle_connection_is_not_withheld() {
        let activity = Activity::new();
        let stream = Arc::new(Delivery::new());
        let _stream = activity.begin(stream.clone());
        stream.end_with_input();
        assert!(ended(&activity).await.read_u8().now_or_never().unwrap().is_err());
        assert!(ended(&Activity::new()).await.read_u8().now_or_never().unwrap().is_err());
    }

    #[tokio::test]
    async fn a_response_that_takes_long_does_not_withhold_the_end_any_longer() {
        let activity = Activity::new();
        let delivery = Arc::new(Delivery::new());
        let _response = activity.begin(delivery.clone());
        let began = Instant::now();
        assert!(ended(&activity).await.read_u8().await.is_err());
        assert!(began.elapsed() >= MAX_WAIT);
    }

    #[tokio::test]
    async fn the_end_is_withheld_while_a_response_is_being_sent() {
        let activity = Activity::new();
        let delivery = Arc::new(Delivery::new());
        let response = activity.begin(delivery.clone());
        let mut body = TrackedBody::new("response".into(), delivery, response, None, Arc::default());
        let chunk = body.frame().await.unwrap().unwrap();
        let mut connection = ended(&activity).await;
        assert!(timeout(MAX_WAIT + CHECK_INTERVAL, connection.read_u8()).await.is_err());
        drop((chunk, body));
        assert!(connection.read_u8().await.is_err());
    }
}
