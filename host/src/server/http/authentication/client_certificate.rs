//! Client certificates (mTLS): the principals of connections with a certificate of an authority of `http.client-ca`.
//!
//! A certificate is requested in the handshake if the config has authorities, and is not required: a client without one is
//! authenticated by a token, or not at all. A handshake with a certificate of nobody's is refused. Each request looks up the
//! authorities of the current config, so a reload that removes one ends what its certificates may do.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwapOption;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::claims::is_name;
use crate::access::Principal;
use crate::config::Config;
use crate::config::http::{CertificateName, ClientAuthority};
use crate::host::Host;

/// The certificate of a connection, with those that lead to its authority.
pub(in crate::server::http) struct ClientCertificate {
    chain: Vec<CertificateDer<'static>>,
    /// Whose it is under the last config that was used, and until when: verification costs about a millisecond.
    verified: ArcSwapOption<Verified>,
}

/// What a certificate was found to be under a config.
struct Verified {
    config: Arc<Config>,
    /// Its principal, and until when it is valid; none if it authenticates nobody.
    principal: Option<(Principal, SystemTime)>,
}

impl ClientCertificate {
    /// The certificates of a connection; none if the client sent none.
    pub(in crate::server::http) fn of_connection(connection: &rustls::ServerConnection) -> Option<Arc<Self>> {
        let chain = connection.peer_certificates().filter(|chain| !chain.is_empty())?;
        let chain = chain.iter().map(|one| one.clone().into_owned()).collect();
        Some(Arc::new(Self { chain, verified: ArcSwapOption::empty() }))
    }

    /// Returns the principal of the certificate and the time for which it is valid, if it is one of the authorities of that config, valid
    /// now, and names somebody.
    pub(super) fn principal(&self, config: &Arc<Config>) -> Option<(Principal, Duration)> {
        let known = self.verified.load_full().filter(|known| Arc::ptr_eq(&known.config, config));
        let known = known.unwrap_or_else(|| {
            let verified =
                Arc::new(Verified { config: config.clone(), principal: self.verify(&config.http.client_ca) });
            self.verified.store(Some(verified.clone()));
            verified
        });
        let (principal, not_after) = known.principal.as_ref()?;
        Some((principal.clone(), not_after.duration_since(SystemTime::now()).ok()?))
    }

    fn verify(&self, authorities: &[ClientAuthority]) -> Option<(Principal, SystemTime)> {
        let (end_entity, intermediates) = self.chain.split_first()?;
        let now = UnixTime::now();
        let is_issuer = |authority: &&ClientAuthority| verify(authority, end_entity, intermediates, now).is_ok();
        let authority = authorities.iter().find(is_issuer)?;
        let (_, certificate) = X509Certificate::from_der(end_entity).ok()?;
        let name = principal_name(&certificate, authority.principal_from)?;
        let not_after = Duration::from_secs(u64::try_from(certificate.validity().not_after.timestamp()).ok()?);
        Some((Principal::new(format!("{}/{name}", authority.name)), UNIX_EPOCH.checked_add(not_after)?))
    }
}

/// Verifies a certificate of an authority for a client.
fn verify(
    authority: &ClientAuthority,
    end_entity: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    now: UnixTime,
) -> Result<ClientCertVerified, Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(authority.ca.certificates().iter().cloned());
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
    let verifier = verifier.map_err(|error| Error::General(error.to_string()))?;
    verifier.verify_client_cert(end_entity, intermediates, now)
}

/// Returns the only name of that kind; a certificate with several is nobody's.
fn principal_name(certificate: &X509Certificate<'_>, from: CertificateName) -> Option<String> {
    let alternative = certificate.subject_alternative_name().ok()?;
    let general = alternative.iter().flat_map(|extension| &extension.value.general_names);
    // A name that cannot be decoded counts, too.
    let names: Vec<Option<&str>> = match from {
        CertificateName::CommonName => {
            certificate.subject().iter_common_name().map(|name| name.as_str().ok()).collect()
        }
        from => general
            .filter_map(|name| match (from, name) {
                (CertificateName::Dns, GeneralName::DNSName(name))
                | (CertificateName::Email, GeneralName::RFC822Name(name))
                | (CertificateName::Uri, GeneralName::URI(name)) => Some(Some(*name)),
                _ => None,
            })
            .collect(),
    };
    match names.as_slice() {
        [Some(name)] if is_name(name) => Some((*name).to_owned()),
        _ => None,
    }
}

/// Verifies the certificates of clients by the authorities of the current config.
pub(in crate::server::http) struct ClientCertificateVerifier {
    host: Arc<Host>,
    provider: CryptoProvider,
}

impl ClientCertificateVerifier {
    pub(in crate::server::http) fn new(host: Arc<Host>) -> Self {
        Self { host, provider: ring::default_provider() }
    }
}

impl ClientCertVerifier for ClientCertificateVerifier {
    fn offer_client_auth(&self) -> bool {
        !self.host.config().http.client_ca.is_empty()
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    /// None: the names of the authorities are nobody's business, and a client has few certificates.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let config = self.host.config();
        let mut last_error = Error::InvalidCertificate(CertificateError::UnknownIssuer);
        for authority in &config.http.client_ca {
            match verify(authority, end_entity, intermediates, now) {
                Ok(verified) => return Ok(verified),
                Err(error) => last_error = error,
            }
        }
        Err(last_error)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl fmt::Debug for ClientCertificateVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientCertificateVerifier")
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

    use super::*;
    use crate::config::grants::CaBundle;

    /// The config of an authority, and a certificate of it for `sensor`.
    fn issue() -> (Config, ClientCertificate) {
        let (key, client_key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CaBundle::from_pem(authority.self_signed(&key).unwrap().pem().as_bytes()).unwrap();
        let mut client = CertificateParams::new(Vec::new()).unwrap();
        client.distinguished_name.push(DnType::CommonName, "sensor");
        client.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = client.signed_by(&client_key, &Issuer::new(authority, key)).unwrap();
        let mut config = Config::new();
        config.http.client_ca = vec![ClientAuthority::new("devices".parse().unwrap(), ca)];
        (config, ClientCertificate { chain: vec![certificate.der().clone()], verified: ArcSwapOption::empty() })
    }

    #[test]
    fn a_certificate_is_verified_once_for_each_config() {
        let (config, certificate) = issue();
        let config = Arc::new(config);
        let verified = || certificate.verified.load_full().unwrap();
        for _ in 0..2 {
            assert_eq!(certificate.principal(&config).unwrap().0.name(), "devices/sensor");
        }
        let first = verified();
        certificate.principal(&config).unwrap();
        assert!(Arc::ptr_eq(&first, &verified()), "what was found is kept");
        assert!(certificate.principal(&Arc::new(Config::new())).is_none(), "a config without its authority");
        assert!(!Arc::ptr_eq(&first, &verified()));
    }
}
