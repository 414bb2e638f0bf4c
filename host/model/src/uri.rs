//! Mounts, paths and URIs: the names of resources, and the plugins that own them.
//!
//! A provider names resources by paths (`README.md`), its plugin owns a [`Mount`] (`git://linux/`), and the host
//! prefixes the path with the mount: `git://linux/README.md`. URIs are *composed*, never rewritten, so no provider can
//! name another's resource, and one provider can be mounted many times. This module composes ([`Mount::compose`]),
//! routes ([`Router::route`]), and does the same for URI templates ([`UriTemplate`]).
//!
//! Guarantees for any input:
//! - A [`Uri`] begins with its mount, and mounts do not overlap: a URI belongs to at most one plugin.
//! - Composing and routing are inverse: the URI of a path routes to the same mount and the same path.
//! - Every [`Uri`] and [`Path`] is in normal form, so equal resources have equal text. Access rules, subscriptions and
//!   caches may compare bytes.
//!
//! No URI is longer than [`MAX_URI_LEN`]. Every operation is linear in the length of its text; routing is a binary
//! search over the mounts.
//!
//! # Normal form
//!
//! The normal form of RFC 3986, section 6.2.2: scheme and host in lower case (section 6.2.2.1); percent-encoding in
//! upper case, and only where it is required (6.2.2.2); no `.` and `..` segments (6.2.2.3, 5.2.4); no empty port
//! (3.2.3). Segments may be empty, except the first one of a path, and `a` and `a/` are different paths.
//!
//! An empty query is removed: `a?` is `a`. The RFC leaves this to the specification of a scheme (6.2.3), and the
//! schemes of mounts are the host's. No template expands to an empty query (RFC 6570, section 3.2.8), and providers
//! treat it as no query.
//!
//! # Percent-encoding
//!
//! The RFC leaves open whether `@` and `%40` are the same. A client that expands `{name}` (RFC 6570, section 3.2.2)
//! encodes all reserved characters, a client that expands `{+name}` encodes none, and a provider lists the allowed
//! characters of a segment unencoded. To make these name one resource, the normal form decodes them where they have no
//! special meaning:
//!
//! | component | decoded, in addition to the unreserved characters | still different from its encoding |
//! |---|---|---|
//! | path | `@ : ! $ & ' ( ) * + , ; =` | `/`, `?`, `%` and what no URI has |
//! | query | `@ : ! $ ' ( ) *` | `& = + , ;`, which separate, `/` and `?` |
//! | host, also as the first segment below `web://` | none | all |
//!
//! A provider cannot distinguish the paths `a,b` and `a%2Cb`: values that may contain a separator belong into separate
//! segments, or into the query.
//!
//! Protection against path traversal: one rule is stricter than the RFC, which ignores an excess `..`. Here an excess
//! `..` is an error, and so is a `..` that leaves a mount, even for another one.
//!
//! | a path of a provider at `git://linux/` | result |
//! |---|---|
//! | `a/./b/../%63`, `a/c` | `git://linux/a/c` |
//! | the empty path, `a/..` | `git://linux/`, the mount itself |
//! | `?limit=3` | `git://linux/?limit=3` |
//! | `a?`, `a` | `git://linux/a` |
//! | `a%2fb` | `git://linux/a%2Fb`: one segment that contains a slash |
//! | `me%40h/a%2cb?q=%28c%26d` | `git://linux/me@h/a,b?q=(c%26d` |
//! | `http://h/x` | `git://linux/http://h/x`: a path like any other |
//! | `../x`, `%2e%2E/x`, `a/../../x` | an error: leaves the mount |
//! | `/a`, `a/..//b` | an error: begins with a slash |
//! | `a#b`, `%00`, `%zz`, `a b`, `a\b`, `ä` | an error with the position and a correction |
//!
//! | a URI of a client, with mounts `git://linux/`, `files://h/a/` and `files://h/b/` | result |
//! |---|---|
//! | `GIT://Linux/%7Ea` | path `~a` of `git://linux/` |
//! | `git://linux`, `files://h/a?q` | the mount itself: its trailing slash may be missing, as no other mount can own that URI |
//! | `files://h/x/../a/c` | path `c` of `files://h/a/` |
//! | `files://h/a/../b/c` | an error: leaves its mount |
//! | `files://h/../b/c`, `git://linux/..` | an error: leads above its root |
//! | `git://u:p@linux/x` | an error: user information (RFC 3986, sections 3.2.1 and 7.6) |
//! | `git://linux/a#L1` | an error: fragments are processed by the client (section 3.5) |
//! | `git://other/x`, `urn:isbn:1` | [`RouteError::NoMount`], which is reported as *not found* |
//!
//! # Mounts without a host
//!
//! The mount `web://` owns all hosts of its scheme, and the first segment of its paths is the host: `Docs.RS/x` is
//! `web://docs.rs/x`. That host must not be empty, a dot segment, or contain user information, and no `..` removes it.
//! `notes:///` is a mount with an empty host: its paths have no host.
//!
//! # Mounts in front of URIs
//!
//! The mount `github+` is a prefix in front of URIs of any kind, with or without a host: its paths are URIs in normal
//! form. So resources of an existing server keep their URIs after it, `github+repo://x/y` and `github+urn:isbn:1`.
//! Without a URI after the prefix (`github+1x:a`), the URI is an error. The mount overlaps every mount whose scheme
//! begins with it. Only below it may URIs have user information, which is only compared. A dot segment is an error if
//! its removal could result in another kind of URI: in an opaque URI, and in `a:/.//b`.
//!
//! # Example
//!
//! ```
//! use mcp_host_model::uri::{Mount, RouteError, Router};
//!
//! let linux: Mount = "git://Linux/".parse()?;
//! let located = linux.compose("docs/./index%2emd")?;
//! assert_eq!(located.uri.as_str(), "git://linux/docs/index.md");
//! assert_eq!(located.path.as_str(), "docs/index.md");
//!
//! let router = Router::new([(linux, "the git plugin"), ("web://".parse()?, "the web plugin")])?;
//! let routed = router.route("web://Docs.RS/serde/../tokio?v=1")?;
//! assert_eq!(*routed.target, "the web plugin");
//! assert_eq!(routed.uri.as_str(), "web://docs.rs/tokio?v=1");
//! assert_eq!(routed.path.as_str(), "docs.rs/tokio?v=1");
//!
//! assert_eq!(router.route("ftp://elsewhere/").unwrap_err(), RouteError::NoMount);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod canonical;
mod error;
mod mount;
mod normalize;
mod pattern;
mod router;
mod template;
mod unicode;

