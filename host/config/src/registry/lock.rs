//! The lock: `mcp-host.lock` beside the config, with the resolved, verified and agreed component of each reference.
//!
//! Commands that resolve references (`mcp-host add`, `lock`, `update`) replace the file atomically by a rename. Reading
//! is strict: unknown keys, repeated sources and malformed values are errors, since a half-understood lock protects
//! nothing. Some texts were written by publishers; they are escaped when they are shown.
//!
//! Bounded: 4 MiB, 4096 components.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::Path;

use mcp_host_base::{escape, regular_file};
use mcp_host_model::digest::Digest;
use semver::Version;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::reference::{Reference, Selector};

/// The name of the lock file.
pub(crate) const FILE_NAME: &str = "mcp-host.lock";
/// The maximum size of the file in bytes.
const MAX_FILE_SIZE: usize = 4 << 20;
/// The maximum number of components of a lock.
const MAX_COMPONENTS: usize = 4096;
/// The version of the format.
const FORMAT: u32 = 1;
/// The first lines of the file.
const HEADER: &str = "\
# What each component from a registry was resolved to, verified and agreed. Written by `mcp-host add`,\n\
# `lock` and `update`: keep it with the config, and do not edit it.\n";

/// The resolved components of a config's references.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lock {
    components: BTreeMap<Reference, LockedComponent>,
}

/// The resolved component of a reference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LockedComponent {
    /// The reference, as the config has it.
    #[serde(with = "text")]
    pub source: Reference,
    /// The version in the tag; `None` for a reference by digest.
    #[serde(default, with = "optional_text", skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// The digest of the manifest, which is what signers sign.
    #[serde(with = "text")]
    pub manifest: Digest,
    /// The digest of the WebAssembly file.
    #[serde(with = "text")]
    pub component: Digest,
    /// The size of the WebAssembly file in bytes.
    pub size: u64,
    /// The provider's own name.
    pub provider: String,
    /// The provider's own version.
    pub provider_version: String,
    /// The exported version of the contract.
    pub contract: String,
    /// The imported interfaces.
    pub imports: BTreeSet<String>,
    /// The capabilities that the component declares or imports.
    pub needs: BTreeSet<String>,
    /// The agreed capabilities.
    pub agreed: BTreeSet<String>,
    /// The signers of the manifest that `[[trust]]` accepts. Empty with `unsigned`.
    pub signers: BTreeSet<LockedSigner>,
    /// The digests of the signature bundles in the store.
    #[serde(with = "digests")]
    pub bundles: Vec<Digest>,
    /// The content of a provenance that one of these signers signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<LockedProvenance>,
    /// The bills of materials in the store, which are not verified.
    #[serde(default, rename = "sbom", skip_serializing_if = "Vec::is_empty")]
    pub sboms: Vec<LockedSbom>,
}

/// A signer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum LockedSigner {
    /// A key, by its fingerprint.
    Key(#[serde(with = "text")] Digest),
    /// An identity, from its certificate.
    Identity(LockedIdentity),
}

/// The identity in a certificate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedIdentity {
    /// The issuer that authenticated the identity.
    pub issuer: String,
    /// The identity's address or URI.
    pub subject: String,
}

/// The content of a provenance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedProvenance {
    /// The builder of the component.
    pub builder: String,
    /// The source repository, with the revision if the provenance has one.
    pub source: String,
}

/// A bill of materials.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LockedSbom {
    /// The digest of the document.
    #[serde(with = "text")]
    pub digest: Digest,
    /// The media type: `application/vnd.cyclonedx+json` or `application/spdx+json`.
    pub media_type: String,
}

impl LockedSigner {
    /// Whether both are the same signer: a key is compared by its fingerprint, an identity without the revision of its
    /// workflow (`…@refs/tags/v1.4.2`), which differs for each version.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Key(one), Self::Key(other)) => one == other,
            (Self::Identity(one), Self::Identity(other)) => {
                one.issuer == other.issuer && one.without_revision() == other.without_revision()
            }
            _ => false,
        }
    }
}

impl LockedIdentity {
    fn without_revision(&self) -> &str {
        without_revision(&self.subject)
    }
}

impl LockedProvenance {
    /// Whether both have the same builder and the same repository, regardless of the revision.
    pub fn is_same(&self, other: &Self) -> bool {
        let parts = |of: &Self| [&of.builder, &of.source].map(|text| without_revision(text).to_owned());
        parts(self) == parts(other)
    }
}

