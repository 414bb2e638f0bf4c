//! Keyless signatures, made with a short-lived certificate of a Sigstore authority and logged in a transparency log.
//!
//! Only this module uses Sigstore's own crate, whose API changes with each release. The following parts are verified,
//! without a network:
//!
//! | part | against |
//! |---|---|
//! | the certificate and its chain: for code signing, and valid at each of the times below | `certificateAuthorities` of the trusted root |
//! | the signed certificate timestamp in the certificate, if the root has such logs | `ctlogs` |
//! | the entry of the transparency log, its inclusion proof and signed checkpoint, or its promise; that it belongs to this bundle | `tlogs` |
//! | the time, from the log or from timestamps (RFC 3161); at least one | `tlogs`, `timestampAuthorities` |
//! | the signature over the payload, and the digest of the manifest among its subjects | the certificate |
//!
//! A root without `ctlogs` or `tlogs` belongs to an instance without such logs, and none is required; a timestamp is
//! then required for the time. Issuer and subject are taken from the certificate; the caller (`trust`) decides whether
//! they are trusted.
//!
//! Bounded: [`MAX_ENTRIES`] log entries, timestamps and certificates each per bundle, so that a bundle costs few
//! signature verifications.

use std::sync::Once;

use mcp_host_base::escape;
use mcp_host_base::text::with_causes;
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
/// The maximum length of a text in a certificate.
const MAX_TEXT_LEN: usize = 2048;

/// A trusted root, ready for verification.
pub(crate) struct Keyless {
    verifier: Verifier,
    policy: VerificationPolicy,
}

