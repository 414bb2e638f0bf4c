//! The layout of a repository on disk.
//!
//! A directory contains a repository if it is a bare repository, has one in `.git`, or has a file `.git` with the path
//! of one, as submodules and linked worktrees do. A linked worktree has its own `HEAD` and shares everything else with
//! the repository that its file `commondir` names (`gitrepository-layout`). Parent directories are not searched: they
//! are not granted. Absolute paths that git wrote are valid only if the directory is granted under the same path.

use crate::error::{Error, Result};
use crate::files;
use std::path::{Path, PathBuf};

/// The maximum size of a file that contains the path of a directory, in bytes.
const MAX_BYTES: u64 = 8 * 1024;

/// The maximum size of the list of shallow commits, in bytes.
const MAX_SHALLOW_SIZE: u64 = 16 * 1024 * 1024;

/// The directories of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The worktree's own directory, which contains `HEAD`.
    pub(crate) git_dir: PathBuf,
    /// The directory shared by all worktrees: objects, branches, tags, config. Differs from `git_dir` only in a linked
    /// worktree.
    pub(crate) common_dir: PathBuf,
}

impl Layout {
    /// Locates the repository in a directory, which need not contain one.
    pub(crate) fn locate(dir: &Path) -> Result<Self> {
        let dot_git = dir.join(".git");
        let git_dir = match std::fs::metadata(&dot_git) {
            Ok(found) if found.is_dir() => dot_git,
            Ok(_) => read_link_file(&dot_git, "gitdir: ")?.map_or(dot_git, |path| files::resolve(dir, &path)),
            Err(_) => dir.to_owned(),
        };
        let common_dir = match read_link_file(&git_dir.join("commondir"), "")? {
            Some(path) => files::resolve(&git_dir, &path),
            None => git_dir.clone(),
        };
        Ok(Self { git_dir, common_dir })
    }

    /// Checks that `dir`, where this layout was located, contains a repository.
    pub(crate) fn check(&self, dir: &Path) -> Result<()> {
        match self.missing() {
            None => Ok(()),
            Some(_) if !files::is_directory(dir) => Err(no_repository(
                dir,
                "no such directory; grant the plugin the repository's directory under this path, or set the config key \
                 `dir` to the path of the grant",
            )),
            Some(part) => Err(no_repository(
                dir,
                &format!(
                    "{} does not exist; the targets of `.git` and `commondir` must be in a granted directory, and \
                     absolute paths must be granted under the same path",
                    part.display()
                ),
            )),
        }
    }

    /// Returns the object directory.
    pub(crate) fn objects(&self) -> PathBuf {
        self.common_dir.join("objects")
    }

    /// Reads the list of shallow commits; empty if the clone is not shallow.
    pub(crate) fn shallow(&self) -> Result<Vec<u8>> {
        Ok(files::read(&self.shallow_path(), MAX_SHALLOW_SIZE)?.unwrap_or_default())
    }

    /// Returns the path of the list of shallow commits.
    pub(crate) fn shallow_path(&self) -> PathBuf {
        self.common_dir.join("shallow")
    }

    /// Returns the path of the first required part that does not exist.
    fn missing(&self) -> Option<PathBuf> {
        let head = self.git_dir.join("HEAD");
        // `HEAD` may be a dangling link, in very old repositories.
        if std::fs::symlink_metadata(&head).is_err() {
            return Some(head);
        }
        Some(self.objects()).filter(|objects| !files::is_directory(objects))
    }
}

fn no_repository(dir: &Path, why: &str) -> Error {
    Error::NoRepository { dir: dir.to_owned(), reason: why.to_owned() }
}

/// Reads a file that consists of a prefix and a path; `None` if it does not exist.
fn read_link_file(file: &Path, prefix: &str) -> Result<Option<PathBuf>> {
    let Some(bytes) = files::read(file, MAX_BYTES)? else { return Ok(None) };
    let text = String::from_utf8(bytes).map_err(|_| Error::corrupt(file.display(), "expected UTF-8 text"))?;
    match text.strip_prefix(prefix).map(|path| path.trim_end_matches(['\n', '\r'])) {
        Some(path) if !path.is_empty() => Ok(Some(path.into())),
        _ => Err(Error::corrupt(file.display(), format!("expected `{prefix}` and a path"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn find(dir: &Path) -> Result<Layout> {
        let layout = Layout::locate(dir)?;
        layout.check(dir)?;
        Ok(layout)
    }

    fn repository(dir: &Path) {
        fs::create_dir_all(dir.join("objects")).unwrap();
        fs::create_dir_all(dir.join("refs")).unwrap();
        fs::write(dir.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    }

    #[test]
    fn a_bare_repository_and_one_with_a_work_tree_are_both_found() {
        let dir = tempfile::tempdir().unwrap();
        repository(dir.path());
        assert_eq!(find(dir.path()).unwrap().git_dir, dir.path());
        let dir = tempfile::tempdir().unwrap();
        repository(&dir.path().join(".git"));
        assert_eq!(find(dir.path()).unwrap().git_dir, dir.path().join(".git"));
    }

    #[test]
    fn a_linked_worktree_shares_all_but_its_head() {
        let dir = tempfile::tempdir().unwrap();
        repository(&dir.path().join("main"));
        let own = dir.path().join("main/worktrees/linked");
        fs::create_dir_all(&own).unwrap();
        fs::write(own.join("HEAD"), "").unwrap();
        fs::write(own.join("commondir"), "../..\n").unwrap();
        let worktree = dir.path().join("linked");
        fs::create_dir(&worktree).unwrap();
        fs::write(worktree.join(".git"), "gitdir: ../main/worktrees/linked\n").unwrap();
        let layout = find(&worktree).unwrap();
        assert_eq!(layout.git_dir, worktree.join("../main/worktrees/linked"));
        assert_eq!(layout.common_dir, layout.git_dir.join("../.."));
    }

    #[test]
    fn what_is_missing_is_named_with_what_helps() {
        let dir = tempfile::tempdir().unwrap();
        let error = find(dir.path()).unwrap_err().to_string();
        assert!(error.contains("HEAD does not exist"), "{error}");
        let error = find(&dir.path().join("none")).unwrap_err().to_string();
        assert!(error.contains("grant the plugin"), "{error}");
        fs::write(dir.path().join(".git"), "gitdir: /nowhere/at/all\n").unwrap();
        let error = find(dir.path()).unwrap_err().to_string();
        assert!(error.contains("/nowhere/at/all/HEAD does not exist"), "{error}");
    }

    #[test]
    fn a_dot_git_file_that_names_nothing_is_damaged() {
        let dir = tempfile::tempdir().unwrap();
        for content in ["", "gitdir: \n", "somewhere\n"] {
            fs::write(dir.path().join(".git"), content).unwrap();
            assert!(matches!(find(dir.path()), Err(Error::Corrupt { .. })), "{content:?}");
        }
    }
}
