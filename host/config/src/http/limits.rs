//! Resource limits of HTTP clients: `limits` of `[http]`.
//!
//! A request beyond a limit is rejected with a specific status; a connection or a session beyond a limit is closed. No
//! limit can be disabled.

use super::share::{ClientShare, PrincipalShare};
use crate::count::Count;
use crate::declare::table;
use crate::diagnostic::Diagnostic;
use crate::duration::{BoundedDuration, HOUR, MINUTE, SECOND};
use crate::rate::Rate;
use crate::reader::{FromTable, Table};
use crate::size::{GIB, KIB, MIB, Size};

/// The maximum size of the body of a request.
pub type BodySize = Size<KIB, { 4 * MIB }, { 64 * MIB }>;
/// The maximum size of all bodies in transit.
pub type BodyMemory = Size<MIB, { 64 * MIB }, { 16 * 1024 * MIB }>;
/// The maximum size of the head of a request.
pub type Headers = Size<{ 8 * KIB }, { 32 * KIB }, MIB>;
/// The maximum number of open connections.
pub type Connections = Count<1, 1024, 1_048_576>;
/// The maximum number of sessions.
pub type Sessions = Count<1, 1024, 65_536>;
/// The maximum number of open event streams.
pub type Streams = Count<1, 1024, 1_048_576>;
/// The maximum rate of requests of all clients.
pub type RequestRate = Rate<100_000, 1_000_000, 1>;
/// The maximum rate of requests of one client.
pub type ClientRate = Rate<10_000, 1_000_000, 1>;
/// The maximum rate of failed authentications of one address.
pub type FailedAuthenticationRate = Rate<600, 1_000_000, 60>;
/// The maximum size of all subscriptions.
pub type SubscriptionMemory = Size<{ 64 * KIB }, { 512 * MIB }, { 64 * GIB }>;
/// The maximum size of all pending responses.
pub type ResponseMemory = Size<{ 16 * MIB }, { 512 * MIB }, { 64 * GIB }>;
/// The maximum size of the pending responses of one connection.
pub type ResponseMemoryPerConnection = Size<MIB, { 64 * MIB }, { 16 * GIB }>;
/// The maximum time without progress of a response.
pub type WriteTimeout = BoundedDuration<100, { 30 * SECOND }, { 10 * MINUTE }>;
/// The maximum time of receiving a request.
pub type ReadTimeout = BoundedDuration<100, { 30 * SECOND }, { 10 * MINUTE }>;
/// The maximum idle time of a connection.
pub type ConnectionIdleTimeout = BoundedDuration<100, { 2 * MINUTE }, HOUR>;
/// The maximum idle time of a session.
pub type SessionIdleTimeout = BoundedDuration<100, { 24 * HOUR }, { 30 * 24 * HOUR }>;

