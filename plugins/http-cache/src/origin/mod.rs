//! Origins: requests and responses.
//!
//! The caching rules are above [`Origin`], HTTP is below it. In a component, the implementation is [`WasiHttpOrigin`],
//! which sends requests through the host; tests have another one.

mod wasi_http;

use http::HeaderMap;
use std::time::Duration;
pub use wasi_http::WasiHttpOrigin;

/// Sends requests.
pub trait Origin {
    /// Sends one request without following redirects. The body is read only for statuses that may contain a page
    /// (2xx).
    ///
    /// # Errors
    ///
    /// Any failure to receive a response. An error status is not a failure.
    fn send(&self, request: &Request) -> Result<Response, FetchError>;

    /// Returns whether requests to an origin, such as `https://docs.rs`, are granted. Stored pages of other origins are
    /// not served.
    fn is_granted(&self, origin: &str) -> bool;
}

/// A request.
#[derive(Debug, Clone)]
pub struct Request {
    /// The absolute URL.
    pub url: String,
    /// Whether it is a HEAD request.
    pub is_head: bool,
    /// The headers that affect the response.
    pub headers: HeaderMap,
    /// The timeout for the whole exchange.
    pub timeout: Duration,
    /// The maximum size of the body in bytes.
    pub max_body: usize,
}

/// A response.
#[derive(Debug, Clone, Default)]
pub struct Response {
    /// The status code, such as 200 or 404.
    pub status: u16,
    /// The headers, without invalid ones.
    pub headers: HeaderMap,
    /// The complete body.
    pub body: Vec<u8>,
}

/// The reasons why there is no response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The origin is not granted to the plugin.
    #[error("{0}")]
    Denied(String),
    /// The body exceeds the limit.
    #[error("the page exceeds {0} bytes, this plugin's limit for a page")]
    TooLarge(usize),
    /// The origin is unreachable, timed out, or violated HTTP.
    #[error("{0}")]
    Unreachable(String),
    /// The request cannot be sent.
    #[error("{0}")]
    Host(String),
}
