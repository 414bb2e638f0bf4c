//! Errors of an exchange: their mapping to the guest's error codes, and the log of rejected requests.
//!
//! A request that the host rejects is logged, once a minute per reason, with its origin. Other failures (a name that
//! does not exist, a server that is down) are only reported to the guest. No log line contains more of a request than
//! its origin: paths and headers may hold secrets.

use std::error::Error as _;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use bytesize::ByteSize;
use humantime::format_duration;
use hyper::header::HeaderName;
use mcp_host_config::limits::HttpRate;
use mcp_host_model::net::Origin;
use rustls::AlertDescription;
use wasmtime_wasi_http::Error;

use crate::grant_usage::HttpOutcome;
use crate::guest_log::ThrottledWarnings;

/// The reason why an exchange failed. Its text is for the log.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExchangeError {
    #[error("the origin is not granted: `grants.http` does not list it")]
    NotGranted,
    #[error("the request has no valid origin")]
    InvalidUri,
    #[error("the request's method is not allowed")]
    ForbiddenMethod,
    #[error(
        "the request has a header that many servers take for `{0}`, which the host controls: it differs in `_` and `-` only"
    )]
    ImitatedHeader(HeaderName),
    #[error("`limits.http.rate` ({0}) is used up")]
    RateLimited(HttpRate),
    #[error("`limits.http.concurrency` ({0}), or the share of one client, is reached")]
    ConcurrencyLimit(usize),
    #[error("there is no access token from {server}: {reason}")]
    Token { server: Origin, reason: String },
    #[error("the request's headers are larger than `limits.http.headers`")]
    RequestHeadersTooLarge(u64),
    #[error("the request's body is larger than `limits.http.body` ({})", ByteSize(*.0))]
    RequestBodyTooLarge(u64),
    #[error("the name resolves to the non-public address {0}, which only a grant of the address itself allows")]
    PrivateAddress(IpAddr),
    #[error("cannot resolve the name: {0}")]
    Resolve(String),
    #[error("timeout while resolving the name")]
    ResolveTimeout,
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    #[error("timeout while connecting")]
    ConnectTimeout,
    #[error("the server's certificate is not trusted: {0}")]
    Certificate(String),
    #[error("the server aborted the TLS handshake: {0:?}")]
    Alert(AlertDescription),
    #[error("the TLS handshake with the server failed: {0}")]
    Tls(rustls::Error),
    #[error("timeout while waiting for the response")]
    FirstByteTimeout,
    #[error("timeout while waiting for more of the response's body")]
    BetweenBytesTimeout,
    #[error(
        "the response's headers are larger than `limits.http.headers`, or too many, including the headers of informational responses (1xx)"
    )]
    ResponseHeadersTooLarge,
    #[error("the exchange used up the CPU time of the call (`limits.cpu`)")]
    Cpu,
    #[error("the response's body is larger than `limits.http.body` ({})", ByteSize(*.0))]
    ResponseBodyTooLarge(u64),
    #[error("the exchange took longer than `limits.http.timeout` ({})", format_duration(*.0))]
    Timeout(Duration),
    #[error("the server switched to a protocol other than HTTP")]
    Upgrade,
    #[error("the server closed the connection before the end of the response")]
    Incomplete,
    #[error("the request's body was not sent completely")]
    Aborted,
    #[error("the server does not speak HTTP/1.1: {0}")]
    Protocol(hyper::Error),
}

impl ExchangeError {
    /// Maps an error of hyper.
    pub(super) fn from_hyper(error: hyper::Error) -> Self {
        let from_body = error.source().and_then(|source| source.downcast_ref::<Error>());
        match from_body {
            Some(Error::HttpRequestBodySize(most)) => Self::RequestBodyTooLarge(most.unwrap_or_default()),
            Some(_) => Self::Aborted,
            None if error.is_parse_too_large() => Self::ResponseHeadersTooLarge,
            None if error.is_parse() || error.is_user() => Self::Protocol(error),
            None => Self::Incomplete,
        }
    }

    /// Maps an error of the TLS handshake.
    pub(super) fn from_handshake(error: io::Error) -> Self {
        let tls_error = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match tls_error {
            Some(rustls::Error::InvalidCertificate(reason)) => Self::Certificate(reason.to_string()),
            Some(rustls::Error::AlertReceived(alert)) => Self::Alert(*alert),
            Some(other) => Self::Tls(other.clone()),
            None => Self::Connect(error),
        }
    }

