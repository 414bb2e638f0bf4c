//! [`Router`]: finds the plugin that owns a URI.
//!
//! Mounts do not overlap, so in sorted order only the last mount that is not greater than a URI can own it: a look-up
//! is a binary search and one comparison.

use super::error::{PathError, TemplateError, UriError};
use super::mount::{Mount, PREFIX_END};
use super::normalize::{self, Normalized, Parts};
use super::template::{self, UriTemplate};
use super::{Path, Uri};

/// Two mounts, one of which is a prefix of the other, so that a URI could belong to both.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the mounts `{first}` and `{second}` overlap: a URI could belong to both; give each a prefix of its own")]
pub struct Overlap {
    /// The mount that was added first.
    pub first: Mount,
    /// The mount that was added later.
    pub second: Mount,
    /// The index of `first` among the mounts, counted from 0.
    pub first_index: usize,
    /// The index of `second` among the mounts, counted from 0.
    pub second_index: usize,
}

/// Why a URI or a template cannot be routed.
///
/// *The existence of a mount may be confidential.* If [`RouteError::mount`] is `Some`, the error reveals that a plugin
/// is mounted there: a principal without access to that plugin must get the response of [`RouteError::NoMount`]. All
/// other variants depend on the text only.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// No plugin owns it: *not found*. All other variants are *invalid requests*.
    #[error("no plugin is mounted where this URI points")]
    NoMount,
    /// It is not a URI of a resource.
    #[error(transparent)]
    Uri(#[from] UriError),
    /// A plugin owns it, and the part after the mount is not a path.
    #[error("below `{mount}`: {error}")]
    Path {
        /// The mount.
        mount: Mount,
        /// The error of the path.
        error: PathError,
    },
    /// It is not a template.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// A plugin owns it, and the part after the mount is not a path template.
    #[error("below `{mount}`: {error}")]
    PathTemplate {
        /// The mount.
        mount: Mount,
        /// The error of the template.
        error: TemplateError,
    },
}

impl RouteError {
    /// Returns the mount that the error reveals, if any.
    #[must_use]
    pub fn mount(&self) -> Option<&Mount> {
        match self {
            Self::Path { mount, .. } | Self::PathTemplate { mount, .. } => Some(mount),
            Self::NoMount | Self::Uri(_) | Self::Template(_) => None,
        }
    }
}

/// Mounts that do not overlap, each with its target.
#[derive(Clone, Debug)]
pub struct Router<T> {
    /// Sorted by the text of the mount.
    entries: Vec<(Mount, T)>,
}

/// The result of routing a URI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routed<'a, T> {
    /// The target of the mount.
    pub target: &'a T,
    /// The mount.
    pub mount: &'a Mount,
    /// The URI in normal form.
    pub uri: Uri,
    /// The provider's name of the resource.
    pub path: Path,
}

impl<T> Router<T> {
    /// Creates a router.
    ///
    /// # Errors
    ///
    /// Two mounts overlap. If there are several such pairs, the first one in sorted order is returned.
    pub fn new(entries: impl IntoIterator<Item = (Mount, T)>) -> Result<Self, Overlap> {
        let mut entries: Vec<_> = entries.into_iter().enumerate().collect();
        entries.sort_by(|(_, (a, _)), (_, (b, _))| a.cmp(b));
        // Mounts with a common prefix are adjacent in sorted order, so comparing neighbors is sufficient.
        let mut neighbours = entries.iter().zip(entries.iter().skip(1));
        if let Some((a, b)) = neighbours.find(|((_, (a, _)), (_, (b, _)))| a.overlaps(b)) {
            let (first, second) = if a.0 < b.0 { (a, b) } else { (b, a) };
            return Err(Overlap {
                first: first.1.0.clone(),
                second: second.1.0.clone(),
                first_index: first.0,
                second_index: second.0,
            });
        }
        let entries = entries.into_iter().map(|(_, entry)| entry).collect();
        Ok(Self { entries })
    }

