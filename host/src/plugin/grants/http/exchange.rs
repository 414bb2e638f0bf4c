//! One exchange: a request that may be sent, its connection, the answer.

use std::pin::pin;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::FusedFuture;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper::http::request::Parts;
use hyper::http::uri::Scheme as UriScheme;
use hyper::{Method, Request, Response, StatusCode, Uri, header};
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, timeout, timeout_at};
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody};

use super::body::{Bounds, Received, Sent};
use super::connect::{Stream, connect};
use super::failure::Failure;
use super::trust::Tls;
use super::{Http, Place, headers};
use crate::config::{HttpGrant, Origin, Scheme};

/// The least that hyper takes for its buffer.
const LEAST_BUFFER: usize = 8 << 10;

/// What drives the connection while the body is read.
type Driver = Box<dyn Future<Output = Result<(), Error>> + Send>;
/// A request under way.
pub(super) type Sending = Box<dyn Future<Output = Result<(Response<WasiBody>, Driver), Error>> + Send>;

impl Http {
    /// Sends a request and gives back its answer, with a body that is still to come. Dropping either ends the exchange.
    pub(super) async fn exchange(
        self: Arc<Self>,
        request: Request<WasiBody>,
        options: RequestOptions,
    ) -> Result<(Response<WasiBody>, Driver), Error> {
        let origin = origin_of(request.uri());
        let answer = match &origin {
            Some(origin) => self.attempt(origin, request, options).await,
            None => Err(Failure::Uri),
        };
        answer.map_err(|failure| self.refusals.note(origin.as_ref(), &failure))
    }

    async fn attempt(
        self: &Arc<Self>,
        origin: &Origin,
        request: Request<WasiBody>,
        options: RequestOptions,
    ) -> Result<(Response<WasiBody>, Driver), Failure> {
        let grant = self.grants.grant_for(origin).ok_or(Failure::NotGranted)?;
        let request = self.prepare(origin, grant, request)?;
        let place = self.place()?;
        let time = self.limits.timeout.duration();
        let began = Instant::now();
        let until = began.checked_add(time).unwrap_or(began);
        let answer = async {
            let connect_until = options.connect_timeout.and_then(|most| began.checked_add(most)).unwrap_or(until);
            let tls = self.tls(grant).await?;
            let stream = connect(&self.network, origin, tls, &place, connect_until.min(until)).await?;
            self.send(stream, request, &options, until).await
        };
        let (response, driver) = timeout_at(until, answer).await.map_err(|_| Failure::Time(time))??;
        let response = self.check(response)?;
        let bounds = Bounds {
            http: self.clone(),
            origin: origin.clone(),
            until,
            pause: options.between_bytes_timeout,
            _place: place,
        };
        Ok((response.map(|incoming| Received::new(incoming, bounds).boxed_unsync()), driver))
    }

    /// The request as it goes over the wire, if it may.
    fn prepare(
        &self,
        origin: &Origin,
        grant: &HttpGrant,
        request: Request<WasiBody>,
    ) -> Result<Request<Sent>, Failure> {
        let (Parts { method, uri, mut headers, .. }, body) = request.into_parts();
        // A tunnel leads anywhere, and `TRACE` would show the guest what the host added.
        if method == Method::CONNECT || method == Method::TRACE {
            return Err(Failure::Method);
        }
        headers::strip(&mut headers);
        let target = uri.path_and_query().map_or("/", |target| target.as_str());
        let size = headers::size(&headers).saturating_add(u64::try_from(target.len()).unwrap_or(u64::MAX));
        if size > self.limits.headers.bytes() || headers.len() > headers::MOST {
            return Err(Failure::RequestHeaders(self.limits.headers.bytes()));
        }
        let most = self.limits.body.bytes();
        let announced =
            headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        if announced.is_some_and(|length| length > most) {
            return Err(Failure::RequestBody(most));
        }
        headers::complete(&mut headers, origin, grant);
        let mut request = Request::new(Sent::new(body, most));
        *request.method_mut() = method;
        *request.uri_mut() = target.parse().map_err(|_| Failure::Uri)?;
        *request.headers_mut() = headers;
        Ok(request)
    }

    /// A place among the exchanges, if there is one at once.
    fn place(&self) -> Result<Place, Failure> {
        let place = self.places.clone().try_acquire_owned();
        let place = place.map_err(|_| Failure::Concurrency(self.limits.concurrency.get()))?;
        self.rate.check().map_err(|_| Failure::Rate(self.limits.rate.get()))?;
        Ok(Arc::new(place))
    }

    /// What a connection for that grant is encrypted with.
    async fn tls(&self, grant: &HttpGrant) -> Result<Option<&Tls>, Failure> {
        if grant.origin.scheme() == Scheme::Http {
            return Ok(None);
        }
        match (&grant.ca, self.own_trust.get(&grant.origin)) {
            (Some(roots), Some(own)) => own.get_or_try_init(|| self.trust.with(roots)).await.map(Some),
            _ => self.trust.of_the_machine().await.map(Some),
        }
    }

    async fn send(
        &self,
        stream: Box<dyn Stream>,
        request: Request<Sent>,
        options: &RequestOptions,
        until: Instant,
    ) -> Result<(Response<Incoming>, Driver), Failure> {
        let most = usize::try_from(self.limits.headers.bytes()).unwrap_or(usize::MAX);
        let (mut sender, connection) = http1::Builder::new()
            .max_headers(headers::MOST)
            .max_header_size(most)
            .max_buf_size(most.max(LEAST_BUFFER))
            .handshake(TokioIo::new(stream))
            .await
            .map_err(Failure::of)?;
        let mut connection = Box::pin(connection.fuse());
        let answer = async {
            let mut answer = pin!(sender.send_request(request));
            tokio::select! {
                answer = &mut answer => answer,
                // What it has answered before it ended is there by now.
                ended = &mut connection => match ended {
                    Ok(()) => answer.await,
                    Err(error) => Err(error),
                },
            }
        };
        let answer = match options.first_byte_timeout {
            Some(most) => timeout(most, answer).await.map_err(|_| Failure::FirstByte)?,
            None => answer.await,
        };
        let driver = async move {
            if !connection.is_terminated() {
                // What fails here, the body says; and at the end of the time the connection is closed.
                let _ = timeout_at(until, connection).await;
            }
            Ok(())
        };
        Ok((answer.map_err(Failure::of)?, Box::new(driver)))
    }

    /// The answer as the guest may see it.
    fn check(&self, mut response: Response<Incoming>) -> Result<Response<Incoming>, Failure> {
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Err(Failure::Upgrade);
        }
        let headers = response.headers_mut();
        headers::strip(headers);
        if headers::size(headers) > self.limits.headers.bytes() {
            return Err(Failure::ResponseHeaders);
        }
        let most = self.limits.body.bytes();
        if response.body().size_hint().lower() > most { Err(Failure::ResponseBody(most)) } else { Ok(response) }
    }
}

/// The origin that a request is for.
fn origin_of(uri: &Uri) -> Option<Origin> {
    let scheme = uri.scheme().unwrap_or(&UriScheme::HTTPS);
    format!("{scheme}://{}", uri.authority()?).parse().ok()
}
