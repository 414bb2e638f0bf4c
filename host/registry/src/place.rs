//! Where a repository is looked for: a registry, or a directory with an OCI image layout. Both answer the same questions.

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
    /// The place of a repository at a mirror of what it begins with; `rest` is what follows that.
    pub(crate) fn at(mirror: &Mirror, repository: &Repository, rest: &str) -> Self {
        match mirror {
            Mirror::Registry(prefix) => Self::Registry(prefix.join(rest)),
            Mirror::Layout(layout) => Self::Directory(Directory::new(layout.clone(), repository.clone(), rest)),
        }
    }

    /// The tags that it has.
    pub(crate) async fn tags(&self, client: &Client) -> Result<Vec<String>, HttpError> {
        match self {
            Self::Registry(repository) => client.tags(repository).await,
            Self::Directory(directory) => directory.tags(),
        }
    }

    /// The bytes of a manifest or an index, by tag or by digest. Those by digest have it.
    pub(crate) async fn manifest(&self, client: &Client, name: &str) -> Result<Bytes, HttpError> {
        match self {
            Self::Registry(repository) => client.manifest(repository, name).await,
            Self::Directory(directory) => directory.manifest(name),
        }
    }

    /// The bytes of a small blob, which have that digest.
    pub(crate) async fn small_blob(&self, client: &Client, digest: &Digest, max: usize) -> Result<Bytes, HttpError> {
        match self {
            Self::Registry(repository) => client.small_blob(repository, digest, max).await,
            Self::Directory(directory) => directory.small_blob(digest, max),
        }
    }

    /// Brings a blob of that size into the store, hashed while it is written.
    pub(crate) async fn blob(&self, client: &Client, blob: (&Digest, u64), store: &Store) -> Result<(), HttpError> {
        match self {
            Self::Registry(repository) => client.blob(repository, blob, store).await,
            Self::Directory(directory) => directory.blob(blob, store),
        }
    }

    /// The index of the referrers of a manifest with that artifact type, and maybe of others; none if there are none.
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

    /// An answer of this place that cannot be used.
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
