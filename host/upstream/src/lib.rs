//! Existing MCP servers, mounted like plugins: the native provider of an `[[upstream]]`.
//!
//! [`connect`] opens a connection with rmcp's client and returns a [`Provider`], which the host calls like any other
//! provider. So policy, cursors, search, limits, the circuit breaker, audit and metrics need no code for upstreams.
//!
//! | module | subject |
//! |---|---|
//! | [`mapping`] | URIs of the upstream, and paths below the mount |
//! | [`listed`] | spellings and metadata of listed resources |
//! | [`cursor`] | pagination: repeated cursors, endless listings |
//! | [`ask`], [`direct`], [`answer`] | requests, sent by rmcp's client or by the waiting task itself, and results parsed from text |
//! | [`walks`] | read-ahead: the next page of a listing |
//! | [`convert`] | answers of the upstream as answers of a provider |
//! | [`errors`] | errors of the upstream as failures for clients |
//! | [`connection`] | one connection, opened again with back-off |
//! | [`health`] | reachability of the server |
//! | [`http`], [`connections`] | streamable HTTP, over a pool of hyper's connections |
//! | [`pipes`], [`process`] | pipes; a program with pipes |
//! | [`message`] | decoding of messages within the memory limit |
//! | [`server_info`] | what a server says of itself, reduced to what the host uses |
//! | [`guard`] | limits of what a server sends without a request |
//! | [`updates`], [`subscriptions`], [`polling`] | recorded changes, and their detection by subscriptions or by polling |
//! | [`slots`] | bulkheads for the host's own requests |
//! | [`provider`] | the provider |
//! | [`tokens`] | access tokens from a token endpoint |
//! | [`identities`] | one provider for each token of a principal or a group |
//! | [`callers`] | one provider for each principal, or for each access token of a client |
//!
//! # Bounds of an upstream
//!
//! The engine bounds calls: `deadline`, `concurrency`, `rate`, `response-size`, `response-items`, `listing-items`. This
//! crate bounds the rest:
//!
//! - A message on the wire has at most one and a half times `response-size`. A tree of its values is built only if its
//!   estimated size is within the budget ([`message`]).
//! - Everything that a server sends besides answers to requests is counted, including data that are not messages. Above
//!   a limit, the connection ends ([`guard`]).
//! - Spellings and metadata of listings take at most half of `memory` ([`listed`]), and pages that were read ahead at
//!   most an eighth ([`walks`]).
//! - A text of an upstream is used as a URI only after it was mapped. A URI that cannot be mapped is dropped and
//!   logged.
//!
//! # Revisions
//!
//! As the specification requires, 2026-07-28 is tried first (`server/discover`), then sessions (`initialize`,
//! 2025-11-25 and older). HTTP with SSE of 2024-11-05 is not supported.

#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails, as it should"))]

mod answer;
mod ask;
mod callers;
mod connection;
mod connections;
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
mod server_info;
mod slots;
mod subscriptions;
mod tokens;
mod updates;
mod walks;

use std::sync::Arc;

use futures::future::BoxFuture;
use mcp_host_config::{Plugin, Views};
use mcp_host_model::provider::Provider;
use tokio::sync::Semaphore;

use self::callers::{CallerClients, MAX_PROGRAMS};
use self::connection::{Connector, Means};
use self::guard::Buckets;
use self::http::Credentials;
use self::identities::Identities;
use self::message::max_message;
use self::process::{Launcher, ProgramLog, Unconfined};
use self::provider::{Opening, UpstreamProvider};

pub use self::connection::ConnectError;
pub use self::tokens::{AccessTokens, TokenClient};
pub use hyper::header::HeaderValue;

/// Connects to the server of an `[[upstream]]`. Programs are started without a sandbox, and their standard error is not
/// logged.
///
/// # Errors
///
/// The connection fails, or the server has no supported revision.
pub fn connect(plugin: &Plugin) -> BoxFuture<'_, Result<Arc<dyn Provider>, ConnectError>> {
    connect_with(plugin, Arc::new(Unconfined), Arc::new(()), None)
}

/// Connects to the server of an `[[upstream]]`. `launcher` starts its program, `log` receives the program's standard
/// error, and `tokens` creates the clients for access tokens. The future is type-erased, so that the client is compiled
/// in this crate only.
///
/// # Errors
///
/// The errors of [`connect`].
pub fn connect_with<'a>(
    plugin: &'a Plugin,
    launcher: Arc<dyn Launcher>,
    log: Arc<dyn ProgramLog>,
    tokens: Option<&'a Arc<TokenClient>>,
) -> BoxFuture<'a, Result<Arc<dyn Provider>, ConnectError>> {
    Box::pin(start(plugin, launcher, log, tokens))
}

async fn start(
    plugin: &Plugin,
    launcher: Arc<dyn Launcher>,
    log: Arc<dyn ProgramLog>,
    tokens: Option<&Arc<TokenClient>>,
) -> Result<Arc<dyn Provider>, ConnectError> {
    let Some(upstream) = &plugin.upstream else { return Err(ConnectError::no_upstream()) };
    let programs = Arc::new(Semaphore::new(MAX_PROGRAMS.get().saturating_add(1)));
    let means = Means {
        launcher,
        log,
        ledger: Arc::default(),
        buckets: Buckets::of_upstream(max_message(&plugin.limits), plugin.limits.concurrency.get()),
        programs,
    };
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
