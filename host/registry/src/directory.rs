//! A directory with an OCI image layout as a mirror: a disk from another machine, or an unpacked archive of
//! `mcp-host store export`.
//!
//! The tag of a manifest is in the annotation `org.opencontainers.image.ref.name` of its entry in `index.json`. A
//! directory can have several repositories, so the following names match the repository `registry.example.com/acme/web`
//! at the prefix `registry.example.com/acme`:
//!
//! | name | use |
//! |---|---|
//! | `registry.example.com/acme/web:1.4.2` | written by `mcp-host store export` and most tools |
//! | `web:1.4.2` | the part after the prefix |
//! | `1.4.2` | only if the prefix is the whole repository |
//!
//! A referrer is an entry with its artifact type whose manifest has the subject. All content is verified by its digest.
//! Bounded like the answers of registries, and to [`MAX_ENTRIES`] entries of the index.

use std::fmt;
use std::io::Read;
use std::path::PathBuf;

use bytes::Bytes;
use mcp_host_base::regular_file;
use mcp_host_config::registry::{Layout, Repository};
use mcp_host_model::digest::Digest;

use crate::http::HttpError;
use crate::manifest::{Descriptor, INDEX, Index, MAX_MANIFEST_SIZE, Manifest};
use crate::store::Store;

/// The annotation with the name of an entry.
pub(crate) const REF_NAME: &str = "org.opencontainers.image.ref.name";
/// The maximum number of entries of the index.
const MAX_ENTRIES: usize = 16 * 1024;
/// The maximum size of the manifest of a referrer in bytes.
const MAX_REFERRER_SIZE: usize = 64 * 1024;

/// A repository in a directory.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    layout: Layout,
    repository: Repository,
    rest: String,
}

impl Directory {
    /// Creates a repository in this directory; `rest` is the part of its name after the prefix of the mirror.
    pub(crate) fn new(layout: Layout, repository: Repository, rest: &str) -> Self {
        Self { layout, repository, rest: rest.trim_matches('/').to_owned() }
    }

    /// Returns the tags of the repository. Without tags, the repository does not exist.
    pub(crate) fn tags(&self) -> Result<Vec<String>, HttpError> {
        let entries = self.index()?.manifests;
        let tags: Vec<_> = entries.iter().filter_map(|entry| self.tag(entry).map(str::to_owned)).collect();
        if tags.is_empty() { Err(HttpError::NotFound) } else { Ok(tags) }
    }

    /// Returns the bytes of a manifest, by tag or by digest.
    pub(crate) fn manifest(&self, name: &str) -> Result<Bytes, HttpError> {
        if let Ok(digest) = name.parse() {
            return self.small_blob(&digest, MAX_MANIFEST_SIZE);
        }
        let entries = self.index()?.manifests;
        let entry = entries.iter().find(|entry| self.tag(entry) == Some(name)).ok_or(HttpError::NotFound)?;
        let digest = entry.parse_digest().map_err(|reason| self.broken(reason))?;
        self.small_blob(&digest, MAX_MANIFEST_SIZE)
    }

    /// Returns the bytes of a small blob with this digest.
    pub(crate) fn small_blob(&self, digest: &Digest, max: usize) -> Result<Bytes, HttpError> {
        let bytes = self.read(self.path(digest), max)?;
        if Digest::compute(&bytes) == *digest {
            return Ok(bytes.into());
        }
        Err(self.broken(format!("its content has another digest than {digest}")))
    }

    /// Streams a blob of this size into the store, and hashes it at the same time.
    pub(crate) fn blob(&self, (digest, size): (&Digest, u64), store: &Store) -> Result<(), HttpError> {
        let failed = |error: std::io::Error| self.failed(&error);
        let mut file = regular_file::open(&self.path(digest)).map_err(failed)?;
        let stored = |error: crate::StoreError| HttpError::Store(error.to_string());
        let mut incoming = store.begin(size).map_err(stored)?;
        let mut piece = vec![0; 64 * 1024];
        loop {
            let count = file.read(&mut piece).map_err(failed)?;
            if count == 0 {
                return incoming.finish(digest).map_err(stored);
            }
            incoming.write(piece.get(..count).unwrap_or_default()).map_err(stored)?;
        }
    }

