//! One HTTP exchange: validation of the request, its connection, the response.
//!
//! A request to an origin with access tokens is sent with one. If the origin answers 401, the token may have expired or
//! been revoked early: it is replaced, and the request is sent again if it is safe, which means `GET`, `HEAD` or
//! `OPTIONS` without a body. Each attempt takes a permit of `limits.http.concurrency`, and counts towards
//! `limits.http.rate`. While a request waits for a token it has no permit, so a token server that hangs delays only
//! requests to its own origin.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::FusedFuture;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper::header::{HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::http::uri::Scheme as UriScheme;
use hyper::{Method, Request, Response, StatusCode, Uri, header};
use hyper_util::rt::TokioIo;
use mcp_host_base::text::prefix;
use mcp_host_base::trace::{self, MAX_ATTRIBUTE};
use mcp_host_config::grants::HttpGrant;
use mcp_host_model::net::{Origin, Scheme};
use mcp_host_model::requester::Client;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::field::Empty;
use tracing::{Instrument as _, Span, info_span};
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody};

use super::body::{ExchangeContext, RequestBody, ResponseBody};
use super::connect::{AddressPolicy, IoStream, connect};
use super::error::ExchangeError;
use super::head_limit::HeadLimit;
use super::oauth::{AccessToken, AccessTokens, TokenError};
use super::record::ExchangeRecord;
use super::tls::TlsClient;
use super::{ExchangePermit, OutboundHttp, headers};
use crate::counted_stream::CountedStream;
use crate::cpu::{CountedTask, HostCpuBudget, OutOfCpu};

/// The smallest buffer that hyper accepts.
const MIN_BUFFER: usize = 8 << 10;

/// The timeout of `check` for a connection to an origin.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// The header that continues a trace (W3C Trace Context).
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The future that drives the connection while the body is read.
type Driver = Box<dyn Future<Output = Result<(), Error>> + Send>;
/// A request in flight.
pub(super) type ResponseFuture = Box<dyn Future<Output = Result<(Response<WasiBody>, Driver), Error>> + Send>;

impl OutboundHttp {
    /// Like [`exchange`](Self::exchange), in tasks whose processor time is charged to the call.
    pub(super) fn counted_exchange(
        self: Arc<Self>,
        request: Request<WasiBody>,
        options: RequestOptions,
        client: Client,
        cpu: HostCpuBudget,
    ) -> ResponseFuture {
        let origin = origin_of(request.uri());
        let exchanging = self.clone().exchange(request, options, client).in_current_span();
        let exchange = CountedTask::new(cpu.clone(), Box::pin(exchanging));
        Box::new(async move {
            let out_of_cpu = |OutOfCpu| ExchangeError::Cpu.log(origin.as_ref(), &self.warnings);
            let (response, driver) = exchange.await.map_err(out_of_cpu)??;
            let driver = CountedTask::new(cpu, Box::into_pin(driver));
            let driver: Driver = Box::new(async move {
                let out_of_cpu = |OutOfCpu| ExchangeError::Cpu.log(origin.as_ref(), &self.warnings);
                driver.await.map_err(out_of_cpu)?
            });
            Ok::<_, Error>((response, driver))
        })
    }

    /// Sends a request and returns its response, whose body is still to be received. Dropping the future or the
    /// response ends the exchange.
    pub(super) async fn exchange(
        self: Arc<Self>,
        request: Request<WasiBody>,
        options: RequestOptions,
        client: Client,
    ) -> Result<(Response<WasiBody>, Driver), Error> {
        let origin = origin_of(request.uri());
        let record = ExchangeRecord::begin(self.clone());
        let answer = match &origin {
            Some(origin) => {
                let span = span(origin, request.method());
                let answer = self.execute(origin, request, options, client, &record).instrument(span.clone()).await;
                match &answer {
                    Ok((response, _)) => {
                        span.record("http.response.status_code", i64::from(response.status().as_u16()))
                    }
                    Err(_) => span.record("otel.status_code", "ERROR"),
                };
                answer
            }
            None => Err(ExchangeError::InvalidUri),
        };
        answer.map_err(|failure| {
            record.failed(&failure);
            failure.log(origin.as_ref(), &self.warnings)
        })
    }

