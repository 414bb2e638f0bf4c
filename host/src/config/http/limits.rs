//! What HTTP clients may use up: `limits` of `[http]`.
//!
//! A request that reaches one is refused with a status that says so; a connection or a session that reaches one is closed.
//! None can be switched off.

use super::share::ClientShare;
use crate::config::count::Count;
use crate::config::duration::{BoundedDuration, HOUR, MINUTE, SECOND};
use crate::config::error::Diagnostic;
use crate::config::reader::{FromTable, Table, documented};
use crate::config::size::{GIB, KIB, MIB, Size};

/// How large the body of a request may be.
pub type Body = Size<KIB, { 4 * MIB }, { 64 * MIB }>;
/// How much of bodies may be being received at once.
pub type BodyMemory = Size<MIB, { 64 * MIB }, { 16 * 1024 * MIB }>;
/// How large the head of a request may be.
pub type Headers = Size<{ 8 * KIB }, { 32 * KIB }, MIB>;
/// How many connections may be open at once.
pub type Connections = Count<1, 1024, 65_536>;
/// How many sessions there may be at once.
pub type Sessions = Count<1, 1024, 65_536>;
/// How many streams of events may be open at once.
pub type Streams = Count<1, 1024, 65_536>;
/// How many bytes of answers may wait to be sent at once.
pub type ResponseMemory = Size<{ 16 * MIB }, { 512 * MIB }, { 64 * GIB }>;
/// How many bytes of answers may wait to be sent on one connection.
pub type ResponseMemoryPerConnection = Size<MIB, { 64 * MIB }, { 16 * GIB }>;
/// How long an answer may make no progress.
pub type WriteTimeout = BoundedDuration<100, { 30 * SECOND }, { 10 * MINUTE }>;
/// How long a client may take to send.
pub type ReadTimeout = BoundedDuration<100, { 30 * SECOND }, { 10 * MINUTE }>;
/// How long a connection may be open with nothing asked.
pub type IdleTimeout = BoundedDuration<100, { 2 * MINUTE }, HOUR>;
/// How long a session lives with nothing asked.
pub type SessionIdleTimeout = BoundedDuration<100, { 24 * HOUR }, { 30 * 24 * HOUR }>;

documented! {
    /// What HTTP clients may use up: `limits` of `[http]`.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct HttpServerLimits {
        /// The bytes of the body of a request. 4 MiB unless set; 1 KiB to 64 MiB. A larger one is refused with 413.
        pub body: Body,
        /// The bytes of all bodies that are being received at once. 64 MiB unless set; 1 MiB to 16 GiB, and not less than `body`. One
        /// connection gets a quarter of it, or one body if that is more. What is more is refused with 503; the first 4 KiB of each body are always taken.
        pub body_memory: BodyMemory,
        /// The bytes of a request before its body. 32 KiB unless set; 8 KiB to 1 MiB. More are refused with 431.
        pub headers: Headers,
        /// The connections at once. 1024 unless set; 1 to 65536. Others wait until one is closed.
        pub connections: Connections,
        /// The sessions at once. 1024 unless set; 1 to 65536. One more ends the one that has been idle for longest; while none
        /// is idle, it is refused with 503.
        pub sessions: Sessions,
        /// The streams of events that clients open to be told something, at once. 1024 unless set; 1 to 65536. One more is refused with 503.
        pub streams: Streams,
        /// The share of `connections`, `sessions`, `streams`, `body-memory` and `response-memory` that one client may have: all that comes from one
        /// IPv4 address, or from one IPv6 network of 64 bits. 15/16 unless set; 1/64 to 1/1.
        pub client_share: ClientShare,
        /// The bytes of all answers that wait to be sent, in memory. 512 MiB unless set; 16 MiB to 64 GiB. A request beyond waits for
        /// room, for as long as `write-timeout`, and is then refused.
        pub response_memory: ResponseMemory,
        /// The bytes of the answers that wait to be sent on one connection, or over stdio. 64 MiB unless set; 1 MiB to 16 GiB.
        pub response_memory_per_connection: ResponseMemoryPerConnection,
        /// How long a client may take nothing of an answer that is being sent. 30 s unless set; 100 ms to 10 min. Then its stream is
        /// reset, with HTTP/1.1 its connection closed.
        pub write_timeout: WriteTimeout,
        /// How long a client may take for the TLS handshake, for its first request, and for the body of each. 30 s unless set;
        /// 100 ms to 10 min.
        pub read_timeout: ReadTimeout,
        /// How long a connection may be open with nothing in flight. 2 min unless set; 100 ms to 1 h. One with a stream of
        /// events is never idle.
        pub idle_timeout: IdleTimeout,
        /// How long a session lives with nothing in flight. 24 h unless set; 100 ms to 30 days. One with a stream of events is
        /// never idle.
        pub session_idle_timeout: SessionIdleTimeout,
    }
}

impl HttpServerLimits {
    /// Reports what does not fit together.
    fn check(&self, table: &Table<'_>) {
        if self.body_memory.bytes() >= self.body.bytes() {
            return;
        }
        let message =
            format!("`body-memory` is less than `body`, {}: for the largest body there is never room", self.body);
        let help = "give `body-memory` at least the value of `body`, better many times as much";
        let problem = Diagnostic::new(message, help).at(table.entry_span("body-memory"));
        table.report(if table.has("body") {
            problem.secondary(table.entry_span("body"), "more than that")
        } else {
            problem
        });
    }
}

impl FromTable for HttpServerLimits {
    const TYPE_NAME: &'static str = "a table of limits";

    fn example() -> String {
        "{ body = \"4MiB\", connections = 1024 }".into()
    }

    fn from_table(table: &mut Table<'_>) -> Option<Self> {
        let limits = Self {
            body: table.or_default("body"),
            body_memory: table.or_default("body-memory"),
            headers: table.or_default("headers"),
            connections: table.or_default("connections"),
            sessions: table.or_default("sessions"),
            streams: table.or_default("streams"),
            client_share: table.or_default("client-share"),
            response_memory: table.or_default("response-memory"),
            response_memory_per_connection: table.or_default("response-memory-per-connection"),
            write_timeout: table.or_default("write-timeout"),
            read_timeout: table.or_default("read-timeout"),
            idle_timeout: table.or_default("idle-timeout"),
            session_idle_timeout: table.or_default("session-idle-timeout"),
        };
        limits.check(table);
        Some(limits)
    }
}
