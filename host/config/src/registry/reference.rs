//! References to components in registries: `oci://HOST[:PORT]/REPOSITORY:VERSION`, or `…@sha256:DIGITS` of the
//! manifest.
//!
//! | version | is |
//! |---|---|
//! | `1` | the newest release of 1 by semantic versioning |
//! | `1.4` | the newest release of 1.4 |
//! | `1.4.2`, `1.4.3-rc.1` | this version |
//!
//! Other tags, such as `latest`, are rejected, because they have no order. A range includes only releases, and no
//! pre-releases. Versions have no `+`, which tags cannot have.
//!
//! ```
//! use mcp_host_config::registry::Reference;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let reference: Reference = "oci://registry.example.com/acme/web:1.4".parse()?;
//! assert_eq!(reference.repository.registry(), "registry.example.com");
//! assert_eq!(reference.repository.path(), "acme/web");
//! # Ok(())
//! # }
//! ```

use std::fmt;
use std::str::FromStr;

use mcp_host_base::text::quote;
use mcp_host_model::digest::Digest;
use mcp_host_model::net::Origin;
use semver::Version;

/// The scheme, with its slashes.
pub const SCHEME: &str = "oci://";
/// The maximum length of a repository with its registry, in bytes.
const MAX_LEN: usize = 255;
/// The maximum length of a version: the limit of a tag.
const MAX_VERSION_LEN: usize = 128;

/// A reference to a component in a registry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    /// The repository of the component.
    pub repository: Repository,
    /// The selected version.
    pub selector: Selector,
}

/// A repository of a registry, or a prefix of its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Repository {
    registry: String,
    path: String,
}

/// A selection among the versions of a component.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Selector {
    /// The newest release of this major and, if given, minor version.
    Range(u64, Option<u64>),
    /// This version.
    Version(Version),
    /// The manifest with this digest.
    Digest(Digest),
}

/// The reason why a text is not a reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReferenceError {
    /// The text does not begin with `oci://`.
    #[error("{} does not begin with `{SCHEME}`", quote(.0))]
    Scheme(String),
    /// The registry or the repository is not valid.
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    /// The reference has no version.
    #[error("{} names no version, such as `:1` for the newest release of 1", quote(.0))]
    NoVersion(String),
    /// The tag of the reference is not a version.
    #[error("{} is not a version: expected numbers, such as `1`, `1.4` or `1.4.2`", quote(.0))]
    Version(String),
    /// The text after `@` is not a digest.
    #[error("{} is not the digest of a manifest", quote(.0))]
    Digest(String),
}

/// The reason why a text is not a repository.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is not a repository of a registry", quote(.0))]
pub struct RepositoryError(String);

impl Selector {
    /// Whether a version matches. A digest matches no version.
    pub fn matches(&self, version: &Version) -> bool {
        match self {
            Self::Range(major, minor) => {
                version.pre.is_empty() && version.major == *major && minor.is_none_or(|minor| version.minor == minor)
            }
            Self::Version(exact) => exact == version,
            Self::Digest(_) => false,
        }
    }
}

impl Repository {
    /// The registry: a host, optionally with a port.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// The name within the registry.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The rest of a repository's name after this prefix, which is compared by whole segments; `None` without this
    /// prefix.
    pub fn strip_prefix<'r>(&self, repository: &'r Self) -> Option<&'r str> {
        if self.registry != repository.registry {
            return None;
        }
        let rest = repository.path.strip_prefix(self.path.as_str())?;
        (rest.is_empty() || rest.starts_with('/') || self.path.is_empty()).then(|| rest.trim_start_matches('/'))
    }

    /// The repository with this prefix and this rest.
    #[must_use]
    pub fn join(&self, rest: &str) -> Self {
        let path = [self.path.as_str(), rest].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/");
        Self { registry: self.registry.clone(), path }
    }

    /// Parses a prefix, which may be a registry alone, with or without slashes at its end.
    pub(super) fn parse_prefix(text: &str) -> Result<Self, RepositoryError> {
        let invalid = || RepositoryError(text.to_owned());
        let trimmed = text.trim_end_matches('/');
        let (registry, path) = trimmed.split_once('/').unwrap_or((trimmed, ""));
        let is_valid = text.len() <= MAX_LEN && is_registry(registry) && (path.is_empty() || is_path(path));
        if is_valid {
            Ok(Self { registry: registry.to_ascii_lowercase(), path: path.to_owned() })
        } else {
            Err(invalid())
        }
    }
}

/// Whether a text is a host, optionally with a port.
pub(super) fn is_registry(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']');
    text.chars().all(plain) && format!("https://{text}").parse::<Origin>().is_ok()
}

/// Whether a text is a name by the OCI Distribution Specification: segments of `a-z0-9`, with single separators within.
fn is_path(path: &str) -> bool {
    path.split('/').all(|segment| {
        let bytes = segment.as_bytes();
        let is_end = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-');
        is_end(bytes.first()) && is_end(bytes.last()) && segment.chars().all(is_inner) && !segment.contains("..")
    })
}

/// Parses a prefix of repositories, which has no scheme: `registry.example.com/acme`.
impl FromStr for Repository {
    type Err = RepositoryError;

