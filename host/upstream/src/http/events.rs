//! Event streams: the bounds of their events, and of the time after which a stream is opened again.
//!
//! The caller sets the maximum size of an event. All that is not the answer to a request is counted in the connection's
//! [`Allowance`]: lines that belong to no event when they are received, and events when they are decoded.
//!
//! rmcp opens a stream of notifications again after the time that the server sets (`retry`), and without any delay
//! after an error. So the time is limited here to [`MIN_RETRY`] to [`MAX_RETRY`], a stream with an error ends without
//! one, and the time grows while streams end within [`LASTING`] (back-off).

use std::future::{pending, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::stream::{BoxStream, once};
use http_body_util::BodyExt as _;
use mcp_host_base::backoff::Backoff;
use mcp_host_base::time::saturating_millis;
use parking_lot::Mutex;
use rmcp::model::{RequestId, ServerJsonRpcMessage};
use sse_stream::{Sse, SseStream};

use super::{HttpError, id_of, is_answer, is_error};
use crate::connections::{ReceivedBody, Reuse};
use crate::guard::{Allowance, Cancellation, Cancellations, Incomplete};
use crate::message::Decoder;

/// The minimum time after which a stream is opened again.
const MIN_RETRY: Duration = Duration::from_secs(1);
/// The maximum of this time.
pub(crate) const MAX_RETRY: Duration = Duration::from_secs(30);
/// The duration of a stream of notifications from which on its end resets the back-off.
const LASTING: Duration = Duration::from_secs(60);

/// The events of a stream.
pub(super) type Events = BoxStream<'static, Result<Sse, sse_stream::Error>>;

/// The state of a client's event streams.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// What the server may send on the current connection without a request.
    allowance: Mutex<Arc<Allowance>>,
    /// The cancellations of the current connection's requests.
    cancellations: Mutex<Arc<Cancellations>>,
    notifications: Mutex<Option<Notifications>>,
}

/// The last stream of notifications.
#[derive(Debug)]
struct Notifications {
    session: Arc<str>,
    /// The id of its last event. rmcp opens it again with this id.
    last_id: Option<String>,
    /// The time to wait that the server set.
    retry: Option<Duration>,
    backoff: Backoff,
}

/// How a stream that was opened relates to the previous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Opened {
    /// The previous stream of notifications: of the same session, or of another one.
    pub(super) previous: Option<Previous>,
    /// Whether it is a stream of notifications, and not the rest of an interrupted response.
    pub(super) has_notifications: bool,
}

/// The session of the previous stream of notifications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Previous {
    SameSession,
    OtherSession,
}

impl Streams {
    /// Begins a connection with this allowance and these cancellations.
    pub(super) fn begin_connection(&self, allowance: Arc<Allowance>, cancellations: Arc<Cancellations>) {
        *self.allowance.lock() = allowance;
        *self.cancellations.lock() = cancellations;
    }

    pub(super) fn allowance(&self) -> Arc<Allowance> {
        self.allowance.lock().clone()
    }

    /// Returns the cancellation of a request that is being sent.
    pub(super) fn cancellation(&self, id: RequestId) -> Cancellation {
        self.cancellations.lock().of_request(id)
    }

    /// Records that a stream was opened with GET, after the event with this id.
    pub(super) fn opened(&self, session: Arc<str>, last_id: Option<&str>) -> Opened {
        let mut notifications = self.notifications.lock();
        if let Some(current) = notifications.as_ref().filter(|current| current.session == session) {
            let has_notifications = last_id.is_none() || last_id == current.last_id.as_deref();
            return Opened { previous: Some(Previous::SameSession), has_notifications };
        }
        let backoff = Backoff::new(MIN_RETRY, MAX_RETRY);
        let previous = notifications.replace(Notifications { session, last_id: None, retry: None, backoff });
        Opened { previous: previous.map(|_| Previous::OtherSession), has_notifications: last_id.is_none() }
    }

    /// Records an event of the stream of notifications.
    fn record(&self, event: &Sse) {
        let Some(current) = &mut *self.notifications.lock() else { return };
        if event.id.is_some() {
            current.last_id.clone_from(&event.id);
        }
        if let Some(retry) = event.retry {
            current.retry = Some(Duration::from_millis(retry));
        }
    }

