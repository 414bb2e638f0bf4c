//! Access tokens for an upstream: the interface of the host's OAuth client.
//!
//! The client is implemented in a crate above this one. It is the client of `grants.http`, with a cache of tokens and
//! back-off.

use std::fmt;
use std::sync::Arc;

use hyper::header::HeaderValue;
use mcp_host_config::grants::OAuth;
use mcp_host_model::provider::async_trait;

/// The access tokens from one source, for one identity.
#[async_trait]
pub trait AccessTokens: fmt::Debug + Send + Sync + 'static {
    /// Returns the value of the header `Authorization`. Called for each request.
    ///
    /// # Errors
    ///
    /// There is no token. The error is the reason, for administrators.
    async fn authorization(&self) -> Result<HeaderValue, String>;

    /// Drops a token after the server rejected it with status 401. Returns whether another token may be available now.
    async fn reject(&self, rejected: &HeaderValue) -> bool;
}

/// Creates the client for a source of access tokens.
pub type TokenClient = dyn Fn(&OAuth) -> Arc<dyn AccessTokens> + Send + Sync;
