//! URL parsing into the parts that `wasi:http` expects.

use super::{Error, Result};
use crate::component::bindings::wasi::http::types::Scheme;
use iri_string::types::UriStr;

/// The parts of a URL that a request can be sent to.
#[derive(Debug)]
pub(super) struct Url<'a> {
    pub(super) scheme: Scheme,
    pub(super) authority: &'a str,
    /// The path with the query. Always starts with a slash, even if the URL has no path.
    pub(super) path_with_query: String,
}

impl<'a> Url<'a> {
    /// Parses a URL. The fragment is dropped, since it is not sent.
    pub(super) fn parse(text: &'a str) -> Result<Self> {
        let none = || Error::Url(text.to_owned());
        let uri = UriStr::new(text).map_err(|_| none())?;
        let scheme = match uri.scheme_str() {
            scheme if scheme.eq_ignore_ascii_case("https") => Scheme::Https,
            scheme if scheme.eq_ignore_ascii_case("http") => Scheme::Http,
            _ => return Err(none()),
        };
        let authority = uri.authority_str().filter(|authority| !authority.is_empty() && !authority.contains('@'));
        let path = match uri.path_str() {
            "" => "/",
            path => path,
        };
        let path_with_query = match uri.query_str() {
            Some(query) => format!("{path}?{query}"),
            None => path.to_owned(),
        };
        Ok(Self { scheme, authority: authority.ok_or_else(none)?, path_with_query })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart() {
        let url = Url::parse("https://docs.rs:8443/a/b?c=d#e").unwrap();
        assert!(matches!(url.scheme, Scheme::Https));
        assert_eq!((url.authority, url.path_with_query.as_str()), ("docs.rs:8443", "/a/b?c=d"));
        assert_eq!(Url::parse("http://[::1]:80").unwrap().path_with_query, "/");
        assert_eq!(Url::parse("http://h?q").unwrap().path_with_query, "/?q");
    }

    #[test]
    fn what_no_request_can_be_sent_to_is_refused() {
        for text in ["", "docs.rs/a", "/a", "ftp://h/", "https:///a", "https://me@h/", "https://h/a b", "urn:a:b"] {
            assert_eq!(Url::parse(text).map(|url| url.path_with_query), Err(Error::Url(text.to_owned())), "{text}");
        }
    }
}