    /// Returns the outcome for metrics.
    pub(super) fn outcome(&self) -> HttpOutcome {
        match self {
            Self::NotGranted => HttpOutcome::RefusedOrigin,
            Self::InvalidUri | Self::ForbiddenMethod | Self::ImitatedHeader(_) => HttpOutcome::RefusedRequest,
            Self::PrivateAddress(_) => HttpOutcome::RefusedAddress,
            Self::RateLimited(_) | Self::ConcurrencyLimit(_) => HttpOutcome::Limit,
            Self::Token { .. } => HttpOutcome::Token,
            Self::Resolve(_) | Self::ResolveTimeout => HttpOutcome::Dns,
            Self::Connect(_) | Self::ConnectTimeout => HttpOutcome::Connect,
            Self::Certificate(_) | Self::Alert(_) | Self::Tls(_) => HttpOutcome::Tls,
            Self::FirstByteTimeout | Self::BetweenBytesTimeout | Self::Timeout(_) => HttpOutcome::Timeout,
            Self::RequestHeadersTooLarge(_)
            | Self::RequestBodyTooLarge(_)
            | Self::ResponseHeadersTooLarge
            | Self::ResponseBodyTooLarge(_) => HttpOutcome::TooLarge,
            Self::Upgrade | Self::Incomplete | Self::Protocol(_) => HttpOutcome::Protocol,
            Self::Cpu | Self::Aborted => HttpOutcome::Cancelled,
        }
    }

    /// Returns the error code that the guest receives.
    pub(super) fn to_wasi(&self) -> Error {
        match self {
            Self::NotGranted | Self::ImitatedHeader(_) => Error::HttpRequestDenied,
            Self::InvalidUri => Error::HttpRequestUriInvalid,
            Self::ForbiddenMethod => Error::HttpRequestMethodInvalid,
            Self::RateLimited(_) | Self::ConcurrencyLimit(_) => Error::ConnectionLimitReached,
            // The reason is for the admin, so the guest receives no part of it.
            Self::Token { .. } => Error::InternalError(Some("the host has no access token for the origin".to_owned())),
            Self::RequestHeadersTooLarge(most) => Error::HttpRequestHeaderSectionSize(u32::try_from(*most).ok()),
            Self::RequestBodyTooLarge(most) => Error::HttpRequestBodySize(Some(*most)),
            Self::PrivateAddress(_) => Error::DestinationIpProhibited,
            Self::Resolve(reason) => Error::DnsError { rcode: Some(reason.clone()), info_code: None },
            Self::ResolveTimeout => Error::DnsTimeout,
            Self::Connect(error) => match error.kind() {
                io::ErrorKind::ConnectionRefused => Error::ConnectionRefused,
                io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::UnexpectedEof => Error::ConnectionTerminated,
                io::ErrorKind::TimedOut => Error::ConnectionTimeout,
                io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => Error::DestinationIpUnroutable,
                _ => Error::DestinationUnavailable,
            },
            Self::ConnectTimeout => Error::ConnectionTimeout,
            Self::Certificate(_) => Error::TlsCertificateError,
            Self::Alert(alert) => {
                Error::TlsAlertReceived { alert_id: Some(u8::from(*alert)), alert_message: Some(format!("{alert:?}")) }
            }
            Self::Tls(_) => Error::TlsProtocolError,
            Self::FirstByteTimeout | Self::BetweenBytesTimeout => Error::ConnectionReadTimeout,
            Self::ResponseHeadersTooLarge => Error::HttpResponseHeaderSectionSize(None),
            Self::ResponseBodyTooLarge(most) => Error::HttpResponseBodySize(Some(*most)),
            Self::Timeout(_) => Error::HttpResponseTimeout,
            Self::Cpu => Error::InternalError(Some(self.to_string())),
            Self::Upgrade => Error::HttpUpgradeFailed,
            Self::Incomplete => Error::HttpResponseIncomplete,
            Self::Aborted | Self::Protocol(_) => Error::HttpProtocolError,
        }
    }

    /// Logs the failure, unless it is throttled, if the host rejected the request. Returns the error code for the
    /// guest.
    pub(super) fn log(&self, origin: Option<&Origin>, warnings: &ThrottledWarnings) -> Error {
        let reason = match self {
            Self::NotGranted => Some("not granted"),
            Self::ImitatedHeader(_) => Some("imitated header"),
            Self::PrivateAddress(_) => Some("private address"),
            Self::RateLimited(_) => Some("rate"),
            Self::ConcurrencyLimit(_) => Some("concurrency"),
            Self::Token { .. } => Some("token"),
            Self::RequestHeadersTooLarge(_)
            | Self::RequestBodyTooLarge(_)
            | Self::ResponseHeadersTooLarge
            | Self::ResponseBodyTooLarge(_) => Some("size"),
            Self::Timeout(_) | Self::Cpu => Some("timeout"),
            Self::Certificate(_) => Some("certificate"),
            _ => None,
        };
        if let (Some(reason), Some(origin)) = (reason, origin) {
            warnings.warn(reason, format_args!("a request to {origin} failed: {self}"));
        }
        self.to_wasi()
    }
}
