//! Scopes of access tokens.

use crate::declare::checked_text;
use crate::reader::Schema;

/// The maximum length of a scope, in bytes.
const MAX_LEN: usize = 256;

checked_text! {
    /// A scope (RFC 6749, section 3.3): printable ASCII without spaces, `"` and `\`.
    pub struct Scope, ScopeError as "a scope", such as "\"mcp:read\"",
    schema Schema::pattern(r"^[\x21\x23-\x5B\x5D-\x7E]{1,256}$"),
    valid if |text| {
        let is_inner = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
        (1..=MAX_LEN).contains(&text.len()) && text.bytes().all(is_inner)
    },
    otherwise "write one such as `\"mcp:read\"`: ASCII without spaces, `\"` and `\\`; several are several entries of the list"
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
