//! All registries of a config: its mirrors, its authorities, and the steps of obtaining a component.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use jiff::Timestamp;
use mcp_host_base::text::quote;
use mcp_host_config::Config;
use mcp_host_config::registry::{
    LockedComponent, LockedProvenance, LockedSigner, Mirror, Reference, Repository, Selector, Trust,
};
use mcp_host_model::digest::Digest;
use semver::Version;

use crate::bundle::{Bundle, MAX_BUNDLE_SIZE};
use crate::client::{Client, shown};
use crate::error::RegistryError;
use crate::http::{HttpClient, HttpError};
use crate::manifest::{MAX_MANIFEST_SIZE, Manifest, VERSION};
use crate::place::Place;
use crate::referrers::{self, Document};
use crate::sbom::{MAX_SBOM_SIZE, SbomSummary, Sboms};
use crate::store::Store;
use crate::trust::{Moment, Subject, Verified, Verifier};
use crate::versions;

/// The hint beside "no signature" if cosign v2 has signed.
const V2_HINT: &str =
    " but for a signature of cosign v2, which is not accepted (sign again: cosign v3, or `mcp-host push --sign`)";

/// The registries of a config.
#[derive(Debug)]
pub struct Registries {
    pub(crate) client: Client,
    mirrors: BTreeMap<Repository, Vec<Mirror>>,
}

/// A component that was obtained: verified and stored, but not locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obtained {
    /// The requested reference.
    pub reference: Reference,
    /// The version in the tag; `None` for a reference by digest.
    pub version: Option<Version>,
    /// The digest of the manifest.
    pub manifest: Digest,
    /// The digest of the component.
    pub component: Digest,
    /// The size of the component.
    pub size: u64,
    /// The trusted signers.
    pub signers: BTreeSet<LockedSigner>,
    /// The digests of the accepted signature bundles.
    pub bundles: Vec<Digest>,
    /// The content of a provenance that a trusted signer has signed.
    pub provenance: Option<LockedProvenance>,
    /// The bills of materials, unverified.
    pub sboms: Sboms,
}

/// The available versions in a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Available {
    /// The newest version that matches the reference; `None` for a reference by digest.
    pub within: Option<Version>,
    /// The newest release.
    pub newest: Option<Version>,
}

/// Checks that a manifest belongs to the version in the tag. The manifest is signed, but the tag is not: without this
/// check, a client with write access to the registry could present an old version as a new one (downgrade attack).
pub(crate) fn check_version(
    reference: &Reference,
    version: Option<&Version>,
    manifest: &Manifest,
) -> Result<(), RegistryError> {
    let stated = manifest.annotations.get(VERSION).map(|stated| stated.strip_prefix('v').unwrap_or(stated));
    match (version, stated) {
        (Some(version), Some(stated)) if stated.parse().ok().as_ref() != Some(version) => {
            Err(RegistryError::Invalid(format!(
                "the manifest at the tag {version} of {} says that it is version {}: somebody moved the tag; tell its publisher",
                shown(&reference.repository),
                quote(stated)
            )))
        }
        _ => Ok(()),
    }
}

/// The resolved manifest of a reference.
struct Resolved {
    version: Option<Version>,
    bytes: Bytes,
    digest: Digest,
}

impl Registries {
    /// Creates the registries of this config.
    pub fn new(config: &Config) -> Self {
        let authorities = config.registry.ca.iter().flat_map(|bundle| bundle.certificates()).cloned().collect();
        let private = config.registry.private.iter().map(|name| name.as_str().to_ascii_lowercase()).collect();
        let client = Client::new(HttpClient::new(authorities, private));
        Self { client, mirrors: config.registry.mirrors.clone() }
    }

    /// Obtains the current component of a reference: resolved, verified with this trust, and stored.
    ///
    /// # Errors
    ///
    /// The component is unavailable, or not signed as the trust requires. No lock then refers to newly stored content.
    pub async fn obtain(&self, reference: &Reference, trust: &Trust, store: &Store) -> Result<Obtained, RegistryError> {
        let resolved = self.resolve(reference).await?;
        let (verified, bundles) = self.verified(reference, trust, &resolved.digest).await?;
        let manifest = Manifest::parse(&resolved.bytes).map_err(RegistryError::Invalid)?;
        check_version(reference, resolved.version.as_ref(), &manifest)?;
        let (component, size) = manifest.component().map_err(RegistryError::Invalid)?;
        self.store_config(&reference.repository, &manifest, store).await?;
        self.store_blob(&reference.repository, (&component, size), store).await?;
        store.put(&resolved.bytes)?;
        for (_, bytes) in &bundles {
            store.put(bytes)?;
        }
        let sboms = self.sboms(&reference.repository, &resolved.digest, store).await?;
        Ok(Obtained {
            reference: reference.clone(),
            version: resolved.version,
            manifest: resolved.digest,
            component,
            size,
            signers: verified.signers,
            bundles: bundles.iter().map(|(digest, _)| *digest).collect(),
            provenance: verified.provenance,
            sboms,
        })
    }

