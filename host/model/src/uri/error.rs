//! Errors of URIs, paths, mounts and templates.
//!
//! Messages name what was found, where, and the correction. Positions are byte offsets in the given text,
//! counted from 0. Only texts of an administrator are quoted.

use super::{MAX_MOUNT_LEN, MAX_TEMPLATE_VARIABLES, MAX_URI_LEN};

/// The maximum length of a quoted text in an error, in bytes.
const MAX_EXCERPT: usize = 128;

/// A text, truncated for an error.
pub(crate) fn excerpt(text: &str) -> String {
    match text.split_at_checked(text.floor_char_boundary(MAX_EXCERPT)) {
        Some((shown, rest)) if !rest.is_empty() => [shown, "…"].concat(),
        _ => text.to_owned(),
    }
}

/// A character, raw or percent-encoded, that is not allowed at its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CharacterError {
    /// The character must be percent-encoded (RFC 3986, sections 2.1 and 3.3).
    #[error(
        "`{}` at byte {at} is not allowed there; percent-encode it: `{}`",
        found.escape_debug(),
        percent_encoded(*found)
    )]
    Character {
        /// The character.
        found: char,
        /// Its byte offset.
        at: usize,
    },
    /// A `%` that is not followed by two hexadecimal digits (RFC 3986, section 2.1).
    #[error("`%` at byte {at} has no two hexadecimal digits behind it; write `%25` for a percent sign")]
    PercentEncoding {
        /// The byte offset of the `%`.
        at: usize,
    },
    /// A `%00` (RFC 3986, section 7.3): a provider that treats it as the end of a name would read another resource.
    #[error("`%00` at byte {at} is a NUL, which no name contains; remove it")]
    Nul {
        /// Its byte offset.
        at: usize,
    },
}

/// Returns the percent-encoding of a character as UTF-8 (RFC 3986, section 2.5).
fn percent_encoded(c: char) -> String {
    let mut buffer = [0; 4];
    c.encode_utf8(&mut buffer).bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Why a text is not a URI of a resource, whatever mounts exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UriError {
    /// It has more than [`MAX_URI_LEN`] bytes.
    #[error("the URI has {len} bytes; the maximum is {max}", max = MAX_URI_LEN)]
    TooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// It contains a character that is not allowed.
    #[error("in the URI, {0}")]
    Characters(#[from] CharacterError),
    /// It does not begin with a scheme and a colon (RFC 3986, section 3.1): it may be a relative reference.
    #[error("the URI does not begin with a scheme; it should look like `scheme://host/path`")]
    NoScheme,
    /// The text after `//` is not a host with an optional port (RFC 3986, sections 3.2.2 and 3.2.3).
    #[error("the URI has `{found}` where a host belongs; write a name or an address, and a port in digits if need be")]
    Host {
        /// The text after `//`.
        found: String,
    },
    /// It has user information (RFC 3986, section 3.2.1), which can disguise hosts (section 7.6) and leak secrets.
    #[error("the URI has user information, the part of the authority up to `@`; remove it")]
    UserInfo,
    /// It has a fragment (RFC 3986, section 3.5), which clients process.
    #[error("the URI has a fragment, from `#` at byte {at}; remove it, or write `%23` for a number sign in a name")]
    Fragment {
        /// The byte offset of the `#`.
        at: usize,
    },
    /// It has no host, and a `.` or `..` segment whose removal could result in another kind of URI.
    #[error("the URI has no host, and a `.` or `..` segment that cannot be removed; write it without")]
    OpaqueDots,
    /// It has more `..` segments than segments that these can remove.
    #[error("the URI leads above its root; remove the surplus `..` segments")]
    AboveRoot,
}

/// Why a text is not a path below a mount.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// It has, together with its mount, more than [`MAX_URI_LEN`] bytes.
    #[error("the path has, with its mount, {len} bytes; the maximum is {max}", max = MAX_URI_LEN)]
    TooLong {
        /// Their length in bytes.
        len: usize,
    },
    /// It contains a character that is not allowed.
    #[error("in the path, {0}")]
    Characters(#[from] CharacterError),
    /// It has a fragment.
    #[error("the path has a fragment, from `#` at byte {at}; remove it, or write `%23` for a number sign in a name")]
    Fragment {
        /// The byte offset of the `#`.
        at: usize,
    },
    /// It begins with a slash, as given or after removal of its dot segments. The mount already ends with
    /// one.
    #[error("the path begins with a slash, or does so without its dot segments; begin it with the name of a segment")]
    LeadingSlash,
    /// A `..` segment, percent-encoded or not, leaves the mount.
    #[error("the path leaves its mount; remove the surplus `..` segments")]
    LeavesMount,
    /// Below a mount without a host: its first segment is not a host.
    #[error("the path has `{found}` where its mount expects a host; write a name or an address")]
    Host {
        /// The first segment.
        found: String,
    },
    /// Below a mount `NAME+`, where paths are URIs: it is not a URI.
    #[error("the path is no URI, as its mount expects: {0}")]
    NoUri(UriError),
    /// Below a mount without a host: its first segment has user information.
    #[error("the path has user information, the part of its first segment up to `@`; remove it, or write `%40`")]
    UserInfo,
}

impl PathError {
    /// Converts the error of a URI, composed of a mount of `mount_len` bytes and a path, into the error of the path.
    pub(super) fn from_composed(error: UriError, mount_len: usize) -> Self {
        match error {
            UriError::TooLong { len } => Self::TooLong { len },
            UriError::Characters(error) => Self::Characters(error.with_offset(mount_len)),
            UriError::Fragment { at } => Self::Fragment { at: at.saturating_sub(mount_len) },
            UriError::UserInfo => Self::UserInfo,
            UriError::Host { found } => Self::Host { found },
            UriError::NoScheme | UriError::OpaqueDots | UriError::AboveRoot => Self::LeavesMount,
        }
    }
}

impl CharacterError {
    /// Shifts positions to a text that begins `by` bytes later.
    fn with_offset(self, by: usize) -> Self {
        match self {
            Self::Character { found, at } => Self::Character { found, at: at.saturating_sub(by) },
            Self::PercentEncoding { at } => Self::PercentEncoding { at: at.saturating_sub(by) },
            Self::Nul { at } => Self::Nul { at: at.saturating_sub(by) },
        }
    }
}

/// Why a text is not a mount. `suggestion` is a correction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MountError {
    /// It is too long: enough of [`MAX_URI_LEN`] must be left for paths.
    #[error("a mount of {len} bytes is too long; the maximum is {max}", max = MAX_MOUNT_LEN)]
    TooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// It is not a URI.
    #[error("`{text}` is not a mount: {error}")]
    Uri {
        /// The text.
        text: String,
        /// The reason.
        error: UriError,
    },
    /// It ends with `+`, but is not a valid prefix in front of URIs.
    #[error(
        "`{text}` should be a letter, then letters, digits, `-` and `.`, and a `+`, as in `github+`: it begins the schemes of URIs"
    )]
    Prefix {
        /// The text.
        text: String,
    },
    /// It lacks the `//` after the scheme.
    #[error("`{text}` should have two slashes behind the scheme: `{suggestion}`")]
    NoAuthority {
        /// The text.
        text: String,
        /// The text with two slashes.
        suggestion: String,
    },
    /// It has a query.
    #[error("`{text}` should have no query: `{suggestion}`")]
    Query {
        /// The text.
        text: String,
        /// The text without the query.
        suggestion: String,
    },
    /// It has a dot segment.
    #[error("`{text}` should have no `.` or `..` segments: `{suggestion}`")]
    DotSegment {
        /// The text.
        text: String,
        /// The text without dot segments.
        suggestion: String,
    },
    /// It has an empty segment.
    #[error("`{text}` should have no empty segments: `{suggestion}`")]
    EmptySegment {
        /// The text.
        text: String,
        /// The text without empty segments.
        suggestion: String,
    },
    /// It does not end with a slash.
    #[error("`{text}` should end with a slash: `{suggestion}`")]
    NoSlash {
        /// The text.
        text: String,
        /// The text with a slash.
        suggestion: String,
    },
}

