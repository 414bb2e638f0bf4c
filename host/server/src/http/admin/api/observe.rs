//! `POST plugins/NAME/record` and `POST plugins/NAME/profile`: record or profile the calls of a plugin from now on.
//!
//! | path | parameters | answer |
//! |---|---|---|
//! | `record` | `calls`, 1 to 1,000,000, 10,000 unless given; `seconds`, 1 to 3,000, 600 unless given | JSON Lines ([`recording`](mcp_resource_host::engine::recording)) until `calls` calls have ended, the time is over, or the client disconnects |
//! | `profile` | `seconds`, 1 to 60, 10 unless given | after that time, a profile in the format of Firefox's profiler |
//!
//! A recording contains the data that the provider read and answered. It is therefore for administrators only, has a
//! line of the audit log, and ends immediately when a reload revokes the token or when the plugin is unloaded. Lines
//! that the client does not read in time are bounded by [`MAX_QUEUED`] bytes; calls beyond are counted as skipped, and
//! never wait. After a revocation no line is sent, not even one that was queued before, and the response ends as an
//! incomplete one; a profile is discarded. A plugin has at most one recording and one profile at the same time.
//! Recordings, profiles and the streams of the audit log share one semaphore.

use std::fmt;
use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::Response;
use futures::stream;
use mcp_host_base::task;
use mcp_resource_host::access::Principal;
use mcp_resource_host::engine::diagnostics::CallObserver;
use mcp_resource_host::engine::plugin::RecordingGuard;
use mcp_resource_host::engine::recording::{self, Line, Recorder, RecordingEnd, RecordingSink};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::super::authority::StreamCredentials;
use super::super::{AdminServer, Connection};
use super::{PREFIX, Refusal, decoded};

/// The maximum number of bytes of lines that wait for a client.
const MAX_QUEUED: usize = 64 << 20;
/// The maximum size of a recording in bytes.
const MAX_RECORDING: u64 = 1 << 30;

/// Makes profiles.
pub trait Profiler: fmt::Debug + Send + Sync {
    /// Begins a profile.
    fn begin(&self) -> Arc<dyn PluginProfile>;
}

/// A profile of the calls of a plugin.
pub trait PluginProfile: CallObserver {
    /// Returns the profile in the format of Firefox's profiler. Blocks.
    fn finish(&self) -> Vec<u8>;
}

/// Whether a path is one of these.
pub(super) fn has_path(path: &str) -> bool {
    segments(path).is_some()
}

fn segments(path: &str) -> Option<(&str, &str)> {
    let (name, what) = path.strip_prefix(PREFIX)?.strip_prefix("plugins/")?.split_once('/')?;
    matches!(what, "record" | "profile").then_some((name, what))
}