impl fmt::Display for LockedProvenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {}", self.source, self.builder)
    }
}

/// A workflow or a repository without the suffix `@refs/…`.
fn without_revision(text: &str) -> &str {
    text.split_once("@refs/").map_or(text, |(name, _)| name)
}

impl fmt::Display for LockedSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(fingerprint) => fingerprint.fmt(f),
            Self::Identity(LockedIdentity { issuer, subject }) => write!(f, "{subject} ({issuer})"),
        }
    }
}

/// The reason why a lock cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// The file cannot be read.
    #[error("the lock {file} cannot be read: {source}")]
    Read {
        /// The file.
        file: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file is too large, has another format, or contradicts itself.
    #[error("the lock {file} is not valid: {reason}")]
    Invalid {
        /// The file.
        file: String,
        /// The problem.
        reason: String,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    #[serde(default, rename = "component", skip_serializing_if = "Vec::is_empty")]
    components: Vec<LockedComponent>,
}

impl Lock {
    /// Reads a lock; an empty one if the file does not exist.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is invalid.
    pub fn load(file: &Path) -> Result<Self, LockError> {
        let name = || file.display().to_string();
        let bytes = match regular_file::read(file, MAX_FILE_SIZE) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(source) => return Err(LockError::Read { file: name(), source }),
        };
        let invalid = |reason: String| LockError::Invalid { file: name(), reason };
        if bytes.len() > MAX_FILE_SIZE {
            return Err(invalid(format!("it has more than {MAX_FILE_SIZE} bytes")));
        }
        let text = str::from_utf8(&bytes).map_err(|_| invalid("it is not UTF-8".to_owned()))?;
        Self::parse(text).map_err(invalid)
    }

    /// Parses a lock.
    ///
    /// # Errors
    ///
    /// The text is invalid; the error is the escaped reason.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|error| escape::line(error.message()).into_owned())?;
        if file.version != FORMAT {
            return Err(format!("its format is {}, and this version of mcp-host reads {FORMAT}", file.version));
        }
        if file.components.len() > MAX_COMPONENTS {
            return Err(format!("it has more than {MAX_COMPONENTS} components"));
        }
        let mut components = BTreeMap::new();
        for component in file.components {
            component.check()?;
            let source = component.source.clone();
            if components.insert(source.clone(), component).is_some() {
                return Err(format!("it has `{source}` twice"));
            }
        }
        Ok(Self { components })
    }

    /// The text of the file: deterministic for equal components.
    ///
    /// # Errors
    ///
    /// A text cannot be written as TOML.
    pub fn to_text(&self) -> Result<String, toml::ser::Error> {
        let components = self.components.values().cloned().collect();
        Ok(format!("{HEADER}{}", toml::to_string_pretty(&File { version: FORMAT, components })?))
    }

    /// The resolved component of a reference.
    pub fn get(&self, source: &Reference) -> Option<&LockedComponent> {
        self.components.get(source)
    }

    /// All components, sorted by reference.
    pub fn components(&self) -> impl Iterator<Item = &LockedComponent> {
        self.components.values()
    }

    /// Adds or replaces a resolved component.
    pub fn insert(&mut self, component: LockedComponent) {
        self.components.insert(component.source.clone(), component);
    }

    /// Removes the components of all other references. Returns whether any was removed.
    pub fn retain(&mut self, sources: &BTreeSet<Reference>) -> bool {
        let before = self.components.len();
        self.components.retain(|source, _| sources.contains(source));
        before != self.components.len()
    }
}

impl LockedComponent {
    /// Checks that the reference matches the resolved component.
    fn check(&self) -> Result<(), String> {
        let agrees = match (&self.source.selector, &self.version) {
            (Selector::Digest(digest), None) => *digest == self.manifest,
            (Selector::Digest(_), Some(_)) | (_, None) => false,
            (selector, Some(version)) => selector.matches(version),
        };
        if agrees { Ok(()) } else { Err(format!("`{}` is locked to a version that it does not name", self.source)) }
    }
}

/// Serialization of values as texts.
mod text {
    use super::*;

    pub(super) fn serialize<T: ToString, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&value.to_string())
    }

    pub(super) fn deserialize<'d, T, D>(deserializer: D) -> Result<T, D::Error>
    where
        T: std::str::FromStr<Err: std::fmt::Display>,
        D: Deserializer<'d>,
    {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// Serialization of an optional version.
mod optional_text {
    use super::*;

    pub(super) fn serialize<S: Serializer>(value: &Option<Version>, serializer: S) -> Result<S::Ok, S::Error> {
        value.as_ref().map(ToString::to_string).serialize(serializer)
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(deserializer: D) -> Result<Option<Version>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| text.parse().map_err(D::Error::custom)).transpose()
    }
}

