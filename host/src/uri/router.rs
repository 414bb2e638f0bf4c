//! [`Router`]: from a URI to the plugin that owns it.
//!
//! Mounts do not overlap, so of all mounts in their order only the last one that is not behind a URI can own it: a
//! lookup is a binary search and one comparison, however many mounts there are.

use super::error::{Overlap, RouteError, TemplateError};
use super::mount::Mount;
use super::normalize::{self, Parts};
use super::resource_id::{Path, Uri};
use super::template::{self, Template};

/// Mounts that do not overlap, each with what is mounted there.
#[derive(Clone, Debug)]
pub struct Router<T> {
    /// In the order of the mounts' text.
    entries: Vec<(Mount, T)>,
}

/// Where a URI leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routed<'a, T> {
    /// What is mounted there.
    pub target: &'a T,
    /// Where it is mounted.
    pub mount: &'a Mount,
    /// The URI in normal form.
    pub uri: Uri,
    /// What the provider calls the resource.
    pub path: Path,
}

impl<T> Router<T> {
    /// Makes a router.
    ///
    /// # Errors
    ///
    /// Two mounts overlap. If several pairs do, the first in the order of their text is told.
    pub fn new(entries: impl IntoIterator<Item = (Mount, T)>) -> Result<Self, Overlap> {
        let mut entries: Vec<_> = entries.into_iter().enumerate().collect();
        entries.sort_by(|(_, (a, _)), (_, (b, _))| a.cmp(b));
        // All that begins with a mount directly follows it, so looking at neighbours is enough.
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
    /// A URI in normal form is not copied but for the answer.
    ///
    /// # Errors
    ///
    /// See [`RouteError`]. That no plugin owns the URI is told apart from all that is wrong with it.
    pub fn route(&self, uri: &str) -> Result<Routed<'_, T>, RouteError> {
        let Some(written) = Parts::parse(uri)?.normalized() else {
            return Err(RouteError::NoMount);
        };
        // Looked at first, because it is the same whatever mounts there are.
        let resolved = written.without_dot_segments()?;
        if let Some(entry) = self.owner(written.as_str()) {
            return route_within(entry, written.as_str());
        }
        if let Some(entry) = self.owner(&resolved) {
            return route_within(entry, &resolved);
        }
        let (place, query) = normalize::split_query(&resolved);
        let with_slash = [place, "/", query].concat();
        let entry = self.owner(&with_slash).ok_or(RouteError::NoMount)?;
        route_within(entry, &with_slash)
    }

    /// Finds the plugin that owns a client's URI template, and the template as the provider knows it.
    ///
    /// # Errors
    ///
    /// See [`RouteError`]. A template whose mount is not literal belongs to no plugin.
    pub fn route_template(&self, template: &str) -> Result<(&T, Template), RouteError> {
        template::check(template)?;
        let stem = template::literal_prefix(template);
        if !stem.contains("://") {
            return Err(RouteError::NoMount);
        }
        let stem = Parts::parse(stem)?.normalized().ok_or(RouteError::NoMount)?;
        let (mount, target) = self.owner(stem.as_str()).ok_or(RouteError::NoMount)?;
        let path = mount.template_path(template).ok_or(RouteError::NoMount)?;
        let in_mount = |error: TemplateError| RouteError::PathTemplate { mount: mount.clone(), error };
        Ok((target, mount.compose_template(path).map_err(in_mount)?))
    }

    /// The mounts and what is mounted there, in the order of the mounts' text.
    pub fn iter(&self) -> impl Iterator<Item = (&Mount, &T)> {
        self.entries.iter().map(|(mount, target)| (mount, target))
    }

    /// The mount that a URI in normal form begins with.
    fn owner(&self, uri: &str) -> Option<&(Mount, T)> {
        let behind = self.entries.partition_point(|(mount, _)| mount.as_str() <= uri);
        let (last, _) = self.entries.split_at_checked(behind)?;
        last.last().filter(|(mount, _)| uri.starts_with(mount.as_str()))
    }
}

/// The answer for a URI, with case and percent-encoding in normal form, that begins with the mount.
fn route_within<'a, T>((mount, target): &'a (Mount, T), uri: &str) -> Result<Routed<'a, T>, RouteError> {
    let path = uri.strip_prefix(mount.as_str()).ok_or(RouteError::NoMount)?;
    match mount.compose_normalized(path) {
        Ok(located) => Ok(Routed { target, mount, uri: located.uri, path: located.path }),
        Err(error) => Err(RouteError::Path { mount: mount.clone(), error }),
    }
}