    async fn execute(
        self: &Arc<Self>,
        origin: &Origin,
        request: Request<WasiBody>,
        options: RequestOptions,
        client: Client,
        record: &ExchangeRecord,
    ) -> Result<(Response<WasiBody>, Driver), ExchangeError> {
        let grant = self.grants.grant_for(origin).ok_or(ExchangeError::NotGranted)?;
        let request = self.prepare(origin, grant, request)?;
        let time = self.limits.timeout.duration();
        let began = Instant::now();
        let deadline = began.checked_add(time).unwrap_or(began);
        let attempt = Attempt { http: self, origin, grant, options: &options, client, deadline };
        let answer = async {
            match self.access_tokens.get(&grant.origin) {
                Some(tokens) => attempt.send_with_token(request, tokens).await,
                None => attempt.send(request).await,
            }
        };
        let Answer { response, driver, permit } =
            timeout_at(deadline, answer).await.map_err(|_| ExchangeError::Timeout(time))??;
        let response = self.check_response(response)?;
        record.answered(response.status());
        let exchange = ExchangeContext {
            http: self.clone(),
            origin: origin.clone(),
            deadline,
            between_bytes_timeout: options.between_bytes_timeout,
            record: record.clone(),
            _permit: permit,
        };
        Ok((response.map(|incoming| ResponseBody::new(incoming, exchange).boxed_unsync()), driver))
    }

    /// Validates a request, and builds the form in which it is sent.
    fn prepare(
        &self,
        origin: &Origin,
        grant: &HttpGrant,
        request: Request<WasiBody>,
    ) -> Result<Request<RequestBody>, ExchangeError> {
        let (Parts { method, uri, mut headers, .. }, body) = request.into_parts();
        // A tunnel would give access to any server, and `TRACE` would reveal the headers that the host adds. Methods
        // are case-sensitive (RFC 9110, section 9.1), but not for every server.
        let is_forbidden = |name: &Method| method.as_str().eq_ignore_ascii_case(name.as_str());
        if [Method::CONNECT, Method::TRACE].iter().any(is_forbidden) {
            return Err(ExchangeError::ForbiddenMethod);
        }
        headers::strip_hop_by_hop(&mut headers);
        let target = uri.path_and_query().map_or("/", |target| target.as_str());
        let size = headers::size(&headers).saturating_add(u64::try_from(target.len()).unwrap_or(u64::MAX));
        if size > self.limits.headers.bytes() || headers.len() > headers::MAX_HEADERS {
            return Err(ExchangeError::RequestHeadersTooLarge(self.limits.headers.bytes()));
        }
        let max_body = self.limits.body.bytes();
        let content_length =
            headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        if content_length.is_some_and(|length| length > max_body) {
            return Err(ExchangeError::RequestBodyTooLarge(max_body));
        }
        if let Some(name) = headers::imitated(&headers, grant) {
            return Err(ExchangeError::ImitatedHeader(name));
        }
        headers::apply_host_headers(&mut headers, origin, grant);
        if let Some(value) = trace::traceparent().filter(|_| grant.trace)
            && let Ok(value) = HeaderValue::try_from(value)
        {
            headers.insert(TRACEPARENT, value);
        }
        let mut request = Request::new(RequestBody::new(body, max_body));
        *request.method_mut() = method;
        *request.uri_mut() = target.parse().map_err(|_| ExchangeError::InvalidUri)?;
        *request.headers_mut() = headers;
        Ok(request)
    }

