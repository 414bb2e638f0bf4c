//! One exchange with a registry: HTTP/1.1 over TLS, with bounds.
//!
//! | bound | value |
//! |---|---|
//! | name resolution, connection and TLS | [`CONNECT_TIMEOUT`] |
//! | the head of an answer | [`HEAD_TIMEOUT`]; [`BODY_TIMEOUT`] for uploads |
//! | silence within a body | [`IDLE_TIMEOUT`] |
//! | a body in memory | set by the caller |
//! | redirects | [`MAX_REDIRECTS`], to `https` only |
//! | retries if the registry is busy (429, 503) | [`MAX_ATTEMPTS`], each after at most [`MAX_RETRY_AFTER`] |
//!
//! `Authorization` is sent only to the host and port for which it was made. Names must resolve to public addresses
//! (protection against SSRF), except the registry's own name if it is `localhost`, an address, or listed in `private`
//! of `[registry]`. Each exchange has its own connection. Proxies are not used.

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, HOST, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER, USER_AGENT};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use iri_string::types::{UriReferenceStr, UriStr};
use mcp_host_base::informational::{self, TooManyInformational};
use mcp_host_base::task;
use mcp_host_base::text::{quote, with_causes};
use mcp_host_base::tls_client;
use mcp_host_model::net::{Origin, Scheme, UrlHost, is_public};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::OnceCell;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

/// The timeout of name resolution, connection and TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// The timeout between a request and the head of its answer.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// The timeout between two pieces of a body.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// The timeout of a whole body.
const BODY_TIMEOUT: Duration = Duration::from_mins(15);
/// The maximum number of redirects of a request.
const MAX_REDIRECTS: usize = 5;
/// The maximum number of attempts to send a request.
const MAX_ATTEMPTS: usize = 3;
/// The maximum wait that a registry may request.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(20);
/// The maximum number of a name's addresses that are tried.
const MAX_ADDRESSES: usize = 4;
/// The maximum size of the headers of an answer in bytes.
const MAX_HEAD_SIZE: usize = 64 * 1024;

const NAME: HeaderValue = HeaderValue::from_static(concat!("mcp-host/", env!("CARGO_PKG_VERSION")));

/// The reason why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// A timeout expired.
    #[error("{host} did not {what} within {}", humantime::format_duration(*.limit))]
    Timeout {
        /// The host.
        host: String,
        /// The action that the host did not finish.
        what: &'static str,
        /// The timeout.
        limit: Duration,
    },
    /// The connection failed.
    #[error("cannot connect to {host}: {reason}")]
    Connect {
        /// The host.
        host: String,
        /// The reason, with all causes.
        reason: String,
    },
    /// The name resolves to an address that is not public.
    #[error(
        "{host} resolves to {address}, which is not a public address; if that is right, add `private = [\"{host}\"]` to `[registry]`"
    )]
    Private {
        /// The host.
        host: String,
        /// The address.
        address: String,
    },
    /// The answer ended early, or is not HTTP.
    #[error("the answer of {host} broke off: {reason}")]
    Broken {
        /// The host.
        host: String,
        /// The reason.
        reason: String,
    },
    /// A body exceeds its limit.
    #[error("the answer of {host} has more than {max} bytes")]
    TooLarge {
        /// The host.
        host: String,
        /// The maximum.
        max: u64,
    },
    /// A redirect has no target or another scheme, or exceeds the maximum number.
    #[error("{host} redirects {problem}")]
    Redirect {
        /// The host.
        host: String,
        /// The problem.
        problem: String,
    },
    /// The registry refuses the request with a status.
    #[error("{host} answers {status}{}", .detail)]
    Status {
        /// The host.
        host: String,
        /// The status.
        status: u16,
        /// The registry's message, or the help.
        detail: String,
    },
    /// The registry does not have the item.
    #[error("the registry does not have it")]
    NotFound,
    /// The directory of a mirror cannot be used.
    #[error("the directory cannot be used: {reason}")]
    Layout {
        /// The reason.
        reason: String,
    },
    /// The received content could not be stored.
    #[error("{0}")]
    Store(String),
}

