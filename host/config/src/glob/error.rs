//! Why a text is not a URI glob, and what to write instead.

use super::UriGlob;
use crate::diagnostic::Suggest;

/// The reason why a text is not a URI glob.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GlobError {
    /// The glob has no scheme, and no `**` in place of one.
    #[error("a URI begins with a scheme, so this glob matches none")]
    NoScheme(String),
    /// A `**` is part of a segment.
    #[error("`**` must be a whole segment")]
    PartialSegment,
    /// A segment is `.` or `..`.
    #[error("a normalized URI has no `.` or `..` segment, so this glob matches none")]
    DotSegment,
    /// The glob has user information (`@`).
    #[error("a resource has no user information, so this glob matches none")]
    UserInfo,
    /// The glob has a fragment (`#`).
    #[error("a resource has no fragment, so this glob matches none")]
    Fragment,
    /// The glob contains `[` or `]`.
    #[error("`[…]` cannot be used in globs for URIs")]
    Class,
    /// The glob contains a backslash.
    #[error("a backslash cannot be used in globs for URIs")]
    Backslash,
    /// A `%` is not followed by two hexadecimal digits.
    #[error("`%` is not followed by two hexadecimal digits")]
    Percent,
    /// The glob has the encoding of a character with a meaning in globs, which normalization would decode.
    #[error("`{0}` cannot be written in a glob, where it has a meaning")]
    Escaped(char),
    /// Braces are unbalanced or nested.
    #[error("the braces of this glob are nested, or do not match")]
    Braces,
    /// The glob is too long.
    #[error("this glob is longer than {} bytes", UriGlob::MAX_LEN)]
    TooLong,
}

/// The suggestion for a glob without a scheme.
pub(super) fn no_scheme_help(glob: &str, mount: &str) -> String {
    let below = glob.trim_start_matches('/');
    format!("write `**/{below}` for any mount, or begin with a mount: `{mount}{below}`")
}

impl Suggest for GlobError {
    fn suggestion(&self, _: &str) -> String {
        match self {
            Self::NoScheme(glob) => no_scheme_help(glob, "git://linux/"),
            Self::PartialSegment => {
                "write `**` between slashes, as in `git://linux/**` or `**/.env`; `*` stays in one segment".into()
            }
            Self::DotSegment => "write the path without dots".into(),
            Self::UserInfo => "remove the `@` and the text before it".into(),
            Self::Fragment => "remove the `#` and the text after it, or write `%23` for the character".into(),
            Self::Class => "write `{a,b}` for a choice, or `?` for any one character".into(),
            Self::Backslash => {
                "write `/` between segments; a character cannot be escaped, but `?` matches any one".into()
            }
            Self::Escaped(_) => "write `?`, which matches any one character".into(),
            Self::Percent => "write `%25` for the character itself".into(),
            Self::Braces => "write `{a,b}` for a choice, and two globs where one choice is inside another".into(),
            Self::TooLong => "write several shorter globs".into(),
        }
    }
}