    /// Returns the event that ends the stream of notifications. It has the time after which rmcp opens the stream
    /// again.
    fn end(&self, opened_at: Instant) -> Sse {
        let retry = self.notifications.lock().as_mut().map_or(MIN_RETRY, |current| {
            if opened_at.elapsed() > LASTING {
                current.backoff = Backoff::new(MIN_RETRY, MAX_RETRY);
            }
            current.backoff.next_delay().max(current.retry.take().unwrap_or_default())
        });
        Sse { retry: Some(limited(saturating_millis(retry))), ..Sse::default() }
    }
}

/// Returns a time to wait in milliseconds, within its bounds.
fn limited(retry: u64) -> u64 {
    retry.clamp(saturating_millis(MIN_RETRY), saturating_millis(MAX_RETRY))
}

/// Returns the events of a body, each of at most `max` bytes, in a form that rmcp can parse. With `is_asked`, the
/// answers among them are answers to requests of [`ask`](crate::ask). The connection may be used again once the answer
/// to `request` was received.
pub(super) fn events(
    body: ReceivedBody,
    max: usize,
    decoder: Decoder,
    is_asked: bool,
    request: Option<RequestId>,
    allowance: Arc<Allowance>,
) -> Events {
    let RawEvents { stream, reuse, .. } = counted_events(body, max, allowance.clone());
    let awaited = Arc::new((request, reuse, allowance));
    let decode = move |event: Result<Sse, sse_stream::Error>| {
        let awaited = awaited.clone();
        async move {
            let (request, reuse, allowance) = &*awaited;
            let mut event = event?;
            event.retry = event.retry.map(limited);
            let length = length(&event);
            let mut is_awaited = false;
            let inspect = |message: &ServerJsonRpcMessage| {
                if request.as_ref().is_some_and(|id| is_answer(message, id)) {
                    reuse.permit();
                }
                is_awaited = (is_error(message) || id_of(message).is_some()) && allowance.take_answer();
            };
            let event = decoder.event(event, is_asked, inspect).await;
            if !is_awaited {
                allowance.take(1, length).map_err(|excess| sse_stream::Error::Body(excess.into()))?;
            }
            Ok::<_, sse_stream::Error>(event)
        }
    };
    stream.then(decode).boxed()
}

/// Returns the events until the request is cancelled. Then the connection is closed, and there are no events: at the
/// end of the stream, rmcp would resume it. rmcp drops it when the server has received the cancellation.
pub(super) fn until_cancelled(events: Events, cancellation: Cancellation) -> Events {
    let token = cancellation.token();
    let cancelled = Box::pin(async move { cancellation.cancelled().await });
    let rest = once(async move {
        if token.is_cancelled() {
            pending::<()>().await;
        }
    });
    events.take_until(cancelled).chain(rest.filter_map(|()| ready(None))).boxed()
}

/// Returns the number of bytes of an event.
fn length(event: &Sse) -> usize {
    [&event.data, &event.id, &event.event].into_iter().flatten().map(String::len).fold(0, usize::saturating_add)
}

/// Returns the events of a stream that was opened with GET. It ends without an error. With `notifications`, it ends
/// with the time after which it is opened again.
pub(super) fn reopened(events: Events, notifications: Option<Arc<Streams>>) -> Events {
    let events = events.take_while(|event| {
        if let Err(error) = event {
            tracing::debug!(%error, "an event stream of the upstream has ended");
        }
        ready(event.is_ok())
    });
    let Some(streams) = notifications else { return events.boxed() };
    let (recorded, opened_at) = (streams.clone(), Instant::now());
    let events = events.inspect(move |event| {
        if let Ok(event) = event {
            recorded.record(event);
        }
    });
    events.chain(once(async move { Ok(streams.end(opened_at)) })).boxed()
}

/// The events of a body.
pub(super) struct RawEvents {
    pub(super) stream: Events,
    /// The number of bytes that may still be read. The stream decreases it.
    pub(super) left: Arc<AtomicUsize>,
    pub(super) reuse: Reuse,
}

/// Returns the events of the body of one response, each of at most `max` bytes.
pub(super) fn raw_events(body: ReceivedBody, max: usize) -> RawEvents {
    counted_events(body, max, Arc::default())
}

