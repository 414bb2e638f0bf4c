//! Publishing a component: the layout of CNCF TAG Runtime, and a signature bundle that refers to its manifest.
//!
//! The same bytes of the same version make the same manifest: nothing in it depends on the time. A version that is there with another
//! content is not replaced.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use mcp_host_config::registry::{Reference, Repository, Selector};
use mcp_host_model::digest::Digest;
use serde_json::json;

use crate::bundle::{self, BUNDLE, SIGNATURE};
use crate::client::shown;
use crate::error::RegistryError;
use crate::http::HttpError;
use crate::manifest::{
    Descriptor, EMPTY, INDEX, Index, MANIFEST, MAX_COMPONENT_SIZE, Manifest, VERSION, WASM_CONFIG, WASM_LAYER,
};
use crate::referrers::fallback_tag;
use crate::registries::Registries;
use crate::signer::Signer;

/// The annotation with what a component asks for.
const NEEDS: &str = "io.mcp-host.needs.v1";

/// A component to publish.
#[derive(Debug)]
pub struct Upload<'a> {
    /// The component.
    pub component: Bytes,
    /// The interfaces that it imports.
    pub imports: &'a BTreeSet<String>,
    /// The interfaces that it exports.
    pub exports: &'a BTreeSet<String>,
    /// The name of its provider.
    pub title: &'a str,
    /// What it asks for, as JSON.
    pub needs: Option<String>,
    /// The key that signs it.
    pub signer: Option<&'a Signer>,
}

/// What was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// The digest of its manifest.
    pub manifest: Digest,
    /// The digest of the component.
    pub component: Digest,
}

impl Registries {
    /// Publishes a component as that version, and its signature.
    ///
    /// # Errors
    ///
    /// The reference names no whole version, the version is there with another content, or the registry refuses.
    pub async fn push(&self, reference: &Reference, upload: Upload<'_>) -> Result<Published, RegistryError> {
        let Selector::Version(version) = &reference.selector else {
            return Err(RegistryError::Invalid(format!(
                "`{reference}` is no whole version, such as `:1.4.2`, as which something is published"
            )));
        };
        if upload.component.len() as u64 > MAX_COMPONENT_SIZE {
            return Err(RegistryError::Invalid(format!("the component has more than {MAX_COMPONENT_SIZE} bytes")));
        }
        let repository = &reference.repository;
        let tag = version.to_string();
        let component = Descriptor::of(WASM_LAYER, &upload.component);
        let config = config(&upload, &component);
        let mut annotations = BTreeMap::from([
            ("org.opencontainers.image.title".to_owned(), upload.title.to_owned()),
            (VERSION.to_owned(), tag.clone()),
        ]);
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
        let bytes = encode(&manifest)?;
        let digest = Digest::compute(&bytes);
        let failed = |error: HttpError| unavailable(reference, &error);
        match self.client.manifest(repository, &tag).await {
            Ok(there) if Digest::compute(&there) != digest => {
                return Err(RegistryError::Invalid(format!(
                    "`{reference}` is published already, with another content ({}); publish a new version",
                    Digest::compute(&there)
                )));
            }
            Ok(_) | Err(HttpError::NotFound) => {}
            Err(error) => return Err(failed(error)),
        }
        let component = self.client.upload(repository, upload.component).await.map_err(failed)?;
        self.client.upload(repository, config.into()).await.map_err(failed)?;
        self.client.put_manifest(repository, &tag, MANIFEST, bytes.clone()).await.map_err(failed)?;
        if let Some(signer) = upload.signer {
            let subject = Descriptor::of(MANIFEST, &bytes);
            let bundle = bundle::sign(signer, &digest).map_err(|error| RegistryError::Invalid(error.to_string()))?;
            self.attach(repository, subject, bundle).await.map_err(failed)?;
        }
        Ok(Published { manifest: digest, component })
    }

    /// Publishes a bundle that refers to a manifest.
    async fn attach(&self, repository: &Repository, subject: Descriptor, bundle: Vec<u8>) -> Result<(), HttpError> {
        let subject_digest = subject.parse_digest().map_err(|reason| broken(repository, reason))?;
        let referrer = referrer(subject, &bundle);
        let annotations = referrer.annotations.clone();
        let bytes = encode(&referrer).map_err(|error| broken(repository, error.to_string()))?;
        self.client.upload(repository, Bytes::from_static(b"{}")).await?;
        self.client.upload(repository, bundle.into()).await?;
        let digest = Digest::compute(&bytes).to_string();
        if self.client.put_manifest(repository, &digest, MANIFEST, bytes.clone()).await? {
            return Ok(());
        }
        // The registry has no referrers API: the index of referrers has a tag.
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
            artifact_type: Some(BUNDLE.to_owned()),
            annotations,
            ..Descriptor::of(MANIFEST, &bytes)
        });
        let index = serde_json::to_vec(&index).map_err(|error| broken(repository, error.to_string()))?;
        self.client.put_manifest(repository, &tag, INDEX, index.into()).await.map(drop)
    }
}

/// A manifest that makes a bundle a referrer of the subject.
pub(crate) fn referrer(subject: Descriptor, bundle: &[u8]) -> Manifest {
    let annotations = BTreeMap::from([
        ("dev.sigstore.bundle.content".to_owned(), "dsse-envelope".to_owned()),
        ("dev.sigstore.bundle.predicateType".to_owned(), SIGNATURE.to_owned()),
    ]);
    Manifest {
        schema_version: 2,
        media_type: Some(MANIFEST.to_owned()),
        artifact_type: Some(BUNDLE.to_owned()),
        config: Descriptor::of(EMPTY, b"{}"),
        layers: vec![Descriptor::of(BUNDLE, bundle)],
        subject: Some(subject),
        annotations,
    }
}

/// The config of a component. It has a time, as its format requires: always the same one.
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
    serde_json::to_vec(manifest).map(Bytes::from).map_err(|error| RegistryError::Invalid(error.to_string()))
}

fn broken(repository: &Repository, reason: String) -> HttpError {
    HttpError::Broken { host: repository.registry().to_owned(), reason }
}

fn unavailable(reference: &Reference, error: &HttpError) -> RegistryError {
    let what = format!("cannot publish `{reference}` in {}", shown(&reference.repository));
    RegistryError::Unavailable { what, causes: vec![error.to_string()] }
}