    /// Finds the plugin that owns a client's URI.
    ///
    /// A URI in normal form is copied only into the result.
    ///
    /// # Errors
    ///
    /// See [`RouteError`]. A URI without an owner is distinct from an invalid one.
    pub fn route(&self, uri: &str) -> Result<Routed<'_, T>, RouteError> {
        let written = parse(uri)?;
        // Validated first, because the result does not depend on the mounts.
        let resolved = written.without_dot_segments()?;
        match self.owner(written.as_str()) {
            Some(entry) => route_within(entry, written.as_str()),
            None => self.route_normalized(&resolved),
        }
    }

    /// Finds the plugin that owns a client's URI after removal of its dot segments, whatever mount the URI
    /// begins with: as if the mount that it [leaves](super::PathError::LeavesMount) did not exist.
    pub fn route_resolved(&self, uri: &str) -> Result<Routed<'_, T>, RouteError> {
        let written = parse(uri)?;
        self.route_normalized(&written.without_dot_segments()?)
    }

    /// Routes a URI in normal form, without dot segments.
    fn route_normalized(&self, uri: &str) -> Result<Routed<'_, T>, RouteError> {
        if let Some(entry) = self.owner(uri) {
            return route_within(entry, uri);
        }
        let (place, query) = normalize::split_query(uri);
        let with_slash = [place, "/", query].concat();
        let entry = self.owner(&with_slash).ok_or(RouteError::NoMount)?;
        route_within(entry, &with_slash)
    }

    /// Finds the plugin that owns a client's URI template, and the provider's path template.
    ///
    /// # Errors
    ///
    /// See [`RouteError`]. A template whose mount is not literal belongs to no plugin.
    pub fn route_template(&self, template: &str) -> Result<(&T, UriTemplate), RouteError> {
        template::check(template)?;
        let (mount, target) = self.template_owner(template)?;
        let path = mount.template_path(template).ok_or(RouteError::NoMount)?;
        let in_mount = |error: TemplateError| RouteError::PathTemplate { mount: mount.clone(), error };
        Ok((target, mount.compose_template(path).map_err(in_mount)?))
    }

    /// Finds the mount of a valid template.
    fn template_owner(&self, template: &str) -> Result<&(Mount, T), RouteError> {
        let literal = template.split(['{', '?']).next().unwrap_or_default();
        // The scheme contains the end of a prefix in front of any URI.
        let scheme = literal.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
        let by_scheme = scheme.and_then(|scheme| self.owner(&scheme)).filter(|(mount, _)| mount.is_prefix());
        if let Some(entry) = by_scheme {
            return Ok(entry);
        }
        let stem = template::literal_prefix(template);
        if !stem.contains("://") {
            return Err(RouteError::NoMount);
        }
        let stem = Parts::parse(stem)?.normalized();
        self.owner(stem.as_str()).ok_or(RouteError::NoMount)
    }

    /// Returns the mounts and their targets, sorted by the text of the mount.
    pub fn iter(&self) -> impl Iterator<Item = (&Mount, &T)> {
        self.entries.iter().map(|(mount, target)| (mount, target))
    }

    /// Finds the mount of a URI in normal form.
    fn owner(&self, uri: &str) -> Option<&(Mount, T)> {
        let behind = self.entries.partition_point(|(mount, _)| mount.as_str() <= uri);
        let (last, _) = self.entries.split_at_checked(behind)?;
        last.last().filter(|(mount, _)| uri.starts_with(mount.as_str()))
    }
}

/// Parses a URI and normalizes its case and percent-encoding. User information is allowed only below a mount
/// `NAME+`: whether it is an error depends only on the text, so the error reveals no mount.
fn parse(uri: &str) -> Result<Normalized<'_>, RouteError> {
    let parts = Parts::parse_any(uri)?;
    if parts.has_user_info() && !parts.scheme().contains(PREFIX_END) {
        return Err(UriError::UserInfo.into());
    }
    Ok(parts.normalized())
}

/// Returns the result for a URI that begins with the mount, with case and percent-encoding in normal form.
fn route_within<'a, T>((mount, target): &'a (Mount, T), uri: &str) -> Result<Routed<'a, T>, RouteError> {
    let path = uri.strip_prefix(mount.as_str()).ok_or(RouteError::NoMount)?;
    match mount.compose_normalized(path) {
        Ok(located) => Ok(Routed { target, mount, uri: located.uri, path: located.path }),
        Err(error) => Err(RouteError::Path { mount: mount.clone(), error }),
    }
}