/// Returns the events of a body, each of at most `max` bytes. Lines that belong to no event are counted, and short
/// chunks.
fn counted_events(body: ReceivedBody, max: usize, allowance: Arc<Allowance>) -> RawEvents {
    let mut lines = Lines::new(max);
    let left = Arc::new(AtomicUsize::new(usize::MAX));
    let (counted, reuse, mut incomplete) = (left.clone(), body.reuse(), Incomplete::new(allowance.clone()));
    let pieces = body.into_data_stream().map(move |piece| {
        let piece = piece.map_err(HttpError::from)?;
        let rest = counted.load(Ordering::Relaxed).checked_sub(piece.len()).ok_or(HttpError::RestTooLarge)?;
        counted.store(rest, Ordering::Relaxed);
        let unused = lines.read(&piece)?;
        allowance.take(unused.lines, unused.bytes)?;
        allowance.take_piece(piece.len())?;
        incomplete.set(lines.length)?;
        Ok::<_, HttpError>(piece)
    });
    // The first error ends the stream.
    let pieces = pieces.scan(false, |has_failed, piece| {
        let ends = std::mem::replace(has_failed, piece.is_err());
        ready((!ends).then_some(piece))
    });
    RawEvents { stream: SseStream::from_bytes_stream(pieces).boxed(), left, reuse }
}

/// Counts the bytes of the current event, from one empty line to the next, and the lines that belong to no event.
struct Lines {
    max: usize,
    /// The number of bytes since the last empty line.
    length: usize,
    line: Line,
    /// Whether there was a field since the last empty line: then the next empty line ends an event.
    has_field: bool,
    /// Whether the last byte was a carriage return, which is the end of a line, also together with a line feed.
    has_return: bool,
}

/// What is known of the current line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Empty,
    Comment,
    Field,
}

/// Lines that belong to no event: comments, and empty lines without an event before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Unused {
    lines: usize,
    bytes: usize,
}

