//! Spellings of one resource that RFC 3986 keeps apart, and servers do not.
//!
//! Rules judge one text for each resource. The normal form of a URI is the same for all schemes; what a scheme says beside it is here, so that
//! a resource that is denied by its listed URI cannot be had by another spelling of it.
//!
//! | scheme | one resource | by |
//! |---|---|---|
//! | `file` | `file:///a`, `file:/a`, `file:a`, `file://localhost/a`, `file:////a`, `file:///a//`, `file:///b%2F..%2Fa` | RFC 8089, and what file systems do with a path |
//! | `http`, `https`, `ws`, `wss`, `ftp` | `http://h/a`, `http:h/a`, `http:/h/a`, `http:///h/a`, `http://h:80/a`, `http://h./a` | the URL standard, which servers parse with |
//! | others | the normal form alone | |
//!
//! [`canonical`] makes the first of them of each. The host lists and judges that form. What an upstream listed is asked for as it was listed,
//! and anything else only in this form. Of what was not listed, [`is_requestable`] refuses what servers are known to take for something
//! else: in `file` an authority, which many ignore, a slash at the end, and `%5C`; in the others user information, and a host that is a
//! number but no address in dotted decimal form.

use std::borrow::Cow;
use std::net::Ipv4Addr;

/// The canonical form of a URI in normal form. It may have dot segments, and so be none in normal form.
pub(crate) fn canonical(uri: &str) -> Cow<'_, str> {
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

/// Whether a URI in normal form that was not listed may be asked for. `authority` is one that `file` may have.
pub(crate) fn is_requestable(uri: &str, authority: &str) -> bool {
    if canonical(uri) != uri {
        return false;
    }
    let Some((scheme, rest)) = uri.split_once(':') else { return true };
    let (hierarchy, _) = split_query(rest);
    if scheme == "file" {
        let (found, path) = split_authority(hierarchy);
        return (found.is_empty() || found == authority)
            && (path == "/" || !path.ends_with('/'))
            && !path.contains("%5C");
    }
    if default_port(scheme).is_none() {
        return true;
    }
    let (authority, _) = split_authority(hierarchy);
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    !authority.contains('@') && (!is_number(host) || host.parse::<Ipv4Addr>().is_ok_and(|ip| ip.to_string() == host))
}

/// The authority that `file` may have by a URI or prefix of the config.
pub(crate) fn file_authority(uri: &str) -> &str {
    uri.strip_prefix("file:").map_or("", |rest| split_authority(split_query(rest).0).0)
}

/// The port that a scheme of the URL standard has unless it is written.
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
    // An address in brackets has colons of its own.
    let (host, found) = match host.rsplit_once(':') {
        Some((host, found)) if !found.contains(']') => (host, Some(found)),
        _ => (host, None),
    };
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let user = user.map(|user| format!("{user}@")).unwrap_or_default();
    let port = found.filter(|found| !found.is_empty() && *found != port).map(|found| format!(":{found}"));
    let path = if path.is_empty() { "/" } else { path };
    format!("{scheme}://{user}{host}{}{path}{query}", port.unwrap_or_default())
}

/// The authority, which may be missing, and the path.
fn split_authority(hierarchy: &str) -> (&str, &str) {
    match hierarchy.strip_prefix("//") {
        Some(behind) => behind.split_at(behind.find('/').unwrap_or(behind.len())),
        None => ("", hierarchy),
    }
}

/// What is before the query, and the query with its question mark.
fn split_query(text: &str) -> (&str, &str) {
    text.split_at(text.find('?').unwrap_or(text.len()))
}

