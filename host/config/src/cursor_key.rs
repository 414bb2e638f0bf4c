//! The keys with which replicas seal their cursors: each 32 bytes in base64 or hexadecimal digits, stored outside of
//! the config. There are several during a key rotation.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};

use super::declare::written_as;
use super::diagnostic::Diagnostic;
use super::reader::{FromNode, Node, Schema};
use super::secret::{Secret, SecretSource};

/// The maximum number of keys.
const MAX_KEYS: usize = 8;

/// A key, read from a variable or a file.
pub(super) struct CursorKey(pub(super) Secret<[u8; 32]>);

written_as! {
    CursorKey as SecretSource, such as "{ env = \"MCP_HOST_CURSOR_KEY\" }", |node| {
        if node.value.is_str() {
            let message = format!("`{}` must not be in the config file, which others may read", node.key);
            let help = format!("generate a new key and write its source: {}", node.assignment_hint(&Self::example()));
            node.context.report(Diagnostic::new(message, help).at(node.span.clone()).redacted());
            return None;
        }
        let text = SecretSource::from_node(node)?.0;
        let key = decode(text.trim());
        if key.is_none() {
            let message = format!("`{}` is not 32 bytes as base64 or hexadecimal digits", node.key);
            node.report_machine_error(message, "make a key with `openssl rand -base64 32`");
        }
        Some(Self(Secret::new(key?)))
    }
}

/// A key, or a list of keys; the first is the current one.
#[derive(Default)]
pub(super) struct CursorKeys(pub(super) Vec<Secret<[u8; 32]>>);

impl FromNode for CursorKeys {
    const TYPE_NAME: &'static str = CursorKey::TYPE_NAME;

    fn example() -> String {
        CursorKey::example()
    }

    fn schema() -> Schema {
        let list = Schema::list(CursorKey::schema()).with("minItems", 1).with("maxItems", MAX_KEYS);
        Schema::any_of([CursorKey::schema(), list])
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        if !node.value.is_array() {
            return CursorKey::from_node(node).map(|CursorKey(key)| Self(vec![key]));
        }
        let items = node.items::<CursorKey>()?;
        if items.is_empty() || items.len() > MAX_KEYS {
            let message = format!("`{}` has {} keys, and 1 to {MAX_KEYS} are allowed", node.key, items.len());
            node.report_error(message, format!("write one, `{} = {}`", node.key, Self::example()));
            return None;
        }
        let keys = items.iter().filter_map(CursorKey::from_node).map(|CursorKey(key)| key);
        Some(Self(keys.collect()))
    }
}

fn decode(text: &str) -> Option<[u8; 32]> {
    let base64 = || STANDARD.decode(text).or_else(|_| STANDARD_NO_PAD.decode(text)).ok()?.try_into().ok();
    hexadecimal(text).or_else(base64)
}

/// 64 hexadecimal digits. As base64 they would be 48 bytes, so the two formats cannot be confused.
fn hexadecimal(text: &str) -> Option<[u8; 32]> {
    let mut key = [0; 32];
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != key.len() || !rest.is_empty() || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, pair) in key.iter_mut().zip(pairs) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_32_bytes_in_either_encoding() {
        let key: [u8; 32] = std::array::from_fn(|index| index as u8 * 7);
        let hexadecimal: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        for text in [STANDARD.encode(key), STANDARD_NO_PAD.encode(key), hexadecimal.to_uppercase(), hexadecimal] {
            assert_eq!(decode(&text), Some(key), "{text}");
        }
        for text in ["", "c2hvcnQ=", "xyz", &"a".repeat(63), &"é".repeat(32), &"0".repeat(66)] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
