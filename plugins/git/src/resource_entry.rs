//! The metadata of files and directories, shared by listings, `stat` and contents.

use crate::error::Result;
use crate::odb::Odb;
use crate::paths;
use crate::rev::Rev;
use crate::tree;
use bstr::{BStr, ByteSlice};
use gix_object::tree::EntryKind;
use mcp_provider::{Entry, mime};
use std::time::Duration;

/// The time to live of resources at a full id, which are immutable.
const IMMUTABLE_TTL: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The MIME type of a symbolic link, whose content is its target path.
pub(crate) const LINK: &str = "inode/symlink";

/// The MIME type of a submodule, whose content is its commit.
pub(crate) const SUBMODULE: &str = "text/x-git-submodule";

/// The metadata key of an object's id.
pub(crate) const OBJECT: &str = "git/object";

/// The metadata key of a file's mode in git: `100644`, `100755`, `120000`, `160000`, `040000`.
const MODE: &str = "git/mode";

/// Returns the entry of a file, link, submodule or directory at a path of a revision. `size` is the size, if known.
pub(crate) fn entry(rev: &BStr, resolved: &Rev, path: &BStr, found: &tree::Entry, size: Option<u64>) -> Entry {
    let kind = found.mode.kind();
    let name = path.rsplit_once_str("/").map_or(path, |(_, name)| name.as_bstr()).to_str_lossy();
    let location = if kind == EntryKind::Tree { paths::tree(rev, path) } else { paths::blob(rev, path) };
    let name = if name.is_empty() { "/".into() } else { name };
    let mut entry =
        Entry::new(location, name).meta(OBJECT, found.id.to_string()).meta(MODE, format!("{:06o}", found.mode.value()));
    if path.contains(&b'/') {
        entry = entry.title(path.to_str_lossy());
    }
    entry.size = size;
    with_mutability(with_type(entry, kind, path), resolved)
}

/// Marks an entry as immutable or as subscribable.
pub(crate) fn with_mutability(entry: Entry, rev: &Rev) -> Entry {
    if rev.is_full_id { entry.ttl(IMMUTABLE_TTL) } else { entry.subscribable() }
}

/// Returns the size for a listing. An unreadable object has no size; the error is reported when the object is read.
pub(crate) fn size_in_listing(odb: &Odb, found: &tree::Entry) -> Option<u64> {
    size(odb, found).unwrap_or_else(|error| {
        log::warn!("size omitted from a listing: {error}");
        None
    })
}

/// Returns the content size of a file or link.
pub(crate) fn size(odb: &Odb, found: &tree::Entry) -> Result<Option<u64>> {
    if found.mode.is_blob_or_symlink() { odb.size(&found.id) } else { Ok(None) }
}

fn with_type(entry: Entry, kind: EntryKind, path: &BStr) -> Entry {
    match kind {
        EntryKind::Tree => entry.mime_type("inode/directory").listable(),
        EntryKind::Link => entry.mime_type(LINK),
        EntryKind::Commit => entry.mime_type(SUBMODULE),
        EntryKind::Blob | EntryKind::BlobExecutable => match path.to_str().ok().and_then(mime::from_name) {
            Some(mime_type) => entry.mime_type(mime_type),
            None => entry,
        },
    }
}
