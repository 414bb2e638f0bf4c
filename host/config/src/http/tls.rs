//! The certificate of the server: its chain, and its private key.
//!
//! Both are PEM files. They are read with the config, and an unusable file is an error of the config, with its line: a
//! running host then keeps its current certificate.
//!
//! Bounded: [`MAX_FILE_SIZE`] for each file.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use mcp_host_base::regular_file;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crate::declare::{table, written_as};
use crate::paths::{ExistingFile, permission_help};
use crate::reader::{FromNode, FromTable, Node, Table};

/// The maximum size of a file of certificates or of a key, in bytes.
const MAX_FILE_SIZE: usize = 1024 * 1024;

/// A certificate with its chain, and its key.
#[derive(Clone)]
pub struct Tls(Arc<CertifiedKey>);

/// The reason why a certificate or its key cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The file cannot be read.
    #[error("the file cannot be read: {0}")]
    Read(String),
    /// The file is too large.
    #[error("the file has more than {MAX_FILE_SIZE} bytes")]
    TooLarge,
    /// The file is not valid PEM.
    #[error("the file is not valid PEM")]
    Pem,
    /// The file contains no certificate.
    #[error("the file holds no certificate")]
    NoCertificate,
    /// The file contains no private key.
    #[error("the file holds no private key, or one that is encrypted")]
    NoKey,
    /// The first certificate is invalid.
    #[error("the first certificate of the file cannot be read")]
    Certificate,
    /// The key is invalid, or of an unsupported kind.
    #[error("the key cannot be used: {0}")]
    Key(String),
    /// The certificate belongs to another key.
    #[error("the key does not belong to the certificate")]
    Mismatch,
}

impl Tls {
    /// Parses the certificates of a PEM text, the server's own first, and the private key of another text.
    ///
    /// # Errors
    ///
    /// A certificate or the key is missing or invalid, or the key does not belong to the certificate.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        Self::new(parse_certificates(certificates)?, parse_key(key)?)
    }

    fn new(certificates: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<Self, TlsError> {
        let certified = CertifiedKey::from_der(certificates, key, &ring::default_provider());
        certified.map(|certified| Self(Arc::new(certified))).map_err(|error| match error {
            rustls::Error::InvalidCertificate(_) => TlsError::Certificate,
            rustls::Error::InconsistentKeys(_) => TlsError::Mismatch,
            error => TlsError::Key(error.to_string()),
        })
    }

    /// Returns the server's own certificate.
    pub(crate) fn end_entity(&self) -> Option<&CertificateDer<'static>> {
        self.0.cert.first()
    }

    /// Returns the certificate for rustls.
    pub fn certified_key(&self) -> Arc<CertifiedKey> {
        self.0.clone()
    }
}

/// Compares only the first certificates: equal certificates have equal keys.
impl PartialEq for Tls {
    fn eq(&self, other: &Self) -> bool {
        self.0.cert == other.0.cert
    }
}

impl Eq for Tls {}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tls({})", self.0.cert.len())
    }
}

table! {
    pub(crate) struct TlsFiles {
        /// A PEM file with the server's certificate, followed by the certificates of its chain.
        #[required]
        #[read(CertificateFile)]
        certificate: Vec<CertificateDer<'static>>,
        /// A PEM file with the private key of the certificate.
        #[required]
        #[read(KeyFile)]
        key: PrivateKeyDer<'static>,
    }
}

impl FromTable for Tls {
    type Keys = TlsFiles;

    const TYPE_NAME: &'static str = "a table with `certificate` and `key`";

    fn example() -> String {
        "{ certificate = \"tls/cert.pem\", key = \"tls/key.pem\" }".into()
    }

    fn from_keys(files: TlsFiles, table: &Table<'_>) -> Option<Self> {
        let error = match Self::new(files.certificate, files.key) {
            Ok(tls) => return Some(tls),
            Err(error) => error,
        };
        let help = match error {
            TlsError::Key(_) => {
                "make a key of another kind, and a certificate for it: RSA of 2048 bits or more, ECDSA on P-256 \
                 or P-384, or Ed25519, such as `openssl ecparam -name prime256v1 -genkey -noout` makes"
            }
            _ => {
                "write the paths of a certificate and of the key that it was made for; the server's own \
                 certificate stands first in its file"
            }
        };
        table.report_machine_error(error.to_string(), help);
        None
    }
}

