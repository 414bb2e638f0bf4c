//! Headers that the host controls, and the limit on their number.
//!
//! Hop-by-hop headers (RFC 9110, section 7.6.1) are not forwarded in either direction. `Host` is set from the origin.
//! The credentials of a grant replace headers of the same names that the guest sent. Many servers pass headers to
//! programs in variables with `_` in place of `-` (CGI, RFC 3875, section 4.1.18), where `X_Api_Key` equals
//! `X-Api-Key`. So a request is refused if the name of a header differs from one of the host's headers only in these
//! characters.

use hyper::HeaderMap;
use hyper::header::{self, HeaderName, HeaderValue};

use mcp_host_config::grants::HttpGrant;
use mcp_host_model::net::Origin;

/// The maximum number of header lines of a message.
pub(super) const MAX_HEADERS: usize = 256;

/// The known hop-by-hop headers.
const HOP_BY_HOP: [HeaderName; 10] = [
    header::CONNECTION,
    HeaderName::from_static("http2-settings"),
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Returns whether a guest can neither set nor see the header.
pub(super) fn is_host_controlled(name: &HeaderName) -> bool {
    *name == header::HOST || HOP_BY_HOP.contains(name)
}

/// Removes the hop-by-hop headers: the known ones, and the headers that `Connection` names.
pub(super) fn strip_hop_by_hop(headers: &mut HeaderMap) {
    let connection_options: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        // These headers describe the body, so a server that names them in `Connection` is wrong.
        .filter(|name| *name != header::CONTENT_LENGTH && *name != header::CONTENT_TYPE)
        .collect();
    for name in HOP_BY_HOP.iter().chain(&connection_options) {
        headers.remove(name);
    }
}

/// Returns a header of the host that a guest's header imitates: the names differ only in `_` and `-`.
pub(super) fn imitated(headers: &HeaderMap, grant: &HttpGrant) -> Option<HeaderName> {
    let mut of_host: Vec<HeaderName> = grant.headers.keys().map(|name| name.header().clone()).collect();
    of_host.extend(grant.oauth.as_ref().map(|_| header::AUTHORIZATION));
    of_host.extend([header::HOST, header::CONTENT_LENGTH]);
    of_host.extend(HOP_BY_HOP);
    let folded = |name: &HeaderName| name.as_str().replace('_', "-");
    let looks_like = |one: &HeaderName, other: &HeaderName| one != other && folded(one) == folded(other);
    headers.keys().find_map(|name| of_host.iter().find(|own| looks_like(name, own))).cloned()
}

/// Sets the host's headers, which replace the guest's.
pub(super) fn apply_host_headers(headers: &mut HeaderMap, origin: &Origin, grant: &HttpGrant) {
    // An origin is ASCII without spaces, and a credential was validated by the parser, so both are valid header values.
    if let Ok(host) = HeaderValue::try_from(origin.authority()) {
        headers.insert(header::HOST, host);
    }
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    for (name, value) in &grant.headers {
        if let Ok(value) = value.expose().header() {
            headers.insert(name.header().clone(), value);
        }
    }
}

/// Returns the size of the headers in a message, in bytes.
pub(super) fn size(headers: &HeaderMap) -> u64 {
    let line =
        |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len().saturating_add(value.len()).saturating_add(4);
    headers.iter().map(line).fold(0, |sum: u64, line| sum.saturating_add(u64::try_from(line).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_host_config::Secret;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let line = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        lines.iter().map(line).collect()
    }

    #[test]
    fn what_belongs_to_the_connection_goes_no_further() {
        let mut headers = headers(&[
            ("connection", "close, X-Trace"),
            ("connection", "keep-alive"),
            ("keep-alive", "timeout=5"),
            ("transfer-encoding", "chunked"),
            ("x-trace", "1"),
            ("content-type", "text/plain"),
        ]);
        strip_hop_by_hop(&mut headers);
        assert_eq!(headers, self::headers(&[("content-type", "text/plain")]));
    }

    #[test]
    fn the_hosts_own_stand_in_place_of_the_guests() {
        let origin = "https://docs.rs:8443".parse().unwrap();
        let mut grant = HttpGrant::new("https://docs.rs:8443".parse().unwrap());
        grant.headers.insert("Authorization".parse().unwrap(), Secret::new("Bearer hunter2".parse().unwrap()));
        let mut headers =
            headers(&[("host", "evil.org"), ("authorization", "a"), ("authorization", "b"), ("accept", "*/*")]);
        apply_host_headers(&mut headers, &origin, &grant);
        assert_eq!(
            headers,
            self::headers(&[
                ("host", "docs.rs:8443"),
                ("authorization", "Bearer hunter2"),
                ("accept", "*/*"),
                ("connection", "close")
            ])
        );
    }

    #[test]
    fn a_header_that_a_server_may_take_for_one_of_the_host_is_found() {
        let mut grant = HttpGrant::new("https://docs.rs".parse().unwrap());
        grant.headers.insert("X-Api-Key".parse().unwrap(), Secret::new("hunter2".parse().unwrap()));
        grant.headers.insert("x_token".parse().unwrap(), Secret::new("hunter2".parse().unwrap()));
        for (name, of_host) in [
            ("x_api_key", Some("x-api-key")),
            ("x-api_key", Some("x-api-key")),
            ("x-token", Some("x_token")),
            ("transfer_encoding", Some("transfer-encoding")),
            ("content_length", Some("content-length")),
            ("x-api-key", None),
            ("x_token", None),
            ("x_other", None),
            ("authorization_", None),
        ] {
            let found = imitated(&headers(&[("accept", "*/*"), (name, "guess")]), &grant);
            assert_eq!(found.as_ref().map(HeaderName::as_str), of_host, "{name}");
        }
    }

    #[test]
    fn headers_are_as_large_as_their_lines() {
        assert_eq!(size(&headers(&[("a", "b"), ("a", "cd")])), "a: b\r\na: cd\r\n".len() as u64);
    }
}
