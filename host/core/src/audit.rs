//! The audit log: one JSON line per request of the façade, in a file with rotation or on standard error.
//!
//! A dedicated thread writes the lines; requests append to a bounded queue and never wait for the thread.
//!
//! | member | meaning |
//! |---|---|
//! | `time` | when the request ended, RFC 3339 in UTC, with milliseconds; of a `listen`: when it began |
//! | `sequence` | the number of the line, from 1 at each start of the host. A gap is a lost line |
//! | `principal` | the principal of the request |
//! | `session` | the first 16 hexadecimal digits of the SHA-256 of the session id |
//! | `operation` | the operation of the access rules, `unsubscribe` or `listen` |
//! | `uri` | the URI in normal form, or as requested if it has none; the first [`MAX_URI`] bytes |
//! | `uri_bytes`, `uri_end`, `uri_sha256` | of a longer one: its length, its end, and the SHA-256 of the whole |
//! | `plugin`, `generation` | the plugin that the URI belongs to, the generation of the config |
//! | `decision` | one of [`DECISIONS`]; absent for merged listings, which are filtered, and URIs below no mount |
//! | `rule`, `glob` | the rule that decided, as `FILE:LINE`, and its glob; absent for a default |
//! | `outcome` | one of [`OUTCOMES`] |
//! | `bytes` | the size of the contents that were returned |
//! | `returned` | the URIs that a search or a selection of context returned, and the URIs of contents that differ from the requested URI; at most [`MAX_RETURNED`](line::MAX_RETURNED) bytes |
//! | `returned_total` | their number, if the line does not have all |
//! | `cached` | `true` if the response was in the response cache: the contents, or all resources on a page of the listing |
//! | `duration_ms` | the duration, in milliseconds |
//! | `request_id`, `trace_id` | the ids of the JSON-RPC request and of its trace: the client's trace (W3C Trace Context), or one that the host started |
//! | `administrator` | the administrator who made the request as its principal |
//!
//! A failed login has `operation` `authenticate`, `client`, `reason` and `count` (module `failed_logins`). The first
//! line of a host has `operation` `start` with `version` and `pid`, and the last one of a graceful shutdown `stop`.
//!
//! Absent values are absent members. No line has contents of a resource, a token, or a session id. Characters that
//! drive terminals or mislead readers are escaped as JSON (`\u202e`), as in the log.
//!
//! # When no line can be written
//!
//! The lines that are queued stay in the queue, and writing is retried every
//! [`RETRY_INTERVAL`](writer::RETRY_INTERVAL). While the queue is full, `on-full = "drop"` drops lines and counts them;
//! the count is reported in a line as soon as a write succeeds. `"refuse"` reserves space in the queue before a request
//! is dispatched, and refuses requests from the first failed write to the next successful one, so every request that
//! was dispatched has its line.
//!
//! # Bounds
//!
//! The queue has [`MAX_QUEUED`](queue::MAX_QUEUED) bytes, and a line at most six times [`MAX_URI`], plus its other
//! members. A line is written within [`BATCH_INTERVAL`](writer::BATCH_INTERVAL) of the end of its request, so a host
//! that is killed loses at most the lines of this interval. Files are not synchronized with the disk (`fsync`).
//!
//! | module | subject |
//! |---|---|
//! | `failed_logins` | failed logins, counted within bounds |
//! | `context` | what only a transport knows of a request: session, request id, trace id |
//! | `line` | the encoding of lines |
//! | `queue` | the queue, and reservations in it |
//! | `writer` | the thread |
//! | `follow` | lines for administrators who follow the log |
//! | `sink`, `file`, `torn_line` | where lines are written: standard error, or a file with rotation; lines that could not be written completely |
//!
//! [`MAX_URI`]: line::MAX_URI

mod context;
mod failed_logins;
mod file;
mod line;
mod queue;
mod torn_line;
mod writer;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use mcp_host_base::task;
use mcp_host_config::audit::Audit;
use serde::Serialize;

use self::failed_logins::FailedLogins;
use self::file::Sink;
use self::queue::{Queue, Reservation};

pub use self::context::RequestContext;
pub use self::context::RequestId;
pub use self::context::SessionHash;
pub(crate) use self::line::{Facts, Line, Subject};
pub use mcp_host_base::followers::{Followed, Follower};

