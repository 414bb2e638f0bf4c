//! [`Uri`] and [`Path`], the two names of a resource, and [`ResourceId`], both together.

use super::text::str_newtype;

/// The URI of a resource: absolute, in normal form, below a mount, without a fragment.
///
/// Created only by [`Mount::compose`](super::Mount::compose) and [`Router::route`](super::Router::route).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uri {
    text: String,
}

str_newtype!(Uri);

impl Uri {
    /// Joins a mount and a path that are valid and in normal form.
    pub(super) fn from_checked(mount: &str, path: &str) -> Self {
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
    pub(super) fn from_checked(mount: &str, path: String) -> Self {
        Self { uri: Uri::from_checked(mount, &path), path: Path { text: path } }
    }
}
