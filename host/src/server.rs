//! The MCP server: the façade on the wire, over stdio and over streamable HTTP.
//!
//! Requests for resources are taken from the message as it came in, and answered (`requests`) with MCP objects ([`wire`]). rmcp
//! speaks the rest of the protocol: how sessions begin and end, subscriptions, streams of events, and the words in which is
//! refused what is not in order. What is here beside that: saying who asks, keeping other sites' pages out, and ending in order.
//! The session-based revisions (2024-11-05 to 2025-11-25) and the stateless one (2026-07-28) are served by the same code,
//! told apart per request.
//!
//! Answers are written as JSON piece by piece, as their clients take them ([`json`]), within a budget in bytes (`budget`).
//!
//! Ending in order means: from then on no new request is taken, those in flight are answered, then connections are
//! closed. How long that takes is bounded by the limits of the plugins that are being asked.

mod budget;
mod client;
mod client_id;
mod client_log;
mod error;
mod extensions;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod handler;
mod http;
pub mod json;
mod jsonrpc;
mod methods;
mod notifications;
mod params;
mod reencode;
mod resource_requests;
mod revision;
mod server_info;
mod stdio;
pub mod wire;

use std::time::Duration;

pub use self::http::serve_http;
pub use self::revision::Revision;
pub use self::stdio::serve_stdio;

/// The longest that requests in flight are waited for when the server ends. The limits of plugins end them sooner; a client
/// that does not read its answers does not.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);

/// Why serving ended otherwise than in order.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The client over stdio did not begin as the protocol has it.
    #[error("the client did not open an MCP session: {0}")]
    Handshake(String),
    /// The transport failed.
    #[error("the transport failed: {0}")]
    Transport(#[from] std::io::Error),
    /// The server was to end, and its client did not take the answers that were left.
    #[error("the client does not read its answers: they are dropped, so that the server can end")]
    OutputStalled,
    /// A task of the server's own ended wrongly.
    #[error("the server failed: {0}")]
    Internal(String),
}
