//! Network origins: `https://docs.rs`, and patterns of them: `https://*.example.com`.
//!
//! Grants of outbound HTTP (`grants.http`), CORS (`cors` of `[http]`) and the check of `Origin` and `Host` use the same
//! types. `https_client` is the client for endpoints of the config.

#[cfg(any(feature = "http", feature = "search"))]
pub(crate) mod https_client;
mod origin;
pub(crate) mod system_certificates;

pub use self::origin::{HostName, Origin, OriginError, OriginPattern, Scheme, UrlHost};
