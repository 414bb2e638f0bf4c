//! Requests to an issuer: for its keys, and about a token.
//!
//! A URL is requested exactly as configured, without redirects and proxies. Bounded: [`TIMEOUT`] for all of an exchange, and
//! [`MAX_BODY`] bytes of the answer.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::http::header::ACCEPT;
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use tokio::sync::OnceCell;
use tokio::time::timeout;

use crate::config::EndpointUrl;
use crate::config::grants::CaBundle;
use crate::config::issuer::Introspection;
use crate::net::system_certificates;

/// The time for an exchange: name resolution, connection, request and answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum size of an answer, in bytes.
const MAX_BODY: usize = 1 << 20;

/// Why an issuer did not answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    /// It took too long.
    #[error("no answer within {} s", TIMEOUT.as_secs())]
    Timeout,
    /// The exchange failed.
    #[error("{0}")]
    Exchange(String),
    /// The answer is not a success. Redirects are not followed.
    #[error("the answer has the status {0}")]
    Status(StatusCode),
    /// The answer is too large.
    #[error("the answer has more than {MAX_BODY} bytes")]
    TooLarge,
}

impl From<reqwest::Error> for FetchError {
    fn from(error: reqwest::Error) -> Self {
        // The URL is in the log line already. The causes say what happened.
        let error = error.without_url();
        let mut text = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(next) = cause {
            text = format!("{text}: {next}");
            cause = next.source();
        }
        Self::Exchange(text)
    }
}

/// A client for one issuer, made when it is first needed.
#[derive(Debug, Default)]
pub(super) struct Fetcher {
    ca: Option<CaBundle>,
    client: OnceCell<Client>,
}

impl Fetcher {
    /// A client that trusts the authorities of this machine, and those.
    pub(super) fn new(ca: Option<CaBundle>) -> Self {
        Self { ca, client: OnceCell::new() }
    }

    /// Gets a document.
    pub(super) async fn get(&self, url: &EndpointUrl) -> Result<Vec<u8>, FetchError> {
        self.exchange(|client| client.get(url.as_str())).await
    }

    /// Asks an introspection endpoint about a token (RFC 7662, section 2.1).
    pub(super) async fn introspect(&self, endpoint: &Introspection, token: &str) -> Result<Vec<u8>, FetchError> {
        // The credentials are form-encoded first (RFC 6749, section 2.3.1).
        let encode =
            |text: &str| percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string();
        let (id, secret) = (encode(&endpoint.client_id), encode(endpoint.client_secret.expose()));
        let form = [("token", token), ("token_type_hint", "access_token")];
        self.exchange(|client| client.post(endpoint.url.as_str()).basic_auth(id, Some(secret)).form(&form)).await
    }

    async fn exchange(&self, request: impl FnOnce(&Client) -> RequestBuilder) -> Result<Vec<u8>, FetchError> {
        let exchange = async {
            let client = self.client.get_or_try_init(|| new_client(self.ca.as_ref())).await?;
            let mut answer = request(client).header(ACCEPT, "application/json").send().await?;
            if answer.status() != StatusCode::OK {
                return Err(FetchError::Status(answer.status()));
            }
            let mut body = Vec::new();
            while let Some(chunk) = answer.chunk().await? {
                if body.len().saturating_add(chunk.len()) > MAX_BODY {
                    return Err(FetchError::TooLarge);
                }
                body.extend_from_slice(&chunk);
            }
            Ok(body)
        };
        timeout(TIMEOUT, exchange).await.map_err(|_| FetchError::Timeout)?
    }
}

async fn new_client(ca: Option<&CaBundle>) -> Result<Client, FetchError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(system_certificates::load().await);
    roots.add_parsable_certificates(ca.into_iter().flat_map(|ca| ca.certificates().iter().cloned()));
    let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| FetchError::Exchange(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let builder = Client::builder().tls_backend_preconfigured(tls).redirect(Policy::none()).no_proxy().referer(false);
    Ok(builder.user_agent(concat!("mcp-host/", env!("CARGO_PKG_VERSION"))).build()?)
}