impl AdminServer {
    /// Records or profiles a plugin.
    pub(super) async fn observe(
        &self,
        request: Request,
        administrator: &Principal,
        from: Connection,
    ) -> Result<Response, Refusal> {
        if request.method() != Method::POST {
            return Err(Refusal::method("POST"));
        }
        let (name, what) = segments(request.uri().path()).ok_or_else(Refusal::no_path)?;
        let (name, query) = (decoded(name)?, request.uri().query());
        let permit = self.streams.clone().try_acquire_owned().map_err(|_| {
            let error = "too many administrators follow or record something already";
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error, Some("end one of them"))
        })?;
        let credentials = StreamCredentials::of(&request, from);
        match what {
            "record" => {
                let [calls, seconds] = parameters(query, [("calls", 10_000, 1_000_000), ("seconds", 600, 3000)])?;
                self.record(administrator, &name, calls, Duration::from_secs(seconds), credentials, permit).await
            }
            _ => {
                let [seconds] = parameters(query, [("seconds", 10, 60)])?;
                self.profile(administrator, &name, Duration::from_secs(seconds), &credentials).await
            }
        }
    }

    async fn record(
        &self,
        administrator: &Principal,
        name: &str,
        calls: u64,
        time: Duration,
        credentials: StreamCredentials,
        permit: OwnedSemaphorePermit,
    ) -> Result<Response, Refusal> {
        let passthrough = self
            .passthrough
            .clone()
            .ok_or_else(|| Refusal::new(StatusCode::CONFLICT, "this program does not record calls", None))?;
        let (queue, receiver) = Queue::new(calls);
        queue.write(recording::to_line(&Line::McpHostRecording(recording::VERSION)));
        let recorder = Recorder { sink: queue.clone(), passthrough, only: None };
        let guard = self.host.record_plugin(administrator, name, recorder).await?;
        let (host, authority, unloaded) = (self.host.clone(), self.authority.clone(), guard.unloaded());
        let (is_complete, draining) = (queue.is_complete.clone(), self.draining.clone());
        let ended = Box::pin(async move {
            tokio::select! {
                () = is_complete.cancelled() => {}
                () = draining.cancelled() => {}
                () = sleep(time) => {}
                () = unloaded => {}
            }
        });
        let revoked = Box::pin(async move { authority.until_not_administrator(&host, &credentials).await });
        let lines = Lines {
            receiver,
            queue,
            guard: Some(guard),
            ended,
            is_over: false,
            revoked,
            is_revoked: false,
            last: None,
            _permit: permit,
        };
        let body = stream::unfold(lines, async |mut lines| Some((lines.next().await?, lines)));
        Ok(response("application/jsonl", Body::from_stream(body)))
    }

    async fn profile(
        &self,
        administrator: &Principal,
        name: &str,
        time: Duration,
        credentials: &StreamCredentials,
    ) -> Result<Response, Refusal> {
        let revoked = || Refusal::new(StatusCode::UNAUTHORIZED, Revoked.to_string(), None);
        let profiler = self
            .profiler
            .as_ref()
            .ok_or_else(|| Refusal::new(StatusCode::CONFLICT, "this program does not profile calls", None))?;
        let profile = profiler.begin();
        let guard = self.host.profile_plugin(administrator, name, profile.clone())?;
        tokio::select! {
            () = sleep(time) => {}
            () = self.draining.cancelled() => {}
            () = self.authority.until_not_administrator(&self.host, credentials) => return Err(revoked()),
        }
        drop(guard);
        let written = task::spawn_blocking(move || profile.finish()).await;
        if !self.authority.is_administrator(&self.host.config(), credentials) {
            return Err(revoked());
        }
        let panicked = |_| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the profile cannot be written", None);
        Ok(response("application/json", written.map_err(panicked)?.into()))
    }
}

