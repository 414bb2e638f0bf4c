//! [`Mount`]: the URI prefix of a plugin.

use std::str::FromStr;

use super::error::{MountError, PathError, UriError};
use super::normalize::{self, Parts};
use super::str_newtype;
use super::{MAX_MOUNT_LEN, MAX_URI_LEN};
use super::{ResourceId, Uri};

/// The last character of a mount that is a prefix in front of URIs.
pub(super) const PREFIX_END: char = '+';

/// The URI prefix that a plugin owns, in normal form: `git://linux/`, `files://h/a/`, `notes:///`, `web://`.
///
/// Parsed from a text of the form `scheme://host/`, optionally with a port and more segments, that ends with a slash
/// and has no user information, dot segments, empty segments, query or fragment; or from `NAME+`, a prefix in front of
/// any URI.
///
/// # A prefix in front of URIs
///
/// Below the mount `github+`, paths are URIs in normal form: the path `repo://x/y` is `github+repo://x/y`, and
/// `urn:isbn:1` is `github+urn:isbn:1`. `NAME` is a letter, followed by letters, digits, `-` and `.`; with the `+` it
/// is the beginning of a scheme (RFC 3986, section 3.1). Such a mount has no resource of its own: there is no empty
/// path.
///
/// ```
/// use mcp_host_model::uri::Mount;
///
/// let mount: Mount = "Git://LINUX/%7Eme/".parse()?;
/// assert_eq!(mount.as_str(), "git://linux/~me/");
///
/// let error = "git://linux".parse::<Mount>().unwrap_err();
/// assert_eq!(error.to_string(), "`git://linux` should end with a slash: `git://linux/`");
/// # Ok::<(), mcp_host_model::uri::MountError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mount {
    text: String,
}

str_newtype!(Mount);

impl Mount {
    /// The maximum length of a mount in bytes.
    pub const MAX_LEN: usize = MAX_MOUNT_LEN;

    /// Returns whether one of the two is a prefix of the other, so that a URI could belong to both.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.text.starts_with(&other.text) || other.text.starts_with(&self.text)
    }

    /// Returns whether it owns all hosts of its scheme, as `web://` does, so that its paths begin with a host.
    #[must_use]
    pub fn owns_all_hosts(&self) -> bool {
        self.text.ends_with("://")
    }

    /// Returns whether it is a prefix in front of URIs, `NAME+`, so that its paths are URIs.
    #[must_use]
    pub fn is_prefix(&self) -> bool {
        self.text.ends_with(PREFIX_END)
    }

    /// Composes the URI of a provider's path.
    ///
    /// # Errors
    ///
    /// The path leaves the mount, or the composed URI would be invalid. This is a fault of the provider.
    pub fn compose(&self, path: &str) -> Result<ResourceId, PathError> {
        let len = self.text.len().saturating_add(path.len());
        if len > MAX_URI_LEN {
            return Err(PathError::TooLong { len });
        }
        if self.is_normal(path) {
            return Ok(ResourceId::from_checked(&self.text, path.to_owned()));
        }
        if self.is_prefix() {
            let normal = Parts::parse_any(path).map_err(PathError::NoUri)?.normalized();
            return self.compose_normalized(normal.as_str());
        }
        let text = [self.as_str(), path].concat();
        let parts = Parts::parse(&text).map_err(|error| PathError::from_composed(error, self.text.len()))?;
        let normal = parts.normalized();
        let path = normal.as_str().strip_prefix(self.as_str()).ok_or(PathError::LeavesMount)?;
        self.compose_normalized(path)
    }

    /// Composes the URI of a provider's path, as [`compose`](Self::compose) does, without the path.
    pub fn compose_uri(&self, path: &str) -> Result<Uri, PathError> {
        if self.text.len().saturating_add(path.len()) <= MAX_URI_LEN && self.is_normal(path) {
            return Ok(Uri::from_checked(&self.text, path));
        }
        self.compose(path).map(|located| located.uri)
    }

    /// Returns a URI that [`compose`](Self::compose) made, from its text; none if it belongs to another mount.
    pub fn composed_uri(&self, uri: &str) -> Option<Uri> {
        self.compose_uri(uri.strip_prefix(self.as_str())?).ok()
    }

    /// Returns whether a path of allowed length is in normal form, by a quick check without parsing. False negatives
    /// are possible.
    fn is_normal(&self, path: &str) -> bool {
        if self.is_prefix() {
            return normalize::is_plain_uri(path);
        }
        !self.owns_all_hosts() && normalize::is_plain_path(path)
    }

    /// Composes a path whose case and percent-encoding are normalized.
    pub(super) fn compose_normalized(&self, path: &str) -> Result<ResourceId, PathError> {
        if self.is_prefix() {
            // A text that begins with the mount need not continue with a URI.
            let parts = Parts::parse_any(path).map_err(PathError::NoUri)?;
            let uri = parts.normalized().without_dot_segments().map_err(PathError::NoUri)?.into_owned();
            let len = self.text.len().saturating_add(uri.len());
            if len > MAX_URI_LEN {
                return Err(PathError::TooLong { len });
            }
            return Ok(ResourceId::from_checked(&self.text, uri));
        }
        let (path, query) = normalize::split_query(path);
        let path = if self.owns_all_hosts() {
            split_host_from_path(path)?
        } else {
            normalize::remove_dot_segments(path).ok_or(PathError::LeavesMount)?.into_owned()
        };
        if path.starts_with('/') {
            return Err(PathError::LeadingSlash);
        }
        let len = [self.as_str(), &path, query].iter().map(|text| text.len()).sum();
        if len > MAX_URI_LEN {
            return Err(PathError::TooLong { len });
        }
        Ok(ResourceId::from_checked(&self.text, path + query))
    }

    /// Returns the path template, as written, of a template that begins with the mount.
    ///
    /// Mounts are compared in normal form, so `GIT://linux/{x}` is below `git://linux/`. Returns `None` if the template
    /// is not below this mount. The template is not validated otherwise.
    #[must_use]
    pub fn template_path<'a>(&self, template: &'a str) -> Option<&'a str> {
        if self.is_prefix() {
            let (prefix, uri) = template.split_at_checked(self.text.len())?;
            return prefix.eq_ignore_ascii_case(&self.text).then_some(uri);
        }
        let slashes = self.text.matches('/').count();
        let prefix = template.split_inclusive('/').take(slashes).map(str::len).sum();
        let (prefix, path) = template.split_at_checked(prefix)?;
        (prefix.parse().as_ref() == Ok(self)).then_some(path)
    }
}

