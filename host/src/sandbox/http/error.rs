//! Why an exchange failed: what the guest is told, and what of it is worth a line in the log.
//!
//! What the host refused is logged, once a minute for each reason, with the origin. What went wrong on the way (a name that
//! does not exist, a server that is down) is the guest's to tell. No line has more of a request than its origin: paths and
//! headers may hold secrets.

use std::error::Error as _;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytesize::ByteSize;
use humantime::format_duration;
use rustls::AlertDescription;
use wasmtime_wasi_http::Error;

use crate::config::Origin;
use crate::sandbox::guest_log::GuestLog;
use crate::sandbox::throttled_warning::ThrottledWarning;

/// Why an exchange failed. Displayed, it is for the log.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExchangeError {
    #[error("`grants.http` has no such origin")]
    NotGranted,
    #[error("the origin is none")]
    InvalidUri,
    #[error("its method cannot be sent")]
    ForbiddenMethod,
    #[error("`limits.http.rate` ({0} a minute) is used up")]
    RateLimited(usize),
    #[error("`limits.http.concurrency` ({0}) is used up")]
    ConcurrencyLimit(usize),
    #[error("its headers are larger than `limits.http.headers`")]
    RequestHeadersTooLarge(u64),
    #[error("its body is larger than `limits.http.body` ({})", ByteSize(*.0))]
    RequestBodyTooLarge(u64),
    #[error("the name leads to {0}, which only a grant of the address itself reaches")]
    PrivateAddress(IpAddr),
    #[error("cannot resolve the name: {0}")]
    Resolve(String),
    #[error("the name was not resolved in time")]
    ResolveTimeout,
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    #[error("there was no connection in time")]
    ConnectTimeout,
    #[error("the server's certificate is not trusted: {0}")]
    Certificate(String),
    #[error("the server ended the handshake: {0:?}")]
    Alert(AlertDescription),
    #[error("cannot speak TLS with the server: {0}")]
    Tls(rustls::Error),
    #[error("there was no answer in time")]
    FirstByteTimeout,
    #[error("nothing more came in time")]
    BetweenBytesTimeout,
    #[error("the headers of the answer are larger than `limits.http.headers`, or too many")]
    ResponseHeadersTooLarge,
    #[error("the body of the answer is larger than `limits.http.body` ({})", ByteSize(*.0))]
    ResponseBodyTooLarge(u64),
    #[error("the exchange took longer than `limits.http.timeout` ({})", format_duration(*.0))]
    Timeout(Duration),
    #[error("the server wants to speak something else than HTTP")]
    Upgrade,
    #[error("the server ended the connection in the middle of the answer")]
    Incomplete,
    #[error("the request's body was not sent whole")]
    Aborted,
    #[error("the server does not speak HTTP/1.1: {0}")]
    Protocol(hyper::Error),
}

impl ExchangeError {
    /// What hyper says.
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

    /// What a handshake ended with.
    pub(super) fn from_handshake(error: io::Error) -> Self {
        let tls_error = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match tls_error {
            Some(rustls::Error::InvalidCertificate(reason)) => Self::Certificate(reason.to_string()),
            Some(rustls::Error::AlertReceived(alert)) => Self::Alert(*alert),
            Some(other) => Self::Tls(other.clone()),
            None => Self::Connect(error),
        }
    }

    /// What the guest is told.
    pub(super) fn to_wasi(&self) -> Error {
        match self {
            Self::NotGranted => Error::HttpRequestDenied,
            Self::InvalidUri => Error::HttpRequestUriInvalid,
            Self::ForbiddenMethod => Error::HttpRequestMethodInvalid,
            Self::RateLimited(_) | Self::ConcurrencyLimit(_) => Error::ConnectionLimitReached,
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
            Self::Upgrade => Error::HttpUpgradeFailed,
            Self::Incomplete => Error::HttpResponseIncomplete,
            Self::Aborted | Self::Protocol(_) => Error::HttpProtocolError,
        }
    }
}

/// What one plugin was refused, as the log has it.
pub(super) struct RefusalLog {
    not_granted: ThrottledWarning,
    private_address: ThrottledWarning,
    rate: ThrottledWarning,
    concurrency: ThrottledWarning,
    size: ThrottledWarning,
    timeout: ThrottledWarning,
    certificate: ThrottledWarning,
}

impl RefusalLog {
    pub(super) fn new(log: &Arc<GuestLog>) -> Self {
        let warning = || ThrottledWarning::new(log.clone());
        Self {
            not_granted: warning(),
            private_address: warning(),
            rate: warning(),
            concurrency: warning(),
            size: warning(),
            timeout: warning(),
            certificate: warning(),
        }
    }

    /// Logs a failure if it is a refusal, and says what the guest is told.
    pub(super) fn record(&self, origin: Option<&Origin>, failure: &ExchangeError) -> Error {
        let warning = match failure {
            ExchangeError::NotGranted => Some(&self.not_granted),
            ExchangeError::PrivateAddress(_) => Some(&self.private_address),
            ExchangeError::RateLimited(_) => Some(&self.rate),
            ExchangeError::ConcurrencyLimit(_) => Some(&self.concurrency),
            ExchangeError::RequestHeadersTooLarge(_)
            | ExchangeError::RequestBodyTooLarge(_)
            | ExchangeError::ResponseHeadersTooLarge
            | ExchangeError::ResponseBodyTooLarge(_) => Some(&self.size),
            ExchangeError::Timeout(_) => Some(&self.timeout),
            ExchangeError::Certificate(_) => Some(&self.certificate),
            _ => None,
        };
        if let (Some(warning), Some(origin)) = (warning, origin) {
            warning.warn(format_args!("refused a request to {origin}: {failure}"));
        }
        failure.to_wasi()
    }
}
