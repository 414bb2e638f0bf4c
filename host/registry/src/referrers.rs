//! Signature bundles that refer to a manifest: by the referrers API, else by the tag that the specification has for registries without.
//!
//! A registry that has none says so; one that does not answer is an error, and never "none". Everything here is written by whoever may
//! write to the repository: a referrer that is malformed is skipped, and more than [`MAX_REFERRERS`] bundles are an error.

use bytes::Bytes;
use mcp_host_config::registry::Repository;
use mcp_host_model::digest::Digest;

use crate::bundle::{BUNDLE, MAX_BUNDLE_SIZE};
use crate::client::Client;
use crate::http::HttpError;
use crate::manifest::{Index, MAX_MANIFEST_SIZE, Manifest};

/// The maximum number of bundles of a manifest.
const MAX_REFERRERS: usize = 64;

/// A bundle with its digest, by which the store has it.
pub(crate) type StoredBundle = (Digest, Bytes);

/// The tag of the index of referrers, where a registry has no API.
pub(crate) fn fallback_tag(manifest: &Digest) -> String {
    format!("sha256-{}", manifest.digits())
}

/// The bundles that refer to a manifest.
pub(crate) async fn bundles(
    client: &Client,
    repository: &Repository,
    manifest: &Digest,
) -> Result<Vec<StoredBundle>, HttpError> {
    let Some(index) = index(client, repository, manifest).await? else { return Ok(Vec::new()) };
    let broken = |reason: String| HttpError::Broken { host: repository.registry().to_owned(), reason };
    let index = Index::parse(&index).map_err(broken)?;
    let of_bundles = index.manifests.iter().filter(|entry| entry.artifact_type.as_deref() == Some(BUNDLE));
    let referrers: Vec<Digest> = of_bundles.filter_map(|entry| entry.parse_digest().ok()).collect();
    if referrers.len() > MAX_REFERRERS {
        return Err(broken(format!(
            "{} signature bundles refer to {manifest}, and {MAX_REFERRERS} are looked at",
            referrers.len()
        )));
    }
    let mut found = Vec::new();
    for referrer in referrers {
        let bytes = client.manifest(repository, &referrer.to_string()).await?;
        let Some(digest) = Manifest::parse(&bytes).ok().and_then(|referrer| bundle_of(&referrer, manifest)) else {
            continue;
        };
        found.push((digest, client.small_blob(repository, &digest, MAX_BUNDLE_SIZE).await?));
    }
    Ok(found)
}

/// Whether there is a signature of cosign v2, which has a tag of its own.
pub(crate) async fn has_v2_signature(client: &Client, repository: &Repository, manifest: &Digest) -> bool {
    client.manifest(repository, &format!("{}.sig", fallback_tag(manifest))).await.is_ok()
}

/// The index of the referrers of a manifest; none if there are none.
async fn index(client: &Client, repository: &Repository, manifest: &Digest) -> Result<Option<Bytes>, HttpError> {
    if let Some(index) = client.referrers(repository, manifest, BUNDLE, MAX_MANIFEST_SIZE).await? {
        return Ok(Some(index));
    }
    match client.manifest(repository, &fallback_tag(manifest)).await {
        Ok(index) => Ok(Some(index)),
        Err(HttpError::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The bundle that a referrer has: its only layer.
fn bundle_of(referrer: &Manifest, manifest: &Digest) -> Option<Digest> {
    let is_about = referrer.subject.as_ref().and_then(|subject| subject.parse_digest().ok()) == Some(*manifest);
    let [layer] = referrer.layers.as_slice() else { return None };
    let is_bundle = layer.media_type == BUNDLE && layer.size <= MAX_BUNDLE_SIZE as u64;
    if is_about && is_bundle { layer.parse_digest().ok() } else { None }
}
