//! The mapping between the URIs of an upstream and the paths below its mount.
//!
//! | mount | path |
//! |---|---|
//! | `NAME+` | the upstream's URI in normal form |
//! | any other | the text after the exchanged prefix, in normal form |
//!
//! Both directions are total on accepted input, and inverse to each other up to the [canonical
//! form](mcp_host_model::uri::canonical()): the path of a URI maps back to the canonical form of this URI, and no other
//! path does (`a_path_leads_back_to_the_uri_that_it_was_made_of`).

use std::borrow::Cow;
use std::collections::BTreeMap;

use mcp_host_model::uri::{Mount, RouteError, Router, UriTemplate, canonical, file_authority, is_requestable};

/// A mount that is a prefix to whole URIs, for normalization if the upstream's mount is not.
const FRONT: &str = "u+";
/// The placeholder for a variable without a value.
const UNSET: &str = "x";

/// A URI or template of an upstream that has no path, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unmapped(String);

/// The mapping of one upstream.
#[derive(Clone, Debug)]
pub(crate) struct Mapping {
    mount: Mount,
    /// The prefix that the mount replaces; none if the mount is a prefix to whole URIs.
    exchanged: Option<Router<()>>,
    /// A mount that is a prefix to whole URIs, for normalization.
    front: Option<Mount>,
}

impl Mapping {
    /// Creates the mapping of a mount, and of the prefix that the mount replaces.
    pub(crate) fn new(mount: Mount, prefix: Option<Mount>) -> Self {
        let prefix = prefix.map(|prefix| canonical(prefix.as_str()).parse().unwrap_or(prefix));
        // A single mount cannot overlap with another.
        let exchanged = prefix.and_then(|prefix| Router::new([(prefix, ())]).ok());
        let front = if exchanged.is_some() { FRONT.parse().ok() } else { Some(mount.clone()) };
        Self { mount, exchanged, front }
    }

    /// Returns the path of an upstream's URI, in canonical form.
    pub(crate) fn path(&self, uri: &str) -> Result<String, Unmapped> {
        let unmapped = |error: &dyn std::fmt::Display| Unmapped(error.to_string());
        let uri = self.canonical(uri)?;
        let Some(router) = &self.exchanged else { return Ok(uri) };
        let path = router.route(&uri).map_err(|error| self.unrouted(&error))?.path;
        self.mount.compose(path.as_str()).map(|id| id.path.into()).map_err(|error| unmapped(&error))
    }

    /// Returns why a URI or a template does not begin with the prefix.
    fn unrouted(&self, error: &RouteError) -> Unmapped {
        Unmapped(match (error, self.prefix()) {
            (RouteError::NoMount, Some(prefix)) => format!("it does not begin with `{prefix}` (`prefix`)"),
            _ => error.to_string(),
        })
    }

    fn canonical(&self, uri: &str) -> Result<String, Unmapped> {
        let normal = |uri: &str| match &self.front {
            Some(front) => {
                front.compose(uri).map(|id| String::from(id.path)).map_err(|error| Unmapped(error.to_string()))
            }
            None => Ok(uri.to_owned()),
        };
        let uri = normal(uri)?;
        match canonical(&uri) {
            Cow::Borrowed(_) => Ok(uri),
            Cow::Owned(canonical) => normal(&canonical),
        }
    }

    /// Returns whether a path that the upstream did not list may be requested.
    pub(crate) fn is_requestable(&self, path: &str) -> bool {
        let authority = self.prefix().map_or("", |prefix| file_authority(prefix.as_str()));
        is_requestable(&self.uri(path), authority)
    }

    /// Returns the host's template of a path template.
    pub(crate) fn host_template(&self, template: &str) -> Option<UriTemplate> {
        self.mount.compose_template(template).ok()
    }

    /// Expands a template of the host with these values, as named by a client, and returns the path. Other variables
    /// get a placeholder.
    pub(crate) fn expand(&self, template: &UriTemplate, values: &BTreeMap<&str, &str>) -> Option<String> {
        let uri = template.expand_with(values, |_| UNSET.to_owned())?;
        let path = uri.strip_prefix(self.mount.as_str())?;
        self.mount.compose(path).ok().map(|id| id.path.into())
    }

