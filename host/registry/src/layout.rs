//! OCI image layouts in a tar archive: what is locked, with its signatures and the lock, for machines without a network.
//!
//! | entry | holds |
//! |---|---|
//! | `oci-layout`, `index.json` | what the OCI Image Specification requires of a layout; components have the reference without its scheme as their name, signature bundles are referrers |
//! | `blobs/sha256/DIGITS` | manifests, configs, components and bundles |
//! | `mcp-host.lock` | what of the lock is in the archive |
//!
//! The same lock makes the same archive. An archive is not trusted: a file counts only if its content has the digest in its name, and
//! nothing is written to a path that the archive names. Bounded: 65536 entries, each as large as a component may be.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};

use mcp_host_config::registry::{Lock, LockedComponent, SCHEME};
use mcp_host_model::digest::Digest;
use serde_json::json;
use tar::{Archive, Builder, EntryType, Header};

use crate::bundle::{BUNDLE, MAX_BUNDLE_SIZE};
use crate::manifest::{Descriptor, INDEX, Index, MANIFEST, MAX_COMPONENT_SIZE, MAX_MANIFEST_SIZE, Manifest};
use crate::push::referrer;
use crate::store::{Store, StoreError};

/// The entry with the lock.
const LOCK: &str = "mcp-host.lock";
/// The directory of contents.
const BLOBS: &str = "blobs/sha256/";
/// The maximum number of entries that are read.
const MAX_ENTRIES: usize = 65_536;
/// The maximum size of the entry with the lock.
const MAX_LOCK_SIZE: u64 = 4 << 20;
/// The content of an empty config.
const EMPTY_CONFIG: &[u8] = b"{}";

/// Why an archive cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The archive cannot be written or read.
    #[error("the archive cannot be {doing}: {source}")]
    Io {
        /// What was attempted.
        doing: &'static str,
        /// The error.
        source: io::Error,
    },
    /// Something that is locked is not in the store.
    #[error("`{0}` is not complete in the store; run `mcp-host store fetch`")]
    Missing(String),
    /// The archive is not one of these.
    #[error("the archive cannot be used: {0}")]
    Invalid(String),
}

/// Writes an archive with those components of a lock.
///
/// # Errors
///
/// Something is not in the store, or the archive cannot be written.
pub fn export(components: &[LockedComponent], store: &Store, archive: impl Write) -> Result<(), LayoutError> {
    let mut out = Out { archive: Builder::new(archive), written: BTreeSet::new() };
    let mut index = Index { schema_version: 2, media_type: Some(INDEX.to_owned()), manifests: Vec::new() };
    let mut lock = Lock::default();
    out.file("oci-layout", json!({ "imageLayoutVersion": "1.0.0" }).to_string().as_bytes())?;
    for locked in components {
        let missing = || LayoutError::Missing(locked.source.to_string());
        let read = |digest: &Digest, max: usize| store.read(digest, max)?.ok_or_else(missing);
        let bytes = read(&locked.manifest, MAX_MANIFEST_SIZE)?;
        let manifest = Manifest::parse(&bytes).map_err(LayoutError::Invalid)?;
        let config = manifest.config.parse_digest().map_err(LayoutError::Invalid)?;
        out.blob(&config, &read(&config, MAX_MANIFEST_SIZE)?)?;
        out.blob(&locked.manifest, &bytes)?;
        let mut subject = Descriptor::of(MANIFEST, &bytes);
        for digest in &locked.bundles {
            let bundle = read(digest, MAX_BUNDLE_SIZE)?;
            let referrer = serde_json::to_vec(&referrer(subject.clone(), &bundle));
            let referrer = referrer.map_err(|error| LayoutError::Invalid(error.to_string()))?;
            out.blob(&Digest::compute(EMPTY_CONFIG), EMPTY_CONFIG)?;
            out.blob(digest, &bundle)?;
            out.blob(&Digest::compute(&referrer), &referrer)?;
            index
                .manifests
                .push(Descriptor { artifact_type: Some(BUNDLE.to_owned()), ..Descriptor::of(MANIFEST, &referrer) });
        }
        let name = locked.source.to_string();
        let name = name.strip_prefix(SCHEME).unwrap_or(&name).to_owned();
        subject.annotations.insert("org.opencontainers.image.ref.name".to_owned(), name);
        index.manifests.push(subject);
        let component = store.open_verified(&locked.component)?.ok_or_else(missing)?;
        out.stream(&locked.component, locked.size, component)?;
        lock.insert(locked.clone());
    }
    let index = serde_json::to_vec(&index).map_err(|error| LayoutError::Invalid(error.to_string()))?;
    out.file("index.json", &index)?;
    let lock = lock.to_text().map_err(|error| LayoutError::Invalid(error.to_string()))?;
    out.file(LOCK, lock.as_bytes())?;
    out.archive.into_inner().and_then(|mut archive| archive.flush()).map_err(written)
}

