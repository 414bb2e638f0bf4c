//! What a component file is, by its content: `digest` of a `[[plugin]]`.
//!
//! It is written `sha256:` and 64 hexadecimal digits, as `mcp-host inspect` prints it. A plugin that has one is loaded only
//! from a file with exactly that content; without one, from whatever the file holds.
//!
//! ```
//! use mcp_resource_host::config::Digest;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let digest = Digest::compute(b"");
//! assert_eq!(digest.to_string(), "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
//! assert_eq!(digest.to_string().parse(), Ok(digest));
//! # Ok(())
//! # }
//! ```

use std::fmt;
use std::io::{self, Read};
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

use super::error::{Suggest, quote};
use super::reader::{FromNode, Node};

/// What stands before the digits.
const PREFIX: &str = "sha256:";
/// How many digits there are.
const DIGITS: usize = 64;
/// How much of a file is in memory at a time.
const CHUNK_SIZE: usize = 64 * 1024;

/// The SHA-256 of a component file.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of those bytes.
    pub fn compute(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The digest of all that `reader` has, and how many bytes that is. Only a small piece of it is in memory at a time.
    ///
    /// # Errors
    ///
    /// It cannot be read to its end.
    pub fn compute_reader(mut reader: impl Read) -> io::Result<(Self, u64)> {
        let mut hasher = Sha256::new();
        let mut chunk = vec![0; CHUNK_SIZE];
        let mut length = 0_u64;
        loop {
            let read = match reader.read(&mut chunk) {
                Ok(0) => return Ok((Self(hasher.finalize().into()), length)),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            hasher.update(chunk.get(..read).unwrap_or_default());
            length = length.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
        }
    }

    /// Its 32 bytes.
    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The digits alone, in lower case.
    pub fn digits(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.digits())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a text is no digest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    /// It does not say that it is a SHA-256.
    #[error("the digest {} does not begin with `{PREFIX}`", quote(.0))]
    NoPrefix(String),
    /// It has something else than hexadecimal digits.
    #[error("the digest has {}, which is no hexadecimal digit", quote(.0))]
    NotADigit(String),
    /// It has too few or too many digits.
    #[error("the digest has {0} digits, not {DIGITS}")]
    Length(usize),
}

impl Suggest for DigestError {
    fn suggestion(&self, key: &str) -> String {
        let copy = "copy the digest that `mcp-host inspect FILE.wasm` prints";
        match self {
            Self::NoPrefix(text) if digits(text).is_ok() => format!("write `{key} = \"{PREFIX}{text}\"`"),
            _ => format!("{copy}: `{key} = \"{PREFIX}…\"`"),
        }
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let written = text.strip_prefix(PREFIX).ok_or_else(|| DigestError::NoPrefix(text.to_owned()))?;
        digits(written).map(Self)
    }
}

/// The bytes that the digits stand for.
fn digits(text: &str) -> Result<[u8; 32], DigestError> {
    if let Some(other) = text.chars().find(|c| !c.is_ascii_hexdigit()) {
        return Err(DigestError::NotADigit(other.to_string()));
    }
    let wrong_length = || DigestError::Length(text.len());
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return Err(wrong_length());
    }
    let bytes: Option<Vec<u8>> =
        pairs.iter().map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()).collect();
    bytes.and_then(|bytes| bytes.try_into().ok()).ok_or_else(wrong_length)
}

impl FromNode for Digest {
    const TYPE_NAME: &'static str = "a digest";

    fn example() -> String {
        format!("\"{PREFIX}…\"")
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        node.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_read_as_it_is_printed_in_either_case() {
        let digest = Digest::compute(b"component");
        let printed = digest.to_string();
        assert_eq!(printed.parse(), Ok(digest));
        assert_eq!(format!("sha256:{}", digest.digits().to_uppercase()).parse(), Ok(digest));
        assert_eq!(printed.len(), PREFIX.len() + DIGITS);
    }

    #[test]
    fn a_digest_of_a_file_is_that_of_its_bytes() {
        let bytes = vec![7; 3 * CHUNK_SIZE + 1];
        assert_eq!(Digest::compute_reader(bytes.as_slice()).unwrap(), (Digest::compute(&bytes), bytes.len() as u64));
    }

    #[test]
    fn what_is_no_digest_is_told_apart() {
        let parse = |text: &str| text.parse::<Digest>().unwrap_err();
        let digits = Digest::compute(b"").digits();
        assert_eq!(parse(&digits), DigestError::NoPrefix(digits.clone()));
        assert_eq!(parse("sha512:00"), DigestError::NoPrefix("sha512:00".to_owned()));
        assert_eq!(parse("sha256:"), DigestError::Length(0));
        assert_eq!(parse(&format!("sha256:{digits}0")), DigestError::Length(65));
        assert_eq!(parse(&format!("sha256:{digits}00")), DigestError::Length(66));
        assert_eq!(parse("sha256:xyz"), DigestError::NotADigit("x".to_owned()));
        assert_eq!(parse("sha256:…"), DigestError::NotADigit("…".to_owned()));
    }

    #[test]
    fn digits_without_the_prefix_are_put_right() {
        let digits = Digest::compute(b"").digits();
        let advice = digits.parse::<Digest>().unwrap_err().suggestion("digest");
        assert_eq!(advice, format!("write `digest = \"sha256:{digits}\"`"));
    }
}