/// A request, which may be sent repeatedly.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) url: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// The head of an answer, with its host.
pub(crate) struct Answer {
    pub(crate) host: String,
    pub(crate) response: Response<Incoming>,
}

/// A client.
pub(crate) struct HttpClient {
    authorities: Vec<CertificateDer<'static>>,
    private: BTreeSet<String>,
    tls: OnceCell<TlsConnector>,
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient").field("private", &self.private).finish_non_exhaustive()
    }
}

impl Call {
    pub(crate) fn get(url: String) -> Self {
        Self { method: Method::GET, url, headers: HeaderMap::new(), body: Bytes::new() }
    }
}

impl HttpClient {
    /// Creates a client that trusts the authorities of this machine and the given ones. It accepts private addresses
    /// for the hosts in `private`.
    pub(crate) fn new(authorities: Vec<CertificateDer<'static>>, private: BTreeSet<String>) -> Self {
        Self { authorities, private, tls: OnceCell::new() }
    }

    /// Sends a request of a registry, follows redirects, and retries if the registry is busy. `registry` is the host in
    /// the config: if that is an IP address, it may be private.
    pub(crate) async fn send(&self, call: &Call, registry: &str) -> Result<Answer, HttpError> {
        let mut attempt = 1_usize;
        loop {
            let answer = self.follow(call.clone(), registry).await?;
            let is_busy =
                matches!(answer.response.status(), StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
            if !is_busy || attempt >= MAX_ATTEMPTS {
                return Ok(answer);
            }
            let after =
                answer.response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
            let after = after.map_or(Duration::from_secs(1), Duration::from_secs);
            if after > MAX_RETRY_AFTER {
                return Ok(answer);
            }
            sleep(after).await;
            attempt = attempt.saturating_add(1);
        }
    }

    async fn follow(&self, mut call: Call, registry: &str) -> Result<Answer, HttpError> {
        for _ in 0..=MAX_REDIRECTS {
            let origin = origin_of(&call.url)?;
            let answer = self.exchange(&call, &origin, registry).await?;
            if !is_redirect(&answer.response, &call.method) {
                return Ok(answer);
            }
            let target = answer.response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
            let broken = |problem: &str| HttpError::Redirect { host: answer.host.clone(), problem: problem.to_owned() };
            let target = target.ok_or_else(|| broken("without saying where to"))?;
            call.url =
                resolve(&call.url, target).ok_or_else(|| broken(&format!("to {}, which is no URL", quote(target))))?;
            let next =
                origin_of(&call.url).map_err(|_| broken(&format!("to {}, which is not `https`", quote(&call.url))))?;
            if next != origin {
                call.headers.remove(AUTHORIZATION);
            }
        }
        Err(HttpError::Redirect { host: registry.to_owned(), problem: format!("more than {MAX_REDIRECTS} times") })
    }

    async fn exchange(&self, call: &Call, origin: &Origin, registry: &str) -> Result<Answer, HttpError> {
        let host = origin.authority();
        let stream = within(&host, "accept a connection", CONNECT_TIMEOUT, self.connect(origin, registry)).await?;
        let broken = |error: hyper::Error| HttpError::Broken { host: host.clone(), reason: with_causes(&error) };
        let handshake =
            hyper::client::conn::http1::Builder::new().max_buf_size(MAX_HEAD_SIZE).handshake(TokioIo::new(stream));
        let (mut sender, connection) = handshake.await.map_err(broken)?;
        // The task ends with the answer, which owns the other end of the connection.
        task::spawn(async move {
            let _ = connection.await;
        });
        let path = call.url.get(origin.to_string().len()..).filter(|path| path.starts_with('/'));
        // The origin omits a default port: if the URL contains it, the path is parsed separately.
        let path = path.or_else(|| call.url.splitn(4, '/').nth(3).and_then(|_| path_of(&call.url))).unwrap_or("/");
        let mut request = Request::new(Full::new(call.body.clone()));
        *request.method_mut() = call.method.clone();
        *request.uri_mut() = path
            .parse()
            .map_err(|_| HttpError::Broken { host: host.clone(), reason: format!("{} is no path", quote(path)) })?;
        *request.headers_mut() = call.headers.clone();
        request.headers_mut().insert(USER_AGENT, NAME);
        let authority = HeaderValue::from_str(&host)
            .map_err(|_| HttpError::Broken { host: host.clone(), reason: "its name cannot be sent".to_owned() })?;
        request.headers_mut().insert(HOST, authority);
        let answer = async {
            let response = informational::limit(request, |request| sender.send_request(request)).await;
            let too_many =
                |error: TooManyInformational| HttpError::Broken { host: host.clone(), reason: error.to_string() };
            response.map_err(too_many)?.map_err(broken)
        };
        // The time for sending a body counts, too.
        let limit = if call.body.is_empty() { HEAD_TIMEOUT } else { BODY_TIMEOUT };
        let response = within(&host, "answer", limit, answer).await?;
        Ok(Answer { host, response })
    }

    async fn connect(
        &self,
        origin: &Origin,
        registry: &str,
    ) -> Result<tokio_rustls::client::TlsStream<TcpStream>, HttpError> {
        let host = origin.authority();
        let failed = |reason: String| HttpError::Connect { host: host.clone(), reason };
        let (addresses, name) = self.addresses(origin, registry).await?;
        let mut stream = Err(io::Error::other("the name has no address"));
        for address in addresses {
            stream = TcpStream::connect(address).await;
            if stream.is_ok() {
                break;
            }
        }
        let stream = stream.map_err(|error| failed(error.to_string()))?;
        let tls = self.tls.get_or_try_init(|| connector(&self.authorities)).await.map_err(&failed)?;
        tls.connect(name, stream).await.map_err(|error| {
            let mut reason = with_causes(&error);
            reason.push_str(advice(&reason));
            failed(reason)
        })
    }

    /// Returns the permitted addresses of a host, and its name in certificates.
    async fn addresses(
        &self,
        origin: &Origin,
        registry: &str,
    ) -> Result<(Vec<SocketAddr>, ServerName<'static>), HttpError> {
        let host = origin.authority();
        let failed = |reason: String| HttpError::Connect { host: host.clone(), reason };
        let (addresses, name, is_named_by_address): (Vec<SocketAddr>, _, _) = match origin.host() {
            UrlHost::Name(name) => {
                let server =
                    ServerName::try_from(name.as_str().to_owned()).map_err(|error| failed(error.to_string()))?;
                let found =
                    lookup_host((name.as_str(), origin.port())).await.map_err(|error| failed(error.to_string()))?;
                (found.take(MAX_ADDRESSES).collect(), server, name.as_str() == "localhost")
            }
            UrlHost::Address(address) => (vec![(*address, origin.port()).into()], ServerName::from(*address), true),
        };
        let is_listed = self.private.contains(&host) || self.private.contains(&origin.host().to_string());
        let is_own = host_of(registry).is_some_and(|own| own == *origin.host());
        if is_listed || is_own && is_named_by_address {
            return Ok((addresses, name));
        }
        let (public, other): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|address| is_public(address.ip()));
        match (public.is_empty(), other.first()) {
            (true, Some(address)) => Err(HttpError::Private { host, address: address.ip().to_string() }),
            _ => Ok((public, name)),
        }
    }
}

