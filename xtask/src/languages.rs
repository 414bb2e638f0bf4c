//! `cargo xtask languages`: builds and tests the SDKs as packages, the example providers in each language, and the
//! projects of `mcp-host new`.
//!
//! | language | SDK | examples | toolchain, in `target/languages` |
//! |---|---|---|---|
//! | Rust | `sdk-guest/rust`, as a crate | built with the other guests | rustup's |
//! | Python | `sdk-guest/python`, as a wheel | `examples/{csv,folder,calendar}/python` | `python`: a virtual environment with componentize-py |
//! | JavaScript, TypeScript | `sdk-guest/js`, as an npm tarball | `examples/{csv,folder}/{javascript,typescript}` | `javascript`: componentize-qjs, esbuild, the TypeScript compiler |
//! | C | `sdk-guest/c`, as sources | `examples/{csv,folder}/c` | clang of the distribution, and `wasi-libc`: a C library, unpacked |
//! | Go | `sdk-guest/go`, as a module | `examples/{csv,folder,calendar}/go` | Go in PATH, else `go`: Go from pip |
//!
//! Each SDK is packaged for its registry, and installed from the package. Then the unit tests of the SDK and of the
//! examples run, types are checked, and the providers are built in `target/plugins/fixtures`: `csv-LANG.wasm`;
//! `folder-LANG.wasm`, a provider of functions; `failing-LANG.wasm`, which fails in every way; `granted-LANG.wasm`,
//! which uses each grant (`lists-typescript.wasm` does a part of this in TypeScript); `preparing-LANG.wasm`, which
//! prepares an index over several calls; and `standard-python.wasm`, which uses the standard library. Last,
//! `mcp-host new` writes a project in each language, and the task follows the instructions that it prints
//! ([`projects`]). Each part is skipped if its inputs are unchanged. [`worlds`] compiles the bindings of each world of
//! the contract in C and Go; for the other languages this is part of the SDK's build.

mod c;
mod go;
#[cfg(test)]
mod helpers;
mod javascript;
#[cfg(test)]
mod lines;
mod projects;
mod python;
mod rust;
mod worlds;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::cargo;
use crate::progress::Progress;
use crate::workspace::Workspace;

/// Builds and tests the SDKs and their examples. Skips a language whose sources are unchanged.
pub(crate) fn build(workspace: &Workspace, progress: &Progress) -> Result<()> {
    rust::build(workspace, progress)?;
    build_without_host(workspace, progress)?;
    c::build(workspace, progress)?;
    go::build(workspace, progress)?;
    worlds::build(workspace, progress)?;
    projects::build(workspace, progress)
}

/// Builds and tests the SDKs for Python and JavaScript, whose tools do not need the host.
pub(crate) fn build_without_host(workspace: &Workspace, progress: &Progress) -> Result<()> {
    python::build(workspace, progress)?;
    javascript::build(workspace, progress)
}

/// Builds the host and all tests.
pub(crate) fn build_host(workspace: &Workspace, progress: &Progress) -> Result<()> {
    host_program(workspace, progress).map(drop)
}

/// Builds the host. The builds in C and Go end with its command `componentize`.
fn host_program(workspace: &Workspace, progress: &Progress) -> Result<PathBuf> {
    let mut step = progress.step("building mcp-host");
    let mut command = workspace.cargo(workspace.root());
    // As in the test command, dev-dependencies and their features are included. With other features, cargo would
    // compile the dependencies twice.
    command.args(["test", "--workspace", "--no-run"]);
    let artifacts = cargo::build(command, workspace, progress, &mut step)?;
    let host = artifacts.into_iter().filter(|artifact| artifact.target.name == "mcp-host" && !artifact.profile.test);
    let host = host.filter_map(|artifact| artifact.executable).next_back().context("cargo built no mcp-host")?;
    step.done("built mcp-host");
    Ok(host.into())
}

/// Returns the folder of a language's toolchain.
fn folder(workspace: &Workspace, language: &str) -> PathBuf {
    workspace.target().join("languages").join(language)
}

/// Returns the path of a component that this task builds.
fn component(workspace: &Workspace, name: &str) -> PathBuf {
    workspace.target().join("plugins/fixtures").join(format!("{name}.wasm"))
}

/// Returns the names of the worlds of the contract.
fn world_names(workspace: &Workspace) -> Result<Vec<String>> {
    let file = workspace.root().join("wit/worlds.wit");
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let worlds = text.lines().filter_map(|line| line.strip_prefix("world ")?.strip_suffix(" {"));
    Ok(worlds.map(str::to_owned).collect())
}

/// Returns all files below the given folders, sorted, except files that tools generate and copies of `wit/`.
fn files(folders: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for folder in folders {
        collect(folder, &mut files).with_context(|| format!("cannot read {}", folder.display()))?;
    }
    files.sort_unstable();
    Ok(files)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_generated =
            ["node_modules", "__pycache__", ".mypy_cache", "build", "wit"].iter().any(|other| name == *other);
        if entry.file_type()?.is_dir() && !is_generated {
            collect(&entry.path(), files)?;
        } else if entry.file_type()?.is_file() {
            files.push(entry.path());
        }
    }
    Ok(())
}

/// Empties a folder, or creates it.
fn make_empty(folder: &Path) -> Result<()> {
    let remove = || if folder.exists() { fs::remove_dir_all(folder) } else { Ok(()) };
    remove().and_then(|()| fs::create_dir_all(folder)).with_context(|| format!("cannot clear {}", folder.display()))
}

/// Copies the files of a folder with their subfolders.
fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    for file in files(&[from.to_owned()])? {
        let below = file.strip_prefix(from).context("a file is below its folder")?;
        let parent = below.parent().map_or_else(|| to.to_owned(), |parent| to.join(parent));
        crate::install::copy_into(&file, &parent)?;
    }
    Ok(())
}
