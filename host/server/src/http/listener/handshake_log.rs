//! The log of TLS handshakes that fail for a reason that the admin of the server can fix: rejected client certificates,
//! and clients without TLS. Other failures come from scanners and from clients that disconnect.

use std::io;
use std::time::Duration;

use mcp_host_base::log_target;
use mcp_host_base::throttle::ThrottlePerReason;
use mcp_host_base::tls_client::TooManyIntermediates;
use mcp_resource_host::host::Host;
use rustls::{CertificateError, Error, InvalidMessage};

use crate::client_id::ClientId;

/// The throttle interval of warnings, for each kind of reason.
const WARN_INTERVAL: Duration = Duration::from_secs(10);

/// The kind of reason for a client without TLS.
const NO_TLS: &str = "no TLS";

/// The log of failed handshakes.
#[derive(Debug)]
pub(super) struct HandshakeLog(ThrottlePerReason);

impl Default for HandshakeLog {
    fn default() -> Self {
        Self(ThrottlePerReason::new(WARN_INTERVAL))
    }
}

impl HandshakeLog {
    /// Logs the failed handshake of a client. The audit log records it if the client's certificate was rejected.
    pub(super) fn record(&self, host: &Host, client: &ClientId, error: &io::Error) {
        let Some((kind, reason)) = error.get_ref().and_then(|error| error.downcast_ref()).and_then(reason) else {
            tracing::debug!(target: log_target::SERVER, %client, %error, "TLS handshake failed");
            return;
        };
        if kind != NO_TLS {
            host.record_failed_login(client, "certificate");
        }
        match self.0.record(kind) {
            Some(suppressed) => {
                tracing::warn!(target: log_target::SERVER, %client, reason, suppressed, "TLS handshake failed");
            }
            None => tracing::debug!(target: log_target::SERVER, %client, reason, "TLS handshake failed"),
        }
    }
}

/// Returns the kind of a reason and its text. None for a failure that the admin cannot fix.
fn reason(error: &Error) -> Option<(&'static str, String)> {
    match error {
        Error::InvalidCertificate(error) => Some(certificate_reason(error)),
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            Some((NO_TLS, "it does not speak TLS; a URL of this server begins with `https://`".to_owned()))
        }
        _ => None,
    }
}

fn certificate_reason(error: &CertificateError) -> (&'static str, String) {
    if let CertificateError::Other(other) = error
        && let Some(too_many) = other.0.downcast_ref::<TooManyIntermediates>()
    {
        return ("too many", format!("the client sends {too_many}"));
    }
    let (kind, reason) = match error {
        // `BadSignature` occurs if an authority has the same name.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            ("authority", "is signed by no authority of `http.client-ca`")
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => ("expired", "has expired"),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            ("not yet valid", "is not valid yet")
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            ("purpose", "has extended key usages, and `clientAuth` is none of them")
        }
        CertificateError::Other(other) => match other.0.downcast_ref() {
            Some(webpki::Error::UnsupportedCertVersion) => ("version", "is not of version 3 of X.509"),
            Some(webpki::Error::CaUsedAsEndEntity) => ("authority's own", "is that of an authority"),
            _ => return ("other", format!("the client certificate is not accepted: {error}")),
        },
        _ => return ("other", format!("the client certificate is not accepted: {error}")),
    };
    (kind, format!("the client certificate {reason}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::{AlertDescription, OtherError};

    use super::*;

    #[test]
    fn the_reason_is_said_of_what_an_admin_can_see_to() {
        let of_webpki = |error: webpki::Error| CertificateError::Other(OtherError(Arc::new(error)));
        for (error, expected) in [
            (CertificateError::UnknownIssuer, "is signed by no authority of `http.client-ca`"),
            (CertificateError::Expired, "has expired"),
            (CertificateError::NotValidYet, "is not valid yet"),
            (of_webpki(webpki::Error::UnsupportedCertVersion), "is not of version 3 of X.509"),
            (of_webpki(webpki::Error::CaUsedAsEndEntity), "is that of an authority"),
            (CertificateError::BadSignature, "is signed by no authority"),
            (CertificateError::BadEncoding, "is not accepted: "),
        ] {
            let (_, reason) = reason(&Error::InvalidCertificate(error)).unwrap();
            assert!(reason.starts_with("the client certificate ") && reason.contains(expected), "{reason}");
        }
        let too_many = CertificateError::Other(OtherError(Arc::new(TooManyIntermediates { sent: 7, most: 6 })));
        let (kind, text) = reason(&Error::InvalidCertificate(too_many)).unwrap();
        let expected = "the client sends 7 certificates besides its own, and at most 6 are accepted";
        assert_eq!((kind, text.as_str()), ("too many", expected));
        assert_eq!(reason(&Error::AlertReceived(AlertDescription::UnknownCA)), None);
    }
}