impl Answer {
    /// Returns the body, of at most `max` bytes.
    pub(crate) async fn body(self, max: usize) -> Result<Bytes, HttpError> {
        let mut collected = Vec::new();
        self.stream(max as u64, |piece| {
            collected.extend_from_slice(piece);
            Ok(())
        })
        .await?;
        Ok(collected.into())
    }

    /// Passes the body on in pieces, at most `max` bytes in total.
    pub(crate) async fn stream(
        self,
        max: u64,
        mut each: impl FnMut(&[u8]) -> Result<(), HttpError>,
    ) -> Result<(), HttpError> {
        let Self { host, response } = self;
        let mut body = response.into_body();
        let mut size = 0_u64;
        let pieces = async {
            while let Some(frame) =
                within(&host, "go on", IDLE_TIMEOUT, async { Ok::<_, HttpError>(body.frame().await) }).await?
            {
                let frame =
                    frame.map_err(|error| HttpError::Broken { host: host.clone(), reason: with_causes(&error) })?;
                let Ok(data) = frame.into_data() else { continue };
                size = size.saturating_add(data.len() as u64);
                if size > max {
                    return Err(HttpError::TooLarge { host: host.clone(), max });
                }
                each(&data)?;
            }
            Ok(())
        };
        within(&host, "send all of its answer", BODY_TIMEOUT, pieces).await
    }