/// Reads an archive into the store, and returns its lock, of which nothing is verified.
///
/// # Errors
///
/// A content is not what its name says, there is no lock in it, or the disk fails.
pub fn import(archive: impl Read, store: &Store) -> Result<Lock, LayoutError> {
    let mut archive = Archive::new(archive);
    let mut lock = None;
    for (number, entry) in archive.entries().map_err(read)?.enumerate() {
        if number >= MAX_ENTRIES {
            return Err(LayoutError::Invalid(format!("it has more than {MAX_ENTRIES} entries")));
        }
        let mut entry = entry.map_err(read)?;
        if entry.header().entry_type() != EntryType::Regular {
            continue;
        }
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        if name == LOCK {
            let mut text = String::new();
            entry.take(MAX_LOCK_SIZE).read_to_string(&mut text).map_err(read)?;
            lock = Some(Lock::parse(&text).map_err(LayoutError::Invalid)?);
        } else if let Some(digits) = name.strip_prefix(BLOBS) {
            let digest: Digest =
                format!("sha256:{digits}").parse().map_err(|error| LayoutError::Invalid(format!("{error}")))?;
            let mut incoming = store.begin(MAX_COMPONENT_SIZE)?;
            let mut piece = vec![0; 64 * 1024];
            loop {
                let count = entry.read(&mut piece).map_err(read)?;
                if count == 0 {
                    break;
                }
                incoming.write(piece.get(..count).unwrap_or_default())?;
            }
            incoming.finish(&digest)?;
        }
    }
    lock.ok_or_else(|| LayoutError::Invalid(format!("it has no `{LOCK}`: `mcp-host store export` writes one")))
}

fn written(source: io::Error) -> LayoutError {
    LayoutError::Io { doing: "written", source }
}

fn read(source: io::Error) -> LayoutError {
    LayoutError::Io { doing: "read", source }
}

/// An archive that is written.
struct Out<W: Write> {
    archive: Builder<W>,
    written: BTreeSet<Digest>,
}

impl<W: Write> Out<W> {
    fn file(&mut self, name: &str, bytes: &[u8]) -> Result<(), LayoutError> {
        self.append(name, bytes.len() as u64, bytes)
    }

    fn blob(&mut self, digest: &Digest, bytes: &[u8]) -> Result<(), LayoutError> {
        self.stream(digest, bytes.len() as u64, bytes)
    }

    /// Writes a content, once.
    fn stream(&mut self, digest: &Digest, size: u64, content: impl Read) -> Result<(), LayoutError> {
        if !self.written.insert(*digest) {
            return Ok(());
        }
        self.append(&format!("{BLOBS}{}", digest.digits()), size, content)
    }

    fn append(&mut self, name: &str, size: u64, content: impl Read) -> Result<(), LayoutError> {
        let mut header = Header::new_gnu();
        header.set_size(size);
        header.set_mode(0o644);
        self.archive.append_data(&mut header, name, content).map_err(written)
    }
}
