//! Network origins: `https://docs.rs`, and patterns of them: `https://*.example.com`.
//!
//! Grants of outbound HTTP (`grants.http`), CORS (`cors` of `[http]`) and the check of `Origin` and `Host` use the same
//! types. `https_client` is the client for endpoints of the config, and `retry_after` what is told of one that fails.

#[cfg(any(feature = "http", feature = "search"))]
pub(crate) mod https_client;
mod origin;
mod retry_after;
pub(crate) mod system_certificates;

pub(crate) use self::retry_after::retry_advice;

pub use self::origin::{HostName, Origin, OriginError, OriginPattern, Scheme, UrlHost};
