//! Why there is no response, or no more of it.

use crate::component::bindings::wasi::http::types::ErrorCode;
use crate::{Failure, Retry};

/// Why there is no response, or no more of it. The texts name no address and no certificate, so that clients may see them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The URL is none that a request can be sent to.
    #[error("expected an absolute `http:` or `https:` URL without user information, found {0:?}")]
    Url(String),
    /// A header is none, or is one that only the host sets.
    #[error("the header {0:?} cannot be sent")]
    Header(String),
    /// The plugin may not speak to this origin: no grant names it, or its address is one that a grant must name.
    #[error("the origin is not among those that this plugin may speak to (`grants.http`)")]
    Denied,
    /// The server cannot be reached: no such name, nobody listens, or the connection broke.
    #[error("the server cannot be reached: {0}")]
    Unreachable(&'static str),
    /// The server's certificate is not one for this name, or there is no TLS to be had.
    #[error("there is no secure connection to the server: {0}")]
    Tls(&'static str),
    /// It took too long.
    #[error("the server did not answer in time")]
    Timeout,
    /// The host lets the plugin use up no more: requests at once or in a minute, headers, or bytes.
    #[error("a limit of this plugin is reached: {0}")]
    Limit(&'static str),
    /// The body has more bytes than the caller wants.
    #[error("the body has more than {limit} bytes")]
    TooLarge {
        /// How many were wanted at most.
        limit: usize,
    },
    /// What came is not HTTP, or not all of it came.
    #[error("the server's answer is broken: {0}")]
    Protocol(&'static str),
    /// The host failed.
    #[error("the request failed in the host")]
    Host,
    /// There is no host: this is no component.
    #[error("there is no host to send requests")]
    NoHost,
}

/// A refusal is denied. What is wrong with the request is the provider's fault. All else is unavailable, since it may pass.
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
            Code::DnsError(_) | Code::DestinationNotFound => Self::Unreachable("its name is not known"),
            Code::ConnectionRefused => Self::Unreachable("it refuses connections"),
            Code::DestinationUnavailable | Code::DestinationIpUnroutable => Self::Unreachable("no way leads there"),
            Code::ConnectionTerminated => Self::Unreachable("the connection broke"),
            Code::TlsCertificateError => Self::Tls("its certificate is not trusted"),
            Code::TlsProtocolError | Code::TlsAlertReceived(_) => Self::Tls("it speaks no TLS that suits"),
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
            Code::HttpResponseIncomplete => Self::Protocol("it ends too early"),
            Code::HttpResponseTransferCoding(_) | Code::HttpResponseContentCoding(_) => {
                Self::Protocol("its coding is unknown")
            }
            Code::HttpProtocolError | Code::HttpUpgradeFailed => Self::Protocol("it is no HTTP"),
            Code::HttpRequestUriInvalid | Code::HttpRequestMethodInvalid | Code::HttpRequestLengthRequired => {
                Self::Url("one that the host refuses".to_owned())
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
