//! What clients are told about files and directories, the same in listings, metadata and contents.

use crate::error::Result;
use crate::odb::Odb;
use crate::paths;
use crate::rev::Rev;
use crate::tree;
use bstr::{BStr, ByteSlice};
use gix_object::tree::EntryKind;
use mcp_provider::{Entry, mime};
use std::time::Duration;

/// For how long what a full id names may be taken for unchanged: it is, forever.
const IMMUTABLE_TTL: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The MIME type of the content of a link: the path that it leads to.
pub(crate) const LINK: &str = "inode/symlink";

/// The MIME type of the content of a submodule: the commit that it stands at.
pub(crate) const SUBMODULE: &str = "text/x-git-submodule";

/// The name under which programs are told the id of an object.
pub(crate) const OBJECT: &str = "git/object";

/// The name under which programs are told git's mode of a file: `100644`, `100755`, `120000`, `160000`, `040000`.
const MODE: &str = "git/mode";

/// A file, link, submodule or directory at a path of a revision; `size` where it is known.
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

/// What is told of how long an entry lasts: forever, or that it can be watched.
pub(crate) fn with_mutability(entry: Entry, rev: &Rev) -> Entry {
    if rev.is_full_id { entry.ttl(IMMUTABLE_TTL) } else { entry.subscribable() }
}

/// The size of what a listing shows. One that cannot be told is left out: reading will say why.
pub(crate) fn size_in_listing(odb: &Odb, found: &tree::Entry) -> Option<u64> {
    size(odb, found).unwrap_or_else(|error| {
        log::warn!("a size is left out of a listing: {error}");
        None
    })
}

/// The size of the content of a file or link.
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