    /// Returns the current versions, from tags, unverified.
    ///
    /// # Errors
    ///
    /// The registry does not return the tags.
    pub async fn available(&self, reference: &Reference) -> Result<Available, RegistryError> {
        let tags = self.tags(&reference.repository).await?;
        let within = versions::newest(&reference.selector, &tags).map(|(version, _)| version);
        Ok(Available { within, newest: versions::newest_release(&tags) })
    }

    /// Adds missing or changed contents of a locked component to the store. Returns whether any was missing. Contents
    /// are requested by digest, so signatures are not verified again.
    ///
    /// # Errors
    ///
    /// No registry or mirror has a content with this digest.
    pub async fn fetch(&self, locked: &LockedComponent, store: &Store) -> Result<bool, RegistryError> {
        let repository = &locked.source.repository;
        let has = |digest: &Digest| matches!(store.open_verified(digest), Ok(Some(_)));
        let mut is_missing = false;
        if !has(&locked.manifest) {
            is_missing = true;
            let name = locked.manifest.to_string();
            let what = format!("the manifest of `{}`", locked.source);
            let bytes = self.first(repository, &what, async |place| place.manifest(&self.client, &name).await).await?;
            store.put(&bytes)?;
        }
        let manifest = stored_manifest(store, locked).map_err(RegistryError::Invalid)?;
        if let Some(manifest) = manifest {
            is_missing |= self.store_config(repository, &manifest, store).await?;
        }
        for bundle in locked.bundles.iter().filter(|bundle| !has(bundle)) {
            is_missing = true;
            let what = format!("a signature of `{}`", locked.source);
            let request = async |place: &Place| place.small_blob(&self.client, bundle, MAX_BUNDLE_SIZE).await;
            store.put(&self.first(repository, &what, request).await?)?;
        }
        for sbom in locked.sboms.iter().filter(|sbom| !has(&sbom.digest)) {
            is_missing = true;
            let what = format!("a bill of materials of `{}`", locked.source);
            let request = async |place: &Place| place.small_blob(&self.client, &sbom.digest, MAX_SBOM_SIZE).await;
            store.put(&self.first(repository, &what, request).await?)?;
        }
        if !has(&locked.component) {
            is_missing = true;
            self.store_blob(repository, (&locked.component, locked.size), store).await?;
        }
        Ok(is_missing)
    }

    async fn resolve(&self, reference: &Reference) -> Result<Resolved, RegistryError> {
        let (version, name) = match &reference.selector {
            Selector::Digest(digest) => (None, digest.to_string()),
            _ => {
                let (version, tag) = self.newest_tag(reference).await?;
                (Some(version), tag)
            }
        };
        let what = format!("the manifest {name} of {}", shown(&reference.repository));
        let request = async |place: &Place| place.manifest(&self.client, &name).await;
        let bytes = self.first(&reference.repository, &what, request).await?;
        Ok(Resolved { version, digest: Digest::compute(&bytes), bytes })
    }

    async fn tags(&self, repository: &Repository) -> Result<Vec<String>, RegistryError> {
        let what = format!("the versions of {}", shown(repository));
        self.first(repository, &what, async |place| place.tags(&self.client).await).await
    }

    async fn newest_tag(&self, reference: &Reference) -> Result<(Version, String), RegistryError> {
        let seen: RefCell<Vec<String>> = RefCell::default();
        let what = format!("the versions of {}", shown(&reference.repository));
        let request = async |place: &Place| {
            let tags = place.tags(&self.client).await?;
            let newest = versions::newest(&reference.selector, &tags).ok_or(HttpError::NotFound);
            seen.borrow_mut().extend(tags);
            newest
        };
        match self.first(&reference.repository, &what, request).await {
            Err(RegistryError::NotFound(_)) if !seen.borrow().is_empty() => {
                let tags = seen.into_inner();
                Err(RegistryError::NotFound(format!(
                    "none of the {} tags of {} is a version within `{reference}`{}",
                    tags.len(),
                    shown(&reference.repository),
                    versions::suggestion(&tags)
                )))
            }
            result => result,
        }
    }

    /// Returns the verified facts about a manifest, and the accepted bundles. All mirrors are requested, because one
    /// may have no bundles.
    async fn verified(
        &self,
        reference: &Reference,
        trust: &Trust,
        manifest: &Digest,
    ) -> Result<(Verified, Vec<Document>), RegistryError> {
        let verifier = Verifier::new(trust)?;
        let mut subject = Subject { reference, manifest, hint: "" };
        if trust.unsigned {
            return verifier.verify(subject, &[], Moment::Locked).map(|verified| (verified, Vec::new()));
        }
        let moment = Moment::Now(Timestamp::now());
        let (mut found, mut parsed, mut failed) = (Vec::new(), Vec::new(), None);
        for place in self.places(&reference.repository) {
            match referrers::bundles(&self.client, &place, manifest).await {
                Ok(bundles) => {
                    for (digest, bytes) in bundles {
                        if let Ok(bundle) = Bundle::parse(&bytes)
                            && !found.iter().any(|(known, _)| *known == digest)
                        {
                            parsed.push(bundle);
                            found.push((digest, bytes));
                        }
                    }
                    if let Ok(verified) = verifier.verify(subject, &parsed, moment) {
                        return Ok(counting(verified, &found));
                    }
                }
                Err(error) => failed = failed.or(Some(RegistryError::of("the signatures", &error))),
            }
        }
        if let Some(cause) = failed {
            return Err(RegistryError::CouldNotLook {
                source_reference: Box::new(reference.clone()),
                cause: Box::new(cause),
            });
        }
        if parsed.is_empty() && referrers::has_v2_signature(&self.client, &reference.repository, manifest).await {
            subject.hint = V2_HINT;
        }
        verifier.verify(subject, &parsed, moment).map(|verified| counting(verified, &found))
    }

