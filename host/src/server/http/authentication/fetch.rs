//! Requests to an issuer: for its keys, and about a token.
//!
//! A URL is requested exactly as configured, without redirects and proxies. Bounded: [`TIMEOUT`] for all of an exchange, and
//! [`MAX_BODY`] bytes of the answer.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use axum::http::{HeaderValue, Method, Request, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use form_urlencoded::byte_serialize;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use tokio::sync::OnceCell;
use tokio::time::timeout;
use zeroize::Zeroizing;

use crate::config::EndpointUrl;
use crate::config::grants::CaBundle;
use crate::config::issuer::Introspection;
use crate::net::system_certificates;

/// The time for an exchange: name resolution, connection, request and answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum size of an answer, in bytes.
const MAX_BODY: usize = 1 << 20;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const FORM: HeaderValue = HeaderValue::from_static("application/x-www-form-urlencoded");
const NAME: HeaderValue = HeaderValue::from_static(concat!("mcp-host/", env!("CARGO_PKG_VERSION")));

type HttpClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// Why an issuer did not answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    /// It took too long.
    #[error("no answer within {} s", TIMEOUT.as_secs())]
    Timeout,
    /// The exchange failed. The text has all causes.
    #[error("{0}")]
    Exchange(String),
    /// The answer is not a success. Redirects are not followed.
    #[error("the answer has the status {0}")]
    Status(StatusCode),
    /// The answer is too large, or it broke off.
    #[error("the answer has more than {MAX_BODY} bytes, or broke off: {0}")]
    Body(String),
}

impl FetchError {
    fn exchange(error: &dyn std::error::Error) -> Self {
        let (mut text, mut cause) = (error.to_string(), error.source());
        while let Some(next) = cause {
            text = format!("{text}: {next}");
            cause = next.source();
        }
        // What rustls says reads like the issuer of tokens.
        if text.contains("UnknownIssuer") {
            text.push_str(" (its certificate is of an authority that this machine does not trust; `ca` can name it)");
        }
        Self::Exchange(text)
    }
}

/// A client for one issuer, made when it is first needed.
#[derive(Debug, Default)]
pub(super) struct Fetcher {
    ca: Option<CaBundle>,
    client: OnceCell<HttpClient>,
}

impl Fetcher {
    /// A client that trusts the authorities of this machine, and those.
    pub(super) fn new(ca: Option<CaBundle>) -> Self {
        Self { ca, client: OnceCell::new() }
    }

    /// Gets a document.
    pub(super) async fn get(&self, url: &EndpointUrl) -> Result<Bytes, FetchError> {
        let request = Request::builder().uri(url.as_str()).body(Full::default());
        self.exchange(request.map_err(|error| FetchError::exchange(&error))?).await
    }

    /// Asks an introspection endpoint about a token (RFC 7662, section 2.1).
    pub(super) async fn introspect(&self, endpoint: &Introspection, token: &str) -> Result<Bytes, FetchError> {
        // The credentials are form-encoded first (RFC 6749, section 2.3.1).
        let encode = |text: &str| Zeroizing::new(byte_serialize(text.as_bytes()).collect::<String>());
        let (id, secret) = (encode(&endpoint.client_id), encode(endpoint.client_secret.expose()));
        let basic = Zeroizing::new(STANDARD.encode(Zeroizing::new(format!("{}:{}", *id, *secret)).as_bytes()));
        let credentials = HeaderValue::try_from(format!("Basic {}", *basic));
        let mut credentials = credentials.map_err(|error| FetchError::exchange(&error))?;
        credentials.set_sensitive(true);
        let form = format!("token={}&token_type_hint=access_token", *encode(token));
        let request = Request::builder()
            .method(Method::POST)
            .uri(endpoint.url.as_str())
            .header(AUTHORIZATION, credentials)
            .header(CONTENT_TYPE, FORM)
            .body(Full::from(form));
        self.exchange(request.map_err(|error| FetchError::exchange(&error))?).await
    }

    async fn exchange(&self, mut request: Request<Full<Bytes>>) -> Result<Bytes, FetchError> {
        request.headers_mut().insert(ACCEPT, JSON);
        request.headers_mut().insert(USER_AGENT, NAME);
        let exchange = async {
            let client = self.client.get_or_try_init(|| new_client(self.ca.as_ref())).await?;
            let answer = client.request(request).await.map_err(|error| FetchError::exchange(&error))?;
            if answer.status() != StatusCode::OK {
                return Err(FetchError::Status(answer.status()));
            }
            let body = Limited::new(answer.into_body(), MAX_BODY).collect().await;
            body.map(|body| body.to_bytes()).map_err(|error| FetchError::Body(error.to_string()))
        };
        timeout(TIMEOUT, exchange).await.map_err(|_| FetchError::Timeout)?
    }
}

async fn new_client(ca: Option<&CaBundle>) -> Result<HttpClient, FetchError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(system_certificates::load().await);
    roots.add_parsable_certificates(ca.into_iter().flat_map(|ca| ca.certificates().iter().cloned()));
    let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| FetchError::exchange(&error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    // `http` is for loopback only, which the config has checked.
    let connector = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().build();
    Ok(Client::builder(TokioExecutor::new()).build(connector))
}
