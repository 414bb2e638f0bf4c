//! Keyless signers of a `[[trust]]`, as in Sigstore, and the provenance that a `[[trust]]` requires.
//!
//! A keyless signature uses a certificate that is valid for minutes. A certificate authority issued it to a signer whom
//! an OpenID Connect issuer authenticated. `root` is the file with the trusted authority, logs and timestamp
//! authorities. The signer is compared with `identities`:
//!
//! | key | is compared |
//! |---|---|
//! | `issuer` | exactly |
//! | `subject` | as a glob: `*` matches any characters but `/`, and `**` as a whole segment matches any segments |
//!
//! Only data that commands need for verification is read here: the commands parse the file (`mcp_host_registry`), and
//! serving does not use it.

use std::fmt;

use globset::{GlobBuilder, GlobMatcher};
use mcp_host_base::regular_file;
use mcp_host_base::text::quote;
use mcp_host_model::digest::Digest;
use serde_json::Value;

use crate::declare::{checked_text, from_text, table, written_as};
use crate::diagnostic::Suggest;
use crate::paths::ExistingFile;
use crate::reader::Schema;

/// The maximum size of a trusted root in bytes.
const MAX_ROOT_SIZE: usize = 1 << 20;
/// The prefix of the media type of a trusted root, before its version.
const ROOT_TYPE: &str = "application/vnd.dev.sigstore.trustedroot";
/// The maximum length of an issuer or a pattern in bytes.
const MAX_TEXT_LEN: usize = 512;

table! {
    /// A trusted keyless signer.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Identity as "an identity",
    such as "{ issuer = \"https://token.actions.example\", subject = \"https://forge.example/acme/web/**\" }" {
        /// The OpenID Connect issuer of the signer's identity, exactly as in certificates.
        #[required]
        pub issuer: Issuer,
        /// The identity of the signer, an e-mail address or a URI, as a glob: `*` matches any characters except `/`,
        /// and `**` as a whole segment matches any segments.
        #[required]
        pub subject: SubjectPattern,
    }
}

table! {
    /// The required content of a provenance: SLSA, version 1.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Provenance as "a provenance",
    such as "{ builder = \"https://forge.example/runner\", source = \"https://forge.example/acme/web\" }" {
        /// The builder's identifier (`runDetails.builder.id`), as a glob.
        #[required]
        pub builder: SubjectPattern,
        /// The repository that the component was built from, as a glob, without the prefix `git+` and the suffix
        /// `@REF`.
        #[required]
        pub source: SubjectPattern,
    }
}

checked_text! {
    /// An OpenID Connect issuer: `https://token.actions.example`.
    pub struct Issuer, IssuerError as "an issuer", such as "\"https://token.actions.example\"",
    schema Schema::pattern(r"^https://[!-~]+$"),
    valid if |text| text.strip_prefix("https://").is_some_and(|rest| !rest.is_empty() && is_visible(rest)),
    otherwise "write the URL of the issuer, exactly as certificates have it, such as `https://accounts.example.com`"
}

/// A glob for signers, or for values of a provenance.
#[derive(Clone)]
pub struct SubjectPattern(GlobMatcher);

/// The reason why a text is not such a glob.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubjectPatternError {
    /// The text is not a glob, or has spaces.
    #[error("{} is not a glob of an address or a URI", quote(.0))]
    Invalid(String),
    /// The glob matches every identity of the issuer.
    #[error("{} names everybody", quote(.0))]
    Everybody(String),
}

impl SubjectPattern {
    /// The text of the glob.
    pub fn as_str(&self) -> &str {
        self.0.glob().glob()
    }

    /// Whether a text matches as a whole.
    pub fn matches(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

impl fmt::Debug for SubjectPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SubjectPattern({:?})", self.as_str())
    }
}

impl fmt::Display for SubjectPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl PartialEq for SubjectPattern {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for SubjectPattern {}

impl std::str::FromStr for SubjectPattern {
    type Err = SubjectPatternError;

