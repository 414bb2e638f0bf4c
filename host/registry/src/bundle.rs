//! Signature bundles: Sigstore's bundle 0.3 with a DSSE envelope, as cosign v3 and `mcp-host push --sign` write them.
//!
//! The envelope signs its payload by pre-authentication encoding (PAE), so the payload is verified before it is parsed. It is an in-toto
//! statement 1 with the digest of the manifest as a subject and the type of predicate that cosign uses for signatures. The bundle's own
//! transparency log entries, timestamps and hints are not looked at: what counts is a signature by a key that the config names.
//!
//! Bounded: [`MAX_BUNDLE_SIZE`] bytes, [`MAX_SIGNATURES`] signatures.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use mcp_host_config::registry::{KeyAlgorithm, PublicKey};
use mcp_host_model::digest::Digest;
use ring::signature::{ECDSA_P256_SHA256_ASN1, ED25519, UnparsedPublicKey};
use serde_json::{Value, json};

use crate::signer::{Signer, SignerError};

/// The type of a bundle, as an artifact and as a layer.
pub(crate) const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
/// The maximum size of a bundle in bytes.
pub(crate) const MAX_BUNDLE_SIZE: usize = 1 << 20;
/// The maximum number of signatures of an envelope.
const MAX_SIGNATURES: usize = 16;
/// The type of a signed payload.
const IN_TOTO: &str = "application/vnd.in-toto+json";
/// The type of a statement.
const STATEMENT: &str = "https://in-toto.io/Statement/v1";
/// What a statement of cosign says that it is: a signature.
pub(crate) const SIGNATURE: &str = "https://sigstore.dev/cosign/sign/v1";

/// A bundle that was parsed, and not verified.
#[derive(Debug)]
pub(crate) struct Bundle {
    payload: Vec<u8>,
    signatures: Vec<Vec<u8>>,
    hint: Option<String>,
}

impl Bundle {
    /// Parses a bundle. What is wrong is said without quoting it.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        let json: Value = serde_json::from_slice(bytes).map_err(|_| "it is not JSON")?;
        let text = |pointer: &str| json.pointer(pointer).and_then(Value::as_str);
        match text("/mediaType") {
            Some(BUNDLE | "application/vnd.dev.sigstore.bundle+json;version=0.3") => {}
            Some("application/vnd.dev.sigstore.bundle+json;version=0.2") => {}
            _ => return Err("it is not a bundle of version 0.2 or 0.3"),
        }
        if text("/dsseEnvelope/payloadType") != Some(IN_TOTO) {
            return Err("its envelope has no in-toto statement");
        }
        let payload = text("/dsseEnvelope/payload").and_then(|text| BASE64_STANDARD.decode(text).ok());
        let signatures =
            json.pointer("/dsseEnvelope/signatures").and_then(Value::as_array).ok_or("it has no signature")?;
        if signatures.len() > MAX_SIGNATURES {
            return Err("it has too many signatures");
        }
        let signatures = signatures.iter().map(|entry| BASE64_STANDARD.decode(entry.get("sig")?.as_str()?).ok());
        Ok(Self {
            payload: payload.ok_or("its payload is not base64")?,
            signatures: signatures.collect::<Option<_>>().ok_or("a signature is not base64")?,
            hint: text("/verificationMaterial/publicKey/hint").map(shown_hint),
        })
    }

    /// Whether a signature of it is by that key, over a statement about that manifest.
    pub(crate) fn is_signed_by(&self, key: &PublicKey, manifest: &Digest) -> bool {
        let message = pre_authentication_encoding(&self.payload);
        let algorithm: &dyn ring::signature::VerificationAlgorithm = match key.algorithm() {
            KeyAlgorithm::EcdsaP256 => &ECDSA_P256_SHA256_ASN1,
            KeyAlgorithm::Ed25519 => &ED25519,
        };
        let key = UnparsedPublicKey::new(algorithm, key.bytes());
        self.signatures.iter().any(|signature| key.verify(&message, signature).is_ok())
            && is_about(&self.payload, manifest)
    }

    /// What it says of its key, which nobody has verified.
    pub(crate) fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

/// A hint as fingerprints are shown: that of a key is its SHA-256 in base64.
fn shown_hint(hint: &str) -> String {
    match BASE64_STANDARD.decode(hint) {
        Ok(bytes) if bytes.len() == 32 => {
            bytes.iter().fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}"))
        }
        _ => hint.to_owned(),
    }
}

/// Whether a verified payload states that the manifest is signed.
fn is_about(payload: &[u8], manifest: &Digest) -> bool {
    let Ok(statement) = serde_json::from_slice::<Value>(payload) else { return false };
    let has = |member: &str, expected: &str| statement.get(member).and_then(Value::as_str) == Some(expected);
    let subjects = statement.get("subject").and_then(Value::as_array);
    let is_subject =
        |subject: &Value| subject.pointer("/digest/sha256").and_then(Value::as_str) == Some(manifest.digits().as_str());
    has("_type", STATEMENT) && has("predicateType", SIGNATURE) && subjects.is_some_and(|all| all.iter().any(is_subject))
}

/// What is signed (DSSE 1.0): the type and the payload with their lengths, so that neither can be taken for the other.
fn pre_authentication_encoding(payload: &[u8]) -> Vec<u8> {
    let head = format!("DSSEv1 {} {IN_TOTO} {} ", IN_TOTO.len(), payload.len());
    [head.as_bytes(), payload].concat()
}

