//! How HTTP is spoken: `[http]`. Where it is listened for is `http` of `[server]`, or `--http` on the command line.
//!
//! | key | means |
//! |---|---|
//! | `tls` | HTTPS instead of HTTP, with this certificate |
//! | `hosts` | names beside those of this machine by which clients may call the server: in front of it stands a proxy |
//! | `cors` | origins of web pages, beside those of this machine, that may ask, and be shown the answers |
//! | `keep-alive` | how often a stream of events says that it is alive while there is nothing to tell |
//! | `limits` | what clients may use up |
//!
//! Everything counts from the next connection or request on when a running host reloads, but whether there is TLS, and
//! `keep-alive`.

mod address;
mod allowed_origins;
pub mod limits;
mod share;
mod tls;

pub use self::address::{HttpAddress, HttpAddressError};
pub use self::limits::HttpServerLimits;
pub use self::share::{ClientShare, ShareError};
pub use self::tls::{Tls, TlsError};

use super::duration::{BoundedDuration, MINUTE, SECOND};
use super::reader::{FromTable, Table, documented};
use crate::net::{OriginPattern, UrlHost};

/// How often a quiet stream of events says that it is alive. 15 s unless set; 100 ms to 10 min.
pub type KeepAlive = BoundedDuration<100, { 15 * SECOND }, { 10 * MINUTE }>;

documented! {
    /// How HTTP is spoken: `[http]`.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct Http {
        /// The certificate to speak TLS with. Without it: plain HTTP.
        pub tls: Option<Tls>,
        /// By which names clients may call the server, at any port, beside `localhost` and the loopback addresses. None unless
        /// set.
        pub hosts: Vec<UrlHost>,
        /// Web pages that may ask, and be shown the answers. None unless set.
        pub cors: Vec<OriginPattern>,
        /// How often a stream of events says that it is alive.
        pub keep_alive: KeepAlive,
        /// What clients may use up.
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
            hosts: table.or_default("hosts"),
            cors: table.optional("cors").map(|allowed_origins::CorsOrigins(pages)| pages).unwrap_or_default(),
            keep_alive: table.or_default("keep-alive"),
            limits: table.or_default("limits"),
        })
    }
}