table! {
    /// Resource limits of HTTP clients: `limits` of `[http]`.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct HttpServerLimits {
        /// The maximum size of the body of a request. 4 MiB unless set; 1 KiB to 64 MiB. A larger body is rejected with
        /// 413.
        pub body: BodySize,
        /// The maximum size of all request bodies that are being received, together. 64 MiB unless set; 1 MiB to
        /// 16 GiB, and at least `body`. One client gets a quarter of it on one connection, or one `body` if that is
        /// more. A body beyond it is rejected with 503; the first 4 KiB of each body are always accepted.
        pub body_memory: BodyMemory,
        /// The maximum size of the head of a request: the path and the header fields. 32 KiB unless set; 8 KiB to
        /// 1 MiB. A larger head is rejected with 431.
        pub headers: Headers,
        /// The maximum number of open connections. 1024 unless set; 1 to 1048576. Further connections wait until one is
        /// closed.
        pub connections: Connections,
        /// The maximum number of sessions. 1024 unless set; 1 to 65536. A new session ends the session that has been
        /// idle for longest. If no session is idle, the new one is rejected with 503.
        pub sessions: Sessions,
        /// The maximum number of open event streams for notifications. 1024 unless set; 1 to 1048576. A further stream
        /// is rejected with 503.
        pub streams: Streams,
        /// The maximum memory of all subscriptions (ten times the length of each URI, and 400 bytes) and of the lists
        /// of `subscriptions/listen`. 512 MiB unless set; 64 KiB to 64 GiB. A further subscription is rejected as
        /// temporarily unavailable.
        pub subscription_memory: SubscriptionMemory,
        /// The maximum share of one address in `connections`, and of its requests without authentication in `sessions`,
        /// `streams`, `body-memory`, `response-memory`, `subscription-memory` and `rate`. An address is an IPv4
        /// address, or an IPv6 network of 64 bits. 15/16 unless set; 1/64 to 1/1.
        pub client_share: ClientShare,
        /// The maximum share of one authenticated principal, from all addresses together, in `sessions`, `streams`,
        /// `body-memory`, `response-memory`, `subscription-memory` and `rate`. 1/4 unless set; 1/64 to 1/1.
        pub principal_share: PrincipalShare,
        /// The rate limit of the requests of all clients, with a burst of the same number. 100000/s unless set; 1/h to
        /// 1000000/s. A request beyond it is rejected with 429.
        pub rate: RequestRate,
        /// The rate limit of the requests of one client, with a burst of the same number; at most the client's share of
        /// `rate`. A client is an authenticated principal, or else an address. 10000/s unless set; 1/h to 1000000/s. A
        /// request beyond it is rejected with 429.
        pub client_rate: ClientRate,
        /// The rate limit of requests from one address with invalid credentials. 600/m unless set; 1/h to 1000000/m. A
        /// request beyond it is rejected with 429 instead of 401.
        pub failed_authentications: FailedAuthenticationRate,
        /// The maximum memory of all pending responses. 512 MiB unless set; 16 MiB to 64 GiB. A request that needs more
        /// waits for at most `write-timeout`, and is then rejected.
        pub response_memory: ResponseMemory,
        /// The maximum memory of the pending responses of one client on one connection, or of stdio. 64 MiB unless set;
        /// 1 MiB to 16 GiB.
        pub response_memory_per_connection: ResponseMemoryPerConnection,
        /// The maximum time in which a client reads nothing of a pending response. 30 s unless set; 100 ms to 10 min.
        /// After that the stream is reset; over HTTP/1.1 the connection is closed.
        pub write_timeout: WriteTimeout,
        /// The maximum time of the TLS handshake, of the head of the first request, and of the body of each request.
        /// 30 s unless set; 100 ms to 10 min.
        pub read_timeout: ReadTimeout,
        /// The maximum time of a connection without a request in flight. 2 min unless set; 100 ms to 1 h. A connection
        /// with an event stream is never idle.
        pub idle_timeout: ConnectionIdleTimeout,
        /// The maximum time of a session without a request in flight. 24 h unless set; 100 ms to 30 days. A session
        /// with an event stream is never idle.
        pub session_idle_timeout: SessionIdleTimeout,
    }
}

impl FromTable for HttpServerLimits {
    type Keys = Self;

    const TYPE_NAME: &'static str = "a table of limits";

    fn example() -> String {
        "{ body = \"4MiB\", connections = 1024 }".into()
    }

    fn from_keys(keys: Self, table: &Table<'_>) -> Option<Self> {
        if keys.body_memory.bytes() < keys.body.bytes() {
            let message = format!("`body-memory` is less than `body`, {}: the largest body would never fit", keys.body);
            let help = "set `body-memory` to at least the value of `body`, better a multiple";
            let problem = Diagnostic::new(message, help).at(table.entry_span("body-memory"));
            table.report(if table.has("body") {
                problem.secondary(table.entry_span("body"), "more than that")
            } else {
                problem
            });
        }
        Some(keys)
    }
}
