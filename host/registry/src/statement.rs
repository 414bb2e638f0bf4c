//! Signed statements about a manifest: in-toto, version 1.
//!
//! | `predicateType` | statement |
//! |---|---|
//! | `https://sigstore.dev/cosign/sign/v1` | a signature |
//! | `https://slsa.dev/provenance/v1` | a provenance: the builder and the source (SLSA) |
//!
//! Statements of other types, or about other manifests, are ignored.

use mcp_host_config::registry::{LockedProvenance, Provenance};
use mcp_host_model::digest::Digest;
use serde_json::{Value, json};

/// The type of a statement.
const STATEMENT: &str = "https://in-toto.io/Statement/v1";
/// The predicate type of a cosign signature.
pub(crate) const SIGNATURE: &str = "https://sigstore.dev/cosign/sign/v1";
/// A provenance of SLSA.
pub(crate) const PROVENANCE: &str = "https://slsa.dev/provenance/v1";
/// The maximum length of a name in a provenance.
const MAX_NAME_LEN: usize = 2048;
/// The members of `buildDefinition.externalParameters` in which the known build types have the repository.
const SOURCES: [&str; 4] = ["/workflow/repository", "/source", "/source/uri", "/repository"];

/// A verified statement about a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Statement {
    /// The signer publishes the manifest.
    Signature,
    /// The builder and the source.
    Provenance(Claims),
}

/// The content of a provenance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claims {
    builder: String,
    sources: Vec<String>,
}

impl Statement {
    /// Reads a payload with a verified signature. `None` unless it is a known statement about this manifest.
    pub(crate) fn read(payload: &[u8], manifest: &Digest) -> Option<Self> {
        let statement: Value = serde_json::from_slice(payload).ok()?;
        let text = |member: &str| statement.get(member).and_then(Value::as_str);
        let digits = manifest.digits();
        let is_subject = |subject: &Value| subject.pointer("/digest/sha256").and_then(Value::as_str) == Some(&digits);
        let is_about = statement.get("subject").and_then(Value::as_array)?.iter().any(is_subject);
        if text("_type") != Some(STATEMENT) || !is_about {
            return None;
        }
        match text("predicateType")? {
            SIGNATURE => Some(Self::Signature),
            PROVENANCE => Claims::read(statement.get("predicate")?).map(Self::Provenance),
            _ => None,
        }
    }
}

impl Claims {
    fn read(predicate: &Value) -> Option<Self> {
        let short = |value: &Value| value.as_str().filter(|text| text.len() <= MAX_NAME_LEN).map(str::to_owned);
        let builder = predicate.pointer("/runDetails/builder/id").and_then(short)?;
        let parameters = predicate.pointer("/buildDefinition/externalParameters")?;
        let sources = SOURCES.iter().filter_map(|member| parameters.pointer(member).and_then(short)).collect();
        Some(Self { builder, sources })
    }

    /// Returns the lock entry for the provenance, if it meets the requirement. Without a requirement, the first source
    /// is used.
    pub(crate) fn accepted(&self, required: Option<&Provenance>) -> Option<LockedProvenance> {
        let is_source = |source: &&String| {
            required.is_none_or(|required| {
                let plain = source.strip_prefix("git+").unwrap_or(source);
                required.source.matches(without_revision(plain)) || required.source.matches(plain)
            })
        };
        let source = self.sources.iter().find(is_source)?;
        let is_builder = required.is_none_or(|required| required.builder.matches(&self.builder));
        is_builder.then(|| LockedProvenance { builder: self.builder.clone(), source: source.clone() })
    }

    /// Returns the content, for a message.
    pub(crate) fn describe(&self) -> String {
        let source = self.sources.first().map_or("nothing that is known", String::as_str);
        format!("built by {} from {source}", self.builder)
    }
}

/// Returns a repository without the suffix `@refs/…` or `@COMMIT`.
fn without_revision(source: &str) -> &str {
    let is_revision = |text: &str| text.starts_with("refs/") || text.bytes().all(|byte| byte.is_ascii_hexdigit());
    source.split_once('@').filter(|(_, revision)| is_revision(revision)).map_or(source, |(repository, _)| repository)
}

