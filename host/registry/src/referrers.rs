//! The referrers of a manifest: signature bundles and bills of materials, from the referrers API, or from the tag that
//! the specification defines for registries without it.
//!
//! An empty answer means that there are no referrers; a missing answer is an error. Any principal with write access to
//! the repository can add referrers: a malformed one is skipped, and more than [`MAX_REFERRERS`] of a type are an
//! error.

use bytes::Bytes;
use mcp_host_config::registry::Repository;
use mcp_host_model::digest::Digest;

use crate::bundle::{BUNDLE, MAX_BUNDLE_SIZE};
use crate::client::{Client, fallback_tag};
use crate::http::HttpError;
use crate::manifest::Manifest;
use crate::place::Place;
use crate::sbom::{MAX_SBOM_SIZE, MAX_SBOMS, SBOM_TYPES};

/// The maximum number of a manifest's referrers per type.
const MAX_REFERRERS: usize = 64;

/// A document with its digest, which is its name in the store.
pub(crate) type Document = (Digest, Bytes);

/// Returns the signature bundles that refer to a manifest.
pub(crate) async fn bundles(client: &Client, place: &Place, manifest: &Digest) -> Result<Vec<Document>, HttpError> {
    let mut found = Vec::new();
    for digest in listed(client, place, manifest, BUNDLE, "signature bundles").await? {
        let of_bundle = |referrer: &Manifest| document_of(referrer, manifest, Some(BUNDLE), MAX_BUNDLE_SIZE);
        if let Some(digest) = referrer(client, place, &digest).await?.as_ref().and_then(of_bundle) {
            found.push((digest, place.small_blob(client, &digest, MAX_BUNDLE_SIZE).await?));
        }
    }
    Ok(found)
}

/// Returns the bills of materials that refer to a manifest, each with its type: the first ones within the size limit.
pub(crate) async fn sboms(
    client: &Client,
    place: &Place,
    manifest: &Digest,
) -> Result<Vec<(&'static str, Bytes)>, HttpError> {
    let mut found = Vec::new();
    for media_type in SBOM_TYPES {
        for digest in listed(client, place, manifest, media_type, "bills of materials").await? {
            if found.len() >= MAX_SBOMS {
                return Ok(found);
            }
            let of_sbom = |referrer: &Manifest| document_of(referrer, manifest, None, MAX_SBOM_SIZE);
            if let Some(digest) = referrer(client, place, &digest).await?.as_ref().and_then(of_sbom) {
                found.push((media_type, place.small_blob(client, &digest, MAX_SBOM_SIZE).await?));
            }
        }
    }
    Ok(found)
}

/// Returns whether there is a signature of cosign v2, which has a separate tag.
pub(crate) async fn has_v2_signature(client: &Client, repository: &Repository, manifest: &Digest) -> bool {
    client.manifest(repository, &format!("{}.sig", fallback_tag(manifest))).await.is_ok()
}

/// Returns the manifests with an artifact type in the index of referrers.
async fn listed(
    client: &Client,
    place: &Place,
    manifest: &Digest,
    artifact_type: &str,
    what: &str,
) -> Result<Vec<Digest>, HttpError> {
    let Some(index) = place.referrers(client, manifest, artifact_type).await? else { return Ok(Vec::new()) };
    let of_type = index.manifests.iter().filter(|entry| entry.artifact_type.as_deref() == Some(artifact_type));
    let listed: Vec<Digest> = of_type.filter_map(|entry| entry.parse_digest().ok()).collect();
    if listed.len() > MAX_REFERRERS {
        let count = listed.len();
        return Err(place.broken(format!("{count} {what} refer to {manifest}, and {MAX_REFERRERS} are looked at")));
    }
    Ok(listed)
}

async fn referrer(client: &Client, place: &Place, digest: &Digest) -> Result<Option<Manifest>, HttpError> {
    let bytes = place.manifest(client, &digest.to_string()).await?;
    Ok(Manifest::parse(&bytes).ok())
}

/// Returns the document of a referrer: its only layer, with this media type if one is given.
fn document_of(referrer: &Manifest, manifest: &Digest, media_type: Option<&str>, max: usize) -> Option<Digest> {
    let is_about = referrer.subject.as_ref().and_then(|subject| subject.parse_digest().ok()) == Some(*manifest);
    let [layer] = referrer.layers.as_slice() else { return None };
    let is_of_type = media_type.is_none_or(|media_type| layer.media_type == media_type);
    if is_about && is_of_type && layer.size <= max as u64 { layer.parse_digest().ok() } else { None }
}
