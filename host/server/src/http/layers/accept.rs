//! Content negotiation: `Accept` by RFC 9110.
//!
//! MCP requires clients to list `application/json` and `text/event-stream`. A client that accepts both by other ranges
//! (`*/*`, `text/*, application/*`), or sends no `Accept` (RFC 9110, 12.5.1), is treated the same: its header is
//! normalized. A client that accepts only one of the two types gets 406 from the endpoint.

use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, HeaderValue, Method};

const JSON: [&str; 2] = ["application", "json"];
const EVENT_STREAM: [&str; 2] = ["text", "event-stream"];

/// Both types, in MCP's notation.
pub(in crate::http) const JSON_AND_SSE: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");

/// Normalizes the `Accept` of a request that accepts both types.
pub(in crate::http) fn normalize(method: &Method, headers: &mut HeaderMap) {
    // The response to a GET is always an event stream.
    if accepts(headers, EVENT_STREAM) && (method == Method::GET || accepts(headers, JSON)) {
        headers.insert(ACCEPT, JSON_AND_SSE);
    }
}

/// Returns whether a normalized request accepts both types.
pub(in crate::http) fn accepts_json_and_sse(headers: &HeaderMap) -> bool {
    headers.get(ACCEPT) == Some(&JSON_AND_SSE)
}

/// Returns whether the most specific range has a weight above zero, or there are no ranges.
fn accepts(headers: &HeaderMap, [kind, subtype]: [&str; 2]) -> bool {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut ranges = values.flat_map(|value| value.split(',')).filter(|range| !range.trim().is_empty()).peekable();
    if ranges.peek().is_none() {
        return true;
    }
    let matching = ranges.filter_map(|range| {
        let mut parts = range.split(';').map(str::trim);
        let (range_kind, range_subtype) = parts.next()?.split_once('/')?;
        let is = |range: &str, name: &str| range.eq_ignore_ascii_case(name);
        let specificity = match (range_kind, range_subtype) {
            ("*", "*") => 0,
            (range, "*") if is(range, kind) => 1,
            (range, name) if is(range, kind) && is(name, subtype) => 2,
            _ => return None,
        };
        Some((specificity, parts.all(has_weight)))
    });
    matching.max().is_some_and(|(_, is_accepted)| is_accepted)
}

/// Returns whether a parameter is not a weight of zero.
pub(super) fn has_weight(parameter: &str) -> bool {
    let Some((name, weight)) = parameter.split_once('=') else { return true };
    !name.trim().eq_ignore_ascii_case("q") || weight.trim().parse::<f32>().map_or(true, |weight| weight > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts_each(accept: &[&str]) -> [bool; 2] {
        let mut headers = HeaderMap::new();
        for value in accept {
            headers.append(ACCEPT, value.parse().unwrap());
        }
        [accepts(&headers, JSON), accepts(&headers, EVENT_STREAM)]
    }

    #[test]
    fn who_says_nothing_or_anything_accepts_both() {
        let ways: [&[&str]; 7] = [
            &[],
            &[""],
            &["*/*"],
            &["application/json, text/event-stream"],
            &["APPLICATION/*", "Text/*;q=0.1"],
            &["text/html, */*;q=0.8"],
            &["application/json;q=0.5;charset=utf-8 , text/event-stream;q=often"],
        ];
        for accept in ways {
            assert_eq!(accepts_each(accept), [true, true], "{accept:?}");
        }
    }

    #[test]
    fn the_range_that_says_most_counts() {
        assert_eq!(accepts_each(&["application/json"]), [true, false]);
        assert_eq!(accepts_each(&["*/*, text/event-stream;q=0"]), [true, false]);
        assert_eq!(accepts_each(&["*/*;q=0.000, text/*"]), [false, true]);
        assert_eq!(accepts_each(&["application/*; q=0, */*"]), [false, true]);
        assert_eq!(accepts_each(&["text/html", "nonsense", "*/json"]), [false, false]);
    }
}
