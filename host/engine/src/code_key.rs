//! Authentication of compiled code: a key for the code of one component, and the tag at the end of a file. The file has
//! the code, the cost of an instance (module `static_content`), and a tag over both.
//!
//! The key is derived from the secret of the cache, the component's digest and the engine. So the process that compiles
//! this component can have it: with the key, the process can authenticate neither code of another component nor code
//! for another engine, and cannot compute the secret.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use hmac::Mac;
use mcp_host_base::private_dir::{self, SECRET_LEN};
use mcp_host_model::digest::Digest;

use super::static_content::StaticContent;

/// The domain separator of derived keys. The secret has no other use with it.
const DOMAIN: &[u8] = b"mcp-host compiled component 4";
/// The domain separator of keys for functions.
const FUNCTIONS_DOMAIN: &[u8] = b"mcp-host compiled functions 2";
/// The length of a tag in bytes: HMAC-SHA256.
const TAG_LEN: u64 = 32;
/// The length of the trailer after the code, in bytes.
pub(super) const TRAILER_LEN: u64 = TAG_LEN + StaticContent::ENCODED_LEN as u64;
/// The size of the code's part that is in memory during verification.
const CHUNK_SIZE: usize = 64 << 10;

/// The purpose of compiled code: its component and its engine.
#[derive(Clone, Copy)]
pub(super) struct Purpose<'a> {
    pub(super) digest: &'a Digest,
    /// A hash of everything in the engine that compiled code depends on.
    pub(super) engine_hash: u64,
}

/// The key that authenticates the code of one component for one engine.
#[derive(Clone)]
pub(crate) struct CodeKey([u8; SECRET_LEN]);

impl<'a> Purpose<'a> {
    pub(super) fn new(engine: &wasmtime::Engine, digest: &'a Digest) -> Self {
        let mut hasher = DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        Self { digest, engine_hash: hasher.finish() }
    }
}

impl CodeKey {
    /// Derives the key for this purpose from the secret of the cache.
    pub(super) fn derive(secret: &[u8; SECRET_LEN], purpose: Purpose<'_>) -> Self {
        let mut mac = private_dir::mac(secret);
        mac.update(DOMAIN);
        mac.update(purpose.digest.bytes());
        mac.update(&purpose.engine_hash.to_le_bytes());
        Self(mac.finalize().into_bytes().into())
    }

    /// Derives the key for functions that component files share (module `compiler::functions`), compiled for this
    /// engine.
    pub(super) fn derive_for_functions(secret: &[u8; SECRET_LEN], engine_hash: u64) -> Self {
        let mut mac = private_dir::mac(secret);
        mac.update(FUNCTIONS_DOMAIN);
        mac.update(&engine_hash.to_le_bytes());
        Self(mac.finalize().into_bytes().into())
    }

    #[cfg(test)]
    pub(super) fn from_bytes(bytes: [u8; SECRET_LEN]) -> Self {
        Self(bytes)
    }

    pub(super) fn bytes(&self) -> &[u8; SECRET_LEN] {
        &self.0
    }

    /// Returns the key as text, for [`from_text`](Self::from_text).
    pub(super) fn to_text(&self) -> String {
        STANDARD_NO_PAD.encode(self.0)
    }

    /// Parses a key; none if the text is not one.
    pub(super) fn from_text(text: &str) -> Option<Self> {
        STANDARD_NO_PAD.decode(text).ok()?.try_into().ok().map(Self)
    }

    /// Writes the code, the cost of an instance, and the tag over both.
    pub(super) fn write_code(&self, code: &[u8], content: &StaticContent, mut into: impl Write) -> io::Result<()> {
        let mut mac = private_dir::mac(&self.0);
        for part in [code, &content.encode()] {
            mac.update(part);
            into.write_all(part)?;
        }
        into.write_all(&mac.finalize().into_bytes())?;
        into.flush()
    }

    /// Verifies that the next bytes are code of this length, the cost of an instance, and the tag over both. Returns
    /// the cost.
    ///
    /// # Errors
    ///
    /// The bytes are not authentic (`ErrorKind::InvalidData`), or reading fails.
    pub(super) fn verify(&self, mut file: impl Read, length: u64) -> io::Result<StaticContent> {
        let invalid =
            || io::Error::new(io::ErrorKind::InvalidData, "it is not what this host has compiled of this component");
        let mut mac = private_dir::mac(&self.0);
        let mut code = file.by_ref().take(length);
        let mut chunk = vec![0; CHUNK_SIZE];
        loop {
            match code.read(&mut chunk)? {
                0 => break,
                read => mac.update(chunk.get(..read).unwrap_or_default()),
            }
        }
        let mut content = Vec::new();
        file.by_ref().take(StaticContent::ENCODED_LEN as u64).read_to_end(&mut content)?;
        mac.update(&content);
        let mut tag = Vec::new();
        file.take(TAG_LEN).read_to_end(&mut tag)?;
        mac.verify_slice(&tag).map_err(|_| invalid())?;
        StaticContent::decode(&content).ok_or_else(invalid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(component: &[u8], engine_hash: u64) -> CodeKey {
        CodeKey::derive(&[7; SECRET_LEN], Purpose { digest: &Digest::compute(component), engine_hash })
    }

    fn content() -> StaticContent {
        StaticContent::decode(&[1; StaticContent::ENCODED_LEN]).unwrap()
    }

    fn written(key: &CodeKey) -> Vec<u8> {
        let mut file = Vec::new();
        key.write_code(b"code", &content(), &mut file).unwrap();
        file
    }

    #[test]
    fn a_key_as_text_is_the_same_key() {
        let parsed = CodeKey::from_text(&key(b"a", 1).to_text()).unwrap();
        parsed.verify(written(&key(b"a", 1)).as_slice(), 4).unwrap();
        for text in ["", "AAAA", "not base64"] {
            assert!(CodeKey::from_text(text).is_none(), "{text}");
        }
    }

    #[test]
    fn the_key_of_a_component_authenticates_no_code_of_another_and_none_for_another_engine() {
        let file = written(&key(b"a", 1));
        assert_eq!(key(b"a", 1).verify(file.as_slice(), 4).unwrap(), content());
        let mut cheaper = file.clone();
        cheaper[4] = 0;
        key(b"a", 1).verify(cheaper.as_slice(), 4).unwrap_err();
        for other in [key(b"b", 1), key(b"a", 2)] {
            assert_eq!(other.verify(file.as_slice(), 4).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
    }
}
