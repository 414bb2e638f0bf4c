//! The repository format, read from the repository's config.
//!
//! A repository of version 1 lists the extensions that a reader must support in `extensions.*` (`gitrepository-layout`,
//! "repository format version"). Unsupported extensions are rejected, as git does. The rest of the config is ignored:
//! it may name programs to run and files to include, and neither is done.

use crate::error::{Error, Result};
use crate::files;
use crate::refs::RefStorage;
use gix_config::File;
use gix_config::file::Metadata;
use gix_hash::Kind;
use std::path::Path;

/// The maximum size of the config, in bytes.
const MAX_BYTES: u64 = 1024 * 1024;

/// Extensions that do not affect readers.
const IGNORED_EXTENSIONS: [&str; 6] =
    ["noop", "noop-v1", "preciousobjects", "partialclone", "worktreeconfig", "relativeworktrees"];

/// The format of a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Format {
    /// The hash kind of the ids.
    pub(crate) hash: Kind,
    /// The storage of refs.
    pub(crate) ref_storage: RefStorage,
    /// Whether the commit-graph is used.
    pub(crate) has_commit_graph: bool,
}

/// Returns the format of the repository whose config is in this directory; `None` if there is no config.
pub(crate) fn read(common_dir: &Path) -> Result<Option<Format>> {
    let path = common_dir.join("config");
    let Some(bytes) = files::read(&path, MAX_BYTES)? else { return Ok(None) };
    let config = File::from_bytes_no_includes(&bytes, Metadata::api(), Default::default())
        .map_err(|error| Error::corrupt(path.display(), error))?;
    let version = config
        .integer("core.repositoryformatversion")
        .map_err(|error| Error::corrupt(path.display(), error))?
        .unwrap_or_default();
    if !matches!(version, 0 | 1) {
        return Err(unsupported(&format!("repository format version {version}")));
    }
    let has_commit_graph = config.boolean("core.commitGraph").ok().flatten().unwrap_or(true);
    let (mut hash, mut ref_storage) = (Kind::Sha1, RefStorage::Files);
    for section in config.sections_by_name("extensions").into_iter().flatten() {
        for name in section.value_names() {
            let name = name.to_string().to_ascii_lowercase();
            let value = section.value(&name).unwrap_or_default().to_string();
            match (name.as_str(), value.as_str()) {
                ("objectformat", "sha1") => hash = Kind::Sha1,
                ("objectformat", "sha256") => hash = Kind::Sha256,
                ("refstorage", "files") => ref_storage = RefStorage::Files,
                ("refstorage", "reftable") => ref_storage = RefStorage::Reftable,
                (name, _) if IGNORED_EXTENSIONS.contains(&name) => {}
                // Extensions have a meaning only from version 1 on.
                _ if version == 0 => {}
                (name, value) => return Err(unsupported(&format!("the extension {name} = {value}"))),
            }
        }
    }
    Ok(Some(Format { hash, ref_storage, has_commit_graph }))
}

impl Default for Format {
    /// Returns the format of a repository without a config.
    fn default() -> Self {
        Self { hash: Kind::Sha1, ref_storage: RefStorage::Files, has_commit_graph: true }
    }
}

fn unsupported(what: &str) -> Error {
    Error::Unsupported(format!("the repository uses {what}, which is not supported"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format_of(config: &str) -> Result<Format> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("config"), config).unwrap();
        read(dir.path()).map(Option::unwrap)
    }

    fn hash_of(config: &str) -> Result<Kind> {
        format_of(config).map(|format| format.hash)
    }

    #[test]
    fn the_ids_are_sha1_unless_the_config_says_otherwise() {
        assert_eq!(read(tempfile::tempdir().unwrap().path()).unwrap(), None);
        assert_eq!(hash_of("[core]\n\tbare = true\n").unwrap(), Kind::Sha1);
        let sha256 = "[core]\n\trepositoryformatversion = 1\n[Extensions]\n\tobjectFormat = sha256\n";
        assert_eq!(hash_of(sha256).unwrap(), Kind::Sha256);
    }

    #[test]
    fn what_is_not_understood_is_refused_by_name() {
        let with =
            |extension: &str| hash_of(&format!("[core]\n\trepositoryformatversion = 1\n[extensions]\n\t{extension}\n"));
        assert!(with("refstorage = cloud").unwrap_err().to_string().contains("refstorage = cloud"));
        assert!(with("brandNew = 7").unwrap_err().to_string().contains("brandnew = 7"));
        assert!(with("objectformat = sha512").is_err());
        assert!(with("worktreeConfig").is_ok());
        assert!(hash_of("[core]\n\trepositoryformatversion = 2\n").is_err());
        assert!(hash_of("[extensions]\n\tbrandnew = 7\n").is_ok());
    }

    #[test]
    fn refs_are_files_unless_the_config_says_otherwise() {
        assert_eq!(format_of("").unwrap().ref_storage, RefStorage::Files);
        let reftable = "[core]\n\trepositoryformatversion = 1\n[extensions]\n\trefStorage = reftable\n";
        assert_eq!(format_of(reftable).unwrap().ref_storage, RefStorage::Reftable);
    }

    #[test]
    fn includes_are_not_followed_and_what_is_no_config_is_damage() {
        assert_eq!(hash_of("[include]\n\tpath = /dev/zero\n").unwrap(), Kind::Sha1);
        assert!(matches!(hash_of("[core\n"), Err(Error::Corrupt { .. })));
    }
}
