//! What can be wrong with a URI, a path, a mount or a template.
//!
//! Messages say what was found, where, and what to write instead. Positions are byte offsets from the start of the text
//! that was given, counted from 0. Texts are quoted only where they are an administrator's own.

use super::{MAX_URI_LEN, Mount, Template};

/// Bytes of a text that an error shows of it.
const MAX_EXCERPT: usize = 128;

/// The beginning of a text, as an error shows it.
pub(super) fn excerpt(text: &str) -> String {
    match text.split_at_checked(text.floor_char_boundary(MAX_EXCERPT)) {
        Some((shown, rest)) if !rest.is_empty() => [shown, "…"].concat(),
        _ => text.to_owned(),
    }
}

/// A character, raw or percent-encoded, that has no place where it stands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CharacterError {
    /// The character must be percent-encoded there (RFC 3986, sections 2.1 and 3.3).
    #[error(
        "`{}` at byte {at} may not stand there as it is; percent-encode it: `{}`",
        found.escape_debug(),
        percent_encoded(*found)
    )]
    Character {
        /// The character.
        found: char,
        /// Where it is, as a byte offset.
        at: usize,
    },
    /// A `%` without two hexadecimal digits behind it (RFC 3986, section 2.1).
    #[error("`%` at byte {at} has no two hexadecimal digits behind it; write `%25` for a percent sign")]
    PercentEncoding {
        /// Where the `%` is, as a byte offset.
        at: usize,
    },
    /// A `%00` (RFC 3986, section 7.3): a provider that takes it for the end of a name would mean another resource.
    #[error("`%00` at byte {at} is a NUL, which no name contains; remove it")]
    Nul {
        /// Where it is, as a byte offset.
        at: usize,
    },
}

/// The encoding of a character as UTF-8 (RFC 3986, section 2.5).
fn percent_encoded(c: char) -> String {
    let mut buffer = [0; 4];
    c.encode_utf8(&mut buffer).bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Why a text is no URI of any resource, wherever plugins are mounted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UriError {
    /// It has more than [`MAX_URI_LEN`] bytes.
    #[error("the URI has {len} bytes; the most are {max}", max = MAX_URI_LEN)]
    TooLong {
        /// How many bytes it has.
        len: usize,
    },
    /// A character has no place in it.
    #[error("in the URI, {0}")]
    Characters(#[from] CharacterError),
    /// It does not begin with a scheme and a colon (RFC 3986, section 3.1), so it is a relative reference at best.
    #[error("the URI does not begin with a scheme; it should look like `scheme://host/path`")]
    NoScheme,
    /// What stands behind `//` is no host with an optional port (RFC 3986, sections 3.2.2 and 3.2.3).
    #[error("the URI has `{found}` where a host belongs; write a name or an address, and a port in digits if need be")]
    Host {
        /// What stands there.
        found: String,
    },
    /// It has user information (RFC 3986, section 3.2.1), which only serves to disguise hosts (section 7.6) and to
    /// leak secrets.
    #[error("the URI has user information, the part of the authority up to `@`; remove it")]
    UserInfo,
    /// It has a fragment (RFC 3986, section 3.5), which is for clients to follow within what they have read.
    #[error("the URI has a fragment, from `#` at byte {at}; remove it, or write `%23` for a number sign in a name")]
    Fragment {
        /// Where the `#` is, as a byte offset.
        at: usize,
    },
    /// It has more `..` segments than segments that they could remove.
    #[error(
        "the URI leads above its root; remove the `..` segments that have no segment in front of them to take back"
    )]
    AboveRoot,
}

/// Why a text is no path below a mount.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It has, together with its mount, more than [`MAX_URI_LEN`] bytes.
    #[error("the path has, with its mount, {len} bytes; the most are {max}", max = MAX_URI_LEN)]
    TooLong {
        /// How many bytes both have.
        len: usize,
    },
    /// A character has no place in it.
    #[error("in the path, {0}")]
    Characters(#[from] CharacterError),
    /// It has a fragment.
    #[error("the path has a fragment, from `#` at byte {at}; remove it, or write `%23` for a number sign in a name")]
    Fragment {
        /// Where the `#` is, as a byte offset.
        at: usize,
    },
    /// It begins with a slash, as it is or once its dot segments are removed. The mount ends with one already.
    #[error("the path begins with a slash, or does so without its dot segments; begin it with the name of a segment")]
    LeadingSlash,
    /// A `..` segment, percent-encoded or not, leads out of the mount.
    #[error("the path leaves its mount; remove the `..` segments that have no segment in front of them to take back")]
    LeavesMount,
    /// Below a mount without a host: its first segment is no host.
    #[error("the path has `{found}` where its mount expects a host; write a name or an address")]
    Host {
        /// The first segment.
        found: String,
    },
    /// Below a mount without a host: its first segment has user information.
    #[error("the path has user information, the part of its first segment up to `@`; remove it, or write `%40`")]
    UserInfo,
}

impl PathError {
    /// What is wrong with a path, from what is wrong with the URI composed of a mount of `mount_len` bytes and it.
    pub(super) fn from_composed(error: UriError, mount_len: usize) -> Self {
        match error {
            UriError::TooLong { len } => Self::TooLong { len },
            UriError::Characters(error) => Self::Characters(error.with_offset(mount_len)),
            UriError::Fragment { at } => Self::Fragment { at: at.saturating_sub(mount_len) },
            UriError::UserInfo => Self::UserInfo,
            UriError::Host { found } => Self::Host { found },
            UriError::NoScheme | UriError::AboveRoot => Self::LeavesMount,
        }
    }
}

