//! Signature bundles: Sigstore's bundle 0.3 with a DSSE envelope, as cosign v3 and `mcp-host push --sign` write them.
//!
//! The envelope signs its payload with pre-authentication encoding (PAE), and the payload is verified before it is
//! parsed. The payload is an in-toto `statement` with the digest of the manifest as a subject. For a signature by a key
//! in the config, the bundle's log entries, timestamps and hints are ignored; `keyless` verifies a bundle with a
//! certificate.
//!
//! Bounded: [`MAX_BUNDLE_SIZE`] bytes, [`MAX_SIGNATURES`] signatures.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use mcp_host_config::registry::{KeyAlgorithm, PublicKey};
use ring::signature::{ECDSA_P256_SHA256_ASN1, ED25519, UnparsedPublicKey};
use serde_json::{Value, json};

use crate::signer::{Signer, SignerError};
use crate::statement;

/// The type of a bundle, as an artifact and as a layer.
pub(crate) const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
/// The maximum size of a bundle in bytes.
pub(crate) const MAX_BUNDLE_SIZE: usize = 1 << 20;
/// The maximum number of signatures of an envelope.
const MAX_SIGNATURES: usize = 16;
/// The type of a signed payload.
const IN_TOTO: &str = "application/vnd.in-toto+json";
/// A parsed bundle that is not verified.
#[derive(Debug)]
pub(crate) struct Bundle {
    payload: Vec<u8>,
    signatures: Vec<Vec<u8>>,
    hint: Option<String>,
    /// The bundle's JSON, if it has a certificate.
    keyless: Option<String>,
}

impl Bundle {
    /// Parses a bundle. The error does not quote it.
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
        let material = json.get("verificationMaterial");
        let has =
            |member: &str| material.and_then(|material| material.get(member)).is_some_and(|value| !value.is_null());
        let is_keyless = has("certificate") || has("x509CertificateChain");
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
            keyless: is_keyless
                .then(|| str::from_utf8(bytes).map(str::to_owned))
                .transpose()
                .map_err(|_| "it is not UTF-8")?,
        })
    }

    /// Returns the payload, if this key has signed it.
    pub(crate) fn signed_by(&self, key: &PublicKey) -> Option<&[u8]> {
        let message = pre_authentication_encoding(&self.payload);
        let algorithm: &dyn ring::signature::VerificationAlgorithm = match key.algorithm() {
            KeyAlgorithm::EcdsaP256 => &ECDSA_P256_SHA256_ASN1,
            KeyAlgorithm::Ed25519 => &ED25519,
        };
        let key = UnparsedPublicKey::new(algorithm, key.bytes());
        let is_signed = self.signatures.iter().any(|signature| key.verify(&message, signature).is_ok());
        is_signed.then_some(self.payload.as_slice())
    }

    /// Returns the bundle's JSON, if it has a certificate.
    pub(crate) fn keyless(&self) -> Option<&str> {
        self.keyless.as_deref()
    }

    /// Returns the predicate type in the payload, unverified.
    pub(crate) fn predicate_type(&self) -> Option<String> {
        statement::predicate_type(&self.payload)
    }

    /// Returns the hint about the bundle's key, unverified.
    pub(crate) fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

/// Returns a hint in the notation of fingerprints: the hint of a key is its SHA-256 in base64.
fn shown_hint(hint: &str) -> String {
    match BASE64_STANDARD.decode(hint) {
        Ok(bytes) if bytes.len() == 32 => {
            bytes.iter().fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}"))
        }
        _ => hint.to_owned(),
    }
}

/// Returns the signed bytes (DSSE 1.0): type and payload, each with its length, so that neither can be mistaken for the
/// other.
fn pre_authentication_encoding(payload: &[u8]) -> Vec<u8> {
    let head = format!("DSSEv1 {} {IN_TOTO} {} ", IN_TOTO.len(), payload.len());
    [head.as_bytes(), payload].concat()
}

/// Signs a statement, and returns the bytes of a bundle.
pub(crate) fn sign(signer: &Signer, statement: &Value) -> Result<Vec<u8>, SignerError> {
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
    use mcp_host_model::digest::Digest;
    use proptest::prelude::*;

    use super::*;
    use crate::statement::{Statement, signature};

    fn signer(algorithm: &'static rcgen::SignatureAlgorithm) -> Signer {
        Signer::from_pem(rcgen::KeyPair::generate_for(algorithm).unwrap().serialize_pem().as_bytes()).unwrap()
    }

    fn signers() -> [Signer; 2] {
        [signer(&rcgen::PKCS_ECDSA_P256_SHA256), signer(&rcgen::PKCS_ED25519)]
    }

    fn is_signed(bundle: &Bundle, signer: &Signer, manifest: &Digest) -> bool {
        let payload = bundle.signed_by(signer.public_key());
        payload.and_then(|payload| Statement::read(payload, manifest)) == Some(Statement::Signature)
    }

    #[test]
    fn a_signature_counts_for_its_key_and_its_manifest_only() {
        let (manifest, other) = (Digest::compute(b"manifest"), Digest::compute(b"other"));
        for (signer, stranger) in signers().iter().zip(signers().iter().rev()) {
            let bundle = Bundle::parse(&sign(signer, &signature(&manifest)).unwrap()).unwrap();
            assert!(is_signed(&bundle, signer, &manifest));
            assert!(!is_signed(&bundle, signer, &other));
            assert!(!is_signed(&bundle, stranger, &manifest));
        }
    }

    #[test]
    fn a_payload_that_was_changed_is_not_signed() {
        let manifest = Digest::compute(b"manifest");
        let [signer, _] = signers();
        let json: Value = serde_json::from_slice(&sign(&signer, &signature(&manifest)).unwrap()).unwrap();
        let other = Digest::compute(b"other");
        let forge = |statement: &Value| {
            let mut forged = json.clone();
            forged["dsseEnvelope"]["payload"] = BASE64_STANDARD.encode(statement.to_string()).into();
            Bundle::parse(forged.to_string().as_bytes()).unwrap()
        };
        assert!(is_signed(&forge(&signature(&manifest)), &signer, &manifest));
        assert!(!is_signed(&forge(&signature(&other)), &signer, &other));
    }

    #[test]
    fn what_is_no_bundle_says_why() {
        let [signer, _] = signers();
        let bundle: Value = serde_json::from_slice(&sign(&signer, &signature(&Digest::compute(b""))).unwrap()).unwrap();
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
        }
    }
}
