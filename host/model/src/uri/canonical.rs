//! Spellings of one resource that RFC 3986 distinguishes and servers do not.
//!
//! Access rules are applied to one text for each resource. The normal form of a URI is the same for all schemes; this
//! module has the additional equivalences of a scheme, so that a resource that is denied by its listed URI cannot be
//! read by another spelling of it.
//!
//! | scheme | one resource | by |
//! |---|---|---|
//! | `file` | `file:///a`, `file:/a`, `file:a`, `file://localhost/a`, `file:////a`, `file:///a//`, `file:///b%2F..%2Fa` | RFC 8089, and what file systems do with a path |
//! | `http`, `https`, `ws`, `wss`, `ftp` | `http://h/a`, `http:h/a`, `http:/h/a`, `http:///h/a`, `http://h:80/a`, `http://h./a` | the URL standard, which servers parse with |
//! | others | the normal form alone | |
//!
//! [`canonical`] returns the first spelling of each row. The host lists this form and applies rules to it. Listed
//! resources are requested from an upstream as the upstream listed them, all others only in this form.
//! [`is_requestable`] refuses unlisted URIs that servers are known to interpret as something else: in `file` an
//! authority, which many ignore, a trailing slash, `%5C`, and a query, which many treat as a part of the path, with the
//! dot segments in it; in the other schemes user information, a port that is not a number, a host that is a number but
//! not an address in dotted decimal form, and a host in brackets that is not an IPv6 address.

use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Returns the canonical form of a URI in normal form. The result may have dot segments, and so not be in normal form.
pub fn canonical(uri: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = uri.split_once(':') else { return Cow::Borrowed(uri) };
    let canonical = if scheme == "file" {
        canonical_file(rest)
    } else if let Some(port) = default_port(scheme) {
        canonical_url(scheme, port, rest)
    } else {
        return Cow::Borrowed(uri);
    };
    if canonical == uri { Cow::Borrowed(uri) } else { Cow::Owned(canonical) }
}

/// Returns whether a URI in normal form that its server did not list may be requested. `authority` is the authority
/// that `file` may have.
pub fn is_requestable(uri: &str, authority: &str) -> bool {
    if canonical(uri) != uri {
        return false;
    }
    let Some((scheme, rest)) = uri.split_once(':') else { return true };
    let (hierarchy, query) = split_query(rest);
    if scheme == "file" {
        let (found, path) = split_authority(hierarchy);
        return query.is_empty()
            && (found.is_empty() || found == authority)
            && (path == "/" || !path.ends_with('/'))
            && !path.contains("%5C");
    }
    if default_port(scheme).is_none() {
        return true;
    }
    let (authority, _) = split_authority(hierarchy);
    let (host, port) = split_port(authority);
    let is_host = match host.strip_prefix('[') {
        Some(address) => address.strip_suffix(']').is_some_and(|address| address.parse::<Ipv6Addr>().is_ok()),
        None => !is_number(host) || host.parse::<Ipv4Addr>().is_ok_and(|ip| ip.to_string() == host),
    };
    is_host && !authority.contains('@') && port.is_none_or(|port| port.parse::<u16>().is_ok())
}

/// Returns the authority that `file` may have, according to a URI or prefix of the config.
pub fn file_authority(uri: &str) -> &str {
    uri.strip_prefix("file:").map_or("", |rest| split_authority(split_query(rest).0).0)
}

/// Returns the default port of a scheme of the URL standard.
fn default_port(scheme: &str) -> Option<&'static str> {
    match scheme {
        "http" | "ws" => Some("80"),
        "https" | "wss" => Some("443"),
        "ftp" => Some("21"),
        _ => None,
    }
}

fn canonical_file(rest: &str) -> String {
    let (hierarchy, query) = split_query(rest);
    let (authority, path) = split_authority(hierarchy);
    let authority = if authority == "localhost" { "" } else { authority };
    let decoded = path.replace("%2F", "/");
    let mut segments = Vec::new();
    for segment in decoded.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    let is_directory = !segments.is_empty() && matches!(decoded.rsplit('/').next(), Some("" | "." | ".."));
    let end = if is_directory { "/" } else { "" };
    format!("file://{authority}/{}{end}{query}", segments.join("/"))
}

fn canonical_url(scheme: &str, port: &str, rest: &str) -> String {
    let (hierarchy, query) = split_query(rest);
    let behind = hierarchy.trim_start_matches('/');
    let (authority, path) = behind.split_at(behind.find('/').unwrap_or(behind.len()));
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    let (host, found) = split_port(host);
    let host = match host.strip_prefix('[').and_then(|address| address.strip_suffix(']')).map(str::parse::<Ipv6Addr>) {
        Some(Ok(address)) => format!("[{address}]"),
        _ => host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase(),
    };
    let user = user.map(|user| format!("{user}@")).unwrap_or_default();
    let found = found.map(|found| found.parse::<u16>().map_or_else(|_| found.to_owned(), |number| number.to_string()));
    let port = found.filter(|found| !found.is_empty() && found != port).map(|found| format!(":{found}"));
    let path = if path.is_empty() { "/" } else { path };
    format!("{scheme}://{user}{host}{}{path}{query}", port.unwrap_or_default())
}

/// Returns the authority, which may be missing, and the path.
fn split_authority(hierarchy: &str) -> (&str, &str) {
    match hierarchy.strip_prefix("//") {
        Some(behind) => behind.split_at(behind.find('/').unwrap_or(behind.len())),
        None => ("", hierarchy),
    }
}

/// Returns the host, and the port after it. An address in brackets contains colons.
fn split_port(host: &str) -> (&str, Option<&str>) {
    match host.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (host, None),
    }
}

/// Returns the text before the query, and the query with its question mark.
fn split_query(text: &str) -> (&str, &str) {
    text.split_at(text.find('?').unwrap_or(text.len()))
}

/// Returns whether the URL standard parses a host as the number of an address.
fn is_number(host: &str) -> bool {
    let last = host.rsplit('.').next().unwrap_or_default();
    let is_hexadecimal =
        last.strip_prefix("0x").is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    is_hexadecimal || !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_servers_take_for_something_else_is_not_asked_for_unless_it_was_listed() {
        let uris = [
            "file:///a",
            "file:///a/b",
            "file:///",
            "http://h/a/",
            "http://10.0.0.1/",
            "x://u@h//a",
            "urn:a",
            "http://[::1]:8080/?q",
        ];
        assert!(uris.iter().all(|uri| is_requestable(uri, "")));
        let uris = [
            "file:/a",
            "file:a",
            "file:////a",
            "file:///a/",
            "file://h/a",
            "file:///a%5Cb",
            "file://localhost/a",
            "file:///a?q",
        ];
        assert!(!uris.iter().any(|uri| is_requestable(uri, "")));
        let uris =
            ["http:h/a", "http://u@h/a", "http://127.1/", "http://0x7f000001/", "http://h:80/", "http://017.0.0.1/"];
        assert!(!uris.iter().any(|uri| is_requestable(uri, "")));
        let uris = [
            "http://h:080/",
            "http://h:a/",
            "http://h:65536/",
            "http://[::0:1]/",
            "http://[::1%25a]/",
            "http://[v1.a]/",
        ];
        assert!(!uris.iter().any(|uri| is_requestable(uri, "")));
        assert!(is_requestable("file://nas/a", "nas"));
    }
}
