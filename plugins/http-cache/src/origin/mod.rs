//! Who has the pages: what is asked of an origin, and what it answers.
//!
//! The rules of caching are on this side of [`Origin`], the web on the other. In a component that is [`WasiHttpOrigin`], which
//! sends requests through the host; tests have origins of their own.

mod wasi_http;

use http::HeaderMap;
use std::time::Duration;
pub use wasi_http::WasiHttpOrigin;

/// Sends requests.
pub trait Origin {
    /// Sends one request and follows no redirect. The body is read only of a response that may be a page (2xx).
    ///
    /// # Errors
    ///
    /// Why there is no response. A response of any status is one.
    fn send(&self, request: &Request) -> Result<Response, FetchError>;
}

/// A request.
#[derive(Debug, Clone)]
pub struct Request {
    /// The absolute URL.
    pub url: String,
    /// Whether only the headers are wanted.
    pub is_head: bool,
    /// The headers that matter for what is answered.
    pub headers: HeaderMap,
    /// How long it may take in all.
    pub timeout: Duration,
    /// The most bytes of a body.
    pub max_body: usize,
}

/// A response.
#[derive(Debug, Clone, Default)]
pub struct Response {
    /// Such as 200 or 404.
    pub status: u16,
    /// Its headers, as far as they are valid.
    pub headers: HeaderMap,
    /// Its body, whole.
    pub body: Vec<u8>,
}

/// Why there is no response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The plugin may not speak to this origin.
    #[error("{0}")]
    Denied(String),
    /// The body has more bytes than are wanted.
    #[error("the page has more than {0} bytes, and this plugin serves pages of at most so many")]
    TooLarge(usize),
    /// The origin cannot be reached, takes too long, or speaks no proper HTTP.
    #[error("{0}")]
    Unreachable(String),
    /// The request is none that can be sent.
    #[error("{0}")]
    Host(String),
}
