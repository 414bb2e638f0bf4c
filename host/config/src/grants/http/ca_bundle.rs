//! Certificate authorities of one origin: a PEM file.

use std::fmt;
use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use mcp_host_base::regular_file;

/// The maximum size of the file in bytes: four times the list of all public authorities.
const MAX_FILE_SIZE: usize = 1024 * 1024;

/// Certificates of authorities: one or more, each of them usable.
#[derive(Clone, PartialEq, Eq)]
pub struct CaBundle(Vec<CertificateDer<'static>>);

/// The reason why certificates cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CaBundleError {
    /// The file cannot be read.
    #[error("the file cannot be read: {0}")]
    Read(String),
    /// The file is too large.
    #[error("the file has more than {MAX_FILE_SIZE} bytes")]
    TooLarge,
    /// The file contains no certificate.
    #[error("the file holds no certificate")]
    None,
    /// The file is not valid PEM.
    #[error("the file is not valid PEM")]
    Pem,
    /// A certificate does not belong to an authority.
    #[error("certificate {number} of the file cannot be used: {reason}")]
    Certificate {
        /// The certificate's number, counted from 1.
        number: usize,
        /// The reason.
        reason: String,
    },
}

impl CaBundle {
    /// Parses the certificates of a PEM text and ignores its other items.
    ///
    /// # Errors
    ///
    /// The text contains no certificate, or an unusable one.
    pub fn from_pem(pem: &[u8]) -> Result<Self, CaBundleError> {
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let certificates = certificates.map_err(|_| CaBundleError::Pem)?;
        let mut store = RootCertStore::empty();
        for (index, certificate) in certificates.iter().enumerate() {
            store.add(certificate.clone()).map_err(|error| CaBundleError::Certificate {
                number: index.saturating_add(1),
                reason: error.to_string(),
            })?;
        }
        if certificates.is_empty() { Err(CaBundleError::None) } else { Ok(Self(certificates)) }
    }

    /// Reads the certificates of a PEM file of at most 1 MiB. Fails like [`from_pem`](Self::from_pem), or if the file
    /// cannot be read.
    pub fn read(file: &Path) -> Result<Self, CaBundleError> {
        let pem = regular_file::read(file, MAX_FILE_SIZE).map_err(|error| CaBundleError::Read(error.to_string()))?;
        if pem.len() > MAX_FILE_SIZE { Err(CaBundleError::TooLarge) } else { Self::from_pem(&pem) }
    }

    /// Returns the certificates, as DER.
    pub fn certificates(&self) -> &[CertificateDer<'static>] {
        &self.0
    }
}

impl fmt::Debug for CaBundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CaBundle({})", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authority() -> String {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        parameters.self_signed(&key).unwrap().pem()
    }

    #[test]
    fn a_file_of_certificates_holds_at_least_one() {
        let roots = CaBundle::from_pem((authority() + "between\n" + &authority()).as_bytes()).unwrap();
        assert_eq!(format!("{roots:?} {}", roots.certificates().len()), "CaBundle(2) 2");
        assert_eq!(CaBundle::from_pem(b""), Err(CaBundleError::None));
        assert_eq!(
            CaBundle::from_pem(b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"),
            Err(CaBundleError::None)
        );
    }

    #[test]
    fn each_certificate_can_be_used() {
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let error = CaBundle::from_pem((authority() + broken).as_bytes()).unwrap_err();
        assert!(matches!(error, CaBundleError::Certificate { number: 2, .. }), "{error}");
        let cut = authority().replace("-----END CERTIFICATE-----", "");
        assert_eq!(CaBundle::from_pem(cut.as_bytes()), Err(CaBundleError::Pem));
        assert!(matches!(CaBundle::read(Path::new("tests/ui/absent.pem")), Err(CaBundleError::Read(_))));
    }
}
