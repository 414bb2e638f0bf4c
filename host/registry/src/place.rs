//! The places of a repository: a registry, or a directory with an OCI image layout. Both have the same operations.

use std::fmt;

use bytes::Bytes;
use mcp_host_base::text::quote;
use mcp_host_config::registry::{Mirror, Repository};
use mcp_host_model::digest::Digest;

use crate::client::{Client, fallback_tag};
use crate::directory::Directory;
use crate::http::HttpError;
use crate::manifest::{Index, MAX_MANIFEST_SIZE};
use crate::store::Store;

/// A place.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// A repository of a registry.
    Registry(Repository),
    /// A repository in a directory.
    Directory(Directory),
}

impl Place {
    /// Returns the place of a repository at a mirror of its prefix; `rest` is the part of its name after the prefix.
    pub(crate) fn at(mirror: &Mirror, repository: &Repository, rest: &str) -> Self {
        match mirror {
            Mirror::Registry(prefix) => Self::Registry(prefix.join(rest)),
            Mirror::Layout(layout) => Self::Directory(Directory::new(layout.clone(), repository.clone(), rest)),
        }
    }

    /// Returns the tags of the repository.
    pub(crate) async fn tags(&self, client: &Client) -> Result<Vec<String>, HttpError> {
        match self {
            Self::Registry(repository) => client.tags(repository).await,
            Self::Directory(directory) => directory.tags(),
        }
    }

    /// Returns the bytes of a manifest or an index, by tag or by digest. If requested by digest, the bytes have that
    /// digest.
    pub(crate) async fn manifest(&self, client: &Client, name: &str) -> Result<Bytes, HttpError> {
        match self {
            Self::Registry(repository) => client.manifest(repository, name).await,
            Self::Directory(directory) => directory.manifest(name),
        }
    }

    /// Returns the bytes of a small blob with this digest.
    pub(crate) async fn small_blob(&self, client: &Client, digest: &Digest, max: usize) -> Result<Bytes, HttpError> {
        match self {
            Self::Registry(repository) => client.small_blob(repository, digest, max).await,
            Self::Directory(directory) => directory.small_blob(digest, max),
        }
    }

    /// Streams a blob of this size into the store, and hashes it at the same time.
    pub(crate) async fn blob(&self, client: &Client, blob: (&Digest, u64), store: &Store) -> Result<(), HttpError> {
        match self {
            Self::Registry(repository) => client.blob(repository, blob, store).await,
            Self::Directory(directory) => directory.blob(blob, store),
        }
    }

    /// Returns the index of a manifest's referrers, with this artifact type and maybe others; `None` if there are none.
    pub(crate) async fn referrers(
        &self,
        client: &Client,
        manifest: &Digest,
        artifact_type: &str,
    ) -> Result<Option<Index>, HttpError> {
        let repository = match self {
            Self::Registry(repository) => repository,
            Self::Directory(directory) => return directory.referrers(manifest, artifact_type).map(Some),
        };
        let index = match client.referrers(repository, manifest, artifact_type, MAX_MANIFEST_SIZE).await? {
            Some(index) => index,
            None => match client.manifest(repository, &fallback_tag(manifest)).await {
                Ok(index) => index,
                Err(HttpError::NotFound) => return Ok(None),
                Err(error) => return Err(error),
            },
        };
        Index::parse(&index).map(Some).map_err(|reason| self.broken(reason))
    }

    /// Returns the error for an unusable answer of this place.
    pub(crate) fn broken(&self, reason: String) -> HttpError {
        match self {
            Self::Registry(repository) => HttpError::Broken { host: repository.registry().to_owned(), reason },
            Self::Directory(directory) => directory.broken(reason),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registry(repository) => f.write_str(&quote(&repository.to_string())),
            Self::Directory(directory) => f.write_str(&quote(&directory.to_string())),
        }
    }
}