impl Unused {
    fn add(&mut self, lines: usize, bytes: usize) {
        self.lines = self.lines.saturating_add(lines);
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

impl Lines {
    fn new(max: usize) -> Self {
        Self { max, length: 0, line: Line::Empty, has_field: false, has_return: false }
    }

    /// Reads a piece of the stream.
    ///
    /// # Errors
    ///
    /// An event is too long. Or there is a NUL byte, which is never a part of JSON, and for which the parser drops the
    /// event.
    fn read(&mut self, piece: &[u8]) -> Result<Unused, HttpError> {
        let mut unused = Unused::default();
        for byte in piece {
            let has_return = std::mem::replace(&mut self.has_return, *byte == b'\r');
            match (byte, self.line) {
                (0, _) => return Err(HttpError::Broken("there is a NUL byte in an event".to_owned())),
                (b'\n', Line::Empty) if has_return => {}
                (b'\n' | b'\r', Line::Empty) => {
                    if !std::mem::take(&mut self.has_field) {
                        unused.add(1, 1);
                    }
                    self.length = 0;
                }
                (b'\n' | b'\r', line) => {
                    if line == Line::Comment {
                        unused.add(1, 1);
                    }
                    self.line = Line::Empty;
                }
                (b':', Line::Empty) => {
                    unused.add(0, 1);
                    self.line = Line::Comment;
                }
                (_, Line::Empty) => (self.line, self.has_field) = (Line::Field, true),
                (_, Line::Comment) => unused.add(0, 1),
                (_, Line::Field) => {}
            }
            self.length = self.length.saturating_add(1);
            if self.length > self.max {
                return Err(HttpError::EventTooLarge(self.max));
            }
        }
        Ok(unused)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn read(max: usize, pieces: &[&str]) -> Option<Unused> {
        let mut lines = Lines::new(max);
        let mut sum = Unused::default();
        for piece in pieces {
            let unused = lines.read(piece.as_bytes()).ok()?;
            sum.add(unused.lines, unused.bytes);
        }
        Some(sum)
    }

    #[test]
    fn an_event_has_a_maximum_and_many_small_ones_have_none() {
        let none = Some(Unused::default());
        assert_eq!(read(16, &["data: a\n\n"; 100]), none);
        assert_eq!(read(16, &["data: a\r\n", "\r\n"].repeat(100)), none);
        assert_eq!(read(16, &["data: a\r", "\r"].repeat(100)), none);
        assert_eq!(read(16, &["data: aaaaa", "aaaaaa"]), None);
        assert_eq!(read(16, &[": a\n"; 10]), None);
        assert_eq!(read(16, &["id: \0\n\n"]), None);
    }

    #[test]
    fn lines_that_belong_to_no_event_are_counted() {
        let counted = |text: &str| read(1024, &[text]).map(|unused| (unused.lines, unused.bytes));
        assert_eq!(counted("\n\n\n"), Some((3, 3)));
        assert_eq!(counted("\r\n\r\n"), Some((2, 2)));
        assert_eq!(counted(": ping\n\n"), Some((2, 8)));
        assert_eq!(counted("data: a\n: ping\n\n"), Some((1, 7)));
        assert_eq!(counted("event: ping\nid: 1\n\n"), Some((0, 0)));
    }

    #[test]
    fn the_time_to_open_a_stream_again_is_limited_and_grows_while_streams_end_soon() {
        assert_eq!([0, 999, 5000, u64::MAX].map(limited), [1000, 1000, 5000, 30_000]);
        let streams = Streams::default();
        let first = streams.opened("s".into(), None);
        assert_eq!(first, Opened { previous: None, has_notifications: true });
        let times: Vec<_> = (0..12).filter_map(|_| streams.end(Instant::now()).retry).collect();
        assert!(times[0] < 1200 && times[1] >= 1700 && times[2] >= 3400 && times[11] >= 26_000, "{times:?}");
        assert!(times.iter().all(|time| (1000..=30_000).contains(time)), "{times:?}");
        let long_ago = Instant::now().checked_sub(Duration::from_secs(61)).unwrap();
        streams.record(&Sse { retry: Some(7000), ..Sse::default() });
        assert_eq!(
            streams.end(long_ago).retry,
            Some(7000),
            "the server's time is longer than the first of the back-off"
        );
        assert!(streams.end(long_ago).retry.unwrap() < 1200);
    }

    #[test]
    fn the_rest_of_a_response_is_no_stream_of_notifications() {
        let streams = Streams::default();
        streams.opened("s".into(), None);
        streams.record(&Sse { id: Some("7".to_owned()), ..Sse::default() });
        let opened = |session: &str, last_id| streams.opened(session.into(), last_id);
        let same = Opened { previous: Some(Previous::SameSession), has_notifications: true };
        assert_eq!(opened("s", Some("7")), same);
        assert_eq!(opened("s", Some("response")), Opened { has_notifications: false, ..same });
        assert_eq!(opened("t", None), Opened { previous: Some(Previous::OtherSession), ..same });
    }

    #[tokio::test]
    async fn the_stream_of_a_cancelled_request_is_dropped_at_once_and_does_not_end() {
        let cancellations = Arc::<Cancellations>::default();
        let cancellation = |id| cancellations.of_request(RequestId::Number(id));
        let event = || Ok(Sse { data: Some("1".to_owned()), ..Sse::default() });
        let ended = until_cancelled(futures::stream::iter([event()]).boxed(), cancellation(1));
        assert_eq!(ended.count().await, 1, "a stream that ends by itself ends");

        let connection = Arc::new(());
        let held = connection.clone();
        let silent = futures::stream::pending().map(move |event: Result<Sse, sse_stream::Error>| {
            let _ = &held;
            event
        });
        let mut events = until_cancelled(silent.boxed(), cancellation(2));
        assert!(events.next().now_or_never().is_none());
        assert_eq!(Arc::strong_count(&connection), 2);
        cancellations.cancel(&RequestId::Number(1));
        assert!(events.next().now_or_never().is_none());
        assert_eq!(Arc::strong_count(&connection), 2, "that was another request");
        cancellations.cancel(&RequestId::Number(2));
        assert!(events.next().now_or_never().is_none());
        assert_eq!(Arc::strong_count(&connection), 1);
    }

    #[tokio::test]
    async fn a_stream_with_an_error_ends_with_the_time_to_open_it_again() {
        let streams = Arc::new(Streams::default());
        streams.opened("s".into(), None);
        let event = |data: &str| Sse { data: Some(data.to_owned()), ..Sse::default() };
        let received = [Ok(event("1")), Err(sse_stream::Error::InvalidLine), Ok(event("2"))];
        let events = reopened(futures::stream::iter(received).boxed(), Some(streams));
        let events: Vec<_> =
            events.map(|event| event.map(|event| (event.data, event.retry.is_some())).ok()).collect().await;
        assert_eq!(events, [Some((Some("1".to_owned()), false)), Some((None, true))]);
    }
}
