//! Who is believed to be who the name says: TLS, with the certificates that this machine trusts.
//!
//! They are read when the first exchange over TLS needs them, once for all plugins. A grant can add authorities of its own,
//! which count for its origin alone.

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::failure::Failure;
use crate::config::{UrlHost, CaBundle};

/// The certificates that this machine trusts, and a client that does.
#[derive(Default)]
pub(in crate::plugin) struct Trust {
    machine: OnceCell<Vec<CertificateDer<'static>>>,
    client: OnceCell<Tls>,
}

impl Trust {
    /// A client that trusts what the machine trusts.
    pub(super) async fn of_the_machine(&self) -> Result<&Tls, Failure> {
        self.client.get_or_try_init(|| self.client_with(&[])).await
    }

    /// A client that trusts these authorities as well.
    pub(super) async fn with(&self, roots: &CaBundle) -> Result<Tls, Failure> {
        self.client_with(roots.certificates()).await
    }

    async fn client_with(&self, more: &[CertificateDer<'static>]) -> Result<Tls, Failure> {
        let machine = self.machine.get_or_init(read_machine).await;
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(machine.iter().chain(more).cloned());
        Tls::trusting(store)
    }
}

/// Reading them is a matter of some hundred files.
async fn read_machine() -> Vec<CertificateDer<'static>> {
    let found = tokio::task::spawn_blocking(rustls_native_certs::load_native_certs).await.unwrap_or_default();
    for error in &found.errors {
        tracing::warn!(%error, "some of the certificates that this machine trusts cannot be read");
    }
    if found.certs.is_empty() {
        tracing::warn!("this machine has no certificates of authorities: only `ca` of a grant makes TLS possible");
    }
    found.certs
}

/// A TLS client.
pub(super) struct Tls(TlsConnector);

impl Tls {
    fn trusting(roots: RootCertStore) -> Result<Self, Failure> {
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(Failure::Tls)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // A session that is taken up again would tell a server that two plugins are on one machine.
        config.resumption = Resumption::disabled();
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    /// Encrypts a connection, if the server is that host.
    pub(super) async fn handshake(&self, host: &UrlHost, stream: TcpStream) -> Result<TlsStream<TcpStream>, Failure> {
        let name = match host {
            UrlHost::Address(address) => ServerName::from(*address),
            UrlHost::Name(name) => {
                ServerName::try_from(name.as_str().to_owned()).map_err(|error| Failure::Resolve(error.to_string()))?
            }
        };
        self.0.connect(name, stream).await.map_err(Failure::handshake)
    }
}
