//! Headers that the host controls, and the limit on their number.
//!
//! Hop-by-hop headers (RFC 9110, section 7.6.1) are not forwarded in either direction. `Host` is set from the origin.
//! The credentials of a grant replace headers of the same names that the guest sent.

use hyper::HeaderMap;
use hyper::header::{self, HeaderName, HeaderValue};

use crate::config::grants::HttpGrant;
use crate::net::Origin;

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

/// Removes the hop-by-hop headers: the known ones, and those that `Connection` names.
pub(super) fn strip_hop_by_hop(headers: &mut HeaderMap) {
    let connection_options: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        // These describe the body, so a server that names them in `Connection` is wrong.
        .filter(|name| *name != header::CONTENT_LENGTH && *name != header::CONTENT_TYPE)
        .collect();
    for name in HOP_BY_HOP.iter().chain(&connection_options) {
        headers.remove(name);
    }
}

/// Sets the host's headers, which replace the guest's.
pub(super) fn apply_host_headers(headers: &mut HeaderMap, origin: &Origin, grant: &HttpGrant) {
    // An origin is ASCII without spaces, and a credential was validated when it was parsed: both are valid header values.
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
    use crate::config::Secret;

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
    fn headers_are_as_large_as_their_lines() {
        assert_eq!(size(&headers(&[("a", "b"), ("a", "cd")])), "a: b\r\na: cd\r\n".len() as u64);
    }
}
