//! A client of the web, as far as the administrator grants it.
//!
//! Requests go through `wasi:http`: the host decides whether the plugin may speak to that origin, resolves its name, makes
//! the connection and checks the certificate. It follows no redirect, keeps no cookies and decodes nothing; what it bounds (time,
//! sizes, requests at once) fails here with an [`Error`] that says which it was.
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
//! This module is there with the crate's feature `http`, so that the components of other providers import no `wasi:http`.
//! Natively it compiles, and every request fails with [`Error::NoHost`]: a provider that is tested natively keeps a trait of
//! its own in between.

mod error;
mod request;
mod response;
mod url;

pub use error::Error;
pub use request::Request;
pub use response::{Body, Response};

/// What sending a request comes to.
pub type Result<T> = std::result::Result<T, Error>;
