//! The HTTP client of the host itself, for endpoints that its config names: issuers of tokens, embeddings.
//!
//! A URL is requested exactly as configured, without redirects and proxies. Each exchange is bounded by its
//! [`ExchangeBounds`]: the total time, and the size of the answer.

use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http_body_util::Full;
use hyper::header::{ACCEPT, HeaderMap, HeaderValue, RETRY_AFTER, USER_AGENT};
use hyper::{Request, StatusCode};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use mcp_host_base::bounded_body;
use mcp_host_base::informational;
use mcp_host_base::text::with_causes;
use mcp_host_base::tls_client;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use tokio::sync::OnceCell;
use tokio::time::timeout;

use super::system_certificates;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const NAME: HeaderValue = HeaderValue::from_static(concat!("mcp-host/", env!("CARGO_PKG_VERSION")));

/// The maximum size of the head of a response, in bytes.
const MAX_HEAD: usize = 64 << 10;

type HttpClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// The bounds of an exchange.
#[derive(Clone, Copy, Debug)]
pub struct ExchangeBounds {
    /// The time for an exchange: name resolution, connection, request and answer.
    pub timeout: Duration,
    /// The maximum size of an answer, in bytes.
    pub max_body: usize,
}

/// The reason why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExchangeError {
    /// The exchange took too long.
    #[error("no answer within {}", humantime::format_duration(*.0))]
    Timeout(Duration),
    /// The exchange failed. The text has all causes.
    #[error("{0}")]
    Failed(String),
    /// The answer is not a success. Redirects are not followed.
    #[error("the answer has the status {status}")]
    Status {
        /// The status.
        status: StatusCode,
        /// The delay that the answer requests (`Retry-After`), if it is in seconds.
        retry_after: Option<Duration>,
    },
    /// The answer is too large or incomplete.
    #[error("the answer has more than {max_body} bytes, or broke off: {reason}")]
    Body {
        /// The maximum size.
        max_body: usize,
        /// The reason.
        reason: String,
    },
}

impl ExchangeError {
    /// The error of a request that failed, with all causes.
    pub fn failed(error: &dyn std::error::Error) -> Self {
        let mut text = with_causes(error);
        // The text of rustls reads as if it were about an issuer of tokens.
        if text.contains("UnknownIssuer") {
            text.push_str(" (its certificate is of an authority that this machine does not trust; `ca` can name it)");
        }
        Self::Failed(text)
    }
}

/// A client for the URLs of one section of the config. Its connections are kept alive. The client is created at first
/// use.
#[derive(Debug, Default)]
pub struct HttpsClient {
    authorities: Vec<CertificateDer<'static>>,
    client: OnceCell<HttpClient>,
}

impl HttpsClient {
    /// Creates a client that trusts the authorities of this machine and `authorities`.
    pub fn new(authorities: Vec<CertificateDer<'static>>) -> Self {
        Self { authorities, client: OnceCell::new() }
    }

    /// Sends a request, and returns the body of the answer. Fails unless the status is 200. The future is type-erased,
    /// so that the client is compiled in this crate only.
    pub fn exchange(
        &self,
        request: Request<Full<Bytes>>,
        bounds: ExchangeBounds,
    ) -> BoxFuture<'_, Result<Bytes, ExchangeError>> {
        Box::pin(self.send(request, bounds))
    }

    async fn send(&self, mut request: Request<Full<Bytes>>, bounds: ExchangeBounds) -> Result<Bytes, ExchangeError> {
        let ExchangeBounds { timeout: time, max_body } = bounds;
        request.headers_mut().insert(ACCEPT, JSON);
        request.headers_mut().insert(USER_AGENT, NAME);
        let exchange = async {
            let client = self.client.get_or_try_init(|| new_client(&self.authorities)).await?;
            let answer = informational::limit(request, |request| client.request(request)).await;
            let answer = answer.map_err(|error| ExchangeError::failed(&error))?;
            let answer = answer.map_err(|error| ExchangeError::failed(&error))?;
            if answer.status() != StatusCode::OK {
                let (status, retry_after) = (answer.status(), retry_after(answer.headers()));
                return Err(ExchangeError::Status { status, retry_after });
            }
            let body = bounded_body::receive(answer.into_body(), max_body).await;
            body.map_err(|error| ExchangeError::Body { max_body, reason: error.to_string() })
        };
        timeout(time, exchange).await.map_err(|_| ExchangeError::Timeout(time))?
    }
}

/// The header `Retry-After` in seconds (RFC 9110, section 10.2.3). None for a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

async fn new_client(authorities: &[CertificateDer<'static>]) -> Result<HttpClient, ExchangeError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(system_certificates().await);
    roots.add_parsable_certificates(authorities.iter().cloned());
    let tls = tls_client::client_config(roots).map_err(|error| ExchangeError::failed(&error))?;
    // The config allows `http` for loopback only.
    let connector = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().build();
    Ok(Client::builder(TokioExecutor::new()).http1_max_buf_size(MAX_HEAD).build(connector))
}
