//! JSON Web Key Sets (RFC 7517): the public keys that verify the signatures of tokens.
//!
//! Only keys of a set that can verify a signature of an asymmetric [algorithm](SignatureAlgorithm) are used: encryption
//! keys and symmetric keys are ignored. Members that refer to other places (`x5u`) are not followed.
//!
//! Bounded: [`KeySet::MAX_SIZE`] bytes, [`KeySet::MAX_KEYS`] keys.

use std::fmt;
use std::sync::Arc;

use jsonwebtoken::DecodingKey;
use jsonwebtoken::jwk::{
    AlgorithmParameters, CommonParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse,
};
use mcp_host_base::regular_file;
use serde::Deserialize;
use toml::de::DeValue;

use super::SignatureAlgorithm;
use crate::declare::{table, written_as};
use crate::endpoint_url::EndpointUrl;
use crate::paths::ExistingFile;
use crate::reader::{FromNode, Keys, Node, Schema, Table};

/// The place of an issuer's keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Jwks {
    /// A URL, which is requested when keys are needed, and again when they are old or a token has an unknown key id.
    Url(EndpointUrl),
    /// A file, which is read with the config.
    File(KeySet),
}

impl Jwks {
    /// Returns the URL, if there is one.
    pub fn url(&self) -> Option<&EndpointUrl> {
        match self {
            Self::Url(url) => Some(url),
            Self::File(_) => None,
        }
    }
}

/// The keys of an issuer that can verify signatures.
#[derive(Clone)]
pub struct KeySet {
    json: Arc<[u8]>,
    keys: Arc<[VerificationKey]>,
}

/// A public key.
#[derive(Clone, Debug)]
pub struct VerificationKey {
    /// The key's id, as in the header of a token.
    id: Option<String>,
    /// The algorithms for which the key can verify signatures.
    algorithms: Vec<SignatureAlgorithm>,
    key: DecodingKey,
}

/// The reason why a text is not a usable key set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeySetError {
    /// The file cannot be read.
    #[error("the file cannot be read: {0}")]
    Read(String),
    /// The text is too large.
    #[error("the key set has more than {} bytes", KeySet::MAX_SIZE)]
    TooLarge,
    /// The text is not a JSON object with a list `keys`.
    #[error("this is not a JSON Web Key Set: {0}")]
    Syntax(String),
    /// The text is the metadata of an authorization server (RFC 8414), which has the URL of its keys.
    #[error("these are metadata of an issuer, not its keys: `jwks` is the URL that they have as `jwks_uri`")]
    Metadata,
    /// The set has too many keys.
    #[error("the key set has {0} keys, and at most {max} are possible", max = KeySet::MAX_KEYS)]
    TooManyKeys(usize),
    /// No key of the set can verify a signature.
    #[error("none of the {0} keys of the set can verify a signature of an asymmetric algorithm")]
    NoUsableKey(usize),
}

impl KeySet {
    /// The maximum size of a key set, in bytes.
    pub const MAX_SIZE: usize = 1 << 20;
    /// The maximum number of keys of a key set.
    pub const MAX_KEYS: usize = 100;

    /// Parses a key set. Keys of unknown kinds are ignored (RFC 7517, section 5).
    ///
    /// # Errors
    ///
    /// The text is not a key set, or has no usable key.
    pub fn from_json(json: &[u8]) -> Result<Self, KeySetError> {
        #[derive(Deserialize)]
        struct Document {
            keys: Option<Vec<serde_json::Value>>,
            /// A member of metadata documents (RFC 8414).
            jwks_uri: Option<serde_json::Value>,
        }
        if json.len() > Self::MAX_SIZE {
            return Err(KeySetError::TooLarge);
        }
        let document: Document =
            serde_json::from_slice(json).map_err(|error| KeySetError::Syntax(error.to_string()))?;
        let keys = match document {
            Document { keys: Some(keys), .. } => keys,
            Document { jwks_uri: Some(_), .. } => return Err(KeySetError::Metadata),
            Document { .. } => return Err(KeySetError::Syntax("it has no `keys`".to_owned())),
        };
        let count = keys.len();
        if count > Self::MAX_KEYS {
            return Err(KeySetError::TooManyKeys(count));
        }
        let known = keys.into_iter().filter_map(|key| serde_json::from_value::<Jwk>(with_known_algorithm(key)).ok());
        let keys: Arc<[_]> = known.filter_map(|key| VerificationKey::new(&key)).collect();
        if keys.is_empty() {
            return Err(KeySetError::NoUsableKey(count));
        }
        Ok(Self { json: json.into(), keys })
    }

