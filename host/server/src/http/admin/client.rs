//! A client of the administration listener, for commands on the same machine.
//!
//! The client finds the listener, its token and its certificate in the config of the server. Over TLS it accepts only
//! this certificate (certificate pinning), whatever authority issued it. Over a Unix socket it sends no token. Each
//! request has its own connection and timeout, and an answer of at most [`MAX_ANSWER`] bytes. The stream of the audit
//! log lasts until the server ends it.

mod pinned_certificate;

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use axum::http::{Method, Request, StatusCode};
use bytes::Bytes;
use futures::StreamExt as _;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use mcp_host_base::bounded_body;
use mcp_host_base::task;
use mcp_host_config::Config;
use mcp_host_config::admin::{AdminAddress, AdminToken};
use mcp_host_config::http::HttpAddress;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sse_stream::SseStream;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

use self::pinned_certificate::PinnedCertificate;
use super::api;
use super::api::types::{ErrorAnswer, MissedLines};
use crate::http::listener::IoStream;

/// The time for an action. A reload may take nearly as long.
const ACTION_TIMEOUT: Duration = Duration::from_secs(70);
/// The time for any other request.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum size of an answer.
const MAX_ANSWER: usize = 64 << 20;

/// A client of the administration listener of a server with a given config.
#[derive(Clone, Debug)]
pub struct AdminClient {
    address: AdminAddress,
    /// None over a Unix socket.
    token: Option<AdminToken>,
    tls: Option<Arc<ClientConfig>>,
}

/// The reason why a request to the administration listener has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdminClientError {
    /// The config has no administration listener.
    #[error("the config has no administration listener")]
    NotConfigured,
    /// The system chooses the port, so only the server knows it.
    #[error("`admin.listen` is {0}: the system chooses the port, so that only the server knows it")]
    AnyPort(HttpAddress),
    /// TLS cannot be set up.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
    /// The server does not answer.
    #[error("no answer from the administration listener at {address}: {source}")]
    Connect {
        /// Its address.
        address: AdminAddress,
        /// The cause.
        source: io::Error,
    },
    /// The server ended the stream of the audit log: the server shut down, or the token is no longer valid.
    #[error("the administration listener at {0} ended the stream")]
    Ended(AdminAddress),
    /// The server does not accept the token of the config, or the config has none.
    #[error("the server at {address} {}", if *has_token { "does not accept the token of `admin.token`" } else { "needs a token, and `[admin]` has none" })]
    Unauthorized {
        /// Its address.
        address: AdminAddress,
        /// Whether a token was sent.
        has_token: bool,
    },
    /// The server has a certificate, and the config has none.
    #[error("the server at {0} needs TLS, and `[admin]` has no `tls`")]
    TlsRequired(AdminAddress),
    /// The server refused the request.
    #[error("{error}")]
    Refused {
        /// The status code of HTTP.
        status: u16,
        /// The reason.
        error: String,
        /// The suggested remedy.
        help: Option<String>,
    },
    /// The server at this address is not an administration listener of this version.
    #[error("what answers at {address} is not the administration listener of this version of mcp-host: {reason}")]
    Answer {
        /// The address.
        address: AdminAddress,
        /// The difference.
        reason: String,
    },
}

impl AdminClientError {
    /// Returns whether the server does not answer, or is shutting down: it may answer a later request.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Connect { .. } | Self::Refused { status: 503, .. })
    }

    /// Returns the suggested remedy.
    pub fn help(&self) -> Option<String> {
        match self {
            Self::NotConfigured => {
                Some("add one, and restart the server:\n[admin]\nlisten = \"unix:admin.sock\"".to_owned())
            }
            Self::AnyPort(_) => Some("name a port: `listen = \"127.0.0.1:9464\"`".to_owned()),
            Self::Connect { source, .. } => Some(match source.kind() {
                io::ErrorKind::PermissionDenied => "run it as the user of the server, or as root".to_owned(),
                io::ErrorKind::InvalidData => {
                    "the server has no TLS, or its certificate is not that of `admin.tls`: use the config that the server runs with"
                        .to_owned()
                }
                io::ErrorKind::TimedOut => "the server accepts connections and does not answer: look at its log".to_owned(),
                _ => "start the server with this config, `mcp-host serve`, or name another one with `--config FILE`"
                    .to_owned(),
            }),
            Self::Refused { help, .. } => help.clone(),
            Self::Answer { .. } => {
                Some("check that `admin.listen` is the address of the server, and use the version of the server".to_owned())
            }
            Self::Unauthorized { has_token: true, .. } => Some(
                "use the config that the server runs with; after a change of the token, the server applies it within seconds"
                    .to_owned(),
            ),
            Self::Unauthorized { .. } => {
                Some("add `token = { file = \"admin.token\" }` to `[admin]`, as in the config of the server".to_owned())
            }
            Self::TlsRequired(_) => Some("use the config that the server runs with".to_owned()),
            Self::Ended(_) => Some("run the command again; `mcp-host status` shows whether the server runs".to_owned()),
            Self::Tls(_) => None,
        }
    }
}