/// Creates a statement that signs a manifest.
pub(crate) fn signature(manifest: &Digest) -> Value {
    statement(manifest, SIGNATURE, json!({}))
}

/// Creates a provenance of a manifest.
pub(crate) fn provenance(manifest: &Digest, predicate: Value) -> Value {
    statement(manifest, PROVENANCE, predicate)
}

fn statement(manifest: &Digest, predicate_type: &str, predicate: Value) -> Value {
    json!({
        "_type": STATEMENT,
        "subject": [{ "digest": { "sha256": manifest.digits() } }],
        "predicateType": predicate_type,
        "predicate": predicate,
    })
}

/// Returns the predicate type of a payload, unverified.
pub(crate) fn predicate_type(payload: &[u8]) -> Option<String> {
    let statement: Value = serde_json::from_slice(payload).ok()?;
    statement.get("predicateType")?.as_str().filter(|text| text.len() <= MAX_NAME_LEN).map(str::to_owned)
}

/// Returns whether a document is a predicate of a provenance with a builder and a source.
pub(crate) fn is_provenance(predicate: &Value) -> bool {
    Claims::read(predicate).is_some_and(|claims| !claims.sources.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn manifest() -> Digest {
        Digest::compute(b"manifest")
    }

    fn read(statement: &Value) -> Option<Statement> {
        Statement::read(statement.to_string().as_bytes(), &manifest())
    }

    #[test]
    fn a_statement_of_another_kind_or_manifest_counts_as_nothing() {
        assert_eq!(read(&signature(&manifest())), Some(Statement::Signature));
        assert_eq!(read(&signature(&Digest::compute(b""))), None);
        for (member, value) in [
            ("_type", json!("https://in-toto.io/Statement/v0.1")),
            ("predicateType", json!("https://spdx.dev/Document")),
            ("subject", json!([])),
            ("subject", json!({})),
        ] {
            let mut other = signature(&manifest());
            other[member] = value;
            assert_eq!(read(&other), None, "{member}");
        }
        assert!(Statement::read(b"[]", &manifest()).is_none() && Statement::read(b"", &manifest()).is_none());
    }

    #[test]
    fn a_provenance_is_compared_with_what_is_required() {
        let claims = |parameters: Value| {
            let predicate = json!({
                "buildDefinition": { "externalParameters": parameters },
                "runDetails": { "builder": { "id": "https://forge.example/runner@v1" } },
            });
            match read(&provenance(&manifest(), predicate)) {
                Some(Statement::Provenance(claims)) => claims,
                other => panic!("{other:?}"),
            }
        };
        let required = |builder: &str, source: &str| Provenance {
            builder: builder.parse().unwrap(),
            source: source.parse().unwrap(),
        };
        let repository = "https://forge.example/acme/web";
        let runner = "https://forge.example/runner@v*";
        for parameters in [
            json!({ "workflow": { "repository": repository, "ref": "refs/tags/v1" } }),
            json!({ "source": format!("git+{repository}@refs/tags/v1") }),
            json!({ "source": { "uri": format!("git+{repository}@refs/tags/v1") } }),
        ] {
            let claims = claims(parameters);
            assert!(claims.accepted(Some(&required(runner, repository))).is_some());
            assert!(claims.accepted(Some(&required(runner, "https://forge.example/acme/other"))).is_none());
            assert!(claims.accepted(Some(&required("https://forge.example/self-hosted", repository))).is_none());
            assert!(claims.accepted(None).is_some());
        }
        let other = claims(json!({ "source": format!("{repository}@x/evil") }));
        assert!(other.accepted(Some(&required(runner, repository))).is_none());
        let elsewhere = claims(json!({ "dependencies": [repository], "inputs": { "source": repository } }));
        assert!(elsewhere.accepted(Some(&required(runner, repository))).is_none(), "{}", elsewhere.describe());
        let tagged = claims(json!({ "source": format!("git+{repository}@refs/heads/main") }));
        assert!(tagged.accepted(Some(&required(runner, &format!("{repository}@refs/tags/*")))).is_none());
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Statement::read(&bytes, &manifest());
            predicate_type(&bytes);
        }
    }
}