impl Keyless {
    /// Parses a trusted root. The error is the escaped reason.
    pub(crate) fn new(root: &TrustedRoot) -> std::result::Result<Self, String> {
        static INSTALLED: Once = Once::new();
        // The call fails only if a provider is installed, and nothing else in this process installs one.
        INSTALLED.call_once(|| install_default_provider(&RingProvider).unwrap_or(()));
        let root = trust_root::TrustedRoot::from_json(root.json()).map_err(|error| shown(&error))?;
        if root.certificate_authorities.is_empty() {
            return Err("it has no `certificateAuthorities`".to_owned());
        }
        if root.tlogs.is_empty() && root.timestamp_authorities.is_empty() {
            return Err(
                "it has neither `tlogs` nor `timestampAuthorities`, so nothing tells when something was signed"
                    .to_owned(),
            );
        }
        let parts =
            [root.tlogs.len(), root.ctlogs.len(), root.timestamp_authorities.len(), root.certificate_authorities.len()];
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

    /// Returns the signer of a bundle about this manifest, and the signed payload. The error is the escaped reason.
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

/// Returns the text of an error with its causes on one line. It is escaped, because a publisher wrote parts of it.
fn shown(error: &dyn std::error::Error) -> String {
    let short: String = with_causes(error).chars().take(300).collect();
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

    /// Only bundles without an envelope have signatures over a digest, and they are refused earlier.
    fn verify_prehashed(&self, scheme: SigningScheme, _: &[u8], _: &[u8], _: &[u8]) -> Result<()> {
        Err(Error::UnsupportedAlgorithm(format!("{} over a digest is not supported", scheme.name())))
    }
}

/// Test bundles, made by Sigstore's own signer with mock services.
#[cfg(test)]
pub(crate) mod fixtures {
    use mcp_host_config::{Config, Environment};
    use serde_json::Value;

    use super::*;

    /// The signer of most test bundles.
    pub(crate) const SUBJECT: &str = "https://forge.example/acme/hello/release.yml@refs/tags/v1.0.0";
    pub(crate) const ISSUER: &str = "https://token.example";
    pub(crate) const SIGNED: usize = 0;
    pub(crate) const BY_ANOTHER: usize = 1;
    pub(crate) const PROVENANCE: usize = 2;
    pub(crate) const WITH_A_TIMESTAMP: usize = 3;
    pub(crate) const WITH_BOTH: usize = 4;
    pub(crate) const OF_ANOTHER_MANIFEST: usize = 5;
    pub(crate) const OF_ANOTHER_ISSUER: usize = 6;

    fn file() -> Value {
        serde_json::from_str(include_str!("../tests/data/keyless.json")).unwrap()
    }

    /// Returns the manifest digest of the test bundles.
    pub(crate) fn manifest() -> Digest {
        Digest::compute(b"manifest")
    }

    pub(crate) fn bundle(number: usize) -> Value {
        file()["bundles"][number].take()
    }

    pub(crate) fn root_json() -> Value {
        file()["root"].take()
    }

    /// Returns a trusted root, read as in the config.
    pub(crate) fn root(json: &Value) -> TrustedRoot {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("root.json"), json.to_string()).unwrap();
        let text = "[[trust]]\nsources = ['oci://a.example']\nidentities = [{ issuer = 'https://a', subject = 'b' }]\nroot = 'root.json'\n\
                    [[plugin]]\nname = 'a'\nmount = 'a:///'\ncomponent = 'oci://a.example/b:1'";
        let environment = Environment::empty().keep_references();
        let config = Config::parse_in(text, &dir.path().join("mcp-host.toml"), &environment).unwrap();
        config.trust[0].root.clone().unwrap()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::fixtures::*;
    use super::*;

    fn keyless(change: impl FnOnce(&mut Value)) -> std::result::Result<Keyless, String> {
        let mut json = root_json();
        change(&mut json);
        Keyless::new(&root(&json))
    }

    fn plain() -> Keyless {
        keyless(|_| {}).unwrap()
    }

    fn verify(keyless: &Keyless, bundle: &Value) -> std::result::Result<String, String> {
        keyless.verify(&bundle.to_string(), &manifest()).map(|(identity, _)| identity.subject)
    }

    #[test]
    fn a_certificate_says_who_has_signed() {
        let (identity, payload) = plain().verify(&bundle(SIGNED).to_string(), &manifest()).unwrap();
        assert_eq!((identity.issuer.as_str(), identity.subject.as_str()), (ISSUER, SUBJECT));
        assert!(String::from_utf8(payload).unwrap().contains(&manifest().digits()));
        assert_eq!(verify(&plain(), &bundle(WITH_BOTH)).as_deref(), Ok(SUBJECT));
        assert_ne!(verify(&plain(), &bundle(BY_ANOTHER)).as_deref(), Ok(SUBJECT));
        let error = verify(&plain(), &bundle(OF_ANOTHER_MANIFEST)).unwrap_err();
        assert!(error.contains("does not match"), "{error}");
    }

    #[test]
    fn each_part_that_was_changed_is_refused() {
        let material = "/verificationMaterial";
        let entry = "/verificationMaterial/tlogEntries/0";
        let another = bundle(BY_ANOTHER);
        for (pointer, value) in [
            // The signature and the log entry of another signer, with the certificate of the trusted one.
            ("/dsseEnvelope".to_owned(), another["dsseEnvelope"].clone()),
            (format!("{material}/certificate"), another["verificationMaterial"]["certificate"].clone()),
            (entry.to_owned(), another["verificationMaterial"]["tlogEntries"][0].clone()),
            (format!("{entry}/integratedTime"), json!("1767268801")),
            (format!("{entry}/integratedTime"), json!("4102444800")),
            (format!("{entry}/inclusionProof/treeSize"), json!("2")),
            (format!("{entry}/inclusionProof/checkpoint/envelope"), json!("rekor.mock - 1\n1\nAAAA\n\n")),
            (format!("{entry}/inclusionPromise/signedEntryTimestamp"), json!("AAAA")),
            (
                format!("{entry}/canonicalizedBody"),
                another["verificationMaterial"]["tlogEntries"][0]["canonicalizedBody"].clone(),
            ),
            (format!("{material}/tlogEntries"), json!([])),
            ("/dsseEnvelope/payloadType".to_owned(), json!("application/json")),
        ] {
            let mut changed = bundle(SIGNED);
            *changed.pointer_mut(&pointer).unwrap() = value;
            assert!(verify(&plain(), &changed).is_err(), "{pointer}");
        }
    }

    #[test]
    fn a_log_is_asked_for_where_the_root_has_one() {
        let error = verify(&plain(), &bundle(WITH_A_TIMESTAMP)).unwrap_err();
        assert!(error.contains("log") || error.contains("inclusion"), "{error}");
        let without_log = keyless(|root| root["tlogs"] = json!([])).unwrap();
        assert_eq!(verify(&without_log, &bundle(WITH_A_TIMESTAMP)).as_deref(), Ok(SUBJECT));
        assert!(verify(&without_log, &bundle(SIGNED)).is_err(), "its time is by a log that is not trusted");
        // Without a trusted time, the certificate would never expire.
        let mut timeless = bundle(WITH_A_TIMESTAMP);
        timeless["verificationMaterial"]["timestampVerificationData"] = json!({});
        assert!(verify(&without_log, &timeless).is_err());
    }

    #[test]
    fn a_certificate_of_another_authority_or_without_its_log_is_refused() {
        let other: Value = root_json();
        let tsa = other["timestampAuthorities"][0]["certChain"].clone();
        let another_authority = keyless(|root| root["certificateAuthorities"][0]["certChain"] = tsa).unwrap();
        assert!(verify(&another_authority, &bundle(SIGNED)).is_err());
        let key = other["tlogs"][0].clone();
        let another_log = keyless(|root| root["ctlogs"] = json!([key])).unwrap();
        let error = verify(&another_log, &bundle(SIGNED)).unwrap_err();
        assert!(error.to_lowercase().contains("sct") || error.contains("timestamp"), "{error}");
        let without_ct = keyless(|root| root["ctlogs"] = json!([])).unwrap();
        assert_eq!(verify(&without_ct, &bundle(SIGNED)).as_deref(), Ok(SUBJECT));
        // The authority is valid from the day in the root.
        let later =
            keyless(|root| root["certificateAuthorities"][0]["validFor"] = json!({ "start": "2026-01-02T00:00:00Z" }));
        assert!(verify(&later.unwrap(), &bundle(SIGNED)).is_err());
    }

    #[test]
    fn a_bundle_with_many_entries_is_refused_before_they_are_verified() {
        let mut many = bundle(SIGNED);
        let entry = many["verificationMaterial"]["tlogEntries"][0].clone();
        many["verificationMaterial"]["tlogEntries"] = vec![entry; MAX_ENTRIES + 1].into();
        assert!(verify(&plain(), &many).unwrap_err().contains("more than 8"));
        let mut many = bundle(WITH_A_TIMESTAMP);
        let stamps = &mut many["verificationMaterial"]["timestampVerificationData"]["rfc3161Timestamps"];
        *stamps = vec![stamps[0].clone(); MAX_ENTRIES + 1].into();
        assert!(verify(&plain(), &many).unwrap_err().contains("more than 8"));
    }

    #[test]
    fn a_root_that_cannot_verify_is_refused() {
        let error = |change: fn(&mut Value)| keyless(change).map(drop).unwrap_err();
        assert!(error(|root| root["certificateAuthorities"] = json!([])).contains("no `certificateAuthorities`"));
        assert!(error(|root| root["tlogs"] = json!([{}])).contains("missing field"));
        let neither = |root: &mut Value| {
            root["tlogs"] = json!([]);
            root["timestampAuthorities"] = json!([]);
        };
        assert!(error(neither).contains("nothing tells when"));
        assert!(error(|root| root["tlogs"] = vec![root["tlogs"][0].clone(); 257].into()).contains("more than 256"));
        assert!(!error(|root| root["tlogs"][0]["publicKey"]["rawBytes"] = json!("AAAA")).is_empty());
        assert!(!error(|root| root["certificateAuthorities"][0]["certChain"]["certificates"][0]["rawBytes"] = json!("AAAA")).is_empty());
    }

    #[test]
    fn messages_are_one_line_and_short() {
        let mut hostile = bundle(SIGNED);
        hostile["dsseEnvelope"]["payloadType"] = json!(format!("\u{1b}[2J\n{}", "x".repeat(10_000)));
        let error = verify(&plain(), &hostile).unwrap_err();
        assert!(error.len() < 1000 && !error.contains('\u{1b}') && !error.contains('\n'), "{error}");
    }

    proptest! {
        #[test]
        fn no_change_of_a_byte_makes_the_verifier_panic_or_accept_another(
            number in prop::sample::select(vec![SIGNED, WITH_A_TIMESTAMP, WITH_BOTH]),
            at in 0_usize..10_000,
            byte in prop::sample::select(b"AZaz09+/=\"{}[],:\\ ".to_vec()),
        ) {
            let mut bytes = bundle(number).to_string().into_bytes();
            let at = at % bytes.len();
            bytes[at] = byte;
            if let Ok(text) = String::from_utf8(bytes)
                && let Ok((identity, _)) = plain().verify(&text, &manifest())
            {
                prop_assert_eq!(identity.subject, SUBJECT);
            }
        }
    }
}
