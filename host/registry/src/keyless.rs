//! Keyless signatures: by a certificate that an authority of Sigstore issued for minutes, logged in a transparency log.
//!
//! This is the only module that uses Sigstore's own crate, whose API changes with each release. What it verifies, without a network:
//!
//! | part | against |
//! |---|---|
//! | the certificate and its chain, for signing code, at each time below | `certificateAuthorities` of the trusted root |
//! | the signed certificate timestamp in the certificate, if the root has such logs | `ctlogs` |
//! | the entry of the transparency log, its inclusion proof and signed checkpoint, or its promise; that it is of this bundle | `tlogs` |
//! | the time: that of the log, or of timestamps (RFC 3161); at least one | `tlogs`, `timestampAuthorities` |
//! | the signature over the payload, and the digest of the manifest among its subjects | the certificate |
//!
//! A root without `ctlogs` or `tlogs` is of an instance that has none, and asks for none: a time by a timestamp is required then as before.
//! The issuer and the subject are what the certificate says; whether they are trusted is for the caller (`trust`).
//!
//! Bounded: [`MAX_ENTRIES`] log entries, timestamps and certificates of a bundle each, so that a bundle costs few signatures.

use std::sync::Once;

use mcp_host_base::escape;
use mcp_host_config::registry::{LockedIdentity, TrustedRoot};
use mcp_host_model::digest::Digest;
use ring::digest::{Context, SHA256, SHA384, SHA512};
use ring::signature as rs;
use sigstore_verify::crypto::{
    CryptoProvider, Error, HashContext, Result, SigningScheme, SubjectAltName, install_default_provider,
};
use sigstore_verify::types::bundle::VerificationMaterialContent;
use sigstore_verify::types::{Bundle, HashAlgorithm, Sha256Hash, SignatureContent};
use sigstore_verify::{VerificationPolicy, Verifier, trust_root};

/// The maximum number of log entries, timestamps and certificates of a bundle.
const MAX_ENTRIES: usize = 8;
/// The maximum number of authorities and logs of a trusted root.
const MAX_AUTHORITIES: usize = 256;
/// The maximum length of a text of a certificate.
const MAX_TEXT_LEN: usize = 2048;

/// A trusted root that verifies.
pub(crate) struct Keyless {
    verifier: Verifier,
    policy: VerificationPolicy,
}

impl Keyless {
    /// Parses a trusted root. What is wrong is said, escaped.
    pub(crate) fn new(root: &TrustedRoot) -> std::result::Result<Self, String> {
        static INSTALLED: Once = Once::new();
        // Nothing else in this process installs one.
        INSTALLED.call_once(|| install_default_provider(&RingProvider).unwrap_or(()));
        let root = trust_root::TrustedRoot::from_json(root.json()).map_err(|error| shown(&error))?;
        if root.certificate_authorities.is_empty() {
            return Err("it has no `certificateAuthorities`".to_owned());
        }
        if root.tlogs.is_empty() && root.timestamp_authorities.is_empty() {
            return Err("it has neither `tlogs` nor `timestampAuthorities`, so nothing tells when something was signed".to_owned());
        }
        let parts = [root.tlogs.len(), root.ctlogs.len(), root.timestamp_authorities.len(), root.certificate_authorities.len()];
        if parts.into_iter().any(|count| count > MAX_AUTHORITIES) {
            return Err(format!("it has more than {MAX_AUTHORITIES} logs or authorities"));
        }
        let mut policy = VerificationPolicy::any_identity();
        if root.ctlogs.is_empty() {
            policy = policy.skip_sct();
        }
        if root.tlogs.is_empty() {
            policy = policy.skip_tlog_unsafe();
        }
        let verifier = Verifier::new(&root).map_err(|error| shown(&error))?;
        Ok(Self { verifier, policy })
    }

