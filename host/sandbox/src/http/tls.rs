//! TLS: verification of servers by the certificate authorities that this machine trusts.
//!
//! They are read once for all plugins, before the first exchange over TLS. A grant can add certificate authorities,
//! which apply only to its origin.

use std::sync::Arc;

use mcp_host_base::tls_client;
use mcp_host_config::grants::CaBundle;
use mcp_host_model::net::UrlHost;
use rustls::client::Resumption;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::error::ExchangeError;
use crate::outbound_http::system_certificates;

/// The certificate authorities that this machine trusts, and a client that uses them.
#[derive(Default)]
pub struct TlsRoots {
    system_certificates: OnceCell<Vec<CertificateDer<'static>>>,
    system_client: OnceCell<TlsClient>,
}

impl TlsRoots {
    /// Returns a client that trusts this machine's authorities.
    pub(super) async fn system(&self) -> Result<&TlsClient, ExchangeError> {
        self.system_client.get_or_try_init(|| self.new_client(&[])).await
    }

    /// Creates a client that trusts `roots` in addition to this machine's authorities.
    pub(super) async fn with_extra_roots(&self, roots: &CaBundle) -> Result<TlsClient, ExchangeError> {
        self.new_client(roots.certificates()).await
    }

    async fn new_client(&self, more: &[CertificateDer<'static>]) -> Result<TlsClient, ExchangeError> {
        let mut config = self.client_config(more).await.map_err(ExchangeError::Tls)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsClient(TlsConnector::from(Arc::new(config))))
    }

    /// Creates the config of a client that trusts `more` in addition to this machine's authorities.
    pub(crate) async fn client_config(&self, more: &[CertificateDer<'static>]) -> Result<ClientConfig, rustls::Error> {
        let system_certificates = self.system_certificates.get_or_init(system_certificates).await;
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(system_certificates.iter().chain(more).cloned());
        let mut config = tls_client::client_config(roots)?;
        // Session resumption would reveal to a server that two plugins run on one machine.
        config.resumption = Resumption::disabled();
        Ok(config)
    }
}

/// A TLS client.
pub(super) struct TlsClient(TlsConnector);

impl TlsClient {
    /// Performs the TLS handshake, which verifies that the server is `host`.
    pub(super) async fn handshake(
        &self,
        host: &UrlHost,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, ExchangeError> {
        let name = match host {
            UrlHost::Address(address) => ServerName::from(*address),
            UrlHost::Name(name) => ServerName::try_from(name.as_str().to_owned())
                .map_err(|error| ExchangeError::Resolve(error.to_string()))?,
        };
        self.0.connect(name, stream).await.map_err(ExchangeError::from_handshake)
    }
}