    /// Returns the upstream's URI of a path in normal form.
    pub(crate) fn uri(&self, path: &str) -> String {
        match self.prefix() {
            None => path.to_owned(),
            Some(prefix) => [prefix.as_str(), path].concat(),
        }
    }

    /// Returns the host's URI of a path in normal form.
    pub(crate) fn host_uri(&self, path: &str) -> String {
        [self.mount.as_str(), path].concat()
    }

    /// Returns the path template of an upstream's URI template, in normal form.
    pub(crate) fn template(&self, template: &str) -> Result<String, Unmapped> {
        let unmapped = |error: &dyn std::fmt::Display| Unmapped(error.to_string());
        let path = match &self.exchanged {
            None => canonical_template(template).into_owned(),
            Some(router) => {
                let (_, found) =
                    router.route_template(&canonical_template(template)).map_err(|error| self.unrouted(&error))?;
                found.path_template().to_owned()
            }
        };
        let composed = self.mount.compose_template(&path).map_err(|error| unmapped(&error))?;
        Ok(composed.path_template().to_owned())
    }

    /// Returns the mount.
    pub(crate) fn mount(&self) -> &Mount {
        &self.mount
    }

    /// Returns the prefix that the mount replaces, in canonical form.
    pub(crate) fn prefix(&self) -> Option<&Mount> {
        self.exchanged.as_ref()?.iter().next().map(|(prefix, ())| prefix)
    }
}

