//! TLS 1.2 and 1.3, with the certificate of the current config; HTTP/2 by ALPN.

use std::fmt;
use std::sync::Arc;

use mcp_host_config::Config;
use mcp_host_config::http::Tls;
use mcp_resource_host::host::Host;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;

use super::super::authentication::ClientCertificateVerifier;

/// The ALPN protocols, the preferred first.
const ALPN_PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Creates the TLS acceptor. None if the config has no certificate.
pub(in crate::http) fn acceptor(host: &Arc<Host>) -> Result<Option<TlsAcceptor>, rustls::Error> {
    if host.config().http.tls.is_none() {
        return Ok(None);
    }
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(Arc::new(ClientCertificateVerifier::new(host.clone())))
        .with_cert_resolver(Arc::new(ReloadingCertResolver(host.clone(), |config| config.http.tls.as_ref())));
    config.alpn_protocols = ALPN_PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    Ok(Some(TlsAcceptor::from(Arc::new(config))))
}

/// Creates the TLS acceptor of the administration listener. None if `[admin]` has no certificate. The acceptor requests
/// no client certificates, and speaks HTTP/1.1.
pub(in crate::http) fn admin_acceptor(host: &Arc<Host>) -> Result<Option<TlsAcceptor>, rustls::Error> {
    let certificate: Certificate = |config| config.admin.as_ref()?.tls.as_ref();
    if certificate(&host.config()).is_none() {
        return Ok(None);
    }
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(ReloadingCertResolver(host.clone(), certificate)));
    Ok(Some(TlsAcceptor::from(Arc::new(config))))
}

/// Selects the certificate in a config.
type Certificate = fn(&Config) -> Option<&Tls>;

/// Resolves the certificate of the current config, so a reload replaces it.
struct ReloadingCertResolver(Arc<Host>, Certificate);

impl ResolvesServerCert for ReloadingCertResolver {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let Self(host, certificate) = self;
        certificate(&host.config()).map(Tls::certified_key)
    }
}

impl fmt::Debug for ReloadingCertResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReloadingCertResolver")
    }
}