impl AdminClient {
    /// Creates a client of the listener in this config.
    ///
    /// # Errors
    ///
    /// The config has no listener, or its address cannot be determined.
    pub fn new(config: &Config) -> Result<Self, AdminClientError> {
        let admin = config.admin.as_ref().ok_or(AdminClientError::NotConfigured)?;
        if let AdminAddress::Tcp(address) = &admin.listen
            && address.socket_addr().port() == 0
        {
            return Err(AdminClientError::AnyPort(*address));
        }
        let tls = admin.tls.as_ref().map(PinnedCertificate::client_config).transpose()?;
        let token = match &admin.listen {
            AdminAddress::Tcp(_) => admin.token.clone(),
            // The owner of the socket needs no token, and another process may have made a socket at this path.
            AdminAddress::Unix(_) => None,
        };
        Ok(Self { address: admin.listen.clone(), token, tls: tls.map(Arc::new) })
    }

    /// The address of the listener.
    pub fn address(&self) -> &AdminAddress {
        &self.address
    }

    /// Requests whether the server is ready. The text has the reasons if it is not, for an administrator.
    pub async fn readiness(&self) -> Result<(bool, String), AdminClientError> {
        let (status, body) = self.send(Method::GET, "/readyz", None).await?;
        let text = String::from_utf8_lossy(&body).into_owned();
        match status {
            StatusCode::OK | StatusCode::SERVICE_UNAVAILABLE => Ok((status == StatusCode::OK, text)),
            _ => Err(AdminClientError::Answer { address: self.address.clone(), reason: format!("status {status}") }),
        }
    }

    /// Requests an answer of the API: `status`, or `plugins?limit=10`.
    pub async fn get<A: DeserializeOwned>(&self, path: &str) -> Result<A, AdminClientError> {
        self.request(Method::GET, path, None).await
    }

    /// Requests an action of the API, such as `log`, with an optional body.
    pub async fn post<A: DeserializeOwned>(
        &self,
        path: &str,
        body: Option<&(impl Serialize + Sync)>,
    ) -> Result<A, AdminClientError> {
        let body = body.map(serde_json::to_vec).transpose();
        let body = body.map_err(|error| self.unexpected(&error))?;
        self.request(Method::POST, path, Some(body.unwrap_or_default())).await
    }