/// Converts the text before a template's first expression into canonical form.
fn canonical_template(template: &str) -> Cow<'_, str> {
    let (start, expressions) = template.split_at(template.find('{').unwrap_or(template.len()));
    // The marker represents the expression's expansion, which follows a slash.
    let marked = [start, "_"].concat();
    match canonical(&marked).strip_suffix('_') {
        Some(text) if start.ends_with('/') && text != start => Cow::Owned([text, expressions].concat()),
        _ => Cow::Borrowed(template),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    fn mapping(mount: &str, prefix: Option<&str>) -> Mapping {
        Mapping::new(mount.parse().unwrap(), prefix.map(|prefix| prefix.parse().unwrap()))
    }

    #[test]
    fn a_prefix_in_front_takes_any_uri_and_an_exchanged_one_only_its_own() {
        let (front, exchanged) = (mapping("up+", None), mapping("files://nas/", Some("file:///srv/")));
        for (uri, path) in [("File:///srv/%61", "file:///srv/a"), ("urn:isbn:1", "urn:isbn:1"), ("x://h", "x://h")] {
            assert_eq!(front.path(uri).as_deref(), Ok(path));
            assert_eq!((front.uri(path), front.host_uri(path)), (path.to_owned(), format!("up+{path}")));
        }
        assert_eq!(exchanged.path("file:///srv/a/b?c").as_deref(), Ok("a/b?c"));
        assert_eq!(exchanged.uri("a/b?c"), "file:///srv/a/b?c");
        assert_eq!(exchanged.host_uri("a"), "files://nas/a");
        assert_eq!(exchanged.path("file:///srv").as_deref(), Ok(""));
        for uri in
            ["file:///srv2/a", "file:///etc/passwd", "file:///srv/../etc", "urn:isbn:1", "a", "", "file:///srv/#a"]
        {
            assert!(exchanged.path(uri).is_err(), "{uri}");
        }
        let unmapped = exchanged.path("urn:isbn:1").unwrap_err().to_string();
        assert_eq!(unmapped, "it does not begin with `file:///srv/` (`prefix`)");
        for uri in ["", "a", "/a", "a b:c"] {
            assert!(front.path(uri).is_err(), "{uri}");
        }
    }

    #[test]
    fn templates_are_mapped_like_uris() {
        let (front, exchanged) = (mapping("up+", None), mapping("files://nas/", Some("file:///srv/")));
        assert_eq!(front.template("repo://{owner}/{+path}").as_deref(), Ok("repo://{owner}/{+path}"));
        assert_eq!(front.template("urn:isbn:{n}").as_deref(), Ok("urn:isbn:{n}"));
        assert_eq!(exchanged.template("file:///srv/{+path}").as_deref(), Ok("{+path}"));
        assert_eq!(exchanged.template("FILE:///srv/%61/{b}").as_deref(), Ok("a/{b}"));
        assert_eq!(front.template("file:/{+path}").as_deref(), Ok("file:///{+path}"));
        assert_eq!(front.template("file://localhost/srv/{+path}").as_deref(), Ok("file:///srv/{+path}"));
        assert_eq!(front.template("http://h/{a}").as_deref(), Ok("http://h/{a}"));
        for template in ["file:///{+path}", "{+uri}", "file:///etc/{a}"] {
            assert!(exchanged.template(template).is_err(), "{template}");
        }
        assert!(front.template("{+uri}").is_err());
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
            ("http://[::1]:8080/a", &["http://[0:0::0001]:08080/a", "http://[::0.0.0.1]:8080/a"]),
            ("https://h:8443/", &["https://h:08443"]),
            ("repo://s//b", &["repo://s//b"]),
            ("urn:a:b", &["urn:a:b"]),
        ];
        for (canonical, spellings) in cases {
            assert_eq!(mapping("up+", None).path(canonical).as_deref(), Ok(*canonical));
            for spelling in *spellings {
                assert_eq!(mapping("up+", None).path(spelling).as_deref(), Ok(*canonical), "{spelling}");
            }
        }
    }

    /// Returns the file that a naive server opens: it decodes the text after the scheme and uses it as a path, whatever
    /// the authority, like JavaScript's `path.resolve(decodeURIComponent(uri.replace('file://', '')))`.
    fn file_of(uri: &str) -> Option<Vec<String>> {
        let rest = uri.get(5..).filter(|_| uri.to_ascii_lowercase().starts_with("file:"))?;
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
        #![proptest_config(ProptestConfig { cases: 2048, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_path_leads_back_to_the_uri_that_it_was_made_of(
            start in select(&["file:///srv/", "FILE:///srv/", "file:///srv", "x://H/", "urn:", "x:/", ""][..]),
            rest in "([a-zA-Z0-9~@:,;=+/._-]|%[0-9a-fA-F]{2}|\\.\\./|\\?){0,24}",
        ) {
            let uri = [start, &rest].concat();
            for mapping in [mapping("up+", None), mapping("files://nas/", Some("file:///srv/"))] {
                let Ok(path) = mapping.path(&uri) else { continue };
                let back = mapping.uri(&path);
                // The normal form of the URI has the same path, and is its own normal form.
                prop_assert_eq!(mapping.path(&back), Ok(path.clone()));
                prop_assert_eq!(mapping.uri(&path), back.clone());
                // Two URIs with one path are spellings of one URI.
                let normal = Mapping::new("n+".parse().unwrap(), None);
                let (one, other) = (normal.path(&uri), normal.path(&back));
                // The prefix's trailing slash may be missing.
                let with_slash = one.clone().map(|one| match one.split_once('?') {
                    Some((place, query)) => format!("{place}/?{query}"),
                    None => one + "/",
                });
                prop_assert!(one == other || with_slash == other, "{} {}", uri, back);
            }
        }

        #[test]
        fn a_file_can_be_asked_for_by_one_text_alone(
            start in select(&["file:", "FILE:/", "file://", "file:///", "file://localhost", "file://h", "file:////"][..]),
            rest in "(/|a|b|\\.|\\.\\.|%2[fF]|%2[eE]|%61|/\\.\\./|\\?){0,12}",
        ) {
            let (uri, mapping) = ([start, &rest].concat(), mapping("up+", None));
            let Ok(path) = mapping.path(&uri) else { return Ok(()) };
            prop_assert_eq!(canonical(&path), path.as_str(), "it is its own canonical form");
            prop_assert_eq!(mapping.path(&path), Ok(path.clone()));
            if mapping.is_requestable(&path) {
                let plain = format!("file:///{}", file_of(&path).unwrap_or_default().join("/"));
                prop_assert_eq!(path, plain, "{}", uri);
            }
        }
    }
}
