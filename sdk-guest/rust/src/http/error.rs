//! Errors of HTTP requests.

use crate::component::bindings::wasi::http::types::ErrorCode;
use crate::{Failure, Retry};

/// Why a request or the transfer of its response failed. The texts contain no address and no certificate, so that
/// clients may see them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The URL is not an absolute HTTP URL.
    #[error("expected an absolute `http:` or `https:` URL without user information, found {0:?}")]
    Url(String),
    /// The header is invalid, or only the host may set it.
    #[error("the header {0:?} is invalid or reserved for the host")]
    Header(String),
    /// The origin is not granted: no grant names it, or it resolves to an address that a grant must name explicitly.
    #[error("the origin is not granted to this plugin (`grants.http`)")]
    Denied,
    /// The server is unreachable: the name does not resolve, the connection was refused, or it broke.
    #[error("the server is unreachable: {0}")]
    Unreachable(&'static str),
    /// The TLS handshake failed: the certificate does not match, or no TLS parameters were agreed on.
    #[error("the TLS handshake failed: {0}")]
    Tls(&'static str),
    /// The request timed out.
    #[error("the server did not respond in time")]
    Timeout,
    /// A limit of the plugin is reached: concurrent requests, request rate, header size or body size.
    #[error("a limit of this plugin is reached: {0}")]
    Limit(&'static str),
    /// The body exceeds the caller's limit.
    #[error("the body exceeds {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The response is not valid HTTP, or is incomplete.
    #[error("the server's response is invalid: {0}")]
    Protocol(&'static str),
    /// The host failed.
    #[error("the request failed in the host")]
    Host,
    /// There is no host: the code does not run as a component.
    #[error("HTTP requests need a host, and this is not a component")]
    NoHost,
}

/// Maps a missing grant to denied and an invalid request to internal, since that is the provider's fault. Everything
/// else is unavailable, since it may be transient.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Denied => Self::Denied(error.to_string()),
            Error::Url(_) | Error::Header(_) | Error::NoHost => Self::Internal(error.to_string()),
            _ => Self::Unavailable(Retry::new(error.to_string())),
        }
    }
}

impl From<ErrorCode> for Error {
    fn from(code: ErrorCode) -> Self {
        use ErrorCode as Code;
        match code {
            Code::HttpRequestDenied | Code::DestinationIpProhibited => Self::Denied,
            Code::DnsTimeout
            | Code::ConnectionTimeout
            | Code::ConnectionReadTimeout
            | Code::ConnectionWriteTimeout
            | Code::HttpResponseTimeout => Self::Timeout,
            Code::DnsError(_) | Code::DestinationNotFound => Self::Unreachable("its name does not resolve"),
            Code::ConnectionRefused => Self::Unreachable("connection refused"),
            Code::DestinationUnavailable | Code::DestinationIpUnroutable => Self::Unreachable("no route to it"),
            Code::ConnectionTerminated => Self::Unreachable("the connection was closed"),
            Code::TlsCertificateError => Self::Tls("its certificate is not trusted"),
            Code::TlsProtocolError | Code::TlsAlertReceived(_) => Self::Tls("no common TLS version or cipher"),
            Code::ConnectionLimitReached => Self::Limit("too many requests"),
            Code::HttpRequestBodySize(_) | Code::HttpRequestUriTooLong => Self::Limit("the request is too large"),
            Code::HttpRequestHeaderSectionSize(_)
            | Code::HttpRequestHeaderSize(_)
            | Code::HttpRequestTrailerSectionSize(_)
            | Code::HttpRequestTrailerSize(_) => Self::Limit("the headers of the request are too large"),
            Code::HttpResponseBodySize(_) => Self::Limit("the body is too large"),
            Code::HttpResponseHeaderSectionSize(_)
            | Code::HttpResponseHeaderSize(_)
            | Code::HttpResponseTrailerSectionSize(_)
            | Code::HttpResponseTrailerSize(_) => Self::Limit("the headers are too large"),
            Code::HttpResponseIncomplete => Self::Protocol("it is truncated"),
            Code::HttpResponseTransferCoding(_) | Code::HttpResponseContentCoding(_) => {
                Self::Protocol("its encoding is unknown")
            }
            Code::HttpProtocolError | Code::HttpUpgradeFailed => Self::Protocol("it is not HTTP"),
            Code::HttpRequestUriInvalid | Code::HttpRequestMethodInvalid | Code::HttpRequestLengthRequired => {
                Self::Url("a URL that the host rejected".to_owned())
            }
            Code::LoopDetected | Code::ConfigurationError | Code::InternalError(_) => Self::Host,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_denied_and_what_may_pass_is_unavailable() {
        let failure = |code: ErrorCode| Failure::from(Error::from(code));
        assert!(matches!(failure(ErrorCode::HttpRequestDenied), Failure::Denied(_)));
        assert!(matches!(failure(ErrorCode::DestinationIpProhibited), Failure::Denied(_)));
        assert!(matches!(failure(ErrorCode::ConnectionRefused), Failure::Unavailable(_)));
        assert!(matches!(failure(ErrorCode::HttpResponseTimeout), Failure::Unavailable(_)));
        assert!(matches!(Failure::from(Error::Url(String::new())), Failure::Internal(_)));
    }

    #[test]
    fn what_the_host_says_of_its_insides_is_not_repeated() {
        let code = ErrorCode::InternalError(Some("10.0.0.1 is down".to_owned()));
        assert_eq!(Error::from(code).to_string(), "the request failed in the host");
    }
}