    /// Returns the error for an unsuccessful answer.
    pub(crate) async fn into_error(self) -> HttpError {
        let status = self.response.status();
        if status == StatusCode::NOT_FOUND {
            return HttpError::NotFound;
        }
        let host = self.host.clone();
        let detail = match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                ": log in with `docker login` or `podman login --authfile ~/.docker/config.json`, with an account that may do this"
                    .to_owned()
            }
            StatusCode::TOO_MANY_REQUESTS => ": it allows fewer requests; try again later".to_owned(),
            _ => self.body(4096).await.ok().map(|body| message_of(&body)).unwrap_or_default(),
        };
        HttpError::Status { host, status: status.as_u16(), detail }
    }
}

/// Returns the message in the body of an error (OCI Distribution Specification, "Error Codes"), escaped.
fn message_of(body: &[u8]) -> String {
    let json: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let message = json.pointer("/errors/0/message").and_then(|message| message.as_str());
    message.map(|message| format!(": {}", quote(message))).unwrap_or_default()
}

async fn within<T>(
    host: &str,
    what: &'static str,
    limit: Duration,
    work: impl Future<Output = Result<T, HttpError>>,
) -> Result<T, HttpError> {
    let late = |_| HttpError::Timeout { host: host.to_owned(), what, limit };
    timeout(limit, work).await.map_err(late)?
}

/// Returns the help for a failed TLS handshake.
fn advice(reason: &str) -> &'static str {
    match reason {
        text if text.contains("UnknownIssuer") => {
            " (its certificate is of an authority that this machine does not trust; `ca` of `[registry]` can name it)"
        }
        text if text.contains("InvalidContentType") => {
            " (it answers without TLS; registries are reached over TLS only)"
        }
        text if text.contains("CaUsedAsEndEntity") => {
            " (its certificate is that of an authority; make a certificate that the authority signs, and name the authority in `ca` of \
             `[registry]`)"
        }
        text if text.contains("certificate expired") || text.contains("not valid yet") => {
            " (or the clock of this machine is wrong)"
        }
        _ => "",
    }
}

fn is_redirect(response: &Response<Incoming>, method: &Method) -> bool {
    matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) && *method == Method::GET
}

/// Returns the origin of a URL, which must be `https`.
pub(crate) fn origin_of(url: &str) -> Result<Origin, HttpError> {
    let invalid = || HttpError::Redirect { host: quote(url), problem: "to what is not `https`".to_owned() };
    let parsed = UriStr::new(url).map_err(|_| invalid())?;
    let authority = parsed.authority_str().filter(|authority| !authority.contains('@')).ok_or_else(invalid)?;
    let origin: Origin = format!("{}://{authority}", parsed.scheme_str()).parse().map_err(|_| invalid())?;
    if origin.scheme() == Scheme::Https { Ok(origin) } else { Err(invalid()) }
}

/// Returns the path and the query of a URL.
fn path_of(url: &str) -> Option<&str> {
    let behind = url.split_once("://")?.1;
    behind.find('/').and_then(|at| behind.get(at..)).map(|path| path.split('#').next().unwrap_or(path))
}

