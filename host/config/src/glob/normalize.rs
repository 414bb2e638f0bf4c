//! The normal form of a glob, as the URIs have it that the glob is compared with.

use mcp_host_model::uri::is_path_delimiter;

use super::GlobError;

/// Returns the normal form of a glob.
///
/// # Errors
///
/// The glob matches no URI in normal form, or misleads.
pub(super) fn normalize(glob: &str) -> Result<String, GlobError> {
    let normalized = normalize_authority(&percent_encode(glob)?)?;
    check_braces(&normalized)?;
    check_segments(&normalized).map_err(|error| match error {
        GlobError::NoScheme(_) => GlobError::NoScheme(glob.to_owned()),
        other => other,
    })?;
    Ok(normalized)
}

/// Converts all characters to their form in a normalized URI (RFC 3986, sections 2.1 and 6.2.2, and
/// [`mcp_host_model::uri`]).
fn percent_encode(glob: &str) -> Result<String, GlobError> {
    let mut normal = String::with_capacity(glob.len());
    let mut characters = glob.chars();
    let encoded = |byte: u8| format!("%{byte:02X}");
    let mut in_braces = false;
    while let Some(character) = characters.next() {
        match character {
            '[' | ']' => return Err(GlobError::Class),
            '\\' => return Err(GlobError::Backslash),
            '#' => return Err(GlobError::Fragment),
            '%' => {
                let digits: String = characters.by_ref().take(2).filter(char::is_ascii_hexdigit).collect();
                let byte = u8::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 2);
                let byte = byte.ok_or(GlobError::Percent)?;
                match char::from(byte) {
                    c if is_unreserved(c) => normal.push(c),
                    c if !is_path_delimiter(c) || is_in_authority(&normal) => normal.push_str(&encoded(byte)),
                    c if c == '*' || (c == ',' && in_braces) => return Err(GlobError::Escaped(c)),
                    c => normal.push(c),
                }
            }
            _ if is_unreserved(character) || is_path_delimiter(character) || "/?{}".contains(character) => {
                in_braces = match character {
                    '{' => true,
                    '}' => false,
                    _ => in_braces,
                };
                normal.push(character);
            }
            _ => normal.extend(character.encode_utf8(&mut [0; 4]).bytes().map(encoded)),
        }
    }
    Ok(normal)
}

/// Returns whether the end of this beginning of a glob is in the authority, where no delimiter is decoded.
fn is_in_authority(before: &str) -> bool {
    let behind_scheme = before.split_once("://").filter(|(scheme, _)| !scheme.contains('/'));
    behind_scheme.is_some_and(|(_, authority)| !authority.contains('/'))
}

fn is_unreserved(character: char) -> bool {
    character.is_ascii_alphanumeric() || "-._~".contains(character)
}

/// Converts scheme and host to lower case (RFC 3986, section 6.2.2.1), except percent-encoding, and removes an empty
/// port (section 3.2.3).
fn normalize_authority(glob: &str) -> Result<String, GlobError> {
    let Some((scheme, rest)) = glob.split_once("://").filter(|(scheme, _)| !scheme.contains('/')) else {
        return Ok(glob.to_owned());
    };
    let (host, path) = match rest.find('/') {
        Some(slash) => rest.split_at(slash),
        None => (rest, ""),
    };
    if host.contains('@') {
        return Err(GlobError::UserInfo);
    }
    let host = host.strip_suffix(':').unwrap_or(host);
    let mut encoded = 0_u8;
    let host: String = host
        .chars()
        .map(|character| {
            encoded = if character == '%' { 3 } else { encoded.saturating_sub(1) };
            if encoded > 0 { character } else { character.to_ascii_lowercase() }
        })
        .collect();
    Ok(format!("{}://{host}{path}", scheme.to_ascii_lowercase()))
}

/// Rejects nested braces, which could also exceed the size limit of the compiled regex.
fn check_braces(glob: &str) -> Result<(), GlobError> {
    let mut open = false;
    for character in glob.chars() {
        match (character, open) {
            ('{', false) => open = true,
            ('}', true) => open = false,
            ('{', true) | ('}', false) => return Err(GlobError::Braces),
            _ => {}
        }
    }
    if open { Err(GlobError::Braces) } else { Ok(()) }
}

fn check_segments(glob: &str) -> Result<(), GlobError> {
    for segment in glob.split('/') {
        match segment {
            "." | ".." => return Err(GlobError::DotSegment),
            "**" => {}
            _ if segment.contains("**") => return Err(GlobError::PartialSegment),
            _ => {}
        }
    }
    match glob.split('/').next() {
        Some(first) if first == "**" || first.contains(':') => Ok(()),
        _ => Err(GlobError::NoScheme(glob.to_owned())),
    }
}