impl CharacterError {
    /// The same, seen from a text that begins `by` bytes later.
    fn with_offset(self, by: usize) -> Self {
        match self {
            Self::Character { found, at } => Self::Character { found, at: at.saturating_sub(by) },
            Self::PercentEncoding { at } => Self::PercentEncoding { at: at.saturating_sub(by) },
            Self::Nul { at } => Self::Nul { at: at.saturating_sub(by) },
        }
    }
}

/// Why a text is no mount. `suggestion` is what may have been meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MountError {
    /// It has more bytes than a mount may have, so that enough of [`MAX_URI_LEN`] is left for paths.
    #[error("a mount of {len} bytes is too long; the most are {max}", max = Mount::MAX_LEN)]
    TooLong {
        /// How many bytes it has.
        len: usize,
    },
    /// It is no URI.
    #[error("`{text}` is no mount, which looks like `scheme://host/`: {error}")]
    Uri {
        /// The text.
        text: String,
        /// Why it is none.
        error: UriError,
    },
    /// It lacks the `//` behind the scheme.
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
        /// The text without it.
        suggestion: String,
    },
    /// It has a dot segment.
    #[error("`{text}` should have no `.` or `..` segments: `{suggestion}`")]
    DotSegment {
        /// The text.
        text: String,
        /// The text without them.
        suggestion: String,
    },
    /// It has an empty segment.
    #[error("`{text}` should have no empty segments: `{suggestion}`")]
    EmptySegment {
        /// The text.
        text: String,
        /// The text without them.
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

/// Two mounts of which one is a prefix of the other, so that a URI could belong to both.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the mounts `{first}` and `{second}` overlap: a URI could belong to both; give each a prefix of its own")]
pub struct Overlap {
    /// The one that came first.
    pub first: Mount,
    /// The one that came later.
    pub second: Mount,
    /// As which of the mounts `first` came, counted from 0.
    pub first_index: usize,
    /// As which of the mounts `second` came, counted from 0.
    pub second_index: usize,
}

/// Why a URI or a template routes nowhere.
///
/// *Which mounts there are may be a secret.* Where [`RouteError::mount`] is some, the error tells that a plugin is
/// mounted there: a principal that may see nothing of that plugin must be answered as for [`RouteError::NoMount`]. All
/// other variants depend on the text alone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// No plugin owns it: *not found*. All other variants are *invalid requests*.
    #[error("no plugin is mounted where this URI points")]
    NoMount,
    /// It is no URI of any resource.
    #[error(transparent)]
    Uri(#[from] UriError),
    /// A plugin owns it, and what is behind the mount is no path.
    #[error("below `{mount}`: {error}")]
    Path {
        /// The mount that it begins with.
        mount: Mount,
        /// What is wrong with the path.
        error: PathError,
    },
    /// It is no template at all.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// A plugin owns it, and what is behind the mount is no template for paths.
    #[error("below `{mount}`: {error}")]
    PathTemplate {
        /// The mount that it begins with.
        mount: Mount,
        /// What is wrong with the template.
        error: TemplateError,
    },
}

impl RouteError {
    /// The mount that the answer gives away, if it does.
    #[must_use]
    pub fn mount(&self) -> Option<&Mount> {
        match self {
            Self::Path { mount, .. } | Self::PathTemplate { mount, .. } => Some(mount),
            Self::NoMount | Self::Uri(_) | Self::Template(_) => None,
        }
    }
}

/// Why a text is no template for paths below a mount.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// It has, together with its mount, more than [`MAX_URI_LEN`] bytes.
    #[error("the template has, with its mount, {len} bytes; the most are {max}", max = MAX_URI_LEN)]
    TooLong {
        /// How many bytes both have.
        len: usize,
    },
    /// A character of its literals has no place in them.
    #[error("in the template, {0}")]
    Characters(#[from] CharacterError),
    /// It breaks the grammar of RFC 6570, section 2.
    #[error("the template is none by RFC 6570: {reason}")]
    Syntax {
        /// What is wrong, and where.
        reason: String,
    },
    /// The prefix of a variable is not from 1 to 9999 (RFC 6570, section 2.4.1).
    #[error("`{{{expression}}}` has a prefix length that is not from 1 to 9999")]
    Prefix {
        /// What stands between the braces.
        expression: String,
    },
    /// It has more variables than a template may have, each counted as often as it appears.
    #[error("the template has more than {max} variables, each counted as often as it appears", max = Template::MAX_VARIABLES)]
    TooManyVariables,
    /// A literal `#` or an expression such as `{#x}` makes a fragment, which resources do not have.
    #[error("the template makes a fragment, with `#`; remove it")]
    Fragment,
    /// It begins with a slash or with an expression that makes one, such as `{/x}`. The mount ends with one already.
    #[error("the template begins with a slash or with `{{/`; begin it with a segment")]
    LeadingSlash,
    /// One of its literal segments is `.` or `..`.
    #[error("the template has a segment `.` or `..`; write the segments that it stands for")]
    DotSegment,
    /// Below a mount without a host: its first segment cannot become one.
    #[error("the template begins with what is no path: {0}")]
    Host(PathError),
}