/// Resolves a reference in an answer to a URL.
pub(crate) fn resolve(base: &str, reference: &str) -> Option<String> {
    let base = UriStr::new(base).ok()?;
    let reference = UriReferenceStr::new(reference).ok()?;
    Some(reference.resolve_against(base.to_absolute()).to_string())
}

/// Returns the host of a registry without its port.
fn host_of(registry: &str) -> Option<UrlHost> {
    format!("https://{registry}").parse::<Origin>().ok().map(|origin| origin.host().clone())
}

async fn connector(authorities: &[CertificateDer<'static>]) -> Result<TlsConnector, String> {
    let system = task::spawn_blocking(|| rustls_native_certs::load_native_certs().certs).await;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(system.unwrap_or_default());
    roots.add_parsable_certificates(authorities.iter().cloned());
    let config = tls_client::client_config(roots).map_err(|error| error.to_string())?;
    Ok(TlsConnector::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_resolved_and_stay_with_https() {
        let base = "https://a.example/v2/x/blobs/sha256:0";
        assert_eq!(resolve(base, "/v2/y?a=b").as_deref(), Some("https://a.example/v2/y?a=b"));
        assert_eq!(resolve(base, "https://b.example:5000/c").as_deref(), Some("https://b.example:5000/c"));
        assert_eq!(resolve(base, "a b"), None);
        for url in ["http://a.example/", "ftp://a.example/", "https://user@a.example/", "https://", "/x"] {
            assert!(origin_of(url).is_err(), "{url}");
        }
        assert_eq!(path_of("https://a.example:443/v2/?n=1"), Some("/v2/?n=1"));
    }

    #[tokio::test]
    async fn a_host_that_is_late_is_named_with_the_limit() {
        let limit = Duration::from_millis(1);
        let late = within("a.example", "answer", limit, std::future::pending::<Result<(), _>>()).await.unwrap_err();
        assert_eq!(late.to_string(), "a.example did not answer within 1ms");
    }

    #[test]
    fn a_certificate_outside_its_time_is_reported_with_the_clock() {
        let at = |seconds| rustls::pki_types::UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        for error in [
            rustls::CertificateError::ExpiredContext { time: at(2), not_after: at(1) },
            rustls::CertificateError::NotValidYetContext { time: at(1), not_before: at(2) },
        ] {
            let reason = rustls::Error::InvalidCertificate(error).to_string();
            assert!(advice(&reason).contains("clock"), "{reason}");
        }
        assert_eq!(advice("connection reset"), "");
    }

    #[tokio::test]
    async fn a_name_is_for_public_addresses_unless_it_is_the_registry_and_says_so() {
        let client =
            |private: &[&str]| HttpClient::new(Vec::new(), private.iter().map(|name| (*name).to_owned()).collect());
        let is_allowed = async |client: &HttpClient, url: &str, registry: &str| {
            let result = client.addresses(&origin_of(url).unwrap(), registry).await;
            assert!(matches!(result, Ok(_) | Err(HttpError::Private { .. })), "{result:?}");
            result.is_ok()
        };
        let plain = client(&[]);
        assert!(is_allowed(&plain, "https://127.0.0.1:5000/", "127.0.0.1:5000").await);
        assert!(is_allowed(&plain, "https://localhost:5000/", "localhost:5001").await, "a token server beside it");
        assert!(!is_allowed(&plain, "https://127.0.0.1:5000/", "registry.example.com").await, "a redirect");
        assert!(!is_allowed(&plain, "https://localhost/", "registry.example.com").await);
        assert!(!is_allowed(&plain, "https://[::1]/", "127.0.0.1:5000").await);
        assert!(is_allowed(&client(&["127.0.0.1:5000"]), "https://127.0.0.1:5000/", "registry.example.com").await);
        assert!(is_allowed(&client(&["localhost"]), "https://localhost:5000/", "registry.example.com").await);
    }
}
