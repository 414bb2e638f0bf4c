//! An HTTP client, limited to the origins that the administrator grants.
//!
//! Requests go through `wasi:http`: the host checks the origin against the grants, resolves the name, connects and
//! verifies the certificate. The client follows no redirects, stores no cookies and decodes no content encodings. A
//! limit of the host (time, size, concurrent requests) that is exceeded returns an [`Error`] that names it.
//!
//! ```no_run
//! use mcp_provider::http::Request;
//! use std::time::Duration;
//!
//! let response = Request::get("https://docs.rs/serde/")
//!     .header("accept", "text/html")
//!     .timeout(Duration::from_secs(4))
//!     .send()?;
//! if response.status == 200 {
//!     let page = response.body.read_to_limit(1024 * 1024)?;
//! #   let _ = page;
//! }
//! # Ok::<(), mcp_provider::http::Error>(())
//! ```
//!
//! The module requires the crate's feature `http`, so that the components of other providers do not import
//! `wasi:http`. On native targets it compiles, and every request fails with [`Error::NoHost`]: a provider with native
//! tests should put a trait of its own in between.

mod error;
mod request;
mod response;
mod url;

pub use error::Error;
pub use request::Request;
pub use response::{Body, Response};

/// The result type of HTTP requests.
pub type Result<T> = std::result::Result<T, Error>;
