//! Publishing a component: the layout of CNCF TAG Runtime, and the referrers of its manifest: signature bundles, a
//! provenance, a bill of materials.
//!
//! Equal bytes with an equal version give an equal manifest: nothing in it depends on the time. An existing version is
//! not replaced. If it has the same component, because another program has published it (`wkg`), its manifest is kept,
//! and the referrers refer to that one.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use mcp_host_config::registry::{Reference, Repository, Selector};
use mcp_host_model::digest::Digest;
use semver::Version;
use serde_json::{Value, json};

use crate::bundle::{self, BUNDLE, Bundle, MAX_BUNDLE_SIZE};
use crate::client::fallback_tag;
use crate::client::shown;
use crate::error::RegistryError;
use crate::http::HttpError;
use crate::manifest::{
    Descriptor, EMPTY, INDEX, Index, MANIFEST, MAX_COMPONENT_SIZE, Manifest, VERSION, WASM_CONFIG, WASM_LAYER,
};
use crate::registries::{Registries, check_version};
use crate::sbom::{MAX_SBOM_SIZE, SbomSummary};
use crate::signer::Signer;
use crate::statement::{self, PROVENANCE};

/// The annotation with the title of a manifest, or the file name of a layer.
const TITLE: &str = "org.opencontainers.image.title";
/// The annotation with the needs of a component.
const NEEDS: &str = "io.mcp-host.needs.v1";

/// A component to publish.
#[derive(Debug)]
pub struct Upload<'a> {
    /// The component.
    pub component: Bytes,
    /// The imported interfaces.
    pub imports: &'a BTreeSet<String>,
    /// The exported interfaces.
    pub exports: &'a BTreeSet<String>,
    /// The name of the component's provider.
    pub title: &'a str,
    /// The declared needs, as JSON.
    pub needs: Option<String>,
    /// The signing key.
    pub signer: Option<&'a Signer>,
    /// The referrers to publish.
    pub attachments: Vec<Attachment>,
}

/// A document that refers to the published component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// A bundle made by another program: a signature, or an attestation.
    Bundle(Bytes),
    /// The predicate of a provenance (SLSA 1), to be signed with the key.
    Provenance(Value),
    /// A bill of materials: CycloneDX or SPDX, in JSON.
    Sbom(Bytes),
}

/// The reason why a document cannot be attached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AttachmentError {
    /// The document is too large.
    #[error("it has more than {0} bytes")]
    TooLarge(usize),
    /// The document is not a bundle that this version verifies.
    #[error("it is no signature bundle: {0}")]
    Bundle(&'static str),
    /// The document is not a provenance.
    #[error(
        "it is no provenance of SLSA 1: expected JSON with `runDetails.builder.id`, and the repository in \
         `buildDefinition.externalParameters`, or a statement of in-toto with that as its `predicate`"
    )]
    Provenance,
    /// The document is not a bill of materials.
    #[error("it is neither CycloneDX nor SPDX in JSON")]
    Sbom,
}

impl Attachment {
    /// Reads a bundle.
    ///
    /// # Errors
    ///
    /// The bytes are not a bundle, or too large.
    pub fn bundle(bytes: Bytes) -> Result<Self, AttachmentError> {
        within(&bytes, MAX_BUNDLE_SIZE)?;
        Bundle::parse(&bytes).map_err(AttachmentError::Bundle)?;
        Ok(Self::Bundle(bytes))
    }

    /// Reads a provenance: a predicate, or a statement with one.
    ///
    /// # Errors
    ///
    /// The bytes are not a provenance, or too large.
    pub fn provenance(bytes: &[u8]) -> Result<Self, AttachmentError> {
        within(bytes, MAX_BUNDLE_SIZE / 2)?;
        let mut document: Value = serde_json::from_slice(bytes).map_err(|_| AttachmentError::Provenance)?;
        if document.get("predicateType").and_then(Value::as_str) == Some(PROVENANCE) {
            document = document.get_mut("predicate").map(Value::take).ok_or(AttachmentError::Provenance)?;
        }
        if statement::is_provenance(&document) {
            Ok(Self::Provenance(document))
        } else {
            Err(AttachmentError::Provenance)
        }
    }

    /// Reads a bill of materials.
    ///
    /// # Errors
    ///
    /// The bytes are not a bill of materials, or too large.
    pub fn sbom(bytes: Bytes) -> Result<Self, AttachmentError> {
        within(&bytes, MAX_SBOM_SIZE)?;
        SbomSummary::read(&bytes).ok_or(AttachmentError::Sbom)?;
        Ok(Self::Sbom(bytes))
    }

