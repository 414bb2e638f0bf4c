//! Paths at which a provider sees granted directories.

use std::fmt;
use std::str::FromStr;

use super::declare::from_text;
use super::diagnostic::{Suggest, quote};
use super::reader::Schema;

/// The path at which a provider sees a granted directory: `/repo`.
///
/// The path is absolute, and contains no empty, `.` or `..` segment, no backslash and no control character. A trailing
/// slash is removed. `/` is valid.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GuestPath(String);

impl GuestPath {
    /// Returns the path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The reason why a text is not a guest path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GuestPathError {
    /// The path does not begin with a slash.
    #[error("the guest path {} is not absolute", quote(.0))]
    Relative(String),
    /// A segment is empty, `.` or `..`.
    #[error("the guest path {} has an empty or dotted segment", quote(.0))]
    Segment(String),
    /// The path contains a backslash or a control character.
    #[error("the guest path {} holds a backslash or a control character", quote(.0))]
    Character(String),
}

impl Suggest for GuestPathError {
    fn suggestion(&self, key: &str) -> String {
        format!("write a path with a slash in front and plain names in it, such as `{key} = \"/repo\"`")
    }
}

impl FromStr for GuestPath {
    type Err = GuestPathError;

    fn from_str(text: &str) -> Result<Self, GuestPathError> {
        let Some(relative) = text.strip_prefix('/') else {
            return Err(GuestPathError::Relative(text.to_owned()));
        };
        if text.contains(|c: char| c == '\\' || c.is_control()) {
            return Err(GuestPathError::Character(text.to_owned()));
        }
        if relative.is_empty() {
            return Ok(Self("/".to_owned()));
        }
        let relative = relative.strip_suffix('/').unwrap_or(relative);
        if relative.split('/').any(|segment| matches!(segment, "" | "." | "..")) {
            return Err(GuestPathError::Segment(text.to_owned()));
        }
        Ok(Self(format!("/{relative}")))
    }
}

impl fmt::Display for GuestPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

from_text!(GuestPath, "a guest path", "\"/repo\"", Schema::pattern(r"^/$|^(/(?!\.{1,2}(/|$))[^/\\]+)+/?$"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_path_is_absolute_and_plain() {
        for (text, path) in [("/repo", "/repo"), ("/repo/", "/repo"), ("/", "/"), ("/a/ノート", "/a/ノート")] {
            assert_eq!(text.parse::<GuestPath>().unwrap().as_str(), path);
        }
        for text in ["", "repo", "./repo", "C:\\repo"] {
            assert_eq!(text.parse::<GuestPath>(), Err(GuestPathError::Relative(text.into())));
        }
        for text in ["//", "/a//b", "/.", "/../a", "/a/.."] {
            assert_eq!(text.parse::<GuestPath>(), Err(GuestPathError::Segment(text.into())));
        }
        for text in ["/a\\b", "/a\0", "/a\n"] {
            assert_eq!(text.parse::<GuestPath>(), Err(GuestPathError::Character(text.into())));
        }
    }
}