/// Removes the dot segments of a path after its first segment, a host, which they cannot remove.
fn split_host_from_path(path: &str) -> Result<String, PathError> {
    let Some((host, path)) = path.split_once('/') else {
        return check_host(path).map(str::to_owned);
    };
    let path = normalize::remove_dot_segments(path).ok_or(PathError::LeavesMount)?;
    Ok([check_host(host)?, "/", &path].concat())
}

/// Rejects a host that would be a dot segment of a path, or has user information.
fn check_host(host: &str) -> Result<&str, PathError> {
    match host {
        ".." => Err(PathError::LeavesMount),
        "." => Err(PathError::Host { found: host.to_owned() }),
        _ if host.contains('@') => Err(PathError::UserInfo),
        _ => Ok(host),
    }
}

impl FromStr for Mount {
    type Err = MountError;

    fn from_str(text: &str) -> Result<Self, MountError> {
        if text.len() > Self::MAX_LEN {
            return Err(MountError::TooLong { len: text.len() });
        }
        if let Some(name) = text.strip_suffix(PREFIX_END) {
            return match is_prefix_name(name) {
                true => Ok(Self { text: text.to_ascii_lowercase() }),
                false => Err(MountError::Prefix { text: text.to_owned() }),
            };
        }
        let no_uri = |error| MountError::Uri { text: text.to_owned(), error };
        let parts = Parts::parse(text).map_err(no_uri)?;
        if parts.authority.is_none() {
            return Err(no_authority(text));
        }
        let normal = parts.normalized();
        if let Some(port) = parts.authority.filter(|authority| authority.starts_with(':')) {
            return Err(no_uri(UriError::Host { found: port.to_owned() }));
        }
        let path = normal.path().strip_prefix('/').unwrap_or_default();
        let suggestion = suggest_mount(normal.root(), normal.path());
        if normal.as_str() == suggestion && parts.query.is_none() {
            return Ok(Self { text: suggestion });
        }
        let text = text.to_owned();
        Err(if parts.query.is_some() {
            MountError::Query { text, suggestion }
        } else if path.split('/').any(normalize::is_dot_segment) {
            MountError::DotSegment { text, suggestion }
        } else if path.starts_with('/') || path.contains("//") {
            MountError::EmptySegment { text, suggestion }
        } else {
            MountError::NoSlash { text, suggestion }
        })
    }
}

/// Returns whether a text can be the name of a prefix: a letter, followed by letters, digits, `-` and `.`.
fn is_prefix_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.'))
}

/// Returns a correction of a mount: without dot segments and empty segments, and with a trailing slash.
fn suggest_mount(root: &str, path: &str) -> String {
    let mut mount = root.to_owned();
    // Only a mount without a host ends with its root.
    if !(path.is_empty() && root.ends_with('/')) {
        mount.push('/');
    }
    let path = normalize::remove_dot_segments(path.trim_start_matches('/')).unwrap_or_default();
    for segment in path.split('/').filter(|segment| !segment.is_empty()) {
        mount.push_str(segment);
        mount.push('/');
    }
    mount
}

/// Returns the error of a URI without `//` after its scheme.
fn no_authority(text: &str) -> MountError {
    let (scheme, path) = text.split_once(':').unwrap_or((text, ""));
    let slash = if path.ends_with('/') { "" } else { "/" };
    MountError::NoAuthority { text: text.to_owned(), suggestion: format!("{scheme}://{path}{slash}") }
}
