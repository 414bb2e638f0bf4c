//! TLS 1.2 and 1.3, with the certificate of the current config; HTTP/2 by ALPN.

use std::fmt;
use std::sync::Arc;

use mcp_resource_host::host::Host;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;

use super::super::authentication::ClientCertificateVerifier;

/// The ALPN protocols, the preferred first.
const ALPN_PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Creates the TLS acceptor; none if the config has no certificate.
pub(in crate::http) fn acceptor(host: &Arc<Host>) -> Result<Option<TlsAcceptor>, rustls::Error> {
    if host.config().http.tls.is_none() {
        return Ok(None);
    }
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(Arc::new(ClientCertificateVerifier::new(host.clone())))
        .with_cert_resolver(Arc::new(ReloadingCertResolver(host.clone())));
    config.alpn_protocols = ALPN_PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    Ok(Some(TlsAcceptor::from(Arc::new(config))))
}

/// Resolves the certificate of the current config, so a reload replaces it.
struct ReloadingCertResolver(Arc<Host>);

impl ResolvesServerCert for ReloadingCertResolver {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.config().http.tls.as_ref().map(mcp_host_config::http::Tls::certified_key)
    }
}

impl fmt::Debug for ReloadingCertResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReloadingCertResolver")
    }
}
