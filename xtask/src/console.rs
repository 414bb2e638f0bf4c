//! `cargo xtask console`: builds the committed files of the console from their sources.
//!
//! A build of the host needs no Node.js, because it embeds the committed files in [`DIST`]. The tests build the files
//! again and compare them with the committed ones. `build.mjs` of the sources checks their sizes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cargo;
use crate::install::{copy_into, npm_install};
use crate::progress::Progress;
use crate::workspace::Workspace;

/// The sources, below the root of the repository.
const SOURCES: &str = "host/server/console";
/// The built files, below the sources.
const DIST: &str = "dist";

/// Files by name.
type Files = BTreeMap<String, Vec<u8>>;

/// Builds the files and writes them to [`DIST`].
pub(crate) fn generate(workspace: &Workspace, progress: &Progress) -> Result<()> {
    let built = build(workspace, progress)?;
    let dist = workspace.root().join(SOURCES).join(DIST);
    for name in files(&dist)?.into_keys().filter(|name| !built.contains_key(name)) {
        fs::remove_file(dist.join(&name)).with_context(|| format!("cannot remove {name}"))?;
    }
    fs::create_dir_all(&dist)?;
    for (name, bytes) in built {
        fs::write(dist.join(&name), bytes).with_context(|| format!("cannot write {name}"))?;
    }
    Ok(())
}

/// Builds the files and compares them with the committed ones.
pub(crate) fn check(workspace: &Workspace, progress: &Progress) -> Result<()> {
    let built = build(workspace, progress)?;
    let committed = files(&workspace.root().join(SOURCES).join(DIST))?;
    let differs = |name: &&String| built.get(*name) != committed.get(*name);
    let different: Vec<_> = built.keys().chain(committed.keys()).filter(differs).map(String::as_str).collect();
    ensure!(
        different.is_empty(),
        "{SOURCES}/{DIST} is not what its sources build ({}): run `cargo xtask console`",
        different.join(", ")
    );
    Ok(())
}

/// Builds the files below `target/console`.
fn build(workspace: &Workspace, progress: &Progress) -> Result<Files> {
    let sources = workspace.root().join(SOURCES);
    let folder = workspace.target().join("console");
    npm_install("ci", &sources, &folder, progress, "the libraries of the console", "target/console")?;
    let step = progress.step("building the console".to_owned());
    for part in ["src", "static", DIST] {
        let part = folder.join(part);
        if part.exists() {
            fs::remove_dir_all(&part).with_context(|| format!("cannot remove {}", part.display()))?;
        }
    }
    for source in walk(&sources.join("src"))?.into_iter().chain(walk(&sources.join("static"))?) {
        let below = source.strip_prefix(&sources)?.parent().unwrap_or(Path::new(""));
        copy_into(&source, &folder.join(below))?;
    }
    for file in ["build.mjs", "tsconfig.json"] {
        copy_into(&sources.join(file), &folder)?;
    }
    for arguments in [&["node_modules/typescript/bin/tsc"][..], &["build.mjs", DIST]] {
        cargo::capture(Command::new("node").args(arguments).current_dir(&folder))
            .context("the console cannot be built")?;
    }
    step.done("built the console");
    files(&folder.join(DIST))
}

/// Reads the files of a directory.
fn files(directory: &Path) -> Result<Files> {
    let all = if directory.is_dir() { walk(directory)? } else { Vec::new() };
    all.into_iter()
        .map(|file| {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let bytes = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
            Ok((name, bytes))
        })
        .collect()
}

/// Returns all files below a directory.
fn walk(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let entries = fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(walk(&path)?);
        } else {
            found.push(path);
        }
    }
    Ok(found)
}
