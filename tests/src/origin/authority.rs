//! A certificate authority for one test.

use std::sync::Arc;

use rcgen::string::BmpString;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DistinguishedName, DnType, DnValue, ExtendedKeyUsagePurpose,
    IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType, date_time_ymd,
};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The number of the common name.
const COMMON_NAME: [u64; 4] = [2, 5, 4, 3];

/// A certificate authority that only those trust who are configured to.
#[derive(Debug)]
pub struct CertificateAuthority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Default for CertificateAuthority {
    fn default() -> Self {
        Self::new()
    }
}

impl CertificateAuthority {
    /// Creates an authority.
    pub fn new() -> Self {
        let key = KeyPair::generate().expect("keys can be made");
        let mut parameters = CertificateParams::new(Vec::new()).expect("no name is invalid");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let certificate = parameters.self_signed(&key).expect("a certificate can be signed");
        Self { pem: certificate.pem(), issuer: Issuer::new(parameters, key) }
    }

    /// Its certificate as PEM, as the file that `ca` names holds it.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Its certificate as a client's root.
    pub(crate) fn certificate(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(self.pem.as_bytes()).expect("it is PEM")
    }

    /// Issues a certificate for that name or address, with a new key.
    pub fn issue(&self, name: &str) -> CertifiedKey {
        let key = KeyPair::generate().expect("keys can be made");
        let mut parameters = CertificateParams::new(vec![name.to_owned()]).expect("the name is one");
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = parameters.signed_by(&key, &self.issuer).expect("a certificate can be signed");
        CertifiedKey { certificate, key }
    }

    /// Issues a certificate for that name that was valid on the first day of 2020.
    pub fn issue_expired(&self, name: &str) -> CertifiedKey {
        let key = KeyPair::generate().expect("keys can be made");
        let mut parameters = CertificateParams::new(vec![name.to_owned()]).expect("the name is one");
        parameters.not_before = rcgen::date_time_ymd(2020, 1, 1);
        parameters.not_after = rcgen::date_time_ymd(2020, 1, 2);
        let certificate = parameters.signed_by(&key, &self.issuer).expect("a certificate can be signed");
        CertifiedKey { certificate, key }
    }

    /// Issues a client certificate with that common name, and those URIs as alternative names.
    pub fn issue_client(&self, common_name: &str, uris: &[&str]) -> CertifiedKey {
        self.issue_with(|parameters| {
            parameters.distinguished_name.push(DnType::CommonName, common_name);
            parameters.subject_alt_names =
                uris.iter().map(|uri| SanType::URI((*uri).try_into().expect("it is ASCII"))).collect();
        })
    }

    /// Issues a client certificate with two common names, the first of them in UTF-16.
    pub fn issue_client_with_two_names(&self, first: &str, second: &str) -> CertifiedKey {
        let utf16 = BmpString::try_from(first).expect("it is in the basic plane");
        self.issue_with(|parameters| {
            parameters.distinguished_name.push(DnType::CommonName, DnValue::BmpString(utf16));
            // A name has one of each kind, unless another kind has the same number.
            parameters.distinguished_name.push(DnType::CustomDnType(COMMON_NAME.to_vec()), second);
        })
    }

    /// Issues a client certificate with that common name, which has expired.
    pub fn issue_expired_client(&self, common_name: &str) -> CertifiedKey {
        self.issue_with(|parameters| {
            parameters.distinguished_name.push(DnType::CommonName, common_name);
            (parameters.not_before, parameters.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1));
        })
    }

    fn issue_with(&self, change: impl FnOnce(&mut CertificateParams)) -> CertifiedKey {
        let key = KeyPair::generate().expect("keys can be made");
        let mut parameters = CertificateParams::new(Vec::new()).expect("no name is invalid");
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        parameters.distinguished_name = DistinguishedName::new();
        change(&mut parameters);
        let certificate = parameters.signed_by(&key, &self.issuer).expect("a certificate can be signed");
        CertifiedKey { certificate, key }
    }

    /// The TLS configuration of a server with a certificate for that name or address.
    pub(super) fn acceptor(&self, name: &str) -> TlsAcceptor {
        let (chain, key) = self.issue(name).to_rustls();
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the usual versions are there")
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .expect("key and certificate fit");
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        TlsAcceptor::from(Arc::new(config))
    }
}

/// A certificate and its key.
#[derive(Debug)]
pub struct CertifiedKey {
    certificate: Certificate,
    key: KeyPair,
}

impl CertifiedKey {
    /// The certificate as PEM.
    pub fn pem(&self) -> String {
        self.certificate.pem()
    }

    /// The key as PEM.
    pub fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }

    /// The certificate as a chain, and its key.
    pub(crate) fn to_rustls(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let key = PrivateKeyDer::try_from(self.key.serialize_der()).expect("a key can be read again");
        (vec![self.certificate.der().clone()], key)
    }

    /// The certificate as DER.
    pub fn der(&self) -> &[u8] {
        self.certificate.der()
    }
}