    /// Returns the artifact type and the bytes of the document about this manifest.
    fn document(self, manifest: &Digest, signer: Option<&Signer>) -> Result<(&'static str, Bytes), RegistryError> {
        let invalid = |reason: String| RegistryError::Unpublished(reason);
        match self {
            Self::Bundle(bytes) => Ok((BUNDLE, bytes)),
            Self::Provenance(predicate) => {
                let signer = signer.ok_or_else(|| invalid("a provenance is signed: add a key".to_owned()))?;
                let bundle = bundle::sign(signer, &statement::provenance(manifest, predicate));
                Ok((BUNDLE, bundle.map_err(|error| invalid(error.to_string()))?.into()))
            }
            Self::Sbom(bytes) => {
                let summary = SbomSummary::read(&bytes).ok_or_else(|| invalid(AttachmentError::Sbom.to_string()))?;
                Ok((summary.media_type, bytes))
            }
        }
    }
}

fn within(bytes: &[u8], max: usize) -> Result<(), AttachmentError> {
    if bytes.len() > max { Err(AttachmentError::TooLarge(max)) } else { Ok(()) }
}

/// The result of publishing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// The digest of the manifest.
    pub manifest: Digest,
    /// The digest of the component.
    pub component: Digest,
    /// Whether the registry had another manifest with the same component: of another program, with another title or
    /// other needs, or in an older format.
    pub is_foreign: bool,
}

impl Registries {
    /// Publishes a component with this version, and its signature.
    ///
    /// # Errors
    ///
    /// The reference has no whole version, the version exists with other content, or the registry refuses.
    pub async fn push(&self, reference: &Reference, upload: Upload<'_>) -> Result<Published, RegistryError> {
        let Selector::Version(version) = &reference.selector else {
            return Err(RegistryError::Unpublished(match &reference.selector {
                Selector::Range(major, minor) => {
                    let (range, minor) = (&reference.selector, minor.unwrap_or_default());
                    format!("`{range}` is not a whole version: publish as `:{major}.{minor}.0`")
                }
                other => format!("`{other}` is not a version: publish as a whole version, such as `:1.4.2`"),
            }));
        };
        if upload.component.len() as u64 > MAX_COMPONENT_SIZE {
            return Err(RegistryError::Unpublished(format!("the component has more than {MAX_COMPONENT_SIZE} bytes")));
        }
        let repository = &reference.repository;
        let tag = version.to_string();
        let mut component = Descriptor::of(WASM_LAYER, &upload.component);
        component.annotations.insert(TITLE.to_owned(), file_name(upload.title));
        let config = config(&upload, &component);
        let mut annotations =
            BTreeMap::from([(TITLE.to_owned(), upload.title.to_owned()), (VERSION.to_owned(), tag.clone())]);
        annotations.extend(upload.needs.map(|needs| (NEEDS.to_owned(), needs)));
        let manifest = Manifest {
            schema_version: 2,
            media_type: Some(MANIFEST.to_owned()),
            artifact_type: None,
            config: Descriptor::of(WASM_CONFIG, &config),
            layers: vec![component],
            subject: None,
            annotations,
        };
        let own = encode(&manifest)?;
        let failed = |error: HttpError| unavailable(reference, &error);
        let existing = match self.client.manifest(repository, &tag).await {
            Ok(existing) => {
                check_component(reference, version, &existing, &manifest)?;
                Some(existing)
            }
            Err(HttpError::NotFound) => None,
            Err(error) => return Err(failed(error)),
        };
        let (is_new, bytes) = (existing.is_none(), existing.unwrap_or_else(|| own.clone()));
        let digest = Digest::compute(&bytes);
        // The documents are validated before anything is published.
        let mut documents = Vec::new();
        if let Some(signer) = upload.signer {
            let bundle = bundle::sign(signer, &statement::signature(&digest));
            let bundle = bundle.map_err(|error| RegistryError::Unpublished(error.to_string()))?;
            documents.push((BUNDLE, bundle.into()));
        }
        for attachment in upload.attachments {
            documents.push(attachment.document(&digest, upload.signer)?);
        }
        let component = Digest::compute(&upload.component);
        if is_new {
            self.client.upload(repository, upload.component).await.map_err(failed)?;
            self.client.upload(repository, config.into()).await.map_err(failed)?;
            self.client.put_manifest(repository, &tag, MANIFEST, bytes.clone()).await.map_err(failed)?;
        }
        let subject = Descriptor::of(MANIFEST, &bytes);
        for (artifact_type, document) in documents {
            self.attach(repository, subject.clone(), artifact_type, document).await.map_err(failed)?;
        }
        Ok(Published { manifest: digest, component, is_foreign: bytes != own })
    }