    /// Who has signed a bundle about that manifest, and what was signed. What is wrong is said, escaped.
    pub(crate) fn verify(
        &self,
        bundle: &str,
        manifest: &Digest,
    ) -> std::result::Result<(LockedIdentity, Vec<u8>), String> {
        let bundle = Bundle::from_json(bundle).map_err(|error| shown(&error))?;
        let material = &bundle.verification_material;
        let certificates = match &material.content {
            VerificationMaterialContent::X509CertificateChain { certificates } => certificates.len(),
            _ => 1,
        };
        let timestamps = material.timestamp_verification_data.rfc3161_timestamps.len();
        if [material.tlog_entries.len(), timestamps, certificates].into_iter().any(|count| count > MAX_ENTRIES) {
            return Err(format!("it has more than {MAX_ENTRIES} log entries, timestamps or certificates"));
        }
        let SignatureContent::DsseEnvelope(envelope) = &bundle.content else {
            return Err("its signature is not over an envelope".to_owned());
        };
        let digest = Sha256Hash::try_from(manifest.bytes().as_slice()).map_err(|error| shown(&error))?;
        let result = self.verifier.verify(digest, &bundle, &self.policy).map_err(|error| shown(&error))?;
        let subject = result.identity().map(SubjectAltName::as_str);
        match (result.issuer(), subject) {
            (Some(issuer), Some(subject)) if issuer.len() <= MAX_TEXT_LEN && subject.len() <= MAX_TEXT_LEN => {
                let identity = LockedIdentity { issuer: issuer.to_owned(), subject: subject.to_owned() };
                Ok((identity, envelope.payload.as_bytes().to_vec()))
            }
            (Some(_), Some(_)) => Err(format!("its certificate has a text of more than {MAX_TEXT_LEN} bytes")),
            _ => Err("its certificate names no issuer or no subject".to_owned()),
        }
    }
}

/// An error with its causes on one line: a publisher wrote parts of it.
fn shown(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    let short: String = text.chars().take(300).collect();
    escape::line(&short).into_owned()
}

/// Ring, for verification only.
#[derive(Debug)]
struct RingProvider;

struct RingHash(Context);

impl HashContext for RingHash {
    fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    fn finalize(self: Box<Self>) -> Vec<u8> {
        self.0.finish().as_ref().to_vec()
    }
}

impl CryptoProvider for RingProvider {
    fn hash(&self, algorithm: HashAlgorithm) -> Result<Box<dyn HashContext>> {
        let algorithm = match algorithm {
            HashAlgorithm::Sha2256 => &SHA256,
            HashAlgorithm::Sha2384 => &SHA384,
            HashAlgorithm::Sha2512 => &SHA512,
            other => return Err(Error::UnsupportedAlgorithm(format!("{other} is not supported"))),
        };
        Ok(Box::new(RingHash(Context::new(algorithm))))
    }

    fn verify_raw(&self, scheme: SigningScheme, key: &[u8], data: &[u8], signature: &[u8]) -> Result<()> {
        let algorithm: &dyn rs::VerificationAlgorithm = match scheme {
            SigningScheme::EcdsaP256Sha256 => &rs::ECDSA_P256_SHA256_ASN1,
            SigningScheme::EcdsaP256Sha384 => &rs::ECDSA_P256_SHA384_ASN1,
            SigningScheme::EcdsaP384Sha256 => &rs::ECDSA_P384_SHA256_ASN1,
            SigningScheme::EcdsaP384Sha384 => &rs::ECDSA_P384_SHA384_ASN1,
            SigningScheme::Ed25519 => &rs::ED25519,
            SigningScheme::RsaPssSha256 => &rs::RSA_PSS_2048_8192_SHA256,
            SigningScheme::RsaPssSha384 => &rs::RSA_PSS_2048_8192_SHA384,
            SigningScheme::RsaPssSha512 => &rs::RSA_PSS_2048_8192_SHA512,
            SigningScheme::RsaPkcs1Sha256 => &rs::RSA_PKCS1_2048_8192_SHA256,
            SigningScheme::RsaPkcs1Sha384 => &rs::RSA_PKCS1_2048_8192_SHA384,
            SigningScheme::RsaPkcs1Sha512 => &rs::RSA_PKCS1_2048_8192_SHA512,
            other => return Err(Error::UnsupportedAlgorithm(format!("{} is not supported", other.name()))),
        };
        let invalid = |_| Error::Verification(format!("the {} signature is not valid", scheme.name()));
        rs::UnparsedPublicKey::new(algorithm, key).verify(data, signature).map_err(invalid)
    }

    /// Signatures over a digest are of bundles without an envelope, which are refused before.
    fn verify_prehashed(&self, scheme: SigningScheme, _: &[u8], _: &[u8], _: &[u8]) -> Result<()> {
        Err(Error::UnsupportedAlgorithm(format!("{} over a digest is not supported", scheme.name())))
    }
}