/// The outcomes of a line. A request that failed has the kind of its error (`Error::kind`); `refused` means that
/// credentials were not accepted, `failed` that an action of an administrator failed.
pub const OUTCOMES: [&str; 10] = [
    "ok",
    "not found",
    "invalid request",
    "invalid cursor",
    "denied",
    "unavailable",
    "internal",
    "cancelled",
    "refused",
    "failed",
];

/// The operations of a line: the operations of the access rules, and others.
pub const OPERATIONS: [&str; 24] = [
    "list",
    "templates",
    "read",
    "metadata",
    "complete",
    "subscribe",
    "unsubscribe",
    "listen",
    "search",
    "context",
    "skills",
    "authenticate",
    "start",
    "stop",
    "admin-reload",
    "admin-explain",
    "admin-view",
    "admin-log",
    "admin-disable",
    "admin-enable",
    "admin-reset",
    "admin-record",
    "admin-profile",
    "admin-open",
];

/// The decisions of the access rules.
pub const DECISIONS: [&str; 2] = ["allow", "deny"];

/// Why the audit log cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuditError {
    /// The file cannot be opened.
    #[error(
        "the audit log {} cannot be opened: {source}; let `audit.file` name a file that the host may write, in a \
         directory where it may make files",
        path.display()
    )]
    Open {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Another host writes the file.
    #[error(
        "the audit log {} is in use by another host; let `audit.file` name another file, as each host rotates its own",
        path.display()
    )]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The thread that writes cannot be started.
    #[error("the thread that writes the audit log cannot be started: {0}; check the limits of the process on threads")]
    Thread(#[source] io::Error),
}

/// The audit log cannot be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditFailure {
    /// The time since which writes fail.
    pub since: SystemTime,
    /// The error of the last attempt.
    pub reason: String,
}

/// The state of the audit log, for administrators.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditState {
    /// The file of `audit.file`; none for standard error.
    pub file: Option<PathBuf>,
    /// Why the log cannot be written; none if the last write succeeded.
    pub failure: Option<AuditFailure>,
    /// Whether requests are refused while writes fail (`on-full = "refuse"`). If not, lines are dropped once the queue
    /// is full.
    pub refuses: bool,
    /// The number of lines lost since the start.
    pub dropped_lines: u64,
    /// The number of requests refused since the start because they could not be recorded.
    pub refused_requests: u64,
}

/// The use of the audit log at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AuditUsage {
    /// The bytes in the queue, including reserved space.
    pub(crate) queued: usize,
    /// The size of the queue.
    pub(crate) limit: usize,
    /// Why the log cannot be written; none if the last write succeeded.
    pub(crate) failure: Option<AuditFailure>,
    /// The lines that were dropped.
    pub(crate) dropped_lines: u64,
    /// The requests that were refused.
    pub(crate) refused_requests: u64,
}

/// The queue has no space for the line of a request, so the request must not be dispatched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueFull;

/// The audit log of a host, on or off. When it is dropped, the thread writes what it can, and ends.
#[derive(Debug)]
pub(crate) struct AuditLog {
    queue: Arc<Queue>,
    failed_logins: FailedLogins,
}

/// The members of the line about the start or the end of a host.
#[derive(Serialize)]
struct Lifecycle {
    operation: &'static str,
    version: &'static str,
    pid: u32,
}

/// A request that is in progress. Its line is queued by [`Entry::finish`].
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    reservation: Reservation<'a>,
    began: Instant,
}

impl AuditLog {
    /// Starts an audit log with this config. Without a config the log is off.
    ///
    /// # Errors
    ///
    /// The file cannot be opened. This blocks for as long as the file system does.
    pub(crate) fn start(config: Option<&Audit>) -> Result<Self, AuditError> {
        let sink = config.map(|config| Sink::open(&config.destination)).transpose()?;
        let queue = Arc::new(Queue::new(config.cloned()));
        writer::start(queue.clone(), sink, config.cloned()).map_err(AuditError::Thread)?;
        let log = Self { queue, failed_logins: FailedLogins::default() };
        log.push_lifecycle("start");
        Ok(log)
    }

