//! The cryptography of [`jsonwebtoken`]: verification of signatures with `ring`, which TLS uses, too.
//!
//! The crate takes its cryptography from a provider that is set once per process. If an application sets one before it
//! starts a host, that one is used.

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::signature::{self, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512,
    RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};

/// Verification only: this server issues no tokens.
static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(ErrorKind::UnsupportedAlgorithm.into()),
    verifier_factory: |algorithm, key| Ok(Box::new(RingVerifier::new(*algorithm, key)?)),
    // Private keys and thumbprints are not needed.
    key_utils: KeyUtils::new_unimplemented(),
};

/// Sets the provider of the process unless one is set.
pub(super) fn install() {
    let _ = PROVIDER.install_default();
}

/// A public key with its algorithm.
struct RingVerifier {
    algorithm: Algorithm,
    key: PublicKey,
}

enum PublicKey {
    Rsa { parameters: &'static RsaParameters, modulus: Vec<u8>, exponent: Vec<u8> },
    Curve(UnparsedPublicKey<Vec<u8>>),
}

impl RingVerifier {
    fn new(algorithm: Algorithm, key: &DecodingKey) -> Result<Self, Error> {
        if key.family() != algorithm.family() {
            return Err(ErrorKind::InvalidAlgorithm.into());
        }
        let rsa = |parameters| match key.kind() {
            DecodingKeyKind::RsaModulusExponent { n, e } => {
                Ok(PublicKey::Rsa { parameters, modulus: without_leading_zeros(n), exponent: without_leading_zeros(e) })
            }
            DecodingKeyKind::SecretOrDer(_) => Err(Error::from(ErrorKind::InvalidKeyFormat)),
        };
        let curve = |parameters: &'static dyn VerificationAlgorithm| {
            Ok(PublicKey::Curve(UnparsedPublicKey::new(parameters, key.try_get_as_bytes()?.to_vec())))
        };
        let key = match algorithm {
            Algorithm::RS256 => rsa(&RSA_PKCS1_2048_8192_SHA256),
            Algorithm::RS384 => rsa(&RSA_PKCS1_2048_8192_SHA384),
            Algorithm::RS512 => rsa(&RSA_PKCS1_2048_8192_SHA512),
            Algorithm::PS256 => rsa(&RSA_PSS_2048_8192_SHA256),
            Algorithm::PS384 => rsa(&RSA_PSS_2048_8192_SHA384),
            Algorithm::PS512 => rsa(&RSA_PSS_2048_8192_SHA512),
            Algorithm::ES256 => curve(&ECDSA_P256_SHA256_FIXED),
            Algorithm::ES384 => curve(&ECDSA_P384_SHA384_FIXED),
            Algorithm::EdDSA => curve(&ED25519),
            _ => Err(ErrorKind::UnsupportedAlgorithm.into()),
        }?;
        Ok(Self { algorithm, key })
    }
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let verified = match &self.key {
            PublicKey::Rsa { parameters, modulus, exponent } => {
                RsaPublicKeyComponents { n: modulus, e: exponent }.verify(parameters, message, signature)
            }
            PublicKey::Curve(key) => key.verify(message, signature),
        };
        verified.map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

/// Strips leading zeros of a number, which `ring` rejects. Some issuers write them although RFC 7518, section 2 forbids
/// it.
fn without_leading_zeros(number: &[u8]) -> Vec<u8> {
    number.iter().copied().skip_while(|byte| *byte == 0).collect()
}