    /// Requests the lines of the audit log from now on whose members have the given values. Calls `receive` when the
    /// server has accepted that, with each line, and with the numbers of missed lines, until `receive` fails.
    ///
    /// # Errors
    ///
    /// The errors of `receive`, or the reason why the lines end: [`Ended`](AdminClientError::Ended) if the stream had
    /// begun.
    pub async fn follow_audit<E: From<AdminClientError>>(
        &self,
        members: &[(&str, &str)],
        mut receive: impl FnMut(AuditEvent<'_>) -> Result<(), E>,
    ) -> Result<Infallible, E> {
        let query = form_urlencoded::Serializer::new("follow=".to_owned()).extend_pairs(members).finish();
        let path = format!("{}audit?{query}", api::PREFIX);
        let answered = timeout(TIMEOUT, self.open(Method::GET, &path, None)).await;
        let Answer { status, body, _connection } = answered.unwrap_or_else(|_| Err(self.failed(timed_out())))?;
        if status != StatusCode::OK {
            let body = timeout(TIMEOUT, collect(body)).await.unwrap_or_else(|_| Err(timed_out()));
            return Err(self.refused(status, &body.map_err(|source| self.failed(source))?).into());
        }
        receive(AuditEvent::Begun)?;
        let mut events = SseStream::new(body);
        // A server that shuts down may close the connection in the middle of the body.
        while let Some(Ok(event)) = events.next().await {
            let data = event.data.unwrap_or_default();
            receive(match event.event.as_deref() {
                Some("audit") => AuditEvent::Line(&data),
                Some("missed") => {
                    let missed: MissedLines = serde_json::from_str(&data).map_err(|error| self.unexpected(&error))?;
                    AuditEvent::Missed(missed.lines)
                }
                // An event of a later version.
                _ => continue,
            })?;
        }
        Err(AdminClientError::Ended(self.address.clone()).into())
    }

    /// Requests a recording of the calls of a plugin, `plugins/NAME/record?calls=10`. Calls `receive` with each chunk
    /// until the recording ends.
    ///
    /// # Errors
    ///
    /// The errors of `receive`, or the reason why there is no recording: [`Ended`](AdminClientError::Ended) if the
    /// server ends before the recording does.
    pub async fn record<E: From<AdminClientError>>(
        &self,
        path: &str,
        mut receive: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let path = format!("{}{path}", api::PREFIX);
        let answered = timeout(ACTION_TIMEOUT, self.open(Method::POST, &path, Some(Vec::new()))).await;
        let Answer { status, mut body, _connection } = answered.unwrap_or_else(|_| Err(self.failed(timed_out())))?;
        if status != StatusCode::OK {
            let body = timeout(TIMEOUT, collect(body)).await.unwrap_or_else(|_| Err(timed_out()));
            return Err(self.refused(status, &body.map_err(|source| self.failed(source))?).into());
        }
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| AdminClientError::Ended(self.address.clone()))?;
            if let Some(data) = frame.data_ref() {
                receive(data)?;
            }
        }
        Ok(())
    }

    /// Requests a profile of the calls of a plugin, `plugins/NAME/profile?seconds=10`, and waits for it for `time` at
    /// least.
    pub async fn profile(&self, path: &str, time: Duration) -> Result<Bytes, AdminClientError> {
        let path = format!("{}{path}", api::PREFIX);
        let requested = async {
            let Answer { status, body, _connection } = self.open(Method::POST, &path, Some(Vec::new())).await?;
            Ok((status, collect(body).await.map_err(|source| self.failed(source))?))
        };
        let within = ACTION_TIMEOUT.saturating_add(time);
        let (status, body) = timeout(within, requested).await.unwrap_or_else(|_| Err(self.failed(timed_out())))?;
        if status == StatusCode::OK { Ok(body) } else { Err(self.refused(status, &body)) }
    }

    async fn request<A: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<A, AdminClientError> {
        let (status, body) = self.send(method, &format!("{}{path}", api::PREFIX), body).await?;
        if status == StatusCode::OK {
            return serde_json::from_slice(&body).map_err(|error| self.unexpected(&error));
        }
        Err(self.refused(status, &body))
    }

    fn refused(&self, status: StatusCode, body: &[u8]) -> AdminClientError {
        match serde_json::from_slice(body) {
            Ok(_) if status == StatusCode::UNAUTHORIZED => {
                AdminClientError::Unauthorized { address: self.address.clone(), has_token: self.token.is_some() }
            }
            Ok(ErrorAnswer { error, help }) => AdminClientError::Refused { status: status.as_u16(), error, help },
            Err(_) if status == StatusCode::FORBIDDEN && self.tls.is_none() => {
                AdminClientError::TlsRequired(self.address.clone())
            }
            Err(_) => {
                let reason = format!("status {} without a JSON body", status.as_u16());
                AdminClientError::Answer { address: self.address.clone(), reason }
            }
        }
    }

    fn failed(&self, source: io::Error) -> AdminClientError {
        AdminClientError::Connect { address: self.address.clone(), source }
    }

    fn unexpected(&self, error: &serde_json::Error) -> AdminClientError {
        AdminClientError::Answer { address: self.address.clone(), reason: error.to_string() }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<(StatusCode, Bytes), AdminClientError> {
        let time = if method == Method::POST { ACTION_TIMEOUT } else { TIMEOUT };
        let answered = timeout(time, async {
            let Answer { status, body, _connection } = self.open(method, path, body).await?;
            Ok((status, collect(body).await.map_err(|source| self.failed(source))?))
        });
        answered.await.unwrap_or_else(|_| Err(self.failed(timed_out())))
    }

    /// Connects, sends a request, and returns the head of the answer with its unread body.
    async fn open(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> Result<Answer, AdminClientError> {
        let mut request = Request::builder().method(method).uri(path).header(HOST, "localhost");
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {}", token.expose()));
        }
        if body.as_ref().is_some_and(|body| !body.is_empty()) {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let request = request.body(Full::new(Bytes::from(body.unwrap_or_default())));
        let request = request.map_err(|error| self.failed(io::Error::other(error)))?;
        let opening = async {
            match &self.address {
                #[cfg(unix)]
                AdminAddress::Unix(path) => {
                    exchange(Box::new(tokio::net::UnixStream::connect(path).await?), request).await
                }
                #[cfg(not(unix))]
                AdminAddress::Unix(_) => Err(io::Error::from(io::ErrorKind::Unsupported)),
                AdminAddress::Tcp(address) => {
                    let address = reachable(address.socket_addr());
                    let stream = TcpStream::connect(address).await?;
                    match &self.tls {
                        None => exchange(Box::new(stream), request).await,
                        Some(tls) => {
                            let name = ServerName::from(address.ip());
                            let stream = TlsConnector::from(tls.clone()).connect(name, stream).await?;
                            exchange(Box::new(stream), request).await
                        }
                    }
                }
            }
        };
        opening.await.map_err(|source| self.failed(source))
    }
}

/// An event of the audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditEvent<'a> {
    /// Lines that are written from now on will be received.
    Begun,
    /// A line: a JSON object.
    Line(&'a str),
    /// This number of lines was dropped because they came faster than they were received.
    Missed(u64),
}

/// An answer that is being received.
struct Answer {
    status: StatusCode,
    body: Incoming,
    /// The task that drives the connection.
    _connection: AbortOnDropHandle<()>,
}

fn timed_out() -> io::Error {
    io::ErrorKind::TimedOut.into()
}

/// The address at which a process on this machine reaches a listener: loopback, if the listener has a wildcard address.
pub(super) fn reachable(listening: SocketAddr) -> SocketAddr {
    let ip = match listening.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listening.port())
}

