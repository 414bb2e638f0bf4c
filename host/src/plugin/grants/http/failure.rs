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
use crate::plugin::grants::notice::Notice;
use crate::plugin::guest_log::GuestLog;

/// Why an exchange failed. Displayed, it is for the log.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("`grants.http` has no such origin")]
    NotGranted,
    #[error("the origin is none")]
    Uri,
    #[error("its method cannot be sent")]
    Method,
    #[error("`limits.http.rate` ({0} a minute) is used up")]
    Rate(usize),
    #[error("`limits.http.concurrency` ({0}) is used up")]
    Concurrency(usize),
    #[error("its headers are larger than `limits.http.headers`")]
    RequestHeaders(u64),
    #[error("its body is larger than `limits.http.body` ({})", ByteSize(*.0))]
    RequestBody(u64),
    #[error("the name leads to {0}, which only a grant of the address itself reaches")]
    Inside(IpAddr),
    #[error("cannot resolve the name: {0}")]
    Resolve(String),
    #[error("the name was not resolved in time")]
    ResolveTime,
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    #[error("there was no connection in time")]
    ConnectTime,
    #[error("the server's certificate is not trusted: {0}")]
    Certificate(String),
    #[error("the server ended the handshake: {0:?}")]
    Alert(AlertDescription),
    #[error("cannot speak TLS with the server: {0}")]
    Tls(rustls::Error),
    #[error("there was no answer in time")]
    FirstByte,
    #[error("nothing more came in time")]
    Pause,
    #[error("the headers of the answer are larger than `limits.http.headers`, or too many")]
    ResponseHeaders,
    #[error("the body of the answer is larger than `limits.http.body` ({})", ByteSize(*.0))]
    ResponseBody(u64),
    #[error("the exchange took longer than `limits.http.timeout` ({})", format_duration(*.0))]
    Time(Duration),
    #[error("the server wants to speak something else than HTTP")]
    Upgrade,
    #[error("the server ended the connection in the middle of the answer")]
    Incomplete,
    #[error("the request's body was not sent whole")]
    Aborted,
    #[error("the server does not speak HTTP/1.1: {0}")]
    Protocol(hyper::Error),
}

impl Failure {
    /// What hyper says.
    pub(super) fn of(error: hyper::Error) -> Self {
        let from_body = error.source().and_then(|source| source.downcast_ref::<Error>());
        match from_body {
            Some(Error::HttpRequestBodySize(most)) => Self::RequestBody(most.unwrap_or_default()),
            Some(_) => Self::Aborted,
            None if error.is_parse_too_large() => Self::ResponseHeaders,
            None if error.is_parse() || error.is_user() => Self::Protocol(error),
            None => Self::Incomplete,
        }
    }

    /// What a handshake ended with.
    pub(super) fn handshake(error: io::Error) -> Self {
        let of_tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match of_tls {
            Some(rustls::Error::InvalidCertificate(reason)) => Self::Certificate(reason.to_string()),
            Some(rustls::Error::AlertReceived(alert)) => Self::Alert(*alert),
            Some(other) => Self::Tls(other.clone()),
            None => Self::Connect(error),
        }
    }

    /// What the guest is told.
    pub(super) fn code(&self) -> Error {
        match self {
            Self::NotGranted => Error::HttpRequestDenied,
            Self::Uri => Error::HttpRequestUriInvalid,
            Self::Method => Error::HttpRequestMethodInvalid,
            Self::Rate(_) | Self::Concurrency(_) => Error::ConnectionLimitReached,
            Self::RequestHeaders(most) => Error::HttpRequestHeaderSectionSize(u32::try_from(*most).ok()),
            Self::RequestBody(most) => Error::HttpRequestBodySize(Some(*most)),
            Self::Inside(_) => Error::DestinationIpProhibited,
            Self::Resolve(reason) => Error::DnsError { rcode: Some(reason.clone()), info_code: None },
            Self::ResolveTime => Error::DnsTimeout,
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
            Self::ConnectTime => Error::ConnectionTimeout,
            Self::Certificate(_) => Error::TlsCertificateError,
            Self::Alert(alert) => {
                Error::TlsAlertReceived { alert_id: Some(u8::from(*alert)), alert_message: Some(format!("{alert:?}")) }
            }
            Self::Tls(_) => Error::TlsProtocolError,
            Self::FirstByte | Self::Pause => Error::ConnectionReadTimeout,
            Self::ResponseHeaders => Error::HttpResponseHeaderSectionSize(None),
            Self::ResponseBody(most) => Error::HttpResponseBodySize(Some(*most)),
            Self::Time(_) => Error::HttpResponseTimeout,
            Self::Upgrade => Error::HttpUpgradeFailed,
            Self::Incomplete => Error::HttpResponseIncomplete,
            Self::Aborted | Self::Protocol(_) => Error::HttpProtocolError,
        }
    }
}

/// What one plugin was refused, as the log has it.
pub(super) struct Refusals {
    not_granted: Notice,
    inside: Notice,
    rate: Notice,
    concurrency: Notice,
    size: Notice,
    time: Notice,
    certificate: Notice,
}

impl Refusals {
    pub(super) fn new(log: &Arc<GuestLog>) -> Self {
        let notice = || Notice::new(log.clone());
        Self {
            not_granted: notice(),
            inside: notice(),
            rate: notice(),
            concurrency: notice(),
            size: notice(),
            time: notice(),
            certificate: notice(),
        }
    }

    /// Logs a failure if it is a refusal, and says what the guest is told.
    pub(super) fn note(&self, origin: Option<&Origin>, failure: &Failure) -> Error {
        let notice = match failure {
            Failure::NotGranted => Some(&self.not_granted),
            Failure::Inside(_) => Some(&self.inside),
            Failure::Rate(_) => Some(&self.rate),
            Failure::Concurrency(_) => Some(&self.concurrency),
            Failure::RequestHeaders(_)
            | Failure::RequestBody(_)
            | Failure::ResponseHeaders
            | Failure::ResponseBody(_) => Some(&self.size),
            Failure::Time(_) => Some(&self.time),
            Failure::Certificate(_) => Some(&self.certificate),
            _ => None,
        };
        if let (Some(notice), Some(origin)) = (notice, origin) {
            notice.give(format_args!("refused a request to {origin}: {failure}"));
        }
        failure.code()
    }
}