    /// Returns the referrers of a manifest with this artifact type.
    pub(crate) fn referrers(&self, manifest: &Digest, artifact_type: &str) -> Result<Index, HttpError> {
        let mut referrers = Index { schema_version: 2, media_type: Some(INDEX.to_owned()), manifests: Vec::new() };
        for entry in self.index()?.manifests {
            if entry.artifact_type.as_deref() != Some(artifact_type) || entry.size > MAX_REFERRER_SIZE as u64 {
                continue;
            }
            let Ok(digest) = entry.parse_digest() else { continue };
            let bytes = match self.small_blob(&digest, MAX_REFERRER_SIZE) {
                Ok(bytes) => bytes,
                Err(HttpError::NotFound) => continue,
                Err(error) => return Err(error),
            };
            let subject = Manifest::parse(&bytes).ok().and_then(|referrer| referrer.subject);
            if subject.is_some_and(|subject| subject.parse_digest().as_ref() == Ok(manifest)) {
                referrers.manifests.push(entry);
            }
        }
        Ok(referrers)
    }

    /// Returns the error for unusable content of the directory.
    pub(crate) fn broken(&self, reason: String) -> HttpError {
        HttpError::Layout { reason }
    }

    fn index(&self) -> Result<Index, HttpError> {
        let bytes = match self.read(self.layout.directory().join("index.json"), MAX_MANIFEST_SIZE) {
            Err(HttpError::NotFound) => {
                return Err(self.broken("it has no `index.json`: it is no OCI image layout, or not here".to_owned()));
            }
            read => read?,
        };
        let index = Index::parse(&bytes).map_err(|reason| self.broken(reason))?;
        if index.manifests.len() > MAX_ENTRIES {
            return Err(self.broken(format!("its index has more than {MAX_ENTRIES} entries")));
        }
        Ok(index)
    }

    /// Returns the tag of an entry, if it belongs to the repository.
    fn tag<'e>(&self, entry: &'e Descriptor) -> Option<&'e str> {
        let name = entry.annotations.get(REF_NAME)?;
        let behind = |prefix: &str| name.strip_prefix(prefix)?.strip_prefix(':');
        let plain = || self.rest.is_empty().then_some(name.as_str());
        let tag = behind(&self.repository.to_string()).or_else(|| behind(&self.rest).filter(|_| !self.rest.is_empty()));
        tag.or_else(plain).filter(|tag| !tag.contains(['/', ':', '@']))
    }

    fn read(&self, path: PathBuf, max: usize) -> Result<Vec<u8>, HttpError> {
        let bytes = regular_file::read(&path, max).map_err(|error| self.failed(&error))?;
        if bytes.len() > max { Err(self.broken(format!("a file of it has more than {max} bytes"))) } else { Ok(bytes) }
    }

    fn failed(&self, error: &std::io::Error) -> HttpError {
        match error.kind() {
            std::io::ErrorKind::NotFound => HttpError::NotFound,
            _ => self.broken(format!("it cannot be read: {error}")),
        }
    }

    fn path(&self, digest: &Digest) -> PathBuf {
        self.layout.directory().join("blobs/sha256").join(digest.digits())
    }
}