/// Whether the URL standard reads a host as the number of an address.
fn is_number(host: &str) -> bool {
    let last = host.rsplit('.').next().unwrap_or_default();
    let is_hexadecimal =
        last.strip_prefix("0x").is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    is_hexadecimal || !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::mapping::Mapping;

    fn front() -> Mapping {
        Mapping::new("up+".parse().unwrap(), None)
    }

    #[test]
    fn spellings_of_one_resource_have_one_path() {
        let cases: &[(&str, &[&str])] = &[
            (
                "file:///secret/x",
                &[
                    "file:/secret/x",
                    "file:secret/x",
                    "FILE://LocalHost/secret/x",
                    "file:////secret/x",
                    "file://///secret///x",
                    "file:///secret%2fx",
                    "file:///pub/..%2Fsecret/x",
                    "file:///pub%2F..%2Fsecret/./x",
                    "file:///%2Fsecret/x",
                    "file:///%73ecret/x",
                ],
            ),
            ("file:///", &["file:/", "file://localhost/", "file:///..%2F"]),
            ("file:///d/", &["file:/d//", "file:///d/e/..%2F"]),
            (
                "http://h.example/a",
                &["http:h.example/a", "http:/H.example/a", "http:///h.example/a", "http://h.example.:80/a"],
            ),
            ("https://h/", &["https://h", "https://h:443", "https:h"]),
            ("http://[::1]:8080/a", &["http://[::1]:8080/a"]),
            ("repo://s//b", &["repo://s//b"]),
            ("urn:a:b", &["urn:a:b"]),
        ];
        for (canonical, spellings) in cases {
            assert_eq!(front().path(canonical).as_deref(), Ok(*canonical));
            for spelling in *spellings {
                assert_eq!(front().path(spelling).as_deref(), Ok(*canonical), "{spelling}");
            }
        }
    }

    #[test]
    fn what_servers_take_for_something_else_is_not_asked_for_unless_it_was_listed() {
        let uris = ["file:///a", "file:///a/b?q", "file:///", "http://h/a/", "http://10.0.0.1/", "x://u@h//a", "urn:a"];
        assert!(uris.iter().all(|uri| is_requestable(uri, "")));
        let uris =
            ["file:/a", "file:a", "file:////a", "file:///a/", "file://h/a", "file:///a%5Cb", "file://localhost/a"];
        assert!(!uris.iter().any(|uri| is_requestable(uri, "")));
        let uris =
            ["http:h/a", "http://u@h/a", "http://127.1/", "http://0x7f000001/", "http://h:80/", "http://017.0.0.1/"];
        assert!(!uris.iter().any(|uri| is_requestable(uri, "")));
        assert!(is_requestable("file://nas/a", "nas"));
    }

    /// The file that a server opens which percent-decodes the path, whatever the authority, as Python's `urlparse` and `unquote` do.
    fn file_of(uri: &str) -> Option<Vec<String>> {
        let rest = uri.get(5..).filter(|_| uri.to_ascii_lowercase().starts_with("file:"))?;
        let rest = rest.split('?').next()?;
        let path = match rest.strip_prefix("//") {
            Some(behind) => behind.find('/').and_then(|at| behind.get(at..)).unwrap_or("/"),
            None => rest,
        };
        let mut decoded = path.to_owned();
        for (encoded, plain) in [("%2f", "/"), ("%2F", "/"), ("%2e", "."), ("%2E", "."), ("%61", "a"), ("%62", "b")] {
            decoded = decoded.replace(encoded, plain);
        }
        let mut segments = Vec::new();
        for segment in decoded.split('/') {
            match segment {
                "" | "." => {}
                ".." => drop(segments.pop()),
                segment => segments.push(segment.to_owned()),
            }
        }
        Some(segments)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_file_can_be_asked_for_by_one_text_alone(
            start in select(&["file:", "FILE:/", "file://", "file:///", "file://localhost", "file://h", "file:////"][..]),
            rest in "(/|a|b|\\.|\\.\\.|%2[fF]|%2[eE]|%61|/\\.\\./|\\?){0,12}",
        ) {
            let (uri, mapping) = ([start, &rest].concat(), front());
            let Ok(path) = mapping.path(&uri) else { return Ok(()) };
            prop_assert_eq!(canonical(&path), path.as_str(), "it is its own canonical form");
            prop_assert_eq!(mapping.path(&path), Ok(path.clone()));
            if mapping.is_requestable(&path) {
                let (path, _) = split_query(&path);
                let plain = format!("file:///{}", file_of(path).unwrap_or_default().join("/"));
                prop_assert_eq!(path, plain.as_str(), "{}", uri);
            }
        }
    }
}