    /// Acquires a permit of `limits.http.concurrency` without waiting, and checks the rate limit.
    fn acquire_permit(&self, client: &Client) -> Result<ExchangePermit, ExchangeError> {
        let permit = self.permits.try_acquire(client.clone());
        let permit = permit.ok_or_else(|| ExchangeError::ConcurrencyLimit(self.limits.concurrency.get()))?;
        self.rate.take(client.as_ref()).map_err(|_| ExchangeError::RateLimited(self.limits.rate))?;
        Ok(Arc::new(permit))
    }

    /// Returns the TLS client for a grant, or `None` for a plain-text origin.
    async fn tls(&self, grant: &HttpGrant) -> Result<Option<&TlsClient>, ExchangeError> {
        if grant.origin.scheme() == Scheme::Http {
            return Ok(None);
        }
        match (&grant.ca, self.per_grant_tls.get(&grant.origin)) {
            (Some(roots), Some(client)) => {
                client.get_or_try_init(|| self.tls_roots.with_extra_roots(roots)).await.map(Some)
            }
            _ => self.tls_roots.system().await.map(Some),
        }
    }

    /// Connects to an origin as an exchange does, and closes the connection.
    pub(super) async fn try_connection(&self, grant: &HttpGrant, origin: &Origin) -> Result<(), ExchangeError> {
        let permit = self.permits.acquire(None).await;
        let permit = Arc::new(permit.map_err(|_| ExchangeError::ConcurrencyLimit(self.limits.concurrency.get()))?);
        let now = Instant::now();
        let time = self.limits.timeout.duration().min(CHECK_TIMEOUT);
        let deadline = now.checked_add(time).unwrap_or(now);
        let tls = self.tls(grant).await?;
        connect(&self.network, origin, AddressPolicy::Public, tls, &permit, deadline).await.map(drop)
    }

    /// Sends a request over this connection.
    async fn send(
        &self,
        stream: Box<dyn IoStream>,
        request: Request<RequestBody>,
        options: &RequestOptions,
        deadline: Instant,
        permit: ExchangePermit,
    ) -> Result<Answer, ExchangeError> {
        let max_headers = usize::try_from(self.limits.headers.bytes()).unwrap_or(usize::MAX);
        let max_buffer = max_headers.max(MIN_BUFFER);
        // Room for the response's headers, for informational responses of the same size, and for the beginning of the
        // body in the buffer.
        let head_limit = HeadLimit::new(max_headers.saturating_mul(2).saturating_add(max_buffer));
        let failed = |error| match head_limit.is_exceeded() {
            true => ExchangeError::ResponseHeadersTooLarge,
            false => ExchangeError::from_hyper(error),
        };
        let (mut sender, connection) = http1::Builder::new()
            .max_headers(headers::MAX_HEADERS)
            .max_header_size(max_headers)
            .max_buf_size(max_buffer)
            .handshake(TokioIo::new(CountedStream::new(stream, head_limit.clone())))
            .await
            .map_err(ExchangeError::from_hyper)?;
        let mut connection = Box::pin(connection.fuse());
        let response = async {
            let mut answer = pin!(sender.send_request(request));
            tokio::select! {
                answer = &mut answer => answer,
                // The response that arrived before the connection ended is already available.
                ended = &mut connection => match ended {
                    Ok(()) => answer.await,
                    Err(error) => Err(error),
                },
            }
        };
        let response = match options.first_byte_timeout {
            Some(most) => timeout(most, response).await.map_err(|_| ExchangeError::FirstByteTimeout)?,
            None => response.await,
        };
        let driver = async move {
            if !connection.is_terminated() {
                // The body reports an error here. At the deadline the connection is closed.
                let _ = timeout_at(deadline, connection).await;
            }
            Ok(())
        };
        let response = response.map_err(failed)?;
        head_limit.lift();
        Ok(Answer { response, driver: Box::new(driver), permit })
    }

