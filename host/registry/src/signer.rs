//! Private keys for signing publications: unencrypted PKCS#8 in PEM, ECDSA on P-256 or Ed25519.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use mcp_host_base::regular_file;
use mcp_host_config::registry::{KeyAlgorithm, PublicKey};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;

/// The maximum size of the file of a key in bytes.
const MAX_FILE_SIZE: usize = 64 * 1024;

/// A private key.
pub struct Signer {
    key: Key,
    public: PublicKey,
}

enum Key {
    Ecdsa(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

/// The reason why a key cannot sign. The key is not shown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SignerError {
    /// The file cannot be read.
    #[error("the key {} cannot be read: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file is not a usable private key.
    #[error(
        "{} is {found}, and a private key of ECDSA on P-256 or Ed25519 in PKCS#8 without a password is expected (`-----BEGIN PRIVATE \
         KEY-----`); `openssl genpkey -algorithm ed25519 -out key.pem` makes one, and `openssl pkey -in key.pem -pubout` its public key",
        file.display()
    )]
    Key {
        /// The file.
        file: PathBuf,
        /// The kind of the file, from its first line.
        found: &'static str,
    },
    /// The operating system has no random numbers.
    #[error("the key cannot sign: there are no random numbers")]
    Random,
}

impl Signer {
    /// Reads a key. Fails if the file cannot be read, or is another kind of key.
    pub fn read(file: &Path) -> Result<Self, SignerError> {
        let read = regular_file::read(file, MAX_FILE_SIZE);
        let pem = read.map_err(|source| SignerError::Read { file: file.to_owned(), source })?;
        Self::from_pem(&pem).ok_or_else(|| SignerError::Key { file: file.to_owned(), found: kind(&pem) })
    }

    /// Parses a key. `None` if the text is not a key, or another kind.
    pub fn from_pem(pem: &[u8]) -> Option<Self> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem).ok()?;
        let bytes = der.secret_pkcs8_der();
        let (key, algorithm) = if let Ok(key) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(bytes) {
            (Key::Ed25519(key), KeyAlgorithm::Ed25519)
        } else {
            let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, bytes, &SystemRandom::new());
            (Key::Ecdsa(key.ok()?), KeyAlgorithm::EcdsaP256)
        };
        let public = match &key {
            Key::Ecdsa(key) => key.public_key().as_ref(),
            Key::Ed25519(key) => key.public_key().as_ref(),
        };
        let public = PublicKey::from_der(&PublicKey::to_der(algorithm, public)).ok()?;
        Some(Self { key, public })
    }

    /// Returns the public key.
    pub fn public_key(&self) -> &PublicKey {
        &self.public
    }

    pub(crate) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, SignerError> {
        match &self.key {
            Key::Ecdsa(key) => {
                let signature = key.sign(&SystemRandom::new(), message).map_err(|_| SignerError::Random)?;
                Ok(signature.as_ref().to_vec())
            }
            Key::Ed25519(key) => Ok(key.sign(message).as_ref().to_vec()),
        }
    }
}

/// Returns the kind of an unusable file, from the first line of its PEM.
fn kind(pem: &[u8]) -> &'static str {
    let text = String::from_utf8_lossy(pem);
    let label = text.lines().find_map(|line| line.trim().strip_prefix("-----BEGIN ")?.strip_suffix("-----"));
    match label {
        Some("PUBLIC KEY") => "a public key",
        Some("CERTIFICATE") => "a certificate",
        Some("ENCRYPTED PRIVATE KEY" | "ENCRYPTED SIGSTORE PRIVATE KEY" | "ENCRYPTED COSIGN PRIVATE KEY") => {
            "a private key with a password"
        }
        Some("EC PRIVATE KEY" | "RSA PRIVATE KEY" | "OPENSSH PRIVATE KEY") => "a private key in another format",
        Some("PRIVATE KEY") => "a private key of another algorithm",
        Some(_) => "PEM of another kind",
        None => "no PEM file",
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer({})", self.public.fingerprint())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_public_key_of_a_signer_is_the_one_that_others_make_of_it() {
        for algorithm in [&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ED25519] {
            let pair = rcgen::KeyPair::generate_for(algorithm).unwrap();
            let signer = Signer::from_pem(pair.serialize_pem().as_bytes()).unwrap();
            assert_eq!(*signer.public_key(), PublicKey::from_pem(pair.public_key_pem().as_bytes()).unwrap());
        }
    }

    #[test]
    fn other_keys_are_refused() {
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
        for pem in [pair.serialize_pem(), pair.public_key_pem(), String::new()] {
            assert!(Signer::from_pem(pem.as_bytes()).is_none());
        }
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("acme.pub");
        for (text, expected) in [
            (pair.public_key_pem(), "acme.pub is a public key"),
            (pair.serialize_pem(), "acme.pub is a private key of another algorithm"),
            ("-----BEGIN ENCRYPTED PRIVATE KEY-----\n".to_owned(), "acme.pub is a private key with a password"),
            (String::new(), "acme.pub is no PEM file"),
        ] {
            std::fs::write(&file, text).unwrap();
            let error = Signer::read(&file).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert!(matches!(Signer::read(Path::new("/nonexistent/key.pem")), Err(SignerError::Read { .. })));
    }
}