    /// Returns the possible keys for a token with this algorithm and this key id, or without a key id.
    pub fn candidates<'a>(
        &'a self,
        id: Option<&'a str>,
        algorithm: SignatureAlgorithm,
    ) -> impl Iterator<Item = &'a DecodingKey> {
        let is_candidate = move |key: &&VerificationKey| {
            (id.is_none() || key.id.as_deref() == id) && key.algorithms.contains(&algorithm)
        };
        self.keys.iter().filter(is_candidate).map(|key| &key.key)
    }

    fn read(file: &std::path::Path) -> Result<Self, KeySetError> {
        let json = regular_file::read(file, Self::MAX_SIZE).map_err(|error| KeySetError::Read(error.to_string()))?;
        Self::from_json(&json)
    }
}

/// Compares the documents: equal documents have equal keys.
impl PartialEq for KeySet {
    fn eq(&self, other: &Self) -> bool {
        self.json == other.json
    }
}

impl Eq for KeySet {}

impl fmt::Debug for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeySet({})", self.keys.len())
    }
}

impl VerificationKey {
    /// Returns `None` for a key that cannot verify signatures of tokens.
    fn new(key: &Jwk) -> Option<Self> {
        use SignatureAlgorithm::{EdDsa, Es256, Es384, Ps256, Ps384, Ps512, Rs256, Rs384, Rs512};
        let possible: &[SignatureAlgorithm] = match &key.algorithm {
            AlgorithmParameters::RSA(_) => &[Rs256, Rs384, Rs512, Ps256, Ps384, Ps512],
            AlgorithmParameters::EllipticCurve(parameters) => match parameters.curve {
                EllipticCurve::P256 => &[Es256],
                EllipticCurve::P384 => &[Es384],
                _ => &[],
            },
            AlgorithmParameters::OctetKeyPair(parameters) if parameters.curve == EllipticCurve::Ed25519 => &[EdDsa],
            _ => &[],
        };
        if !may_verify(&key.common) {
            return None;
        }
        let is_named = |algorithm: &SignatureAlgorithm| match key.common.key_algorithm {
            Some(named) => signature_algorithm(named) == Some(*algorithm),
            None => true,
        };
        let algorithms: Vec<_> = possible.iter().copied().filter(is_named).collect();
        let id = key.common.key_id.clone();
        (!algorithms.is_empty()).then_some(())?;
        Some(Self { id, algorithms, key: DecodingKey::from_jwk(key).ok()? })
    }
}

/// Returns whether a key may be used to verify (RFC 7517, sections 4.2 and 4.3).
fn may_verify(key: &CommonParameters) -> bool {
    let is_for_signatures = key.public_key_use.as_ref().is_none_or(|it| *it == PublicKeyUse::Signature);
    let verifies = |operations: &Vec<KeyOperations>| operations.contains(&KeyOperations::Verify);
    is_for_signatures && key.key_operations.as_ref().is_none_or(verifies)
}

/// Replaces an `alg` of `Ed25519`, the name in RFC 9864, by `EdDSA`: for this curve both are the same algorithm.
fn with_known_algorithm(mut key: serde_json::Value) -> serde_json::Value {
    if let Some(algorithm) = key.get_mut("alg").filter(|algorithm| *algorithm == "Ed25519") {
        *algorithm = "EdDSA".into();
    }
    key
}

fn signature_algorithm(algorithm: KeyAlgorithm) -> Option<SignatureAlgorithm> {
    Some(match algorithm {
        KeyAlgorithm::RS256 => SignatureAlgorithm::Rs256,
        KeyAlgorithm::RS384 => SignatureAlgorithm::Rs384,
        KeyAlgorithm::RS512 => SignatureAlgorithm::Rs512,
        KeyAlgorithm::PS256 => SignatureAlgorithm::Ps256,
        KeyAlgorithm::PS384 => SignatureAlgorithm::Ps384,
        KeyAlgorithm::PS512 => SignatureAlgorithm::Ps512,
        KeyAlgorithm::ES256 => SignatureAlgorithm::Es256,
        KeyAlgorithm::ES384 => SignatureAlgorithm::Es384,
        KeyAlgorithm::EdDSA => SignatureAlgorithm::EdDsa,
        _ => return None,
    })
}

table! {
    struct KeyFile {
        /// A file with a JSON Web Key Set. It is read with the config.
        #[required]
        file: KeySet,
    }
}

written_as! {
    KeySet as ExistingFile, such as "\"keys.json\"", |node| {
        let file = ExistingFile::from_node(node)?.0;
        match Self::read(&file) {
            Ok(keys) => Some(keys),
            Err(error) => {
                let help = "write the path of a file such as `{ \"keys\": [{ \"kty\": \"RSA\", \"kid\": \"…\", \"n\": \"…\", \
                            \"e\": \"AQAB\" }] }`, with public keys of the issuer";
                node.report_machine_error(error.to_string(), help);
                None
            }
        }
    }
}

