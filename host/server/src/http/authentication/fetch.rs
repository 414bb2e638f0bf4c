//! Requests to an issuer: for its keys, and for introspection.

use std::time::Duration;

use axum::body::Bytes;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderValue, Method, Request};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use form_urlencoded::byte_serialize;
use http_body_util::Full;
use zeroize::Zeroizing;

use mcp_host_config::EndpointUrl;
use mcp_host_config::grants::CaBundle;
use mcp_host_config::issuer::Introspection;
pub(super) use mcp_host_sandbox::outbound_http::ExchangeError as FetchError;
use mcp_host_sandbox::outbound_http::{ExchangeBounds, HttpsClient};

/// The bounds of an exchange with an issuer.
pub(super) const BOUNDS: ExchangeBounds = ExchangeBounds { timeout: Duration::from_secs(5), max_body: 1 << 20 };

const FORM: HeaderValue = HeaderValue::from_static("application/x-www-form-urlencoded");

/// A client for one issuer.
#[derive(Debug, Default)]
pub(super) struct Fetcher(HttpsClient);

impl Fetcher {
    /// Creates a client that trusts the authorities of this machine and `ca`.
    pub(super) fn new(ca: Option<CaBundle>) -> Self {
        Self(HttpsClient::new(ca.map(|ca| ca.certificates().to_vec()).unwrap_or_default()))
    }

    /// Gets a document.
    pub(super) async fn get(&self, url: &EndpointUrl) -> Result<Bytes, FetchError> {
        let request = Request::builder().uri(url.as_str()).body(Full::default());
        self.0.exchange(request.map_err(|error| FetchError::failed(&error))?, BOUNDS).await
    }

    /// Sends a token to an introspection endpoint (RFC 7662, section 2.1).
    pub(super) async fn introspect(&self, endpoint: &Introspection, token: &str) -> Result<Bytes, FetchError> {
        // RFC 6749, section 2.3.1 requires form-encoded credentials.
        let encode = |text: &str| Zeroizing::new(byte_serialize(text.as_bytes()).collect::<String>());
        let (id, secret) = (encode(&endpoint.client_id), encode(endpoint.client_secret.expose()));
        let basic = Zeroizing::new(STANDARD.encode(Zeroizing::new(format!("{}:{}", *id, *secret)).as_bytes()));
        let credentials = HeaderValue::try_from(format!("Basic {}", *basic));
        let mut credentials = credentials.map_err(|error| FetchError::failed(&error))?;
        credentials.set_sensitive(true);
        let form = format!("token={}&token_type_hint=access_token", *encode(token));
        let request = Request::builder()
            .method(Method::POST)
            .uri(endpoint.url.as_str())
            .header(AUTHORIZATION, credentials)
            .header(CONTENT_TYPE, FORM)
            .body(Full::from(form));
        self.0.exchange(request.map_err(|error| FetchError::failed(&error))?, BOUNDS).await
    }
}
