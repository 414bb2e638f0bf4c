//! The query parameters of the URIs of built-in resources.

use percent_encoding::percent_decode_str;

use mcp_host_base::text::quote;
use mcp_host_model::provider::Failure;

/// Returns the parameters of a query, decoded; a plus sign is a space.
pub(super) fn parameters(query: &str) -> impl Iterator<Item = (&str, String)> {
    query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = value.replace('+', " ");
        (name, percent_decode_str(&value).decode_utf8_lossy().into_owned())
    })
}

/// Parses a parameter that is an integer from 1 to a maximum.
pub(super) fn integer(name: &str, value: &str, max: usize) -> Result<usize, Failure> {
    let number = value.parse().ok().filter(|number| (1..=max).contains(number));
    number.ok_or_else(|| wrong(name, &format!("an integer from 1 to {max}"), value))
}

/// The error for a parameter with an unexpected value.
pub(super) fn wrong(name: &str, expected: &str, value: &str) -> Failure {
    Failure::invalid(format!("`{name}`: expected {expected}, found {}", quote(value)))
}

/// The error for an unknown parameter.
pub(super) fn unknown(name: &str, known: &[&str]) -> Failure {
    Failure::invalid(format!("there is no parameter {}; expected `{}`", quote(name), known.join("`, `")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_parameter_is_told_what_is_expected_and_what_was_found() {
        assert_eq!(integer("limit", "100", 100), Ok(100));
        for value in ["0", "101", "-1", "many", "99999999999999999999999"] {
            let message = format!("`limit`: expected an integer from 1 to 100, found `{value}`");
            assert_eq!(integer("limit", value, 100), Err(Failure::InvalidRequest(message)));
        }
        let message = "there is no parameter `x`; expected `q`, `limit`".to_owned();
        assert_eq!(unknown("x", &["q", "limit"]), Failure::InvalidRequest(message));
    }
}
