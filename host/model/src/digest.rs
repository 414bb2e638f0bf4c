//! The SHA-256 digest of a component file.
//!
//! It is written as `sha256:` and 64 hexadecimal digits, as `mcp-host inspect` prints it. A plugin whose
//! config has a `digest` is loaded only from a file with exactly this content.
//!
//! ```
//! use mcp_host_model::digest::Digest;
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

use mcp_host_base::text::quote;

/// The prefix before the digits.
pub const PREFIX: &str = "sha256:";
/// The number of hexadecimal digits.
const DIGITS: usize = 64;
/// The size of the part of a file that is in memory, in bytes.
const CHUNK_SIZE: usize = 64 * 1024;

/// The SHA-256 of a component file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Computes the digest of `bytes`.
    pub fn compute(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Computes the digest of everything that `reader` returns, and the number of bytes. At most 64 KiB are
    /// in memory.
    ///
    /// # Errors
    ///
    /// Reading fails.
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

    /// Returns the 32 bytes.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns the digits without the prefix, in lower case.
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

/// The reason why a text is not a digest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DigestError {
    /// The text does not begin with `sha256:`.
    #[error("the digest {} does not begin with `{PREFIX}`", quote(.0))]
    NoPrefix(String),
    /// A character is not a hexadecimal digit.
    #[error("the digest has {}, which is not a hexadecimal digit", quote(.0))]
    NotADigit(String),
    /// The number of digits is not 64.
    #[error("the digest has {0} digits, not {DIGITS}")]
    Length(usize),
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let written = text.strip_prefix(PREFIX).ok_or_else(|| DigestError::NoPrefix(text.to_owned()))?;
        digits(written).map(Self)
    }
}

/// Parses the hexadecimal digits.
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
}