/// Why a text is not a path template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// It has, together with its mount, more than [`MAX_URI_LEN`] bytes.
    #[error("the template has, with its mount, {len} bytes; the maximum is {max}", max = MAX_URI_LEN)]
    TooLong {
        /// Their length in bytes.
        len: usize,
    },
    /// Its literals contain a character that is not allowed.
    #[error("in the template, {0}")]
    Characters(#[from] CharacterError),
    /// It violates the grammar of RFC 6570, section 2.
    #[error("the template is not valid (RFC 6570): {reason}")]
    Syntax {
        /// The error, and its position.
        reason: String,
    },
    /// The prefix of a variable is not from 1 to 9999 (RFC 6570, section 2.4.1).
    #[error("`{{{expression}}}` has a prefix length that is not from 1 to 9999")]
    Prefix {
        /// The text between the braces.
        expression: String,
    },
    /// It has too many variables. Repeated variables count each time.
    #[error("the template has more than {max} variables, each counted as often as it appears", max = MAX_TEMPLATE_VARIABLES)]
    TooManyVariables,
    /// A literal `#`, or an expression such as `{#x}`, adds a fragment, which resources do not have.
    #[error("the template makes a fragment, with `#`; remove it")]
    Fragment,
    /// Below a mount `NAME+`, where templates are templates of URIs: it does not begin with a literal scheme.
    #[error("the template does not begin with a scheme and a colon, as its mount expects")]
    NoScheme,
    /// It begins with a slash, or with an expression that adds one, such as `{/x}`. The mount already ends with one.
    #[error("the template begins with a slash or with `{{/`; begin it with a segment")]
    LeadingSlash,
    /// One of its literal segments is `.` or `..`.
    #[error("the template has a segment `.` or `..`; write the segments that it stands for")]
    DotSegment,
    /// Below a mount without a host: its first segment cannot be a host.
    #[error("the template begins with what is no path: {0}")]
    Host(PathError),
}
