//! What a plugin may use up of the web: `limits.http`.

use crate::config::count::Count;
use crate::config::duration::{BoundedDuration, MINUTE, SECOND};
use crate::config::reader::{FromNode, Node};
use crate::config::size::{KIB, MIB, Size};

/// How many HTTP exchanges may be under way at once.
pub type HttpConcurrency = Count<1, 4, 64>;
/// How many HTTP requests a minute.
pub type HttpRate = Count<1, 60, 100_000>;
/// How large the headers of one HTTP message may be.
pub type HttpHeaders = Size<KIB, { 64 * KIB }, MIB>;
/// How large the body of one HTTP message may be.
pub type HttpBody = Size<KIB, { 16 * MIB }, { 256 * MIB }>;
/// How long one HTTP exchange may take.
pub type HttpTimeout = BoundedDuration<10, { 10 * SECOND }, { 10 * MINUTE }>;

/// What a plugin may use up of the web: `limits.http`. They mean nothing without `grants.http`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpLimits {
    /// The exchanges at once, over all calls. 4 unless set; 1 to 64. One more is refused at once.
    pub concurrency: HttpConcurrency,
    /// The requests in a minute, over all calls, in bursts of as many. 60 unless set; 1 to 100000. One more is refused at
    /// once.
    pub rate: HttpRate,
    /// The bytes of the headers of a request, and of those of a response. 64 KiB unless set; 1 KiB to 1 MiB.
    pub headers: HttpHeaders,
    /// The bytes of the body of a request, and of that of a response. 16 MiB unless set; 1 KiB to 256 MiB.
    pub body: HttpBody,
    /// The wall-clock time of one exchange, from resolving the name to the last byte of the body. 10 s unless set; 10 ms to
    /// 10 min.
    pub timeout: HttpTimeout,
}

impl FromNode for HttpLimits {
    const TYPE_NAME: &'static str = "a table of limits for HTTP";

    fn example() -> String {
        "{ concurrency = 4, rate = 60, timeout = \"10s\" }".into()
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        node.table(|table| {
            Some(Self {
                concurrency: table.or_default("concurrency"),
                rate: table.or_default("rate"),
                headers: table.or_default("headers"),
                body: table.or_default("body"),
                timeout: table.or_default("timeout"),
            })
        })
    }
}