impl fmt::Display for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.layout.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::manifest::MANIFEST;

    struct Disk(tempfile::TempDir);

    impl Disk {
        fn new() -> Self {
            let disk = Self(tempfile::tempdir().unwrap());
            std::fs::create_dir_all(disk.0.path().join("blobs/sha256")).unwrap();
            disk
        }

        fn blob(&self, bytes: &[u8]) -> Digest {
            let digest = Digest::compute(bytes);
            std::fs::write(self.0.path().join("blobs/sha256").join(digest.digits()), bytes).unwrap();
            digest
        }

        fn index(&self, entries: &[Value]) {
            let index = json!({ "schemaVersion": 2, "manifests": entries });
            std::fs::write(self.0.path().join("index.json"), index.to_string()).unwrap();
        }

        fn repository(&self, rest: &str) -> Directory {
            Directory::new(Layout::new(self.0.path()), "r.example/acme/web".parse().unwrap(), rest)
        }
    }

    fn entry(name: &str, digest: &Digest) -> Value {
        json!({ "mediaType": MANIFEST, "digest": digest.to_string(), "size": 1, "annotations": { REF_NAME: name } })
    }

    #[test]
    fn tags_are_those_of_the_repository() {
        let disk = Disk::new();
        let digest = disk.blob(b"manifest");
        let names = [
            "r.example/acme/web:1.0.0",
            "web:1.1.0",
            "1.2.0",
            "r.example/acme/webs:2.0.0",
            "r.example/acme/web@sha256:x",
            "a/b:3",
        ];
        disk.index(&names.map(|name| entry(name, &digest)));
        assert_eq!(disk.repository("web").tags().unwrap(), ["1.0.0", "1.1.0"]);
        assert_eq!(disk.repository("").tags().unwrap(), ["1.0.0", "1.2.0"]);
        assert_eq!(disk.repository("web").manifest("1.1.0").unwrap(), "manifest");
        assert_eq!(disk.repository("web").manifest("1.2.0"), Err(HttpError::NotFound));
        assert_eq!(disk.repository("web").manifest(&digest.to_string()).unwrap(), "manifest");
    }

    #[test]
    fn what_is_not_what_its_name_says_is_refused() {
        let disk = Disk::new();
        let repository = disk.repository("web");
        assert!(repository.tags().unwrap_err().to_string().contains("no OCI image layout"));
        let digest = Digest::compute(b"manifest");
        assert_eq!(repository.small_blob(&digest, 10), Err(HttpError::NotFound));
        let file = disk.0.path().join("blobs/sha256").join(digest.digits());
        std::fs::write(&file, "m4nifest").unwrap();
        assert!(repository.small_blob(&digest, 10).unwrap_err().to_string().contains("another digest"));
        assert!(repository.small_blob(&digest, 7).unwrap_err().to_string().contains("more than 7 bytes"));
        let store = Store::open(&disk.0.path().join("store")).unwrap();
        assert!(repository.blob((&digest, 8), &store).unwrap_err().to_string().contains("has the digest"));
        std::fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &file).unwrap();
        assert!(repository.small_blob(&digest, 10).unwrap_err().to_string().contains("cannot be read"));
        std::fs::write(disk.0.path().join("index.json"), vec![b' '; MAX_MANIFEST_SIZE + 1]).unwrap();
        assert!(repository.tags().unwrap_err().to_string().contains("more than"));
        std::fs::write(disk.0.path().join("index.json"), "{\"\u{1b}\": 1}").unwrap();
        assert!(!repository.tags().unwrap_err().to_string().contains('\u{1b}'));
    }

    #[test]
    fn referrers_name_their_subject() {
        let disk = Disk::new();
        let (manifest, other) = (Digest::compute(b"manifest"), Digest::compute(b"other"));
        let referrer = |subject: &Digest| {
            let descriptor = json!({ "mediaType": "a", "digest": subject.to_string(), "size": 1 });
            let referrer = json!({ "schemaVersion": 2, "config": descriptor, "layers": [], "subject": descriptor });
            let digest = disk.blob(referrer.to_string().as_bytes());
            json!({ "mediaType": MANIFEST, "artifactType": "bundle", "digest": digest.to_string(), "size": 1 })
        };
        let gone = json!({ "mediaType": MANIFEST, "artifactType": "bundle", "digest": Digest::compute(b"").to_string(), "size": 1 });
        disk.index(&[referrer(&manifest), referrer(&other), gone, entry("web:1.0.0", &manifest)]);
        let found = disk.repository("web").referrers(&manifest, "bundle").unwrap();
        assert_eq!(found.manifests.len(), 1);
        assert!(disk.repository("web").referrers(&manifest, "sbom").unwrap().manifests.is_empty());
    }
}