    fn from_str(text: &str) -> Result<Self, RepositoryError> {
        Self::parse_prefix(text)
    }
}

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        let rest = text.strip_prefix(SCHEME).ok_or_else(|| ReferenceError::Scheme(text.to_owned()))?;
        let repository = |name: &str| match name.parse::<Repository>() {
            Ok(repository) if !repository.path.is_empty() && !name.ends_with('/') => Ok(repository),
            _ => Err(RepositoryError(name.to_owned())),
        };
        if let Some((name, digest)) = rest.split_once('@') {
            let digest = digest.parse().map_err(|_| ReferenceError::Digest(digest.to_owned()))?;
            return Ok(Self { repository: repository(name)?, selector: Selector::Digest(digest) });
        }
        let (directory, last) = rest.rsplit_once('/').ok_or_else(|| RepositoryError(rest.to_owned()))?;
        let (last, version) = last.split_once(':').ok_or_else(|| ReferenceError::NoVersion(text.to_owned()))?;
        let repository = repository(&format!("{directory}/{last}"))?;
        let selector = parse_version(version).ok_or_else(|| ReferenceError::Version(version.to_owned()))?;
        Ok(Self { repository, selector })
    }
}

fn parse_version(text: &str) -> Option<Selector> {
    if text.len() > MAX_VERSION_LEN || text.contains('+') {
        return None;
    }
    let number = |part: &str| {
        let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        (is_number && (part == "0" || !part.starts_with('0'))).then(|| part.parse().ok()).flatten()
    };
    match text.split('.').collect::<Vec<_>>().as_slice() {
        [major] => Some(Selector::Range(number(major)?, None)),
        [major, minor] => Some(Selector::Range(number(major)?, Some(number(minor)?))),
        _ => Version::parse(text).ok().map(Selector::Version),
    }
}

impl fmt::Display for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.registry)?;
        if self.path.is_empty() { Ok(()) } else { write!(f, "/{}", self.path) }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range(major, None) => write!(f, ":{major}"),
            Self::Range(major, Some(minor)) => write!(f, ":{major}.{minor}"),
            Self::Version(version) => write!(f, ":{version}"),
            Self::Digest(digest) => write!(f, "@{digest}"),
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}{}", self.repository, self.selector)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<String, String> {
        text.parse::<Reference>().map(|reference| reference.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_reference_is_shown_as_it_is_written() {
        let digest = Digest::compute(b"");
        for text in [
            "oci://registry.example.com/acme/web:1",
            "oci://registry.example.com/web:1.4",
            "oci://localhost:5000/a/b/c:1.4.2",
            "oci://[::1]:5000/a:1.4.2-rc.1",
            &format!("oci://127.0.0.1:5000/a@{digest}"),
        ] {
            assert_eq!(parse(text).as_deref(), Ok(text));
        }
        assert_eq!(parse("oci://REGISTRY.example/a:1").as_deref(), Ok("oci://registry.example/a:1"));
    }

    #[test]
    fn what_is_no_reference_says_why() {
        for (text, expected) in [
            ("https://a/b:1", "does not begin with `oci://`"),
            ("oci://registry.example.com", "is not a repository"),
            ("oci://registry.example.com:1", "is not a repository"),
            ("oci://registry.example.com/Acme:1", "is not a repository"),
            ("oci://registry.example.com/a/../b:1", "is not a repository"),
            ("oci://registry.example.com//b:1", "is not a repository"),
            ("oci://user@registry.example.com/b:1", "is not the digest"),
            ("oci://regi stry/b:1", "is not a repository"),
            ("oci://registry.example.com/a", "names no version"),
            ("oci://registry.example.com/a:latest", "`latest` is not a version"),
            ("oci://registry.example.com/a:v1.2.3", "is not a version"),
            ("oci://registry.example.com/a:01", "is not a version"),
            ("oci://registry.example.com/a:1.2.3+x", "is not a version"),
            ("oci://registry.example.com/a@sha256:00", "is not the digest"),
            ("oci://registry.example.com/a:", "is not a version"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_range_has_the_releases_that_begin_with_its_numbers() {
        let matches = |text: &str, version: &str| {
            let reference: Reference = format!("oci://a.example/b{text}").parse().unwrap();
            reference.selector.matches(&version.parse().unwrap())
        };
        assert!(matches(":1", "1.9.0") && matches(":1.4", "1.4.0") && matches(":1.4.2", "1.4.2"));
        assert!(!matches(":1", "2.0.0") && !matches(":1.4", "1.5.0") && !matches(":1.4", "1.4.3-rc.1"));
        assert!(matches(":1.4.3-rc.1", "1.4.3-rc.1") && !matches(":1.4.3", "1.4.3-rc.1"));
    }

    #[test]
    fn a_prefix_ends_where_a_segment_does() {
        let rest = |prefix: &str, repository: &str| {
            let (prefix, repository): (Repository, Repository) = (prefix.parse().unwrap(), repository.parse().unwrap());
            prefix.strip_prefix(&repository).map(str::to_owned)
        };
        assert_eq!(rest("a.example/acme", "a.example/acme/web").as_deref(), Some("web"));
        assert_eq!(rest("a.example/acme/", "a.example/acme").as_deref(), Some(""));
        assert_eq!(rest("a.example", "a.example/acme/web").as_deref(), Some("acme/web"));
        assert_eq!(rest("a.example/acme", "a.example/acmeother/web"), None);
        assert_eq!(rest("a.example/acme", "b.example/acme/web"), None);
        let mirror: Repository = "mirror.example/cache".parse().unwrap();
        assert_eq!(mirror.join("web").to_string(), "mirror.example/cache/web");
    }
}