struct CertificateFile(Vec<CertificateDer<'static>>);

written_as! {
    CertificateFile as ExistingFile, such as "\"tls/cert.pem\"", |node| {
        let help = "write the path of a PEM file with the server's certificate and those that lead to its authority, \
                    such as `-----BEGIN CERTIFICATE-----` begins";
        parse_file(node, parse_certificates, help).map(Self)
    }
}

struct KeyFile(PrivateKeyDer<'static>);

written_as! {
    KeyFile as ExistingFile, such as "\"tls/key.pem\"", |node| {
        let help = "write the path of a PEM file with the key of the certificate, such as `-----BEGIN PRIVATE KEY-----` \
                    begins";
        let key = parse_file(node, parse_key, help)?;
        if let Some(ExistingFile(path)) = ExistingFile::from_node(node) {
            node.context.add_secret_file(path);
        }
        Some(Self(key))
    }
}

/// Parses the file at the path in the node.
fn parse_file<T>(node: &Node<'_>, parse: impl Fn(&[u8]) -> Result<T, TlsError>, help: &str) -> Option<T> {
    let path = ExistingFile::from_node(node)?.0;
    let found = read(&path).and_then(|pem| parse(&pem));
    let help = || permission_help(&path).unwrap_or_else(|| help.to_owned());
    found.map_err(|error| node.report_machine_error(error.to_string(), help())).ok()
}

fn read(file: &Path) -> Result<Vec<u8>, TlsError> {
    let pem = regular_file::read(file, MAX_FILE_SIZE).map_err(|error| TlsError::Read(error.to_string()))?;
    if pem.len() > MAX_FILE_SIZE { Err(TlsError::TooLarge) } else { Ok(pem) }
}

fn parse_certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let certificates = certificates.map_err(|_| TlsError::Pem)?;
    if certificates.is_empty() { Err(TlsError::NoCertificate) } else { Ok(certificates) }
}

fn parse_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    use rustls::pki_types::pem::Error;
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| match error {
        Error::NoItemsFound => TlsError::NoKey,
        _ => TlsError::Pem,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str) -> (String, String) {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::new(vec![name.into()]).unwrap().self_signed(&key).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    fn tls((certificate, key): &(String, String)) -> Result<Tls, TlsError> {
        Tls::from_pem(certificate.as_bytes(), key.as_bytes())
    }

    #[test]
    fn a_certificate_comes_with_its_chain_and_its_key_and_the_key_is_not_seen() {
        let (one, other) = (pair("one.example"), pair("other.example"));
        assert_eq!(format!("{:?}", tls(&one).unwrap()), "Tls(1)");
        assert_eq!(format!("{:?}", tls(&(one.0.clone() + &other.0, one.1.clone())).unwrap()), "Tls(2)");
        assert_eq!(tls(&one).unwrap(), tls(&one).unwrap());
        assert_ne!(tls(&one).unwrap(), tls(&other).unwrap());
    }

    #[test]
    fn what_is_not_there_or_does_not_fit_is_refused_for_its_own_reason() {
        let (one, other) = (pair("one.example"), pair("other.example"));
        assert_eq!(tls(&(String::new(), one.1.clone())), Err(TlsError::NoCertificate));
        assert_eq!(tls(&(one.1.clone(), one.1.clone())), Err(TlsError::NoCertificate));
        assert_eq!(tls(&(one.0.clone(), one.0.clone())), Err(TlsError::NoKey));
        assert_eq!(tls(&(one.0.replace("-----END CERTIFICATE-----", ""), one.1.clone())), Err(TlsError::Pem));
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert_eq!(tls(&(one.0.clone(), other.1)), Err(TlsError::Mismatch));
        assert_eq!(tls(&(broken.to_owned(), one.1.clone())), Err(TlsError::Certificate));
        let no_key = broken.replace("CERTIFICATE", "PRIVATE KEY");
        assert!(matches!(tls(&(one.0, no_key)), Err(TlsError::Key(_))));
    }
}
