//! The query parameters of the URIs of built-in resources.

use percent_encoding::percent_decode_str;

/// Returns the parameters of a query, decoded; a plus sign is a space.
pub(super) fn parameters(query: &str) -> impl Iterator<Item = (&str, String)> {
    query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = value.replace('+', " ");
        (name, percent_decode_str(&value).decode_utf8_lossy().into_owned())
    })
}
