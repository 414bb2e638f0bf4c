//! URI templates on the client's side.

/// Expands a value as `{+name}` of a template does (RFC 6570, section 3.2.3): characters that a URI may contain stay as
/// they are, also a `%` followed by two hex digits, and everything else is percent-encoded.
pub fn reserved_expansion(value: &str) -> String {
    let bytes = value.as_bytes();
    let is_encoded =
        |at: usize| bytes.get(at + 1..at + 3).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=".contains(&byte);
    let expand = |(at, byte): (usize, &u8)| match byte {
        b'%' if is_encoded(at) => "%".to_owned(),
        byte if is_plain(*byte) => char::from(*byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    bytes.iter().enumerate().map(expand).collect()
}
