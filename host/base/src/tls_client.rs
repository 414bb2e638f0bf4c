//! TLS clients of this host: which certificates of servers they accept.
//!
//! A server sends its certificate, and others that may lead to an authority. The server selects them, and the time to
//! search a path through them grows with the sixth power of their number: rustls makes at most 200,000 steps, each of
//! which parses all of them. A server that sends 300 (64 KiB) would occupy a thread for about half a minute in one
//! piece, which no deadline interrupts. So a server with more than [`MAX_INTERMEDIATES`] is refused before the search,
//! which takes some 100 ms at most then.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, Error, OtherError, RootCertStore};

/// The maximum number of certificates that a server may send besides its own. No path has more than 6.
const MAX_INTERMEDIATES: usize = 8;

/// The other side of a connection sends too many certificates besides its own.
#[derive(Debug, thiserror::Error)]
#[error("{sent} certificates besides its own, and at most {most} are accepted")]
pub struct TooManyIntermediates {
    /// The number of these certificates.
    pub sent: usize,
    /// The maximum.
    pub most: usize,
}

impl TooManyIntermediates {
    /// Checks the number of certificates that a server or a client sends besides its own.
    ///
    /// # Errors
    ///
    /// There are more than `most`.
    pub fn check(intermediates: &[CertificateDer<'_>], most: usize) -> Result<(), Error> {
        let sent = intermediates.len();
        if sent <= most {
            return Ok(());
        }
        let error = OtherError(Arc::new(Self { sent, most }));
        Err(Error::InvalidCertificate(CertificateError::Other(error)))
    }
}

/// Returns the config of a client that trusts these authorities, and has no certificate of its own.
///
/// # Errors
///
/// The cryptography has no version of TLS that rustls uses by default.
pub fn client_config(roots: RootCertStore) -> Result<ClientConfig, Error> {
    let provider = Arc::new(ring::default_provider());
    // This fails without authorities only.
    let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build().ok();
    let verifier = Arc::new(BoundedVerifier { inner, provider: provider.clone() });
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth())
}

/// Implements the methods of a verifier of certificates, of servers or of clients, for the signatures of handshakes
/// with these algorithms. The crate that uses it depends on `rustls`.
#[macro_export]
macro_rules! verify_handshake_signatures {
    ($this:ident, $algorithms:expr) => {
        fn verify_tls12_signature(
            &$this,
            message: &[u8],
            certificate: &rustls::pki_types::CertificateDer<'_>,
            signature: &rustls::DigitallySignedStruct,
        ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
            rustls::crypto::verify_tls12_signature(message, certificate, signature, &$algorithms)
        }

        fn verify_tls13_signature(
            &$this,
            message: &[u8],
            certificate: &rustls::pki_types::CertificateDer<'_>,
            signature: &rustls::DigitallySignedStruct,
        ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
            rustls::crypto::verify_tls13_signature(message, certificate, signature, &$algorithms)
        }

        fn supported_verify_schemes(&$this) -> Vec<rustls::SignatureScheme> {
            $algorithms.supported_schemes()
        }
    };
}

/// Verifies certificates like rustls, unless there are too many.
#[derive(Debug)]
struct BoundedVerifier {
    /// None without authorities.
    inner: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for BoundedVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        TooManyIntermediates::check(intermediates, MAX_INTERMEDIATES)?;
        let inner = self.inner.as_ref().ok_or(Error::InvalidCertificate(CertificateError::UnknownIssuer))?;
        inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    verify_handshake_signatures!(self, self.provider.signature_verification_algorithms);
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

    use super::*;

    /// An authority with this name, and its certificate.
    fn authority(name: &str) -> (Issuer<'static, KeyPair>, CertificateDer<'static>) {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.distinguished_name.push(DnType::CommonName, name);
        let certificate = parameters.self_signed(&key).unwrap().der().clone();
        (Issuer::new(parameters, key), certificate)
    }

    fn server(issuer: &Issuer<'_, KeyPair>) -> CertificateDer<'static> {
        let server = CertificateParams::new(vec!["server.example".to_owned()]).unwrap();
        server.signed_by(&KeyPair::generate().unwrap(), issuer).unwrap().der().clone()
    }

    fn verifier(authorities: &[CertificateDer<'static>]) -> BoundedVerifier {
        let provider = Arc::new(ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(authorities.iter().cloned());
        let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build().ok();
        BoundedVerifier { inner, provider }
    }

    fn verify(verifier: &BoundedVerifier, server: &CertificateDer<'_>, sent: &[CertificateDer<'_>]) -> Option<Error> {
        let name = ServerName::try_from("server.example").unwrap();
        verifier.verify_server_cert(server, sent, &name, &[], UnixTime::now()).err()
    }

    #[test]
    fn a_server_that_sends_many_certificates_is_refused_before_a_path_is_searched() {
        let (issuer, trusted) = authority("trusted");
        let (verifier, server) = (verifier(&[trusted]), server(&issuer));
        // None of them is on the path, which consists of the server's own certificate.
        let others: Vec<_> = (0..=MAX_INTERMEDIATES).map(|_| authority("other").1).collect();
        let (most, too_many) = (&others[..MAX_INTERMEDIATES], &others[..]);
        assert_eq!(verify(&verifier, &server, most), None);
        let Some(Error::InvalidCertificate(CertificateError::Other(OtherError(error)))) =
            verify(&verifier, &server, too_many)
        else {
            panic!("it is refused for another reason");
        };
        assert_eq!(error.to_string(), "9 certificates besides its own, and at most 8 are accepted");
    }

    #[test]
    fn without_authorities_no_server_is_trusted() {
        let (issuer, certificate) = authority("trusted");
        let unknown = Some(Error::InvalidCertificate(CertificateError::UnknownIssuer));
        assert_eq!(verify(&verifier(&[]), &server(&issuer), &[certificate]), unknown);
        client_config(RootCertStore::empty()).unwrap();
    }
}
