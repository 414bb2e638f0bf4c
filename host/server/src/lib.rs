//! The MCP server: serves the façade over streamable HTTP, and over stdio or any other pair of streams.
//!
//! | function | serves |
//! |---|---|
//! | [`http_service`], [`router`] | clients of an application's own HTTP server, with its own login |
//! | [`serve_http`] | clients of a TCP listener, over TLS if the config has a certificate |
//! | [`serve_io`] | the client at the other end of a reader and a writer |
//! | [`serve_stdio`] | the client that started this process |
//! | [`serve_admin`] | operators: probes for liveness and readiness, metrics, and the [API](admin_api) of administrators |
//!
//! | module | subject |
//! |---|---|
//! | `http`, `stdio` | the transports |
//! | `jsonrpc`, `params`, `method`, `request` | a message: parsing, parameters, the table of methods, the request |
//! | `dispatch` | the method and revision of a message, or the reason for its rejection |
//! | `request_context`, `respond`, `extensions`, `tools` | the context of a request; execution |
//! | `wire`, `json`, `error` | the encoder of MCP objects; JSON chunk by chunk; error codes, and the hint for a URI that is not found |
//! | `session`, `listen`, `notification`, `client_log`, `in_flight` | sessions; `subscriptions/listen`; notifications; log messages to clients; requests that can be cancelled |
//! | `revision`, `server_info` | the revisions of MCP, and the capabilities of this server |
//! | `budget`, `client_id` | bytes of responses that wait to be sent; the client whose share a request uses |
//! | `trace`, `server_metrics` | spans and metrics |
//!
//! Both transports process a message in the same way: it is parsed (`jsonrpc`, by the table of methods in `method`),
//! dispatched (`dispatch`), executed with a `RequestContext` (`respond`), and answered with MCP objects (`wire`).
//! Sessions (`session`) and streams of `subscriptions/listen` (`listen`) are the same over both transports. A transport
//! adds its connections, its limits, and the framing of messages. The session-based revisions (2024-11-05 to
//! 2025-11-25) and the stateless one (2026-07-28) are served by the same code; the revision is determined for each
//! request.
//!
//! Answers are encoded as JSON chunk by chunk, as their clients read them (`json`), within a budget in bytes
//! (`budget`).
//!
//! Graceful shutdown: new requests are not accepted, requests in flight are answered, then connections are closed. The
//! limits of the called plugins, and a drain timeout of 30 s, bound its duration.

// The layout of an HTTP request's future is nested that deeply.
#![recursion_limit = "256"]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails, as it should"))]

mod budget;
mod client_id;
mod client_log;
mod dispatch;
mod error;
mod extensions;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod http;
mod in_flight;
pub mod json;
mod jsonrpc;
mod listen;
mod method;
#[cfg(test)]
#[cfg(feature = "search")]
mod non_interference;
mod notification;
mod params;
mod request;
mod request_context;
mod respond;
mod revision;
mod server_info;
mod server_metrics;
mod session;
mod stdio;
mod tools;
mod trace;
pub mod wire;

use std::time::Duration;

pub use mcp_resource_host::*;

pub use self::http::admin::api::types as admin_api;
pub use self::http::admin::client::{AdminClient, AdminClientError, AuditEvent};
pub use self::http::admin::console::LoginCodes;
pub use self::http::admin::{AdminControls, AdminListener, LogFilter, PluginProfile, Profiler, serve_admin};
pub use self::http::{HttpOptions, McpService, http_service, router, serve_http};
pub use self::revision::Revision;
pub use self::server_metrics::ServerCollector;
pub use self::stdio::{serve_io, serve_stdio};

/// The header that names the session of a request.
const SESSION_ID_HEADER: &str = "mcp-session-id";

/// The drain timeout of graceful shutdown. The limits of plugins end requests in flight sooner, but a client that does
/// not read its answers delays the shutdown until this timeout.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);

/// The cause of an error, from another crate.
type Source = Box<dyn std::error::Error + Send + Sync>;

/// The reason why serving ended with an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The client of a pair of streams did not read the remaining answers at shutdown.
    #[error("the client does not read its answers: they are dropped, so that the server can end")]
    OutputStalled,
    /// Other machines can reach the listener, and the config lacks the settings that this requires.
    #[error(transparent)]
    Exposure(#[from] mcp_host_config::ExposureError),
    /// TLS cannot be set up.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[source] Source),
}
