//! [`Uri`] and [`Path`], the two names of a resource, and [`ResourceId`], both together.

use super::text::str_newtype;

/// The URI of a resource: absolute, in normal form, below a mount, without a fragment.
///
/// Only [`Mount::compose`](super::Mount::compose) and [`Router::route`](super::Router::route) make one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uri {
    text: String,
}

str_newtype!(Uri);

/// What a provider calls one of its resources: the part of the [`Uri`] behind the mount, in normal form.
///
/// It has no leading slash, no fragment, no `.` or `..` segment and no NUL; it may have a query. The empty path is the
/// mount itself. Made like a [`Uri`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Path {
    text: String,
}

str_newtype!(Path);

/// A resource by both its names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceId {
    /// What clients call it: the mount and the path.
    pub uri: Uri,
    /// What its provider calls it.
    pub path: Path,
}

impl ResourceId {
    /// Takes over a mount and a path behind it that were checked and are in normal form.
    pub(super) fn from_checked(mount: &str, path: String) -> Self {
        let uri = Uri { text: [mount, &path].concat() };
        Self { uri, path: Path { text: path } }
    }
}