/// Serialization of a list of digests.
mod digests {
    use super::*;

    pub(super) fn serialize<S: Serializer>(digests: &[Digest], serializer: S) -> Result<S::Ok, S::Error> {
        digests.iter().map(ToString::to_string).collect::<Vec<_>>().serialize(serializer)
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(deserializer: D) -> Result<Vec<Digest>, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        texts.iter().map(|text| text.parse().map_err(D::Error::custom)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn component(source: &str, version: Option<&str>) -> LockedComponent {
        LockedComponent {
            source: source.parse().unwrap(),
            version: version.map(|version| version.parse().unwrap()),
            manifest: Digest::compute(b"manifest"),
            component: Digest::compute(b"component"),
            size: 9,
            provider: "we\"b\n".to_owned(),
            provider_version: "1.4.2".to_owned(),
            contract: "0.1.0".to_owned(),
            imports: ["wasi:http/outgoing-handler@0.2.0".to_owned()].into(),
            needs: ["http:https://docs.rs".to_owned()].into(),
            agreed: ["http:https://docs.rs".to_owned()].into(),
            signers: [LockedSigner::Key(Digest::compute(b"key")), identity("https://f.example/a@refs/tags/v1")].into(),
            bundles: vec![Digest::compute(b"bundle")],
            provenance: Some(LockedProvenance { builder: "runner".to_owned(), source: "\n".to_owned() }),
            sboms: vec![LockedSbom {
                digest: Digest::compute(b"sbom"),
                media_type: "application/spdx+json".to_owned(),
            }],
        }
    }

    fn identity(subject: &str) -> LockedSigner {
        let issuer = "https://token.example".to_owned();
        LockedSigner::Identity(LockedIdentity { issuer, subject: subject.to_owned() })
    }

    #[test]
    fn a_workflow_is_the_same_signer_at_each_revision() {
        let signer = identity("https://f.example/a/w.yml@refs/tags/v1");
        assert!(signer.is_same(&identity("https://f.example/a/w.yml@refs/tags/v2")));
        assert!(!signer.is_same(&identity("https://f.example/b/w.yml@refs/tags/v1")));
        assert!(!signer.is_same(&LockedSigner::Key(Digest::compute(b"key"))));
        assert!(!identity("ada@a.example").is_same(&identity("eve@a.example")));
    }

    fn lock() -> Lock {
        let mut lock = Lock::default();
        lock.insert(component("oci://a.example/web:1.4", Some("1.4.2")));
        let digest = Digest::compute(b"manifest");
        lock.insert(component(&format!("oci://a.example/web@{digest}"), None));
        lock
    }

    #[test]
    fn a_lock_is_read_as_it_was_written() {
        let text = lock().to_text().unwrap();
        assert_eq!(Lock::parse(&text).unwrap(), lock());
        assert_eq!(Lock::parse(&Lock::default().to_text().unwrap()).unwrap(), Lock::default());
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let text = lock().to_text().unwrap();
        for (from, to, expected) in [
            ("version = 1\n", "version = 2\n", "its format is 2"),
            ("size = 9", "size = 9\ntrusted = true", "unknown field"),
            ("size = 9", "size = -9", "invalid value"),
            ("sha256:", "sha512:", "does not begin with"),
            ("web:1.4\"", "web:1.5\"", "locked to a version that it does not name"),
            ("version = \"1.4.2\"\n", "", "locked to a version that it does not name"),
        ] {
            let error = Lock::parse(&text.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(expected), "{to}: {error}");
        }
        let twice = text.split_once("[[component]]").map(|(_, first)| format!("{text}\n[[component]]{first}")).unwrap();
        assert!(Lock::parse(&twice).unwrap_err().contains("twice"));
        assert!(Lock::parse("").unwrap_err().contains("version"));
    }

    #[test]
    fn no_lock_is_an_empty_one_and_one_that_cannot_be_read_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(FILE_NAME);
        assert_eq!(Lock::load(&file).unwrap(), Lock::default());
        std::fs::write(&file, b"\xff").unwrap();
        assert!(Lock::load(&file).unwrap_err().to_string().contains("it is not UTF-8"));
        assert!(matches!(Lock::load(dir.path()), Err(LockError::Read { .. })));
    }
}
