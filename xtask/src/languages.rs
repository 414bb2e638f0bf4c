//! `cargo xtask languages`: the SDKs as packages, the example provider in each language, and `mcp-host new`.
//!
//! | language | SDK | examples | toolchain, in `target/languages` |
//! |---|---|---|---|
//! | Rust | `sdk-guest/rust`, as a crate | built with the other guests | rustup's |
//! | Python | `sdk-guest/python`, as a wheel | `examples/{csv,folder,calendar}/python` | `python`: a virtual environment with componentize-py |
//! | JavaScript, TypeScript | `sdk-guest/js`, as an npm tarball | `examples/{csv,folder}/{javascript,typescript}` | `javascript`: componentize-qjs, esbuild, the TypeScript compiler |
//! | C | `sdk-guest/c`, as sources | `examples/{csv,folder}/c` | clang of the distribution, and `wasi-libc`: a C library, unpacked |
//! | Go | `sdk-guest/go`, as a module | `examples/{csv,folder,calendar}/go` | Go in PATH, else `go`: one of pip |
//!
//! Each SDK is packaged as its registry wants it, and installed from the package. Then its unit tests and those of the
//! examples run, types are checked, and the providers are built: `target/plugins/fixtures/csv-LANG.wasm`; `folder-LANG.wasm`,
//! a provider of functions; one that fails in every way, `failing-LANG.wasm`; one that uses
//! each grant, `granted-LANG.wasm`, of which `lists-typescript.wasm` is a part; and one that uses the standard library,
//! `standard-python.wasm`. Last, `mcp-host new` writes a project in each language, whose printed instructions are followed
//! ([`projects`]). All of that is skipped while its inputs are the same. [`worlds`] compiles the bindings of each world of the
//! contract in C and Go; the other languages do so beside their SDK.

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

/// Builds and tests them, unless that was done with these sources.
pub(crate) fn build(workspace: &Workspace, progress: &Progress) -> Result<()> {
    rust::build(workspace, progress)?;
    build_without_host(workspace, progress)?;
    c::build(workspace, progress)?;
    go::build(workspace, progress)?;
    worlds::build(workspace, progress)?;
    projects::build(workspace, progress)
}

/// The same for the languages whose tools need nothing of the host.
pub(crate) fn build_without_host(workspace: &Workspace, progress: &Progress) -> Result<()> {
    python::build(workspace, progress)?;
    javascript::build(workspace, progress)
}

/// Builds the host, and all tests.
pub(crate) fn build_host(workspace: &Workspace, progress: &Progress) -> Result<()> {
    host_program(workspace, progress).map(drop)
}

/// Builds the host, whose command `componentize` ends the builds of C and Go.
fn host_program(workspace: &Workspace, progress: &Progress) -> Result<PathBuf> {
    let mut step = progress.step("building mcp-host");
    let mut command = workspace.cargo(workspace.root());
    // As the test command builds it, with the features of dev-dependencies: otherwise its dependencies would be built twice.
    command.args(["test", "--workspace", "--no-run"]);
    let artifacts = cargo::build(command, workspace, progress, &mut step)?;
    let host = artifacts.into_iter().filter(|artifact| artifact.target.name == "mcp-host" && !artifact.profile.test);
    let host = host.filter_map(|artifact| artifact.executable).next_back().context("cargo built no mcp-host")?;
    step.done("built mcp-host");
    Ok(host.into())
}

/// The folder of the toolchains.
fn folder(workspace: &Workspace, language: &str) -> PathBuf {
    workspace.target().join("languages").join(language)
}

/// Returns the path of a component that is built here.
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

/// Returns all files below these folders, sorted, but for what tools leave there, and copies of `wit/`.
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

/// Removes a folder with all that an earlier build left there, and makes it again.
fn make_empty(folder: &Path) -> Result<()> {
    let remove = || if folder.exists() { fs::remove_dir_all(folder) } else { Ok(()) };
    remove().and_then(|()| fs::create_dir_all(folder)).with_context(|| format!("cannot clear {}", folder.display()))
}

/// Copies a folder's files, in the folders that they are in.
fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    for file in files(&[from.to_owned()])? {
        let below = file.strip_prefix(from).context("a file is below its folder")?;
        let parent = below.parent().map_or_else(|| to.to_owned(), |parent| to.join(parent));
        crate::install::copy_into(&file, &parent)?;
    }
    Ok(())
}
