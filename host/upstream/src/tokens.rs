//! Access tokens for an upstream: what the host's OAuth client is asked for.
//!
//! The client itself, which caches tokens and has back-off, is that of `grants.http`; it is above this crate.

use std::fmt;
use std::sync::Arc;

use hyper::header::HeaderValue;
use mcp_host_config::grants::OAuth;
use mcp_host_model::provider::async_trait;

/// The access tokens from one source, for one identity.
#[async_trait]
pub trait AccessTokens: fmt::Debug + Send + Sync + 'static {
    /// The value of `Authorization`. Called for each request.
    ///
    /// # Errors
    ///
    /// Why there is none, for an admin.
    async fn authorization(&self) -> Result<HeaderValue, String>;

    /// Drops a token that the server answered 401 to. Returns whether another one may be had now.
    async fn reject(&self, rejected: &HeaderValue) -> bool;
}

/// Makes the client of a source of access tokens.
pub type TokenClient = dyn Fn(&OAuth) -> Arc<dyn AccessTokens> + Send + Sync;
