//! Scopes of access tokens.

use std::fmt;
use std::str::FromStr;

use crate::config::error::{Suggest, quote};
use crate::config::reader::{FromNode, Node, Schema};

/// The maximum length of a scope, in bytes.
const MAX_LEN: usize = 256;

/// A scope (RFC 6749, section 3.3): printable ASCII without spaces, `"` and `\`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope(String);

/// The reason why a text is not a scope.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScopeError {
    /// It is empty or too long, or has other characters.
    #[error("{} is not a scope", quote(.0))]
    Syntax(String),
}

impl Scope {
    /// Returns the scope as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Scope {
    type Err = ScopeError;

    fn from_str(text: &str) -> Result<Self, ScopeError> {
        let is_inner = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
        if (1..=MAX_LEN).contains(&text.len()) && text.bytes().all(is_inner) {
            Ok(Self(text.to_owned()))
        } else {
            Err(ScopeError::Syntax(text.to_owned()))
        }
    }
}

impl Suggest for ScopeError {
    fn suggestion(&self, _: &str) -> String {
        "write one such as `\"mcp:read\"`: ASCII without spaces, `\"` and `\\`; several are several entries of the list"
            .to_owned()
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromNode for Scope {
    const TYPE_NAME: &'static str = "a scope";

    fn example() -> String {
        "\"mcp:read\"".into()
    }

    fn schema() -> Schema {
        Schema::pattern(r"^[\x21\x23-\x5B\x5D-\x7E]{1,256}$")
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        node.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_one_word_of_ascii() {
        for text in ["mcp:read", "https://example.com/a.b", "!"] {
            assert_eq!(text.parse::<Scope>().unwrap().as_str(), text);
        }
        for text in ["", "a b", "a\"", "a\\b", "é", "a\n", &"a".repeat(MAX_LEN + 1)] {
            assert!(text.parse::<Scope>().is_err(), "{text:?}");
        }
    }
}
