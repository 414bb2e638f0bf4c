//! A TLS client that accepts one certificate, the config's (certificate pinning).

use std::sync::Arc;

use mcp_host_base::verify_handshake_signatures;
use mcp_host_config::http::Tls;
use rustls::client::danger::{ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, Error};

/// Accepts the certificate of a config, whatever its names, its issuer and its expiry, because a reader of the config
/// is an administrator of the server. The server proves possession of the key.
#[derive(Debug)]
pub(super) struct PinnedCertificate {
    certificate: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl PinnedCertificate {
    /// A client config that accepts the certificate of these TLS settings.
    pub(super) fn client_config(tls: &Tls) -> Result<ClientConfig, Error> {
        let provider = Arc::new(ring::default_provider());
        let certificate = tls.certified_key().end_entity_cert()?.clone().into_owned();
        let verifier = Arc::new(Self { certificate, provider: provider.clone() });
        Ok(ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth())
    }
}

impl ServerCertVerifier for PinnedCertificate {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match *end_entity == self.certificate {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure)),
        }
    }

    verify_handshake_signatures!(self, self.provider.signature_verification_algorithms);
}
