//! Limits of outbound HTTP: `limits.http`.

use crate::config::count::Count;
use crate::config::duration::{BoundedDuration, MINUTE, SECOND};
use crate::config::rate::Rate;
use crate::config::reader::{FromTable, Table, documented};
use crate::config::size::{KIB, MIB, Size};

/// The maximum number of concurrent HTTP exchanges.
pub type HttpConcurrency = Count<1, 8, 64>;
/// The maximum rate of HTTP requests.
pub type HttpRate = Rate<60, 100_000, 60>;
/// The maximum size of the headers of one HTTP message.
pub type HttpHeaders = Size<KIB, { 64 * KIB }, MIB>;
/// The maximum size of the body of one HTTP message.
pub type HttpBody = Size<KIB, { 16 * MIB }, { 256 * MIB }>;
/// The maximum time of one HTTP exchange.
pub type HttpTimeout = BoundedDuration<10, { 10 * SECOND }, { 10 * MINUTE }>;

documented! {
    /// Limits of outbound HTTP: `limits.http`. They have no effect without `grants.http`.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct HttpLimits {
        /// The number of concurrent exchanges, of all calls together. 8 unless set; 1 to 64. Further ones are rejected
        /// at once. One client gets a further one only while more are free than it has: four of eight.
        pub concurrency: HttpConcurrency,
        /// The rate limit of requests, of all calls together, with a burst of the same number. 60/m unless set; 1/h to
        /// 100000/m. Further requests are rejected at once.
        pub rate: HttpRate,
        /// The bytes of the headers of a request, and of those of a response. 64 KiB unless set; 1 KiB to 1 MiB.
        pub headers: HttpHeaders,
        /// The bytes of the body of a request, and of that of a response. 16 MiB unless set; 1 KiB to 256 MiB.
        pub body: HttpBody,
        /// The wall-clock time of one exchange, from name resolution to the last byte of the body. 10 s unless set; 10
        /// ms to 10 min.
        pub timeout: HttpTimeout,
    }
}

impl FromTable for HttpLimits {
    const TYPE_NAME: &'static str = "a table of limits for HTTP";

    fn example() -> String {
        "{ concurrency = 8, rate = \"60/m\", timeout = \"10s\" }".into()
    }

    fn from_table(table: &mut Table<'_>) -> Option<Self> {
        Some(Self {
            concurrency: table.or_default("concurrency"),
            rate: table.or_default("rate"),
            headers: table.or_default("headers"),
            body: table.or_default("body"),
            timeout: table.or_default("timeout"),
        })
    }
}
