//! Moves the workspace of the providers to the root of the repository.
//!
//! Cargo derives the symbol names of a package from its path below the root of its workspace, or from its absolute path
//! if the package is outside of the workspace, as the SDK is. So a component would depend on the directory of its
//! build. In the copy that packages are built from, the manifest of `plugins/` therefore becomes the manifest of the
//! root.

use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};
use toml_edit::{DocumentMut, Item, Value};

use crate::workspace::Workspace;

/// Replaces the workspace of the host, in the copy of the repository, by the workspace of the providers.
pub(super) fn move_to_root(copy: &Workspace) -> Result<()> {
    let (root, guests) = (copy.root(), copy.guests());
    let mut manifest = read(&guests.join("Cargo.toml"))?;
    let workspace = manifest.get_mut("workspace").context("plugins/Cargo.toml has no [workspace]")?;
    let members =
        workspace.get_mut("members").and_then(Item::as_array_mut).context("plugins/Cargo.toml has no members")?;
    for member in members.iter_mut() {
        let directory = from_root(member)?;
        let member_manifest = root.join(&directory).join("Cargo.toml");
        let mut document = read(&member_manifest)?;
        // Without the key `workspace`, cargo searches the parent directories for the manifest of the workspace.
        if document
            .get_mut("package")
            .and_then(Item::as_table_mut)
            .and_then(|package| package.remove("workspace"))
            .is_some()
        {
            write(&member_manifest, &document)?;
        }
        *member = directory.into();
    }
    let dependencies = workspace.get_mut("dependencies").and_then(Item::as_table_mut);
    for (_, dependency) in dependencies.into_iter().flat_map(|dependencies| dependencies.iter_mut()) {
        if let Some(path) = dependency.get_mut("path").and_then(Item::as_value_mut) {
            *path = from_root(path)?.into();
        }
    }
    write(&root.join("Cargo.toml"), &manifest)?;
    fs::rename(guests.join("Cargo.lock"), root.join("Cargo.lock")).context("cannot move plugins/Cargo.lock")?;
    fs::remove_file(guests.join("Cargo.toml")).context("cannot remove plugins/Cargo.toml")
}

/// Returns the path from the root for a path in `plugins/Cargo.toml`.
fn from_root(path: &Value) -> Result<String> {
    let path = path.as_str().context("a path in plugins/Cargo.toml is no string")?;
    let mut whole = PathBuf::new();
    for component in Path::new("plugins").join(path).components() {
        match component {
            Component::ParentDir => _ = whole.pop(),
            other => whole.push(other),
        }
    }
    whole.into_os_string().into_string().ok().context("a path in plugins/Cargo.toml is no text")
}

fn read(manifest: &Path) -> Result<DocumentMut> {
    let text = fs::read_to_string(manifest).with_context(|| format!("cannot read {}", manifest.display()))?;
    text.parse().with_context(|| format!("{} is no manifest", manifest.display()))
}

fn write(manifest: &Path, document: &DocumentMut) -> Result<()> {
    fs::write(manifest, document.to_string()).with_context(|| format!("cannot write {}", manifest.display()))
}
