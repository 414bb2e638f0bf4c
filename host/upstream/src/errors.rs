//! The conversion of an upstream's errors into failures for clients.
//!
//! A client receives the details of two kinds of errors: the resource does not exist, whatever the wording of the
//! upstream, or the request is invalid. The upstream's message about an invalid request is passed on only if the
//! requested resource's URI is the only URI in it; this URI is mapped. Another URI is meaningless to a client, belongs
//! to another resource, or must not be disclosed. The details of all other errors only go to the log.

use mcp_host_base::text::{Excerpt, truncate};
use mcp_host_model::provider::Failure;
use rmcp::model::{ErrorCode, ErrorData};

use crate::mapping::Mapping;

/// The maximum length of an upstream's message to a client, in bytes.
const MAX_MESSAGE: usize = 512;

/// Returns the failure of a request that was answered with an error. `requested` is the path of the requested resource.
pub(crate) fn failure(mapping: &Mapping, error: &ErrorData, requested: Option<&str>) -> Failure {
    let message = error.message.as_ref();
    let is_missing = error.code == ErrorCode::RESOURCE_NOT_FOUND
        || error.code == ErrorCode::INVALID_PARAMS && error.data.as_ref().is_some_and(|data| data.get("uri").is_some())
        || says_missing(message);
    if requested.is_some() && is_missing {
        return Failure::NotFound;
    }
    if error.code != ErrorCode::INVALID_PARAMS && error.code != ErrorCode::INVALID_REQUEST {
        let (code, message) = (error.code.0, Excerpt(message));
        return Failure::internal(format!("the upstream answers with the error {code}: {message}"));
    }
    match mapped(mapping, message, requested) {
        Some(message) => Failure::invalid(truncate(message, MAX_MESSAGE)),
        None => Failure::invalid("the upstream rejects the request"),
    }
}

/// Returns the message with the host's URI of this path; none if the message contains another URI.
fn mapped(mapping: &Mapping, message: &str, requested: Option<&str>) -> Option<String> {
    let (mut mapped, mut rest) = (String::new(), message);
    while let Some((before, uri, behind)) = next_uri(rest) {
        let path = requested?;
        if mapping.path(uri).ok()? != path {
            return None;
        }
        mapped.extend([before, &mapping.host_uri(path)]);
        rest = behind;
    }
    mapped.push_str(rest);
    Some(mapped)
}

/// Returns the first text that starts like a URI: a letter, then letters, digits, `+`, `-` or `.`, a colon, and at
/// least one more character. Returns the text before and after it, too.
fn next_uri(text: &str) -> Option<(&str, &str, &str)> {
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let is_end = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '"' | '<' | '>' | '`' | '\'' | '|');
    for (colon, _) in text.match_indices(':') {
        let (before, behind) = (text.get(..colon)?, text.get(colon.saturating_add(1)..)?);
        let name_start = before.rfind(|c| !is_scheme(c)).map_or(0, |at| next_boundary(before, at));
        let Some(letter) = before.get(name_start..)?.find(|c: char| c.is_ascii_alphabetic()) else { continue };
        let start = name_start.saturating_add(letter);
        let length = behind.find(is_end).unwrap_or(behind.len());
        let end = colon.saturating_add(1).saturating_add(length);
        let uri = text.get(start..end)?.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '}']);
        // A colon that is punctuation has no text of a URI after it.
        if uri.len() > colon.saturating_sub(start).saturating_add(1) {
            let end = start.saturating_add(uri.len());
            return Some((text.get(..start)?, uri, text.get(end..)?));
        }
    }
    None
}

fn next_boundary(text: &str, at: usize) -> usize {
    text.get(at..).and_then(|rest| rest.chars().next()).map_or(at, |c| at.saturating_add(c.len_utf8()))
}

/// Returns whether a message reports that a resource does not exist, in the words of SDKs that have no error code for
/// that.
fn says_missing(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    message.contains("not found") || message.contains("unknown resource") || message.contains("no such resource")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(mapping: &Mapping, message: &str, requested: Option<&str>) -> String {
        let error = ErrorData::invalid_params(message.to_owned(), None);
        match failure(mapping, &error, requested) {
            Failure::InvalidRequest(text) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_sdks_say_of_a_missing_resource_is_understood() {
        for message in ["Resource x:a not found", "MCP error -32602: Resource x not found", "Unknown resource: x:a"] {
            assert!(says_missing(message), "{message}");
        }
        assert!(!says_missing("the argument is invalid"));
    }

    #[test]
    fn the_uri_that_was_asked_for_is_mapped_and_a_message_with_another_one_is_not_passed_on() {
        let front = Mapping::new("up+".parse().unwrap(), None);
        let own = |message| text_of(&front, message, Some("urn:pub:1"));
        assert_eq!(own("urn:pub:1 is locked"), "up+urn:pub:1 is locked");
        assert_eq!(own("(\"URN:pub:1\"), at 12:30: é: locked."), "(\"up+urn:pub:1\"), at 12:30: é: locked.");
        assert_eq!(own("the argument: 5 is invalid"), "the argument: 5 is invalid");
        let rejected = "the upstream rejects the request";
        for message in [
            "urn:pub:1 is locked; see urn:secret:42",
            "see file:/srv/secret/key",
            "see file:///srv",
            "urn:pub:12",
            "urn:pub:1/a",
            "see:urn:secret:1",
            "éurn:secret:1",
            "x://h/a",
            "C:\\secret",
            "-1x:secret",
        ] {
            assert_eq!(own(message), rejected, "{message}");
        }
        let exchanged = Mapping::new("files://nas/".parse().unwrap(), Some("file:///srv/".parse().unwrap()));
        assert_eq!(text_of(&exchanged, "file:///srv/a is locked", Some("a")), "files://nas/a is locked");
        assert_eq!(text_of(&exchanged, "file:///etc/a is locked", Some("a")), rejected);
        assert_eq!(text_of(&exchanged, "try urn:secret:owner", None), rejected);
        assert_eq!(text_of(&exchanged, "no such owner", None), "no such owner");
    }
}