    fn from_str(text: &str) -> Result<Self, SubjectPatternError> {
        let invalid = || SubjectPatternError::Invalid(text.to_owned());
        if text.is_empty() || !is_visible(text) {
            return Err(invalid());
        }
        if text.chars().all(|letter| matches!(letter, '*' | '?' | '/')) {
            return Err(SubjectPatternError::Everybody(text.to_owned()));
        }
        let glob = GlobBuilder::new(text).literal_separator(true).build().map_err(|_| invalid())?;
        Ok(Self(glob.compile_matcher()))
    }
}

impl Suggest for SubjectPatternError {
    fn suggestion(&self, _: &str) -> String {
        "write who signs, such as `https://forge.example/acme/web/**` or `*@acme.example`: `*` stands for anything but `/`, and `**` as a \
         whole segment for any segments"
            .to_owned()
    }
}

from_text!(SubjectPattern, "a glob", "\"https://forge.example/acme/web/**\"", Schema::pattern(r"^[!-~]+$"));

/// Whether a text is short ASCII without spaces and control characters.
fn is_visible(text: &str) -> bool {
    text.len() <= MAX_TEXT_LEN && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// A trusted root of Sigstore: the text of its file, which is parsed by its users.
#[derive(Clone, PartialEq, Eq)]
pub struct TrustedRoot {
    json: String,
}

impl TrustedRoot {
    /// Checks that a text looks like a trusted root.
    ///
    /// # Errors
    ///
    /// The text does not; the error is the reason.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, String> {
        if bytes.len() > MAX_ROOT_SIZE {
            return Err(format!("it has more than {MAX_ROOT_SIZE} bytes"));
        }
        let json = String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
        let parsed: Value = serde_json::from_str(&json).map_err(|error| format!("it is not JSON: {error}"))?;
        match parsed.get("mediaType").and_then(Value::as_str) {
            Some(kind) if kind.starts_with(ROOT_TYPE) => Ok(Self { json }),
            Some(kind) => Err(format!("it is of the type {}, and `{ROOT_TYPE}…` is expected", quote(kind))),
            None => Err(format!("it has no `mediaType`, and `{ROOT_TYPE}…` is expected")),
        }
    }

    /// The JSON text.
    pub fn json(&self) -> &str {
        &self.json
    }
}

impl fmt::Debug for TrustedRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TrustedRoot({})", Digest::compute(self.json.as_bytes()))
    }
}

/// The file of a trusted root.
pub(crate) struct RootFile(pub(crate) TrustedRoot);

written_as! {
    RootFile as ExistingFile, such as "\"trusted_root.json\"", |node| {
        let ExistingFile(path) = ExistingFile::from_node(node)?;
        let read = regular_file::read(&path, MAX_ROOT_SIZE).map_err(|error| format!("it cannot be read: {error}"));
        match read.and_then(TrustedRoot::parse) {
            Ok(root) => Some(Self(root)),
            Err(reason) => {
                let help = "name the `trusted_root.json` of the Sigstore instance whose signatures count, as its TUF repository has it";
                node.report_machine_error(format!("the trusted root cannot be used: {reason}"), help);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_does_not_cross_a_slash() {
        let matches = |pattern: &str, text: &str| pattern.parse::<SubjectPattern>().unwrap().matches(text);
        let workflow = "https://forge.example/acme/web/.forge/release.yml@refs/tags/v1.4.2";
        assert!(matches("https://forge.example/acme/web/**", workflow));
        assert!(matches("https://forge.example/acme/web/.forge/release.yml@refs/tags/v*", workflow));
        assert!(matches(workflow, workflow));
        assert!(!matches("https://forge.example/acme/web/*", workflow));
        assert!(!matches("https://forge.example/acme/**", "https://forge.example/acme-evil/web/x"));
        assert!(!matches("https://forge.example/acme/web/**", "https://forge.example/acme/web"));
        assert!(!matches("forge.example/acme/web/x", "https://forge.example/acme/web/x"), "the whole text");
        assert!(matches("*@acme.example", "ada@acme.example"));
        assert!(!matches("*@acme.example", "ada@acme.example.evil"));
        assert!(!matches("*@acme.example", "x/ada@acme.example"));
    }

    #[test]
    fn a_pattern_of_everybody_is_refused() {
        for text in ["*", "**", "**/*", "/**", "?"] {
            assert_eq!(text.parse::<SubjectPattern>(), Err(SubjectPatternError::Everybody(text.to_owned())));
        }
        for text in ["", "a b", "a\n", "[", &"a".repeat(513), "é@acme.example"] {
            assert_eq!(text.parse::<SubjectPattern>(), Err(SubjectPatternError::Invalid(text.to_owned())));
        }
        for text in ["http://a.example", "https://", "https://a b", "a"] {
            assert!(text.parse::<Issuer>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_trusted_root_says_that_it_is_one() {
        let root = |text: &str| TrustedRoot::parse(text.as_bytes().to_vec());
        assert!(root(r#"{"mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1"}"#).is_ok());
        assert!(root("{").unwrap_err().contains("not JSON"));
        assert!(root("[]").unwrap_err().contains("no `mediaType`"));
        assert!(root(r#"{"mediaType": "text/\u001bplain"}"#).unwrap_err().contains("is expected"));
        assert!(TrustedRoot::parse(vec![b' '; MAX_ROOT_SIZE + 1]).unwrap_err().contains("more than"));
    }
}
