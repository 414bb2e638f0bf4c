//! OCI image layouts in a tar archive: the locked components with their signatures and the lock, for machines without a
//! network.
//!
//! | entry | holds |
//! |---|---|
//! | `oci-layout`, `index.json` | the index of the layout, by the OCI Image Specification; components are named by their repository and version, signature bundles and bills of materials are referrers |
//! | `blobs/sha256/DIGITS` | manifests, configs, components, bundles and bills of materials |
//! | `mcp-host.lock` | the lock entries of the archive, before the contents |
//!
//! Equal locks give equal archives, and an unpacked archive is a mirror (`directory`). Archives are not trusted: a file
//! is accepted only if its content has the digest in its name, and no path of the archive is written to (path
//! traversal). Bounded: 65536 entries; locked contents, each by its size; 64 MiB of other contents.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};

use mcp_host_base::escape;
use mcp_host_config::registry::{Lock, LockedComponent, Reference};
use mcp_host_model::digest::Digest;
use serde_json::json;
use tar::{Archive, Builder, EntryType, Header};

use crate::bundle::{BUNDLE, MAX_BUNDLE_SIZE};
use crate::directory::REF_NAME;
use crate::manifest::{Descriptor, INDEX, Index, MANIFEST, MAX_COMPONENT_SIZE, MAX_MANIFEST_SIZE, Manifest};
use crate::push::referrer;
use crate::sbom::MAX_SBOM_SIZE;
use crate::store::{Store, StoreError};

/// The entry with the lock.
const LOCK: &str = "mcp-host.lock";
/// The directory of contents.
const BLOBS: &str = "blobs/sha256/";
/// The maximum number of entries in an archive.
const MAX_ENTRIES: usize = 65_536;
/// The maximum size of the entry with the lock.
const MAX_LOCK_SIZE: u64 = 4 << 20;
/// The maximum total size of contents that are not in the lock.
const MAX_OTHERS: u64 = 64 << 20;
/// The content of an empty config.
const EMPTY_CONFIG: &[u8] = b"{}";

/// The reason why an archive cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The archive cannot be written or read.
    #[error("the archive cannot be {doing}: {}", shown(.source))]
    Io {
        /// The attempted operation.
        doing: &'static str,
        /// The error.
        source: io::Error,
    },
    /// A locked content is not in the store.
    #[error("`{0}` is not complete in the store; run `mcp-host store fetch`")]
    Missing(String),
    /// The archive has another format.
    #[error("the archive cannot be used: {0}")]
    Invalid(String),
}

/// Writes an archive with these components of a lock.
///
/// # Errors
///
/// A content is not in the store, or the archive cannot be written.
pub fn export(components: &[LockedComponent], store: &Store, archive: impl Write) -> Result<(), LayoutError> {
    let mut out = Out { archive: Builder::new(archive), written: BTreeSet::new() };
    let mut index = Index { schema_version: 2, media_type: Some(INDEX.to_owned()), manifests: Vec::new() };
    let mut lock = Lock::default();
    components.iter().for_each(|locked| lock.insert(locked.clone()));
    let lock = lock.to_text().map_err(|error| LayoutError::Invalid(error.to_string()))?;
    out.file(LOCK, lock.as_bytes())?;
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
        let bundles = locked.bundles.iter().map(|digest| (digest, BUNDLE, MAX_BUNDLE_SIZE));
        let sboms = locked.sboms.iter().map(|sbom| (&sbom.digest, sbom.media_type.as_str(), MAX_SBOM_SIZE));
        for (digest, artifact_type, max) in bundles.chain(sboms) {
            let document = read(digest, max)?;
            let referrer = serde_json::to_vec(&referrer(subject.clone(), artifact_type, &document));
            let referrer = referrer.map_err(|error| LayoutError::Invalid(error.to_string()))?;
            out.blob(&Digest::compute(EMPTY_CONFIG), EMPTY_CONFIG)?;
            out.blob(digest, &document)?;
            out.blob(&Digest::compute(&referrer), &referrer)?;
            let artifact_type = Some(artifact_type.to_owned());
            index.manifests.push(Descriptor { artifact_type, ..Descriptor::of(MANIFEST, &referrer) });
        }
        let name = match &locked.version {
            Some(version) => format!("{}:{version}", locked.source.repository),
            None => format!("{}@{}", locked.source.repository, locked.manifest),
        };
        subject.annotations.insert(REF_NAME.to_owned(), name);
        index.manifests.push(subject);
        let component = store.open_verified(&locked.component)?.ok_or_else(missing)?;
        out.stream(&locked.component, locked.size, component)?;
    }
    let index = serde_json::to_vec(&index).map_err(|error| LayoutError::Invalid(error.to_string()))?;
    out.file("index.json", &index)?;
    out.archive.into_inner().and_then(|mut archive| archive.flush()).map_err(written)
}

