//! What a plugin may use up of the web: `limits.http`.

use crate::config::count::Count;
use crate::config::duration::{BoundedDuration, MINUTE, SECOND};
use crate::config::rate::Rate;
use crate::config::reader::{FromTable, Table, documented};
use crate::config::size::{KIB, MIB, Size};

/// How many HTTP exchanges may be under way at once.
pub type HttpConcurrency = Count<1, 4, 64>;
/// The maximum rate of HTTP requests.
pub type HttpRate = Rate<60, 100_000, 60>;
/// How large the headers of one HTTP message may be.
pub type HttpHeaders = Size<KIB, { 64 * KIB }, MIB>;
/// How large the body of one HTTP message may be.
pub type HttpBody = Size<KIB, { 16 * MIB }, { 256 * MIB }>;
/// How long one HTTP exchange may take.
pub type HttpTimeout = BoundedDuration<10, { 10 * SECOND }, { 10 * MINUTE }>;

documented! {
    /// What a plugin may use up of the web: `limits.http`. They mean nothing without `grants.http`.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct HttpLimits {
        /// The exchanges at once, over all calls. 4 unless set; 1 to 64. One more is refused at once.
        pub concurrency: HttpConcurrency,
        /// The rate of requests, over all calls. All requests of its unit of time may come at once. 60/m unless set; 1/h to
        /// 100000/m. A request beyond the rate is refused at once.
        pub rate: HttpRate,
        /// The bytes of the headers of a request, and of those of a response. 64 KiB unless set; 1 KiB to 1 MiB.
        pub headers: HttpHeaders,
        /// The bytes of the body of a request, and of that of a response. 16 MiB unless set; 1 KiB to 256 MiB.
        pub body: HttpBody,
        /// The wall-clock time of one exchange, from resolving the name to the last byte of the body. 10 s unless set; 10 ms to
        /// 10 min.
        pub timeout: HttpTimeout,
    }
}

impl FromTable for HttpLimits {
    const TYPE_NAME: &'static str = "a table of limits for HTTP";

    fn example() -> String {
        "{ concurrency = 4, rate = \"60/m\", timeout = \"10s\" }".into()
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
