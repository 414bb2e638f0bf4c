//! The HTTP server: `[http]`. Its address is `http` of `[server]`, or `--http` on the command line.
//!
//! | key | meaning |
//! |---|---|
//! | `tls` | HTTPS instead of HTTP, with this certificate |
//! | `insecure` | listen beyond loopback without authentication or without TLS |
//! | `hosts` | additional host names of the server, such as that of a reverse proxy, for validation of `Host` |
//! | `cors` | additional origins of web pages that may send requests and read the responses (CORS) |
//! | `keep-alive` | the interval of keep-alive comments on idle event streams |
//! | `limits` | resource limits of clients |
//!
//! After a reload all keys apply from the next connection or request on, except `keep-alive` and whether TLS is used.

mod address;
mod allowed_origins;
pub mod limits;
mod share;
mod tls;

pub use self::address::{HttpAddress, HttpAddressError};
pub use self::limits::HttpServerLimits;
pub use self::share::{ClientShare, PrincipalShare, Share, ShareError};
pub use self::tls::{Tls, TlsError};

use super::duration::{BoundedDuration, MINUTE, SECOND};
use super::reader::{FromTable, Table, documented};
use crate::net::{OriginPattern, UrlHost};

/// The interval of keep-alive comments on idle event streams. 15 s unless set; 100 ms to 10 min.
pub type KeepAlive = BoundedDuration<100, { 15 * SECOND }, { 10 * MINUTE }>;

documented! {
    /// The HTTP server: `[http]`.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct Http {
        /// The certificate for TLS. Without it: plain HTTP.
        pub tls: Option<Tls>,
        /// Whether the server may listen beyond loopback although it has no authentication or no TLS. `false` unless set.
        pub insecure: bool,
        /// Host names by which clients may address the server, at any port, in addition to `localhost`, the loopback
        /// addresses, and the address that it listens at. None unless set.
        pub hosts: Vec<UrlHost>,
        /// Origins of web pages that may send requests and read the responses (CORS). None unless set.
        pub cors: Vec<OriginPattern>,
        /// The interval of keep-alive comments on idle event streams. 15 s unless set; 100 ms to 10 min.
        pub keep_alive: KeepAlive,
        /// Resource limits of clients.
        pub limits: HttpServerLimits,
    }
}

impl FromTable for Http {
    const TYPE_NAME: &'static str = "a table";

    fn example() -> String {
        "{ tls = { certificate = \"tls/cert.pem\", key = \"tls/key.pem\" } }".into()
    }

    fn from_table(table: &mut Table<'_>) -> Option<Self> {
        Some(Self {
            tls: table.optional("tls"),
            insecure: table.or_default("insecure"),
            hosts: table.or_default("hosts"),
            cors: table.optional("cors").map(|allowed_origins::CorsOrigins(pages)| pages).unwrap_or_default(),
            keep_alive: table.or_default("keep-alive"),
            limits: table.or_default("limits"),
        })
    }
}