    /// Publishes a document that refers to a manifest.
    async fn attach(
        &self,
        repository: &Repository,
        subject: Descriptor,
        artifact_type: &str,
        document: Bytes,
    ) -> Result<(), HttpError> {
        let subject_digest = subject.parse_digest().map_err(|reason| broken(repository, reason))?;
        let referrer = referrer(subject, artifact_type, &document);
        let annotations = referrer.annotations.clone();
        let bytes = encode(&referrer).map_err(|error| broken(repository, error.to_string()))?;
        self.client.upload(repository, Bytes::from_static(b"{}")).await?;
        self.client.upload(repository, document).await?;
        let digest = Digest::compute(&bytes).to_string();
        if self.client.put_manifest(repository, &digest, MANIFEST, bytes.clone()).await? {
            return Ok(());
        }
        // Without the referrers API, the index of referrers has a tag.
        let tag = fallback_tag(&subject_digest);
        let mut index = match self.client.manifest(repository, &tag).await {
            Ok(index) => Index::parse(&index).map_err(|reason| broken(repository, reason))?,
            Err(HttpError::NotFound) => {
                Index { schema_version: 2, media_type: Some(INDEX.to_owned()), manifests: Vec::new() }
            }
            Err(error) => return Err(error),
        };
        if index.manifests.iter().any(|entry| entry.digest == digest) {
            return Ok(());
        }
        index.manifests.push(Descriptor {
            artifact_type: Some(artifact_type.to_owned()),
            annotations,
            ..Descriptor::of(MANIFEST, &bytes)
        });
        let index = serde_json::to_vec(&index).map_err(|error| broken(repository, error.to_string()))?;
        self.client.put_manifest(repository, &tag, INDEX, index.into()).await.map(drop)
    }
}

/// Returns the file name of a component, by which other clients save it.
fn file_name(title: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    format!("{}.wasm", if title.chars().all(is_plain) && !title.is_empty() { title } else { "component" })
}

/// Checks that an existing manifest of this version has the component of the new one.
fn check_component(
    reference: &Reference,
    version: &Version,
    existing: &Bytes,
    new: &Manifest,
) -> Result<(), RegistryError> {
    let other = |reason: &str| {
        RegistryError::Unpublished(format!(
            "`{reference}` is published already, with another content ({}{reason}); publish a new version",
            Digest::compute(existing)
        ))
    };
    let manifest = Manifest::parse(existing).map_err(|_| other(", which is not a component"))?;
    check_version(reference, Some(version), &manifest)?;
    if !manifest.annotations.contains_key(VERSION) {
        // Signed, it could be shown at the tag of any version.
        return Err(other(", which states no version"));
    }
    let is_same = manifest.component().is_ok_and(|component| Ok(component) == new.component());
    if is_same && manifest.subject.is_none() { Ok(()) } else { Err(other("")) }
}

/// Creates a manifest that makes a document a referrer of the subject.
pub(crate) fn referrer(subject: Descriptor, artifact_type: &str, document: &[u8]) -> Manifest {
    let mut annotations = BTreeMap::new();
    if artifact_type == BUNDLE {
        annotations.insert("dev.sigstore.bundle.content".to_owned(), "dsse-envelope".to_owned());
        let predicate_type = Bundle::parse(document).ok().and_then(|bundle| bundle.predicate_type());
        annotations.extend(predicate_type.map(|kind| ("dev.sigstore.bundle.predicateType".to_owned(), kind)));
    }
    Manifest {
        schema_version: 2,
        media_type: Some(MANIFEST.to_owned()),
        artifact_type: Some(artifact_type.to_owned()),
        config: Descriptor::of(EMPTY, b"{}"),
        layers: vec![Descriptor::of(artifact_type, document)],
        subject: Some(subject),
        annotations,
    }
}

/// Creates the config of a component. The format requires a time, so the config has a constant one.
fn config(upload: &Upload<'_>, component: &Descriptor) -> Vec<u8> {
    let config = json!({
        "created": "1970-01-01T00:00:00Z",
        "architecture": "wasm",
        "os": "wasip2",
        "layerDigests": [component.digest],
        "component": { "exports": upload.exports, "imports": upload.imports },
    });
    config.to_string().into_bytes()
}

fn encode(manifest: &Manifest) -> Result<Bytes, RegistryError> {
    serde_json::to_vec(manifest).map(Bytes::from).map_err(|error| RegistryError::Unpublished(error.to_string()))
}

fn broken(repository: &Repository, reason: String) -> HttpError {
    HttpError::Broken { host: repository.registry().to_owned(), reason }
}

fn unavailable(reference: &Reference, error: &HttpError) -> RegistryError {
    let what = format!("cannot publish `{reference}` in {}", shown(&reference.repository));
    RegistryError::Unavailable { what, causes: vec![error.to_string()] }
}