/// Signs a manifest: the bytes of a bundle.
pub(crate) fn sign(signer: &Signer, manifest: &Digest) -> Result<Vec<u8>, SignerError> {
    let statement = json!({
        "_type": STATEMENT,
        "subject": [{ "digest": { "sha256": manifest.digits() } }],
        "predicateType": SIGNATURE,
        "predicate": {},
    });
    let payload = statement.to_string().into_bytes();
    let signature = signer.sign(&pre_authentication_encoding(&payload))?;
    let bundle = json!({
        "mediaType": BUNDLE,
        "verificationMaterial": { "publicKey": { "hint": BASE64_STANDARD.encode(signer.public_key().fingerprint().bytes()) } },
        "dsseEnvelope": {
            "payload": BASE64_STANDARD.encode(&payload),
            "payloadType": IN_TOTO,
            "signatures": [{ "sig": BASE64_STANDARD.encode(signature) }],
        },
    });
    Ok(bundle.to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn signer(algorithm: &'static rcgen::SignatureAlgorithm) -> Signer {
        Signer::from_pem(rcgen::KeyPair::generate_for(algorithm).unwrap().serialize_pem().as_bytes()).unwrap()
    }

    fn signers() -> [Signer; 2] {
        [signer(&rcgen::PKCS_ECDSA_P256_SHA256), signer(&rcgen::PKCS_ED25519)]
    }

    #[test]
    fn a_signature_counts_for_its_key_and_its_manifest_only() {
        let (manifest, other) = (Digest::compute(b"manifest"), Digest::compute(b"other"));
        for (signer, stranger) in signers().iter().zip(signers().iter().rev()) {
            let bundle = Bundle::parse(&sign(signer, &manifest).unwrap()).unwrap();
            assert!(bundle.is_signed_by(signer.public_key(), &manifest));
            assert!(!bundle.is_signed_by(signer.public_key(), &other));
            assert!(!bundle.is_signed_by(stranger.public_key(), &manifest));
        }
    }

    #[test]
    fn a_payload_or_a_type_that_was_changed_is_not_signed() {
        let manifest = Digest::compute(b"manifest");
        let [signer, _] = signers();
        let json: Value = serde_json::from_slice(&sign(&signer, &manifest).unwrap()).unwrap();
        let payload = BASE64_STANDARD.decode(json["dsseEnvelope"]["payload"].as_str().unwrap()).unwrap();
        let statement: Value = serde_json::from_slice(&payload).unwrap();
        let other = Digest::compute(b"other");
        let forge = |statement: &Value| {
            let mut forged = json.clone();
            forged["dsseEnvelope"]["payload"] = BASE64_STANDARD.encode(statement.to_string()).into();
            Bundle::parse(forged.to_string().as_bytes()).unwrap()
        };
        assert!(forge(&statement).is_signed_by(signer.public_key(), &manifest));
        let mut changed = statement.clone();
        changed["subject"][0]["digest"]["sha256"] = other.digits().into();
        assert!(!forge(&changed).is_signed_by(signer.public_key(), &other));
    }

    #[test]
    fn a_statement_of_another_kind_is_no_signature_of_a_manifest() {
        let manifest = Digest::compute(b"manifest");
        let statement = |kind: &str, predicate: &str, digest: &Digest| {
            json!({ "_type": kind, "predicateType": predicate, "subject": [{ "digest": { "sha256": digest.digits() } }] })
                .to_string()
                .into_bytes()
        };
        assert!(is_about(&statement(STATEMENT, SIGNATURE, &manifest), &manifest));
        assert!(!is_about(&statement(STATEMENT, "https://slsa.dev/provenance/v1", &manifest), &manifest));
        assert!(!is_about(&statement("https://in-toto.io/Statement/v0.1", SIGNATURE, &manifest), &manifest));
        assert!(!is_about(&statement(STATEMENT, SIGNATURE, &Digest::compute(b"")), &manifest));
        assert!(!is_about(b"[]", &manifest) && !is_about(b"", &manifest));
    }

    #[test]
    fn what_is_no_bundle_says_why() {
        let [signer, _] = signers();
        let bundle: Value = serde_json::from_slice(&sign(&signer, &Digest::compute(b"")).unwrap()).unwrap();
        let error = |change: fn(&mut Value)| {
            let mut changed = bundle.clone();
            change(&mut changed);
            Bundle::parse(changed.to_string().as_bytes()).unwrap_err()
        };
        assert!(error(|json| json["mediaType"] = "text/plain".into()).contains("not a bundle"));
        assert!(
            error(|json| json["dsseEnvelope"]["payloadType"] = "text/plain".into()).contains("no in-toto statement")
        );
        assert!(error(|json| json["dsseEnvelope"]["payload"] = "%".into()).contains("payload"));
        assert!(error(|json| json["dsseEnvelope"]["signatures"] = json!([{}])).contains("not base64"));
        assert!(
            error(|json| json["dsseEnvelope"]["signatures"] = vec![json!({ "sig": "" }); 17].into())
                .contains("too many")
        );
        assert!(error(|json| *json = json!({})).contains("not a bundle"));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Bundle::parse(&bytes);
            is_about(&bytes, &Digest::compute(b""));
        }
    }
}