/// Reads an archive into the store. Returns the part of its lock with these references, unverified.
///
/// The lock precedes the contents. Locked contents are bounded by their size in the lock; other contents, such as the
/// configs of components, by [`MAX_OTHERS`] in total. Extension headers, which can make a reader allocate any amount of
/// memory, are refused: an export has none.
///
/// # Errors
///
/// A content does not have the digest in its name, the lock is missing or late, a bound is exceeded, or the disk fails.
pub fn import(archive: impl Read, references: &BTreeSet<Reference>, store: &Store) -> Result<Lock, LayoutError> {
    let invalid = |problem: String| Err(LayoutError::Invalid(problem));
    let mut archive = Archive::new(archive);
    let mut lock: Option<(Lock, BTreeMap<Digest, u64>)> = None;
    let mut others = MAX_OTHERS;
    for (number, entry) in archive.entries().map_err(read)?.raw(true).enumerate() {
        if number >= MAX_ENTRIES {
            return invalid(format!("it has more than {MAX_ENTRIES} entries"));
        }
        let mut entry = entry.map_err(read)?;
        match entry.header().entry_type() {
            EntryType::Regular => {}
            EntryType::Directory => continue,
            other => return invalid(format!("it has an entry of the type {other:?}, and only files are expected")),
        }
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let size = entry.size();
        if name == LOCK {
            let mut text = String::new();
            entry.take(MAX_LOCK_SIZE).read_to_string(&mut text).map_err(read)?;
            let mut of_references = Lock::default();
            for component in Lock::parse(&text).map_err(LayoutError::Invalid)?.components() {
                if references.contains(&component.source) {
                    of_references.insert(component.clone());
                }
            }
            let named = of_references.components().flat_map(|component| {
                let bundles = component.bundles.iter().map(|bundle| (*bundle, MAX_BUNDLE_SIZE as u64));
                let manifest = (component.manifest, MAX_MANIFEST_SIZE as u64);
                [(component.component, component.size.min(MAX_COMPONENT_SIZE)), manifest].into_iter().chain(bundles)
            });
            let named = named.collect();
            lock = Some((of_references, named));
        } else if let Some(digits) = name.strip_prefix(BLOBS) {
            let Some((_, named)) = &lock else {
                return invalid(format!(
                    "`{LOCK}` does not come before its contents: `mcp-host store export` writes it first"
                ));
            };
            let digest: Digest =
                format!("sha256:{digits}").parse().map_err(|error| LayoutError::Invalid(format!("{error}")))?;
            match named.get(&digest) {
                Some(max) if size <= *max => {}
                Some(max) => return invalid(format!("{digest} has {size} bytes, and {max} are expected")),
                None if size > MAX_MANIFEST_SIZE as u64 => continue,
                None => {
                    let Some(left) = others.checked_sub(size) else {
                        return invalid(format!(
                            "contents that the lock does not name have more than {MAX_OTHERS} bytes"
                        ));
                    };
                    others = left;
                }
            }
            let mut incoming = store.begin(size)?;
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
    match lock {
        Some((lock, _)) => Ok(lock),
        None => invalid(format!("it has no `{LOCK}`: `mcp-host store export` writes one")),
    }
}

fn written(source: io::Error) -> LayoutError {
    LayoutError::Io { doing: "written", source }
}

fn read(source: io::Error) -> LayoutError {
    LayoutError::Io { doing: "read", source }
}

/// Returns the text of an error on one line: it can have bytes of the archive.
fn shown(error: &io::Error) -> String {
    escape::line(&error.to_string()).into_owned()
}

/// An archive during writing.
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

    /// Writes a content, unless it has been written already.
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
