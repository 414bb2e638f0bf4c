//! A digest of everything that determines how names resolve, for cheap change detection.

use crate::error::{Error, Result};
use crate::files;
use crate::refs::{MAX_LOOSE_SIZE, RefStorage, Refs};
use std::hash::{DefaultHasher, Hasher};
use std::io::BufRead;
use std::time::SystemTime;

/// The maximum number of loose refs whose content is read. Every further ref contributes its name and the modification
/// time of its directory, which changes with every ref that git writes.
const MAX_READ: usize = 2000;

impl Refs<'_> {
    /// Returns a digest of all refs, of `HEAD` and similar names, and of the shallow commits. While the digest is
    /// unchanged, every name resolves to the same object. The digest is computed from the files' bytes, so a different
    /// digest does not imply that a ref changed.
    pub(crate) fn digest(&self) -> Result<u64> {
        let mut digest = DefaultHasher::new();
        let mut add = |bytes: &[u8]| {
            digest.write_usize(bytes.len());
            digest.write(bytes);
        };
        if self.storage == RefStorage::Reftable {
            add(self.stack("refs/heads/".into())?.list());
            if self.layout.git_dir != self.layout.common_dir {
                add(self.stack("refs/worktree/".into())?.list());
            }
            add(&self.layout.shallow()?);
            return Ok(digest.finish());
        }
        let mut last = String::new();
        for (number, name) in self.loose_names().enumerate() {
            add(name.as_bytes());
            let directory = name.rsplit_once('/').map_or("", |(directory, _)| directory);
            if number < MAX_READ {
                add(&self.loose_content(&name).unwrap_or_default());
            } else if directory != last {
                let changed = std::fs::metadata(self.directory(name.as_str().into()).join(directory));
                let changed = changed.and_then(|directory| directory.modified()).ok();
                let since =
                    changed.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok()).unwrap_or_default();
                add(&since.as_nanos().to_le_bytes());
                directory.clone_into(&mut last);
            }
        }
        let mut own: Vec<String> = Vec::new();
        files::for_each(&self.layout.git_dir, |file| {
            if !file.is_directory && super::is_valid(file.name.as_str().into()) {
                own.push(file.name);
            }
        })?;
        own.sort_unstable();
        for name in own {
            let content = files::read(&self.layout.git_dir.join(&name), MAX_LOOSE_SIZE).ok().flatten();
            add(name.as_bytes());
            add(&content.unwrap_or_default());
        }
        if let Some(packed) = self.packed()? {
            let mut bytes = packed.bytes();
            loop {
                let piece = bytes.fill_buf().map_err(|error| Error::io(&self.layout.common_dir, error))?;
                let length = piece.len();
                if length == 0 {
                    break;
                }
                add(piece);
                bytes.consume(length);
            }
        }
        add(&self.layout.shallow()?);
        Ok(digest.finish())
    }
}