impl FromNode for Jwks {
    const TYPE_NAME: &'static str = "a URL, or a table with `file`";

    fn example() -> String {
        "\"https://login.example.com/jwks\"".into()
    }

    fn schema() -> Schema {
        Schema::any_of([EndpointUrl::schema(), Table::describe::<KeyFile>()])
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        match node.value {
            DeValue::String(_) => EndpointUrl::from_node(node).map(Self::Url),
            DeValue::Table(_) => node.table::<Self>(|table| KeyFile::read(table).map(|keys| Self::File(keys.file))),
            _ => {
                node.expected_type::<Self>();
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const X: &str = "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU";
    const Y: &str = "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0";

    fn parse(keys: serde_json::Value) -> Result<KeySet, KeySetError> {
        KeySet::from_json(json!({ "keys": keys }).to_string().as_bytes())
    }

    fn count(keys: &KeySet, id: Option<&str>, algorithm: SignatureAlgorithm) -> usize {
        keys.candidates(id, algorithm).count()
    }

    #[test]
    fn a_key_verifies_the_algorithms_of_its_kind_that_it_names() {
        use SignatureAlgorithm::{Es256, Es384, Ps256, Rs256};
        let keys = parse(json!([
            { "kty": "EC", "crv": "P-256", "x": X, "y": Y, "kid": "ec" },
            { "kty": "RSA", "n": "AQAB", "e": "AQAB", "kid": "rsa", "alg": "PS256" },
            { "kty": "new", "kid": "future" },
        ]))
        .unwrap();
        assert_eq!((count(&keys, Some("ec"), Es256), count(&keys, Some("ec"), Es384)), (1, 0));
        assert_eq!((count(&keys, Some("rsa"), Ps256), count(&keys, Some("rsa"), Rs256)), (1, 0));
        assert_eq!((count(&keys, None, Es256), count(&keys, Some("other"), Es256)), (1, 0));
        assert_eq!(format!("{keys:?}"), "KeySet(2)");
    }

    #[test]
    fn a_key_for_eddsa_names_it_in_either_way() {
        for name in ["EdDSA", "Ed25519"] {
            let keys = parse(json!([{ "kty": "OKP", "crv": "Ed25519", "x": X, "alg": name }])).unwrap();
            assert_eq!(count(&keys, None, SignatureAlgorithm::EdDsa), 1, "{name}");
        }
        assert!(parse(json!([{ "kty": "EC", "crv": "P-256", "x": X, "y": Y, "alg": "Ed25519" }])).is_err());
    }

    #[test]
    fn metadata_are_told_from_keys() {
        let metadata = json!({ "issuer": "https://a.example", "jwks_uri": "https://a.example/jwks" }).to_string();
        assert_eq!(KeySet::from_json(metadata.as_bytes()), Err(KeySetError::Metadata));
        assert!(matches!(KeySet::from_json(b"{}"), Err(KeySetError::Syntax(_))));
    }

    #[test]
    fn keys_that_cannot_verify_a_signature_do_not_count() {
        let encrypts = json!({ "kty": "EC", "crv": "P-256", "x": X, "y": Y, "use": "enc" });
        let signs = json!({ "kty": "EC", "crv": "P-256", "x": X, "y": Y, "key_ops": ["sign"] });
        let symmetric = json!({ "kty": "oct", "k": "c2VjcmV0", "alg": "HS256" });
        let other_algorithm = json!({ "kty": "EC", "crv": "P-256", "x": X, "y": Y, "alg": "RS256" });
        assert_eq!(
            parse(json!([encrypts, signs, symmetric, other_algorithm])).unwrap_err(),
            KeySetError::NoUsableKey(4)
        );
    }

    #[test]
    fn a_text_that_is_not_a_key_set_is_rejected_for_its_reason() {
        assert!(matches!(KeySet::from_json(b"<html>"), Err(KeySetError::Syntax(_))));
        assert!(matches!(KeySet::from_json(b"{}"), Err(KeySetError::Syntax(_))));
        assert_eq!(parse(json!([])).unwrap_err(), KeySetError::NoUsableKey(0));
        assert_eq!(parse(json!(vec![1; 101])).unwrap_err(), KeySetError::TooManyKeys(101));
        assert_eq!(KeySet::from_json(&vec![b' '; KeySet::MAX_SIZE + 1]).unwrap_err(), KeySetError::TooLarge);
    }
}
