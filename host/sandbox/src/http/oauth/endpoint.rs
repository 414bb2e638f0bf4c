//! Exchanges with a token endpoint.
//!
//! The admin chose the endpoint, so its name may resolve to any address. There are no redirects and no proxies.
//! Bounded: [`TIMEOUT`] for all of an exchange, [`MAX_HEADERS_SIZE`] and [`MAX_BODY`] for the answer. At most one name
//! resolution is in flight, because a hanging one cannot be cancelled.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response, Uri, body::Incoming};
use hyper_util::rt::TokioIo;
use mcp_host_base::bounded_body;
use mcp_host_base::informational;
use mcp_host_config::EndpointUrl;
use mcp_host_config::grants::CaBundle;
use mcp_host_model::net::Scheme;
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::TokenError;
use super::answer::{self, TokenAnswer};
use super::token_request::TokenRequest;
use crate::http::connect::{AddressPolicy, IoStream, Network, connect};
use crate::http::error::ExchangeError;
use crate::http::tls::{TlsClient, TlsRoots};

/// The time for an exchange: name resolution, connection, request and answer. It is shorter than the defaults of
/// `limits.http.timeout` and `limits.deadline`, so that a hanging token server fails the request for this reason,
/// before a limit fails the provider.
pub(super) const TIMEOUT: Duration = Duration::from_secs(4);
/// The maximum size of the headers of an answer, in bytes.
const MAX_HEADERS_SIZE: usize = 16 << 10;
/// The maximum size of an answer, in bytes.
const MAX_BODY: usize = 64 << 10;

const FORM: HeaderValue = HeaderValue::from_static("application/x-www-form-urlencoded");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const NAME: HeaderValue = HeaderValue::from_static(concat!("mcp-host/", env!("CARGO_PKG_VERSION")));

/// A token endpoint.
pub(super) struct TokenEndpoint {
    url: EndpointUrl,
    ca: Option<CaBundle>,
    network: Arc<dyn Network>,
    tls_roots: Arc<TlsRoots>,
    /// The TLS client, if the endpoint has its own certificate authorities.
    tls_with_ca: OnceCell<TlsClient>,
    /// The permit of the name resolution.
    permit: Arc<Semaphore>,
}

impl TokenEndpoint {
    pub(super) fn new(
        url: EndpointUrl,
        ca: Option<CaBundle>,
        network: Arc<dyn Network>,
        tls_roots: Arc<TlsRoots>,
    ) -> Self {
        Self { url, ca, network, tls_roots, tls_with_ca: OnceCell::new(), permit: Arc::new(Semaphore::new(1)) }
    }

    /// Requests a token.
    pub(super) async fn exchange(&self, request: TokenRequest) -> Result<TokenAnswer, TokenError> {
        let now = Instant::now();
        let deadline = now.checked_add(TIMEOUT).unwrap_or(now);
        let exchange = async {
            let stream = self.connect(deadline).await?;
            self.send(stream, self.build(request)?).await
        };
        timeout_at(deadline, exchange).await.map_err(|_| TokenError::Timeout)?
    }

    async fn connect(&self, deadline: Instant) -> Result<Box<dyn IoStream>, TokenError> {
        let permit = self.permit.clone().try_acquire_owned();
        let permit =
            Arc::new(permit.map_err(|_| TokenError::Unreachable("its name is still being resolved".to_owned()))?);
        let unreachable = |error: ExchangeError| TokenError::Unreachable(error.to_string());
        let tls = self.tls().await.map_err(unreachable)?;
        connect(&self.network, self.url.origin(), AddressPolicy::Any, tls, &permit, deadline).await.map_err(unreachable)
    }

    async fn tls(&self) -> Result<Option<&TlsClient>, ExchangeError> {
        match (self.url.origin().scheme(), &self.ca) {
            (Scheme::Http, _) => Ok(None),
            (Scheme::Https, Some(ca)) => {
                self.tls_with_ca.get_or_try_init(|| self.tls_roots.with_extra_roots(ca)).await.map(Some)
            }
            (Scheme::Https, None) => self.tls_roots.system().await.map(Some),
        }
    }

    fn build(&self, request: TokenRequest) -> Result<Request<Full<Bytes>>, TokenError> {
        let invalid = TokenError::Request("the URL of the token endpoint is not valid");
        let uri: Uri = self.url.as_str().parse().map_err(|_| invalid.clone())?;
        let target = uri.path_and_query().map_or("/", |target| target.as_str());
        let host = HeaderValue::try_from(self.url.origin().authority()).map_err(|_| invalid.clone())?;
        let mut built = Request::new(Full::new(Bytes::copy_from_slice(request.form.as_bytes())));
        *built.method_mut() = Method::POST;
        *built.uri_mut() = target.parse().map_err(|_| invalid)?;
        let headers = built.headers_mut();
        headers.insert(header::HOST, host);
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        headers.insert(header::CONTENT_TYPE, FORM);
        headers.insert(header::ACCEPT, JSON);
        headers.insert(header::USER_AGENT, NAME);
        headers.extend(request.authorization.map(|credentials| (header::AUTHORIZATION, credentials)));
        Ok(built)
    }

    async fn send(&self, stream: Box<dyn IoStream>, request: Request<Full<Bytes>>) -> Result<TokenAnswer, TokenError> {
        let failed = |error: hyper::Error| TokenError::Exchange(error.to_string());
        let (mut sender, connection) = http1::Builder::new()
            .max_header_size(MAX_HEADERS_SIZE)
            .max_buf_size(MAX_HEADERS_SIZE)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(failed)?;
        let answer = pin!(async {
            let response = informational::limit(request, |request| sender.send_request(request)).await;
            let response = response.map_err(|error| TokenError::Exchange(error.to_string()))?;
            read(response.map_err(failed)?).await
        });
        match select(answer, pin!(connection)).await {
            Either::Left((answer, _)) => answer,
            // An answer that arrived before the connection ended is already available.
            Either::Right((_, answer)) => answer.await,
        }
    }
}

async fn read(response: Response<Incoming>) -> Result<TokenAnswer, TokenError> {
    let status = response.status();
    let retry_after = response.headers().get(header::RETRY_AFTER);
    let retry_after = retry_after.and_then(|value| answer::retry_after(value.to_str().ok()?));
    let body = bounded_body::receive(response.into_body(), MAX_BODY).await;
    let body = body.map_err(|_| TokenError::InvalidAnswer("broke off, or is larger than 64 KiB"))?;
    answer::parse(status, retry_after, &body)
}
