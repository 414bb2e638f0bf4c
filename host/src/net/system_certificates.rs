//! The certificate authorities that this machine trusts.

use rustls::pki_types::CertificateDer;

use crate::log_target;

/// Reads them on a blocking thread, as there are some hundred files. What cannot be read is logged.
pub(crate) async fn load() -> Vec<CertificateDer<'static>> {
    let found = tokio::task::spawn_blocking(rustls_native_certs::load_native_certs).await.unwrap_or_default();
    for error in &found.errors {
        tracing::warn!(target: log_target::SERVER, %error, "cannot read some of the certificate authorities that this machine trusts");
    }
    if found.certs.is_empty() {
        tracing::warn!(
            target: log_target::SERVER,
            "this machine has no certificate authorities: TLS works only with those that the config names with `ca`"
        );
    }
    found.certs
}