    /// Validates a response, and removes the headers that the guest must not see.
    fn check_response(&self, mut response: Response<Incoming>) -> Result<Response<Incoming>, ExchangeError> {
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Err(ExchangeError::Upgrade);
        }
        let headers = response.headers_mut();
        headers::strip_hop_by_hop(headers);
        if headers::size(headers) > self.limits.headers.bytes() {
            return Err(ExchangeError::ResponseHeadersTooLarge);
        }
        let max_body = self.limits.body.bytes();
        if response.body().size_hint().lower() > max_body {
            Err(ExchangeError::ResponseBodyTooLarge(max_body))
        } else {
            Ok(response)
        }
    }
}

/// The answer to a request, with the permit, which is held until its body has been read.
struct Answer {
    response: Response<Incoming>,
    driver: Driver,
    permit: ExchangePermit,
}

/// The context of a request that is sent once or twice.
struct Attempt<'a> {
    http: &'a OutboundHttp,
    origin: &'a Origin,
    grant: &'a HttpGrant,
    options: &'a RequestOptions,
    client: Client,
    deadline: Instant,
}

impl Attempt<'_> {
    /// Acquires a permit, connects and sends the request.
    async fn send(&self, request: Request<RequestBody>) -> Result<Answer, ExchangeError> {
        let permit = self.http.acquire_permit(&self.client)?;
        let connect_timeout = self.options.connect_timeout.and_then(|most| Instant::now().checked_add(most));
        let connect_deadline = connect_timeout.unwrap_or(self.deadline).min(self.deadline);
        let http = self.http;
        let tls = http.tls(self.grant).await?;
        let stream = connect(&http.network, self.origin, AddressPolicy::Public, tls, &permit, connect_deadline).await?;
        http.send(stream, request, self.options, self.deadline, permit).await
    }

    /// Sends the request with an access token, and again with a new token if the origin rejects the first one.
    async fn send_with_token(
        &self,
        request: Request<RequestBody>,
        tokens: &Arc<AccessTokens>,
    ) -> Result<Answer, ExchangeError> {
        let failed =
            |error: TokenError| ExchangeError::Token { server: tokens.server().clone(), reason: error.to_string() };
        let token = tokens.token().await.map_err(failed)?;
        let repeated = repeat(&request);
        let answer = self.send(authorize(request, &token)).await?;
        if answer.response.status() != StatusCode::UNAUTHORIZED || !tokens.reject(&token).await {
            return Ok(answer);
        }
        let Some(repeated) = repeated else { return Ok(answer) };
        drop(answer);
        let token = tokens.token().await.map_err(failed)?;
        self.send(authorize(repeated, &token)).await
    }
}

/// The span of an exchange, which ends with the head of the response. It leaves out the path and the query of the URL,
/// which may hold secrets.
fn span(origin: &Origin, method: &Method) -> Span {
    let host = origin.host().to_string();
    info_span!(
        target: trace::TARGET,
        "http",
        "otel.kind" = "client",
        "otel.status_code" = Empty,
        "http.request.method" = prefix(method.as_str(), MAX_ATTRIBUTE),
        "http.response.status_code" = Empty,
        "server.address" = host,
        "server.port" = i64::from(origin.port()),
    )
}

/// Adds an access token, which replaces the guest's own.
fn authorize(mut request: Request<RequestBody>, token: &AccessToken) -> Request<RequestBody> {
    request.headers_mut().insert(header::AUTHORIZATION, token.header());
    request
}

/// Returns a copy of a request that may be sent twice: its method is safe (RFC 9110, section 9.2.1), and it has no
/// body.
fn repeat(request: &Request<RequestBody>) -> Option<Request<RequestBody>> {
    let is_safe = [Method::GET, Method::HEAD, Method::OPTIONS].contains(request.method());
    if !is_safe || !request.body().is_end_stream() {
        return None;
    }
    let mut copy = Request::new(RequestBody::empty());
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    Some(copy)
}

/// Returns the origin of a request's URI.
fn origin_of(uri: &Uri) -> Option<Origin> {
    let scheme = uri.scheme().unwrap_or(&UriScheme::HTTPS);
    format!("{scheme}://{}", uri.authority()?).parse().ok()
}
