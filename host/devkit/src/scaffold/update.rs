//! Replaces the SDK of a project with the SDK of this program.
//!
//! `sdk/files.sha256` has the digest of each file of the SDK as it was written, in the form of `sha256sum`. So an
//! update detects edited files, which it refuses to replace, and files that the SDK does not have any more, which it
//! removes. In a project without this list, all files are replaced and none is removed. An update that was interrupted
//! is completed by the next.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File as OpenFile};
use std::io::{self, ErrorKind, Read as _};
use std::path::{Component, Path, PathBuf};

use mcp_host_model::digest::{Digest, PREFIX};

use super::sdk::{self, LIST, SDK};
use super::{ArchiveError, File};
use crate::language::Language;

/// The maximum size of a list in bytes. The list of an SDK takes less than a hundredth of it.
const MAX_LIST: u64 = 1 << 20;

/// What an update did: paths below the project, sorted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// The language of the SDK.
    pub language: Language,
    /// Files with another content.
    pub changed: Vec<PathBuf>,
    /// New files.
    pub added: Vec<PathBuf>,
    /// Files that the SDK does not have any more.
    pub removed: Vec<PathBuf>,
}

impl Update {
    /// Whether the SDK was already the SDK of this program.
    pub fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.added.is_empty() && self.removed.is_empty()
    }
}

/// The reason why the SDK of a project was not replaced.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpdateError {
    /// The directory has no SDK.
    #[error("{} has no `sdk/` of a project of `mcp-host new`", dir.display())]
    NoSdk {
        /// The directory.
        dir: PathBuf,
    },
    /// Files of the SDK were edited. Nothing was written.
    #[error("{} edited since `mcp-host new` wrote {}; nothing was written", edited(files), if files.len() == 1 { "it" } else { "them" })]
    Edited {
        /// The files' paths below the project.
        files: Vec<PathBuf>,
    },
    /// A file cannot be read, written or removed. Files before it may have been replaced; the next update completes
    /// that.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// `read`, `write` or `remove`.
        action: &'static str,
        /// The file's path.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The archive cannot be used.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

fn edited(files: &[PathBuf]) -> String {
    format!("{} {}", super::write::listed(files), if files.len() == 1 { "was" } else { "were" })
}

/// Replaces the SDK of the project in a directory. Edited files are replaced only if `discards_edits`.
///
/// # Errors
///
/// There is no SDK, files of it were edited, or a file cannot be read or written.
pub fn update(dir: &Path, discards_edits: bool) -> Result<Update, UpdateError> {
    let language = language_of(dir).ok_or_else(|| UpdateError::NoSdk { dir: dir.to_owned() })?;
    let (lists, files): (Vec<_>, Vec<_>) =
        sdk::files(language)?.into_iter().partition(|file| file.path.ends_with(LIST));
    let known = known_files(dir)?;
    let mut update = Update { language, changed: Vec::new(), added: Vec::new(), removed: Vec::new() };
    let mut edited = Vec::new();
    let mut replaced = Vec::new();
    for file in &files {
        let Some(found) = digest_of(&dir.join(&file.path))? else {
            update.added.push(file.path.clone());
            replaced.push(file);
            continue;
        };
        if found == Digest::compute(&file.bytes) {
            continue;
        }
        if known.as_ref().is_some_and(|known| known.get(&file.path) != Some(&found)) {
            edited.push(file.path.clone());
        }
        update.changed.push(file.path.clone());
        replaced.push(file);
    }
    let present: BTreeSet<_> = files.iter().map(|file| &file.path).collect();
    for (path, digest) in known.iter().flatten().filter(|(path, _)| !present.contains(path)) {
        let Some(found) = digest_of(&dir.join(path))? else { continue };
        if found != *digest {
            edited.push(path.clone());
        }
        update.removed.push(path.clone());
    }
    if !edited.is_empty() && !discards_edits {
        edited.sort_unstable();
        return Err(UpdateError::Edited { files: edited });
    }
    replaced.into_iter().try_for_each(|file| replace(dir, file))?;
    update.removed.iter().try_for_each(|path| remove(dir, path))?;
    lists.iter().try_for_each(|file| replace(dir, file))?;
    update.changed.sort_unstable();
    update.added.sort_unstable();
    Ok(update)
}

/// Returns the language of a project by a file that only its SDK has.
fn language_of(dir: &Path) -> Option<Language> {
    let has = |file: &str| dir.join(file).is_file();
    let script = if has("tsconfig.json") { Language::TypeScript } else { Language::JavaScript };
    [
        ("sdk/Cargo.toml", Language::Rust),
        ("sdk/pyproject.toml", Language::Python),
        ("sdk/package.json", script),
        ("sdk/include/mcp_provider.h", Language::C),
        ("sdk/go.mod", Language::Go),
    ]
    .into_iter()
    .find_map(|(file, language)| has(file).then_some(language))
}

/// Returns the files of the SDK as they were written, by their paths below the project; none if the project has no
/// list.
fn known_files(dir: &Path) -> Result<Option<BTreeMap<PathBuf, Digest>>, UpdateError> {
    let path = dir.join(SDK).join(LIST);
    let file = match OpenFile::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(UpdateError::File { action: "read", path, source }),
    };
    let mut text = String::new();
    file.take(MAX_LIST).read_to_string(&mut text).map_err(|source| UpdateError::File {
        action: "read",
        path,
        source,
    })?;
    let parse = |line: &str| {
        let (digits, path) = line.split_once("  ")?;
        let digest = format!("{PREFIX}{digits}").parse::<Digest>().ok()?;
        let is_below = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
        (is_below && !path.is_empty()).then(|| (Path::new(SDK).join(path), digest))
    };
    Ok(Some(text.lines().filter_map(parse).collect()))
}

