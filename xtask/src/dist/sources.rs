//! A copy of the tracked files, from which packages are built, so that no other file can become part of a package.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::cargo;
use crate::workspace::Workspace;

/// Copies the tracked files of the working tree into `directory`, and removes other files there. The directory's
/// `target/` and files with equal contents are kept, so that unchanged files are not compiled again. A changed file
/// gets the time of the copy: cargo would not rebuild for a file that is older than the last build.
pub(super) fn copy(workspace: &Workspace, directory: &Path) -> Result<Workspace> {
    let listed = cargo::capture(Command::new("git").args(["ls-files", "-z"]).current_dir(workspace.root()))?;
    let tracked: BTreeSet<_> = listed.split('\0').filter(|path| !path.is_empty()).map(PathBuf::from).collect();
    if directory.exists() {
        remove_others(directory, &tracked)?;
    }
    for path in &tracked {
        let (from, to) = (workspace.root().join(path), directory.join(path));
        copy_file(&from, &to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    }
    Ok(Workspace::at(directory))
}

fn remove_others(directory: &Path, tracked: &BTreeSet<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))? {
        let path = entry?.path();
        if path.file_name().is_some_and(|name| name == "target") {
            continue;
        }
        if path.is_dir() && !path.is_symlink() {
            for file in super::files(&path)?.iter().map(|file| path.join(file)) {
                if !tracked.contains(file.strip_prefix(directory)?) {
                    fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?;
                }
            }
        } else if !tracked.contains(path.strip_prefix(directory)?) {
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

fn copy_file(from: &Path, to: &Path) -> std::io::Result<()> {
    // A tracked file may have been removed from the working tree.
    let Ok(metadata) = fs::symlink_metadata(from) else { return Ok(()) };
    to.parent().map_or(Ok(()), fs::create_dir_all)?;
    if metadata.is_symlink() {
        return if to.is_symlink() { Ok(()) } else { link(&fs::read_link(from)?, to) };
    }
    let has_size = fs::metadata(to).is_ok_and(|old| old.is_file() && old.len() == metadata.len());
    if has_size && fs::read(to)? == fs::read(from)? {
        return Ok(());
    }
    fs::copy(from, to).map(drop)
}

#[cfg(unix)]
fn link(target: &Path, link: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

#[cfg(not(unix))]
fn link(target: &Path, link: &Path) -> std::io::Result<()> {
    Err(std::io::Error::new(std::io::ErrorKind::Unsupported, format!("{link:?} links to {target:?}")))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_the_tracked_files_and_no_others() {
        let (repository, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let git = |arguments: &[&str]| {
            cargo::capture(Command::new("git").args(arguments).current_dir(repository.path())).unwrap();
        };
        git(&["init", "--quiet"]);
        fs::create_dir(repository.path().join("src")).unwrap();
        for file in ["src/lib.rs", "src/gone.rs", "untracked"] {
            fs::write(repository.path().join(file), file).unwrap();
        }
        git(&["add", "src"]);
        let workspace = Workspace::at(repository.path());
        copy(&workspace, copies.path()).unwrap();
        fs::create_dir(copies.path().join("target")).unwrap();
        fs::write(copies.path().join("target/built"), "built").unwrap();
        fs::write(copies.path().join("src/other"), "other").unwrap();
        // A change that is older than what was built from the first copy.
        let first = fs::metadata(copies.path().join("src/lib.rs")).unwrap().modified().unwrap();
        let changed = repository.path().join("src/lib.rs");
        fs::write(&changed, "src/LIB.rs").unwrap();
        let earlier = first - std::time::Duration::from_secs(3600);
        fs::File::options().append(true).open(&changed).unwrap().set_modified(earlier).unwrap();

        git(&["rm", "--quiet", "--cached", "src/gone.rs"]);
        copy(&workspace, copies.path()).unwrap();
        let copied = super::super::files(copies.path()).unwrap();
        assert_eq!(copied, ["src/lib.rs", "target/built"].map(PathBuf::from));
        let copied = copies.path().join("src/lib.rs");
        assert_eq!(fs::read(&copied).unwrap(), b"src/LIB.rs");
        assert!(fs::metadata(&copied).unwrap().modified().unwrap() >= first);
    }
}