    /// Adds the bills of materials of a manifest to the store, from the first place that has any. If they are
    /// unavailable, the result contains the problem.
    async fn sboms(&self, repository: &Repository, manifest: &Digest, store: &Store) -> Result<Sboms, RegistryError> {
        let (mut sboms, mut is_answered) = (Sboms::default(), false);
        for place in self.places(repository) {
            match referrers::sboms(&self.client, &place, manifest).await {
                Ok(found) if found.is_empty() => is_answered = true,
                Ok(found) => {
                    for (media_type, bytes) in found {
                        store.put(&bytes)?;
                        sboms.found.push(SbomSummary::locked(media_type, &bytes));
                    }
                    sboms.found.sort();
                    sboms.found.dedup();
                    return Ok(Sboms { problem: None, ..sboms });
                }
                Err(error) => sboms.problem = Some(format!("{place}: {error}")),
            }
        }
        Ok(if is_answered { Sboms::default() } else { sboms })
    }

    /// Adds the config of a component to the store, which only archives use. Returns whether it was missing.
    async fn store_config(
        &self,
        repository: &Repository,
        manifest: &Manifest,
        store: &Store,
    ) -> Result<bool, RegistryError> {
        let digest = manifest.config.parse_digest().map_err(RegistryError::Invalid)?;
        if matches!(store.open_verified(&digest), Ok(Some(_))) {
            return Ok(false);
        }
        let what = format!("the config of the component of {}", shown(repository));
        let request = async |place: &Place| place.small_blob(&self.client, &digest, MAX_MANIFEST_SIZE).await;
        store.put(&self.first(repository, &what, request).await?)?;
        Ok(true)
    }

    async fn store_blob(
        &self,
        repository: &Repository,
        blob: (&Digest, u64),
        store: &Store,
    ) -> Result<(), RegistryError> {
        if let Ok(Some(file)) = store.open_verified(blob.0) {
            let length = file.metadata().map_or(0, |metadata| metadata.len());
            return if length == blob.1 {
                Ok(())
            } else {
                let reason = format!("the component has {length} bytes, and the manifest says {}", blob.1);
                Err(RegistryError::Invalid(reason))
            };
        }
        let what = format!("the component of {}", shown(repository));
        self.first(repository, &what, async |place| place.blob(&self.client, blob, store).await).await
    }

    /// Returns the first answer from one of the places.
    async fn first<T>(
        &self,
        repository: &Repository,
        what: &str,
        request: impl AsyncFn(&Place) -> Result<T, HttpError>,
    ) -> Result<T, RegistryError> {
        let (mut causes, mut is_absent) = (Vec::new(), true);
        for place in self.places(repository) {
            match request(&place).await {
                Ok(answer) => return Ok(answer),
                Err(error) => {
                    is_absent &= error == HttpError::NotFound;
                    causes.push(format!("{place}: {error}"));
                }
            }
        }
        if is_absent {
            Err(RegistryError::NotFound(format!("{what} cannot be found: there is no such repository or version")))
        } else {
            Err(RegistryError::Unavailable { what: format!("cannot get {what}"), causes })
        }
    }

    /// Returns the places of a repository: its mirrors with the longest prefix, then the registry itself.
    fn places(&self, repository: &Repository) -> Vec<Place> {
        let of_prefix = |(prefix, mirrors)| Some((prefix, mirrors, Repository::strip_prefix(prefix, repository)?));
        let longest = self.mirrors.iter().filter_map(of_prefix).max_by_key(|(prefix, ..)| prefix.path().len());
        let at = |mirror, rest| Place::at(mirror, repository, rest);
        let mirrors =
            longest.into_iter().flat_map(|(_, mirrors, rest)| mirrors.iter().map(move |mirror| at(mirror, rest)));
        mirrors.chain([Place::Registry(repository.clone())]).collect()
    }
}

/// Returns the accepted bundles, and the facts verified with them alone.
fn counting(verified: Verified, found: &[Document]) -> (Verified, Vec<Document>) {
    let documents = verified.used.iter().filter_map(|number| found.get(*number).cloned()).collect();
    (verified, documents)
}

/// Returns the stored manifest of a locked component; `None` if it is missing.
pub(crate) fn stored_manifest(store: &Store, locked: &LockedComponent) -> Result<Option<Manifest>, String> {
    let bytes = store.read(&locked.manifest, MAX_MANIFEST_SIZE).map_err(|error| error.to_string())?;
    bytes.map(|bytes| Manifest::parse(&bytes)).transpose()
}