/// Returns the digest of a file; none if it does not exist.
fn digest_of(path: &Path) -> Result<Option<Digest>, UpdateError> {
    let digest = OpenFile::open(path).and_then(Digest::compute_reader);
    match digest {
        Ok((digest, _)) => Ok(Some(digest)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(UpdateError::File { action: "read", path: path.to_owned(), source }),
    }
}

/// Replaces a file atomically: a reader sees the old or the new content.
fn replace(dir: &Path, file: &File) -> Result<(), UpdateError> {
    let path = dir.join(&file.path);
    let mut beside = path.clone().into_os_string();
    beside.push(".new");
    let write = || {
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(&beside, &file.bytes)?;
        fs::rename(&beside, &path)
    };
    write().map_err(|source| {
        // An error of this removal has no remedy here.
        let _ = fs::remove_file(&beside);
        UpdateError::File { action: "write", path: path.clone(), source }
    })
}

/// Removes a file, and the directories that are empty then.
fn remove(dir: &Path, file: &Path) -> Result<(), UpdateError> {
    let path = dir.join(file);
    fs::remove_file(&path).map_err(|source| UpdateError::File { action: "remove", path: path.clone(), source })?;
    let above = file.ancestors().skip(1).take_while(|directory| *directory != Path::new(SDK));
    for directory in above {
        // A directory with other files stays.
        if fs::remove_dir(dir.join(directory)).is_err() {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scaffold::{PackageName, Project, write};

    fn project(language: Language) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let project = Project { language, name: PackageName::new("notes").unwrap() };
        write(&project.files().unwrap(), dir.path()).unwrap();
        dir
    }

    /// Changes the project's SDK to another version, with its list: a file with another content, one more, and one
    /// less.
    fn as_of_another_version(dir: &Path, changed: &str, missing: &str) {
        fs::write(dir.join(changed), "another version").unwrap();
        fs::remove_file(dir.join(missing)).unwrap();
        fs::create_dir_all(dir.join("sdk/old")).unwrap();
        fs::write(dir.join("sdk/old/file"), "of another version").unwrap();
        let line = |path: &str| {
            let digest = Digest::compute(&fs::read(dir.join("sdk").join(path)).unwrap());
            format!("{}  {path}\n", digest.digits())
        };
        let changed = changed.strip_prefix("sdk/").unwrap();
        fs::write(dir.join("sdk/files.sha256"), format!("# Old\n{}{}", line(changed), line("old/file"))).unwrap();
    }

    #[test]
    fn every_language_is_known_by_its_sdk_and_a_new_project_is_up_to_date() {
        for language in Language::ALL {
            let dir = project(language);
            let update = update(dir.path(), false).unwrap();
            assert!(update.is_empty() && update.language == language, "{update:?}");
        }
    }

    #[test]
    fn files_of_another_version_are_replaced_and_those_of_the_author_stay() {
        let dir = project(Language::C);
        let (changed, missing) = ("sdk/include/mcp_http.h", "sdk/include/mcp_json.h");
        let then = fs::read(dir.path().join(changed)).unwrap();
        as_of_another_version(dir.path(), changed, missing);
        fs::write(dir.path().join("sdk/mine"), "mine").unwrap();
        let updated = update(dir.path(), false).unwrap();
        assert_eq!((updated.changed, updated.added), (vec![PathBuf::from(changed)], vec![PathBuf::from(missing)]));
        assert_eq!(updated.removed, [Path::new("sdk/old/file")]);
        assert_eq!(fs::read(dir.path().join(changed)).unwrap(), then);
        assert!(!dir.path().join("sdk/old").exists() && dir.path().join("sdk/mine").is_file());
        assert!(update(dir.path(), false).unwrap().is_empty());
    }

    #[test]
    fn an_edited_file_is_replaced_only_on_demand() {
        let dir = project(Language::Go);
        let file = dir.path().join("sdk/config.go");
        let then = fs::read(&file).unwrap();
        fs::write(&file, "mine").unwrap();
        let error = update(dir.path(), false).unwrap_err().to_string();
        assert_eq!(error, "`sdk/config.go` was edited since `mcp-host new` wrote it; nothing was written");
        assert_eq!(fs::read(&file).unwrap(), b"mine");
        assert_eq!(update(dir.path(), true).unwrap().changed, [Path::new("sdk/config.go")]);
        assert_eq!(fs::read(&file).unwrap(), then);
    }

    #[test]
    fn a_list_leads_to_no_file_outside_of_the_sdk() {
        let dir = project(Language::Go);
        fs::write(dir.path().join("mine"), "mine").unwrap();
        let digest = Digest::compute(b"mine").digits();
        let list = format!("{digest}  ../mine\n{digest}  {}\n", dir.path().join("mine").display());
        fs::write(dir.path().join("sdk/files.sha256"), list).unwrap();
        assert!(update(dir.path(), true).unwrap().removed.is_empty());
        assert!(dir.path().join("mine").is_file());
    }

    #[test]
    fn a_project_without_a_list_gets_one() {
        let dir = project(Language::Python);
        let list = dir.path().join("sdk/files.sha256");
        let then = fs::read(&list).unwrap();
        fs::remove_file(&list).unwrap();
        fs::write(dir.path().join("sdk/README.md"), "of whatever version").unwrap();
        assert_eq!(update(dir.path(), false).unwrap().changed, [Path::new("sdk/README.md")]);
        assert_eq!(fs::read(&list).unwrap(), then);
    }

    #[test]
    fn a_directory_without_an_sdk_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(update(dir.path(), true), Err(UpdateError::NoSdk { .. })));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