#[cfg(test)]
mod tests;

pub use canonical::{canonical, file_authority, is_requestable};
pub(crate) use error::excerpt;
pub use error::{CharacterError, MountError, PathError, TemplateError, UriError};
pub use mount::Mount;
pub use normalize::is_path_delimiter;
pub use pattern::{Gap, PatternPart, UriPattern};
pub use router::{Overlap, RouteError, Routed, Router};
pub use template::UriTemplate;
pub use unicode::composed;

/// The maximum length in bytes of a URI, a template, or a path together with its mount.
///
/// RFC 9110, section 4.1, recommends at least 8,000 octets.
pub const MAX_URI_LEN: usize = 8192;
/// The maximum length in bytes of a mount, which leaves enough of [`MAX_URI_LEN`] for paths.
const MAX_MOUNT_LEN: usize = 1024;
/// The maximum number of variables in a template. Repeated variables count each time.
const MAX_TEMPLATE_VARIABLES: usize = 64;

/// Implements access to the text of a type, in its field `text`.
macro_rules! str_newtype {
    ($type:ident) => {
        impl $type {
            /// Returns the text, in normal form.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.text
            }
        }

        impl AsRef<str> for $type {
            fn as_ref(&self) -> &str {
                &self.text
            }
        }

        impl std::borrow::Borrow<str> for $type {
            fn borrow(&self) -> &str {
                &self.text
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(&self.text)
            }
        }

        impl From<$type> for String {
            fn from(value: $type) -> Self {
                value.text
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.text)
            }
        }
    };
}
use str_newtype;

/// The URI of a resource: absolute, in normal form, below a mount, without a fragment.
///
/// Created only by [`Mount::compose`] and [`Router::route`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uri {
    text: String,
}

str_newtype!(Uri);

impl Uri {
    /// Joins a mount and a path that are valid and in normal form.
    fn from_checked(mount: &str, path: &str) -> Self {
        Self { text: [mount, path].concat() }
    }
}

/// The provider's name of a resource: the part of the [`Uri`] after the mount, in normal form.
///
/// It has no leading slash, no fragment, no `.` or `..` segment and no NUL; it may have a query. The empty path is the
/// mount itself. Created like a [`Uri`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Path {
    text: String,
}

str_newtype!(Path);

/// The two names of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceId {
    /// Its name for clients: the mount and the path.
    pub uri: Uri,
    /// Its name for the provider.
    pub path: Path,
}

impl ResourceId {
    /// Joins a mount and a path that are valid and in normal form.
    fn from_checked(mount: &str, path: String) -> Self {
        Self { uri: Uri::from_checked(mount, &path), path: Path { text: path } }
    }
}

/// Assertions of the fuzz target for URIs.
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing {
    #![allow(clippy::expect_used, reason = "a test that cannot be set up fails")]

    use super::{MAX_URI_LEN, Mount, Router};
    use std::sync::LazyLock;

    /// Mounts of every kind: a host, a path prefix, no host, all hosts.
    static ROUTER: LazyLock<Router<()>> = LazyLock::new(|| {
        let mounts = ["git://linux/", "files://h/a/", "notes:///", "up+", "web://"];
        Router::new(mounts.map(|mount| (mount.parse().expect("a mount"), ()))).expect("they do not overlap")
    });

    /// Asserts that a text, as the URI of a client, the path of a provider, a mount or a template, satisfies the
    /// guarantees of the module.
    pub fn uri(text: &str) {
        if let Ok(routed) = ROUTER.route(text) {
            assert!(routed.uri.as_str().starts_with(routed.mount.as_str()), "a URI begins with its mount");
            assert_eq!(ROUTER.route(routed.uri.as_str()), Ok(routed), "a routed URI is in its normal form");
        }
        for (mount, ()) in ROUTER.iter() {
            if let Ok(located) = mount.compose(text) {
                assert!(located.uri.as_str().starts_with(mount.as_str()), "no path leaves its mount");
                let routed = ROUTER.route(located.uri.as_str()).map(|routed| (routed.mount, routed.path));
                assert_eq!(routed, Ok((mount, located.path)), "composing and routing are inverse");
            }
            if let Ok(template) = mount.compose_template(text) {
                let expanded = template.expand([("a", text), ("path", "ü/%2e%2e")]);
                assert!(expanded.is_none_or(|expanded| expanded.len() <= MAX_URI_LEN), "an expansion is bounded");
                assert_eq!(mount.compose_template(template.path_template()), Ok(template), "a template stays one");
            }
        }
        if let Ok(mount) = text.parse::<Mount>() {
            assert_eq!(mount.as_str().parse::<Mount>(), Ok(mount), "a mount is its own normal form");
        }
    }
}