    fn push_lifecycle(&self, operation: &'static str) {
        self.push(&line::encode(&Lifecycle { operation, version: env!("CARGO_PKG_VERSION"), pid: std::process::id() }));
    }

    /// Queues a line that belongs to no request, if there is space.
    fn push(&self, members: &[u8]) {
        if let Ok(Some(reservation)) = self.queue.reserve(members.len()) {
            reservation.push(members);
        }
    }

    /// Records that credentials of a client were not accepted, for this kind of reason.
    pub(crate) fn record_failed_login(self: &Arc<Self>, client: &str, reason: &'static str) {
        if !self.queue.is_on() {
            return;
        }
        let recorded = self.failed_logins.record(client, reason);
        recorded.lines.iter().for_each(|members| self.push(members));
        if let Some(runtime) = tokio::runtime::Handle::try_current().ok().filter(|_| recorded.has_begun) {
            let log = Arc::downgrade(self);
            runtime.spawn(async move {
                tokio::time::sleep(failed_logins::WINDOW).await;
                if let Some(log) = log.upgrade() {
                    log.end_window();
                }
            });
        }
    }

    fn end_window(&self) {
        self.failed_logins.end_window().iter().for_each(|members| self.push(members));
    }

    /// Queues the last lines. Further calls do nothing.
    fn push_last_lines(&self) {
        if self.queue.begin_close() {
            self.end_window();
            self.push_lifecycle("stop");
        }
    }

    /// Returns the use of the queue, and the losses so far.
    pub(crate) fn usage(&self) -> AuditUsage {
        self.queue.usage()
    }

    /// Returns a follower of the log; none if it is off.
    pub(crate) fn follow(&self) -> Option<Follower<str>> {
        self.queue.is_on().then(|| self.queue.followers.add())
    }

    /// Applies another config, in the background. If the new file cannot be opened, this is logged and retried, and
    /// lines are written to the previous destination until then.
    pub(crate) fn reconfigure(&self, config: Option<&Audit>) {
        self.queue.reconfigure(config.cloned());
    }

    /// Begins a request: none if the log is off.
    ///
    /// # Errors
    ///
    /// The log refuses requests, because it has no space for a line with `text_len` bytes of text and with the returned
    /// URIs.
    pub(crate) fn begin(&self, text_len: usize, returns_uris: bool) -> Result<Option<Entry<'_>>, QueueFull> {
        let context_len = RequestContext::with_current(|context| context.map_or(0, RequestContext::text_len));
        let returned = if returns_uris { line::MAX_RETURNED } else { 0 };
        let reserved = line::max_len(text_len.saturating_add(context_len)).saturating_add(returned);
        let reservation = self.queue.reserve(reserved)?;
        Ok(reservation.map(|reservation| Entry { reservation, began: Instant::now() }))
    }

    /// Writes the queued lines, for at most `timeout`, and ends the thread. Later requests have no lines.
    pub(crate) async fn close(&self, timeout: Duration) {
        self.push_last_lines();
        let queue = self.queue.clone();
        // This fails only if the thread panics or the runtime shuts down.
        let _ = task::spawn_blocking(move || queue.close(timeout)).await;
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        self.push_last_lines();
        self.queue.close(Duration::ZERO);
    }
}

impl Entry<'_> {
    /// Queues the line of the request.
    pub(crate) fn finish(self, line: &Line<'_>) {
        let text = RequestContext::with_current(|context| line.encode(context, self.began.elapsed()));
        self.reservation.push(&text);
    }
}

#[cfg(test)]
mod tests {
    use mcp_host_config::Operation;

    use super::OPERATIONS;
    use crate::host::AdminAction;

    #[test]
    fn the_operations_of_rules_and_of_administrators_are_among_those_of_lines() {
        let actions = [
            AdminAction::Reload,
            AdminAction::Explain,
            AdminAction::View,
            AdminAction::Log,
            AdminAction::Disable,
            AdminAction::Enable,
            AdminAction::Reset,
            AdminAction::Record,
            AdminAction::Profile,
            AdminAction::Open,
        ];
        let names = Operation::ALL.map(Operation::name).into_iter().chain(actions.map(AdminAction::name));
        for name in names {
            assert!(OPERATIONS.contains(&name), "{name}");
        }
    }
}
