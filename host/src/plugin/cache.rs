//! Where compiled components are kept: a directory that belongs to this user alone.
//!
//! A file in it is named by the SHA-256 of the component and by everything about the engine that compiled code depends on,
//! so it is never stale, only unused. Compiled code is machine code that the host runs unchecked: nothing is ever loaded from
//! a directory that others could have written to.

use std::fs::{DirBuilder, File, Metadata};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;
use wasmtime::component::Component;

use super::LoadError;
use crate::config::Digest;

/// The private cache directory.
#[derive(Debug)]
pub(super) struct Cache {
    dir: PathBuf,
}

impl Cache {
    /// Opens the cache at that directory, making it if need be.
    pub(super) fn open(dir: &Path) -> Result<Self, LoadError> {
        let fault = |source: io::Error| LoadError::Cache { dir: dir.to_owned(), reason: source.to_string() };
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(fault)?;
        let metadata = std::fs::symlink_metadata(dir).map_err(fault)?;
        if !is_private(&metadata) {
            return Err(LoadError::Cache {
                dir: dir.to_owned(),
                reason: "it must be a directory of this user that nobody else may write to (mode 0700); \
                         name another one in `server.cache`"
                    .to_owned(),
            });
        }
        Ok(Self { dir: dir.to_owned() })
    }

    /// Its directory.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where the compiled form of a component is, or would be.
    fn path(&self, engine: &wasmtime::Engine, digest: &Digest) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        self.dir.join(format!("{}-{:016x}.cwasm", digest.digits(), hasher.finish()))
    }

    /// The compiled component, if it is here and sound.
    pub(super) fn load(&self, engine: &wasmtime::Engine, digest: &Digest) -> Option<Component> {
        let path = self.path(engine, digest);
        let file = File::open(&path).ok()?;
        if !file.metadata().is_ok_and(|metadata| metadata.is_file() && is_ours(&metadata)) {
            tracing::warn!(file = %path.display(), "a cached component is not this user's own file: it is not used");
            return None;
        }
        drop(file);
        // SAFETY: the file is machine code that runs unchecked, so it must be what our own compiler wrote. It lies in a
        // directory that only this user may write to and is this user's; it was put there in one piece, by rename, after
        // it had been written out; and whoever can forge it can already do all that this process can.
        #[allow(unsafe_code, reason = "see above; there is no other way to load compiled code")]
        let component = unsafe { Component::deserialize_file(engine, &path) };
        component
            .inspect_err(|error| tracing::warn!(file = %path.display(), %error, "a cached component is compiled anew"))
            .ok()
    }

    /// A file to write compiled code to.
    pub(super) fn new_file(&self) -> Result<NamedTempFile, LoadError> {
        NamedTempFile::new_in(&self.dir).map_err(|source| self.fault(&source))
    }

    /// Puts a file that has been written in its place, in one step.
    pub(super) fn keep(
        &self,
        engine: &wasmtime::Engine,
        digest: &Digest,
        file: NamedTempFile,
    ) -> Result<(), LoadError> {
        file.as_file().sync_all().map_err(|source| self.fault(&source))?;
        file.persist(self.path(engine, digest)).map_err(|error| self.fault(&error.error))?;
        Ok(())
    }

    fn fault(&self, source: &io::Error) -> LoadError {
        LoadError::Cache { dir: self.dir.clone(), reason: source.to_string() }
    }
}

fn is_private(metadata: &Metadata) -> bool {
    metadata.is_dir() && is_ours(metadata)
}

fn is_ours(metadata: &Metadata) -> bool {
    let others_may_write = metadata.permissions().mode() & 0o022 != 0;
    metadata.uid() == rustix::process::geteuid().as_raw() && !others_may_write
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_cache_is_made_for_its_owner_alone() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("a/b");
        Cache::open(&dir).unwrap();
        assert_eq!(std::fs::metadata(&dir).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_directory_that_others_may_write_to_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("shared");
        std::fs::create_dir(&dir).unwrap();
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o777)).unwrap();
        let error = Cache::open(&dir).unwrap_err().to_string();
        assert!(error.contains("nobody else may write to"), "{error}");
    }

    #[test]
    fn a_link_to_a_directory_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let link = parent.path().join("link");
        symlink(parent.path(), &link).unwrap();
        Cache::open(&link).unwrap_err();
    }
}
