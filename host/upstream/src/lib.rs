//! Existing MCP servers, mounted like plugins: the native provider of an `[[upstream]]`.
//!
//! [`connect`] opens a connection by rmcp's client and returns a [`Provider`], which the host calls like any other: policy, cursors, search,
//! limits, the circuit breaker, audit and metrics apply without knowing of upstreams.
//!
//! | module | subject |
//! |---|---|
//! | [`mapping`] | the URIs of the upstream, and the paths below the mount |
//! | [`listed`] | the spellings and the metadata of what it listed |
//! | [`cursor`] | pages: a repeated cursor, pages without end |
//! | [`ask`], [`direct`], [`answer`] | requests, by rmcp's client or by the call itself, and their results parsed from text |
//! | [`walks`] | the next page of a listing that is being walked |
//! | [`convert`] | its answers, as the answers of a provider |
//! | [`errors`] | what its errors say to clients |
//! | [`connection`] | one connection, opened again with back-off |
//! | [`health`] | whether the server can be reached |
//! | [`http`], [`pipes`], [`process`] | streamable HTTP over hyper; pipes; a program over pipes |
//! | [`message`] | messages from bytes, and what of them is parsed |
//! | [`guard`] | what an upstream may send unasked |
//! | [`updates`], [`subscriptions`], [`polling`] | what changed, and how that is learned |
//! | [`slots`] | the host's own requests, beside those of clients |
//! | [`provider`] | the provider |
//! | [`tokens`] | access tokens from a token endpoint |
//! | [`identities`] | one provider for each token of a principal or a group |
//! | [`callers`] | one provider for each principal, or for each access token of a client |
//!
//! # What bounds an upstream
//!
//! The engine bounds calls: `deadline`, `concurrency`, `rate`, `response-size`, `response-items`, `listing-items`. Here, a message has at most
//! one and a half times `response-size` on the wire, and no tree is made of its values unless that was found to be small ([`message`]); messages that nobody asked for are counted, and too many of them end the connection
//! ([`guard`]); what is remembered of a listing takes at most half of `memory` ([`listed`]), and what is kept for its next pages an eighth ([`walks`]). Nothing of an upstream's text is used as a URI
//! before it is mapped, and a URI that cannot be mapped is dropped and logged.
//!
//! # Revisions
//!
//! 2026-07-28 is tried first (`server/discover`), then sessions (`initialize`, 2025-11-25 and older), as the specification says. HTTP with
//! SSE of 2024-11-05 is not spoken.

#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails, as it should"))]

mod answer;
mod ask;
mod callers;
mod connection;
mod convert;
mod cursor;
mod direct;
mod errors;
mod guard;
mod health;
mod http;
mod identities;
mod listed;
mod mapping;
mod message;
mod pipes;
mod polling;
pub mod process;
mod provider;
mod slots;
mod subscriptions;
mod tokens;
mod updates;
mod walks;

use std::sync::Arc;

use mcp_host_config::{Plugin, Views};
use mcp_host_model::provider::Provider;

use self::callers::CallerClients;
use self::connection::{Connector, Means};
use self::http::Credentials;
use self::identities::Identities;
use self::process::{Launcher, ProgramLog, Unconfined};
use self::provider::{Opening, UpstreamProvider};

pub use self::connection::ConnectError;
pub use self::tokens::{AccessTokens, TokenClient};
pub use hyper::header::HeaderValue;

/// Connects to the server of an `[[upstream]]`. Programs are started without a sandbox, and what they write on standard error is not logged.
///
/// # Errors
///
/// There is no connection, or the server is none of a revision that is spoken.
pub async fn connect(plugin: &Plugin) -> Result<Arc<dyn Provider>, ConnectError> {
    connect_with(plugin, Arc::new(Unconfined), Arc::new(()), None).await
}

/// Connects to the server of an `[[upstream]]`; a program is started by `launcher`, what it writes on standard error goes to `log`, and
/// access tokens are had by `tokens`.
///
/// # Errors
///
/// Those of [`connect`].
pub async fn connect_with(
    plugin: &Plugin,
    launcher: Arc<dyn Launcher>,
    log: Arc<dyn ProgramLog>,
    tokens: Option<&Arc<TokenClient>>,
) -> Result<Arc<dyn Provider>, ConnectError> {
    let Some(upstream) = &plugin.upstream else { return Err(ConnectError::no_upstream()) };
    let means = Means { launcher, log, ledger: Arc::default() };
    if !upstream.identities.is_empty() {
        return Ok(Arc::new(Identities::start(plugin, &upstream.identities, means).await?));
    }
    let tokens = || tokens.ok_or_else(ConnectError::no_token_client);
    if let Some(exchange) = &upstream.exchange {
        return Ok(Arc::new(CallerClients::of_access_tokens(plugin, exchange, tokens()?.clone(), means).await?));
    }
    let credentials = match (&upstream.authorization, &upstream.oauth) {
        (Some(value), _) => connection::fixed(value)?,
        (None, Some(oauth)) => Credentials::Tokens(tokens()?(oauth)),
        (None, None) => Credentials::None,
    };
    if upstream.views == Views::Principal {
        return Ok(Arc::new(CallerClients::of_principals(plugin, credentials, means).await?));
    }
    let http = connection::http_client(plugin).await?;
    let connector = Connector::new(plugin, http.as_ref(), credentials.clone(), None, means)?;
    let opening = Opening::new(plugin, connector, http.as_ref(), credentials);
    let provider = UpstreamProvider::start(plugin, opening).await?;
    Ok(Arc::new(provider))
}