fn response(content_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Parses parameters, each with its default and its maximum.
fn parameters<const N: usize>(query: Option<&str>, known: [(&str, u64, u64); N]) -> Result<[u64; N], Refusal> {
    let given = |key: &str| {
        let mut pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        pairs.find(|(name, _)| name == key).map(|(_, value)| value.into_owned())
    };
    let unknown = form_urlencoded::parse(query.unwrap_or_default().as_bytes())
        .find(|(name, _)| known.iter().all(|(known, ..)| name != known));
    if let Some((name, _)) = unknown {
        let names = known.map(|(name, ..)| format!("`{name}`")).join(" and ");
        return Err(Refusal::bad_request(format!("there is no parameter `{name}`; there is {names}")));
    }
    let mut values = [0; N];
    for (value, (name, default, max)) in values.iter_mut().zip(known) {
        *value = match given(name) {
            None => default,
            Some(text) => {
                let number = text.parse().ok().filter(|number| (1..=max).contains(number));
                let expected = || Refusal::bad_request(format!("`{name}` is not a number from 1 to {max}: {text}"));
                number.ok_or_else(expected)?
            }
        };
    }
    Ok(values)
}

/// The lines that wait for a client.
struct Queue {
    sender: mpsc::UnboundedSender<Bytes>,
    /// The bytes that wait.
    queued: AtomicUsize,
    /// The number of calls after which the recording is complete.
    max_calls: u64,
    sent: Mutex<Sent>,
    /// Fires when all requested calls are recorded, or when there is no more room.
    is_complete: CancellationToken,
}

/// The lines that were sent. The lock ensures that the last line counts exactly the lines before it.
#[derive(Default)]
struct Sent {
    /// All bytes of the recording.
    bytes: u64,
    end: RecordingEnd,
    /// Whether no further line is sent.
    is_complete: bool,
}

impl Queue {
    fn new(max_calls: u64) -> (Arc<Self>, mpsc::UnboundedReceiver<Bytes>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let queued = AtomicUsize::new(0);
        let queue = Self { sender, queued, max_calls, sent: Mutex::default(), is_complete: CancellationToken::new() };
        (Arc::new(queue), receiver)
    }

    /// Sends a line. Returns whether there was room for it.
    fn send(&self, sent: &mut Sent, line: String) -> bool {
        let len = line.len().saturating_add(1);
        if self.queued.load(Ordering::Relaxed).saturating_add(len) > MAX_QUEUED {
            return false;
        }
        sent.bytes = sent.bytes.saturating_add(len as u64);
        if sent.bytes > MAX_RECORDING {
            sent.is_complete = true;
            return false;
        }
        self.queued.fetch_add(len, Ordering::Relaxed);
        self.sender.send(Bytes::from(line + "\n")).is_ok()
    }

    /// Ends the recording: no further line is sent. Returns the counts of the lines that were sent.
    fn close(&self) -> RecordingEnd {
        let mut sent = self.sent.lock();
        sent.is_complete = true;
        sent.end
    }
}

impl RecordingSink for Queue {
    fn write(&self, line: String) -> bool {
        let is_call = line.starts_with("{\"call\"");
        let mut sent = self.sent.lock();
        if sent.is_complete {
            return false;
        }
        let is_sent = self.send(&mut sent, line);
        if is_call {
            let count = if is_sent { &mut sent.end.calls } else { &mut sent.end.skipped };
            *count = count.saturating_add(1);
        }
        if sent.end.calls >= self.max_calls {
            sent.is_complete = true;
        }
        if sent.is_complete {
            self.is_complete.cancel();
        }
        is_sent
    }

    fn skip(&self) {
        let mut sent = self.sent.lock();
        if !sent.is_complete {
            sent.end.skipped = sent.end.skipped.saturating_add(1);
        }
    }
}

/// Why a response ends before it is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the client is no longer an administrator: its token was replaced, or its session has ended")]
struct Revoked;

/// The lines of a recording, until it ends.
struct Lines {
    receiver: mpsc::UnboundedReceiver<Bytes>,
    queue: Arc<Queue>,
    /// None after the end.
    guard: Option<RecordingGuard>,
    /// Completes when the recording is over.
    ended: Pin<Box<dyn Future<Output = ()> + Send>>,
    is_over: bool,
    /// Completes when the client is no longer an administrator.
    revoked: Pin<Box<dyn Future<Output = ()> + Send>>,
    is_revoked: bool,
    /// The last line, when it has ended.
    last: Option<Bytes>,
    _permit: OwnedSemaphorePermit,
}

impl Lines {
    async fn next(&mut self) -> Option<Result<Bytes, Revoked>> {
        if self.is_revoked {
            return None;
        }
        loop {
            tokio::select! {
                biased;
                () = &mut self.revoked => {
                    self.is_revoked = true;
                    self.guard = None;
                    self.queue.close();
                    return Some(Err(Revoked));
                }
                // Lines that were queued before the end.
                () = ready(()), if self.is_over => {
                    return self.receiver.try_recv().ok().or_else(|| self.last.take()).map(Ok);
                }
                () = &mut self.ended => {
                    self.is_over = true;
                    self.guard = None;
                    let end = self.queue.close();
                    self.last = Some(Bytes::from(recording::to_line(&Line::End(end)) + "\n"));
                }
                line = self.receiver.recv() => {
                    let line = line?;
                    self.queue.queued.fetch_sub(line.len(), Ordering::Relaxed);
                    return Some(Ok(line));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::Semaphore;

    use super::*;

    const CALL: &str = "{\"call\":{}}";

    fn received(receiver: &mut mpsc::UnboundedReceiver<Bytes>) -> u64 {
        let lines = std::iter::from_fn(|| receiver.try_recv().ok());
        lines.filter(|line| line.starts_with(CALL.as_bytes())).count() as u64
    }

    #[test]
    fn the_last_requested_call_is_in_the_count_and_later_ones_are_not() {
        let (queue, mut receiver) = Queue::new(2);
        assert!(queue.write("{\"plugin\":{}}".to_owned()) && queue.write(CALL.to_owned()));
        queue.skip();
        assert!(!queue.is_complete.is_cancelled());
        assert!(queue.write(CALL.to_owned()));
        assert!(queue.is_complete.is_cancelled());
        assert!(!queue.write(CALL.to_owned()), "the recording is complete");
        queue.skip();
        assert_eq!(queue.close(), RecordingEnd { calls: 2, skipped: 1 });
        assert_eq!(received(&mut receiver), 2);
    }

    #[test]
    fn the_count_is_that_of_the_lines_when_calls_end_meanwhile() {
        let (queue, mut receiver) = Queue::new(u64::MAX);
        let end = std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| while queue.write(CALL.to_owned()) {});
            }
            while queue.sent.lock().end.calls < 100 {
                std::thread::yield_now();
            }
            queue.close()
        });
        assert_eq!(received(&mut receiver), end.calls);
    }

    /// The lines of a recording of two calls that ends, or whose client is no administrator any more, when these fire.
    fn lines_until(ended: &CancellationToken, revoked: &CancellationToken) -> Lines {
        let (queue, receiver) = Queue::new(10);
        assert!(queue.write(CALL.to_owned()) && queue.write(CALL.to_owned()));
        Lines {
            receiver,
            queue,
            guard: None,
            ended: Box::pin(ended.clone().cancelled_owned()),
            is_over: false,
            revoked: Box::pin(revoked.clone().cancelled_owned()),
            is_revoked: false,
            last: None,
            _permit: Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap(),
        }
    }

    #[tokio::test]
    async fn lines_that_wait_at_the_end_are_sent_before_the_count() {
        let (ended, revoked) = (CancellationToken::new(), CancellationToken::new());
        let mut lines = lines_until(&ended, &revoked);
        ended.cancel();
        for _ in 0..2 {
            assert_eq!(lines.next().await, Some(Ok(Bytes::from(format!("{CALL}\n")))));
        }
        let end = recording::to_line(&Line::End(RecordingEnd { calls: 2, skipped: 0 }));
        assert_eq!(lines.next().await, Some(Ok(Bytes::from(end + "\n"))));
        assert_eq!(lines.next().await, None);
    }

    #[tokio::test]
    async fn a_client_that_is_no_longer_an_administrator_gets_no_line_that_waits() {
        for is_over in [false, true] {
            let (ended, revoked) = (CancellationToken::new(), CancellationToken::new());
            let mut lines = lines_until(&ended, &revoked);
            if is_over {
                ended.cancel();
            }
            assert_eq!(lines.next().await, Some(Ok(Bytes::from(format!("{CALL}\n")))));
            revoked.cancel();
            assert_eq!(lines.next().await, Some(Err(Revoked)), "it has ended: {is_over}");
            assert_eq!(lines.next().await, None);
        }
    }

    #[test]
    fn a_call_without_room_is_counted_as_skipped() {
        let (queue, mut receiver) = Queue::new(10);
        queue.queued.store(MAX_QUEUED, Ordering::Relaxed);
        assert!(!queue.write(CALL.to_owned()));
        assert_eq!(queue.close(), RecordingEnd { calls: 0, skipped: 1 });
        assert_eq!(received(&mut receiver), 0);
    }
}