async fn exchange(stream: Box<dyn IoStream>, request: Request<Full<Bytes>>) -> io::Result<Answer> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    // Errors of the connection are reported by the answer.
    let connection = AbortOnDropHandle::new(task::spawn(async { drop(connection.await) }));
    let answer = sender.send_request(request).await.map_err(io::Error::other)?;
    Ok(Answer { status: answer.status(), body: answer.into_body(), _connection: connection })
}

async fn collect(body: Incoming) -> io::Result<Bytes> {
    bounded_body::receive(body, MAX_ANSWER).await.map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_host_config::admin::Admin;

    #[test]
    fn a_listener_at_all_addresses_is_reached_at_loopback() {
        for (listening, reached) in [("0.0.0.0:1", "127.0.0.1:1"), ("[::]:1", "[::1]:1"), ("10.0.0.7:1", "10.0.0.7:1")]
        {
            assert_eq!(reachable(listening.parse().unwrap()), reached.parse().unwrap());
        }
    }

    #[test]
    fn a_token_is_sent_over_tcp_and_not_over_a_unix_socket() {
        for (address, is_sent) in [
            (AdminAddress::Tcp("127.0.0.1:9464".parse().unwrap()), true),
            (AdminAddress::Unix("/run/admin.sock".into()), false),
        ] {
            let mut admin = Admin::new(address);
            admin.token = Some(AdminToken::new("secret"));
            let client = AdminClient::new(&Config { admin: Some(admin), ..Config::default() }).unwrap();
            assert_eq!(client.token.is_some(), is_sent, "{}", client.address());
        }
    }

    #[test]
    fn what_the_config_lacks_is_named_with_what_to_write() {
        let without = AdminClient::new(&Config::default()).unwrap_err();
        assert!(without.help().unwrap().contains("[admin]\nlisten = "), "{without}");
        let any = Admin::new(AdminAddress::Tcp("127.0.0.1:0".parse().unwrap()));
        let any = AdminClient::new(&Config { admin: Some(any), ..Config::default() }).unwrap_err();
        assert!(any.to_string().contains("127.0.0.1:0") && any.help().unwrap().contains("9464"), "{any}");
    }
}
