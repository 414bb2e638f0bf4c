//! Digests of bearer tokens: `token-sha256`.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq;

use super::diagnostic::{Suggest, quote};
use super::reader::{FromNode, Node, Schema};
use super::secret::SecretSource;

/// The maximum number of digests of one principal.
const MAX_DIGESTS: usize = 16;

/// The SHA-256 digest of a bearer token, as 64 lower-case hexadecimal digits. It covers the whole token.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TokenDigest([u8; 32]);

/// The reason why a text is not the digest of a token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenDigestError {
    /// The text is not 64 lower-case hexadecimal digits. It may be the token itself, so the error does not show it.
    #[error("a digest of a token is 64 lower-case hexadecimal digits, and this has {0} characters")]
    Syntax(usize),
    /// The text is 64 hexadecimal digits, some of them upper case.
    #[error("a digest of a token has lower-case digits, and this has upper-case ones")]
    UpperCase,
}

/// The digests of the tokens of one principal: several during the rotation of a token.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct TokenDigests(Vec<TokenDigest>);

impl TokenDigest {
    /// Returns the digest of a token.
    pub fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// Compares two digests in constant time.
    pub fn matches(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl TokenDigests {
    /// The digests of these tokens.
    pub fn new(digests: impl IntoIterator<Item = TokenDigest>) -> Self {
        Self(digests.into_iter().collect())
    }

    /// Returns whether one of the digests belongs to the token. All digests are compared, each in constant time.
    pub fn contains(&self, digest: &TokenDigest) -> bool {
        self.0.iter().fold(false, |found, own| found | own.matches(digest))
    }

    /// The digests.
    pub fn iter(&self) -> impl Iterator<Item = &TokenDigest> {
        self.0.iter()
    }

    pub(super) fn intersects(&self, other: &Self) -> bool {
        self.0.iter().any(|digest| other.contains(digest))
    }
}

impl fmt::Display for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenDigest(…)")
    }
}

impl fmt::Debug for TokenDigests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenDigests({})", self.0.len())
    }
}

impl FromStr for TokenDigest {
    type Err = TokenDigestError;

    fn from_str(text: &str) -> Result<Self, TokenDigestError> {
        let is_upper_case = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let error = || match is_upper_case {
            true => TokenDigestError::UpperCase,
            false => TokenDigestError::Syntax(text.chars().count()),
        };
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Ok(byte.wrapping_sub(b'0')),
            b'a'..=b'f' => Ok(byte.wrapping_sub(b'a').wrapping_add(10)),
            _ => Err(error()),
        };
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        let bytes: Vec<u8> =
            pairs.iter().map(|[high, low]| Ok((digit(*high)? << 4) | digit(*low)?)).collect::<Result<_, _>>()?;
        match <[u8; 32]>::try_from(bytes) {
            Ok(bytes) if rest.is_empty() => Ok(Self(bytes)),
            _ => Err(error()),
        }
    }
}

impl Suggest for TokenDigestError {
    fn suggestion(&self, key: &str) -> String {
        match self {
            Self::UpperCase => "write the same digits in lower case".to_owned(),
            Self::Syntax(_) => format!(
                "`mcp-host token new` prints a token and the line `{key} = \"…\"`; for an existing token: `mcp-host token \
                 hash`, which reads it from standard input"
            ),
        }
    }
}

impl FromNode for TokenDigest {
    const TYPE_NAME: &'static str = "the SHA-256 digest of a token";

    fn example() -> String {
        // An example that is not accepted: the type's error explains how to make one.
        "\"…\"".to_owned()
    }

    fn schema() -> Schema {
        Schema::pattern("^[0-9a-f]{64}$")
    }

    /// The value may be the token itself, so its line is not shown.
    fn from_node(node: &Node<'_>) -> Option<Self> {
        match node.string::<Self>()?.parse() {
            Ok(digest) => Some(digest),
            Err(error) => {
                node.reject_secret(&error);
                None
            }
        }
    }
}

impl FromNode for TokenDigests {
    const TYPE_NAME: &'static str = "the SHA-256 digest of a token";

    fn example() -> String {
        TokenDigest::example()
    }

    fn schema() -> Schema {
        let list = Schema::list(TokenDigest::schema()).with("minItems", 1).with("maxItems", MAX_DIGESTS);
        Schema::any_of([TokenDigest::schema(), list, SecretSource::schema()])
    }

    /// One digest, a list of digests, or the source of a text with one digest per line.
    fn from_node(node: &Node<'_>) -> Option<Self> {
        let digests = if node.value.is_array() {
            Vec::<TokenDigest>::from_node(node)?
        } else if node.value.is_table() {
            let source = SecretSource::read_public(node)?;
            let parsed = source.0.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::parse).collect();
            match parsed {
                Ok(digests) => digests,
                Err(error) => {
                    let error: TokenDigestError = error;
                    node.reject_secret(&error);
                    return None;
                }
            }
        } else {
            vec![TokenDigest::from_node(node)?]
        };
        if digests.is_empty() || digests.len() > MAX_DIGESTS {
            let found = digests.len();
            node.report_error(
                format!("{} has {found} digests", quote(node.key)),
                format!("write 1 to {MAX_DIGESTS}: one, and two while a token is replaced"),
            );
            return None;
        }
        Some(Self(digests))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_that_of_the_whole_token() {
        let written = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
        assert_eq!(TokenDigest::of("test").to_string(), written);
        assert_eq!(written.parse(), Ok(TokenDigest::of("test")));
        assert_eq!(written.to_uppercase().parse::<TokenDigest>(), Err(TokenDigestError::UpperCase));
        for text in ["", "9f", &format!("{written}00"), &format!("{written}0"), "test"] {
            assert_eq!(text.parse::<TokenDigest>(), Err(TokenDigestError::Syntax(text.len())), "{text}");
        }
    }

    #[test]
    fn no_digest_is_shown_by_debug() {
        let digests = TokenDigests::new([TokenDigest::of("a"), TokenDigest::of("b")]);
        assert_eq!(format!("{digests:?}"), "TokenDigests(2)");
        assert!(digests.contains(&TokenDigest::of("b")) && !digests.contains(&TokenDigest::of("c")));
    }
}
