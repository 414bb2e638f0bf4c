//! Archives what `mcp-host new` writes: the templates, the SDKs and the contract.
//!
//! The archive is the source of a constant, in `OUT_DIR/archive.rs`: the path of each file below the repository, and its bytes.
#![allow(clippy::print_stdout, reason = "that is how a build script talks to cargo")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The files and directories of the archive, below the repository.
const SOURCES: &[&str] = &[
    "LICENSE",
    // The versions that the SDK for Rust inherits.
    "plugins/Cargo.toml",
    "sdk-guest/c/bindings",
    "sdk-guest/c/include",
    "sdk-guest/c/src",
    "sdk-guest/go",
    "sdk-guest/js/README.md",
    "sdk-guest/js/bin",
    "sdk-guest/js/package.json",
    "sdk-guest/js/src",
    "sdk-guest/python/README.md",
    "sdk-guest/python/pyproject.toml",
    "sdk-guest/python/src",
    "sdk-guest/rust/Cargo.toml",
    "sdk-guest/rust/src",
    "sdk-guest/templates",
    "wit",
];

/// What is in these directories and not for users: the tests of the SDKs, and what tools leave there.
const EXCLUDED: &[&str] = &[
    "__pycache__",
    "failing",
    "granted",
    "provider_test.go",
    "bucket_test.go",
    "transport_test.go",
    "requirements-build.txt",
];

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name| env::var_os(name).map(PathBuf::from).ok_or_else(|| io::Error::other(name));
    let repository = variable("CARGO_MANIFEST_DIR")?.join("../..");
    let mut files = Vec::new();
    for source in SOURCES {
        let source = repository.join(source);
        println!("cargo::rerun-if-changed={}", source.display());
        collect(&source, &mut files)?;
    }
    files.sort_unstable();
    let mut archive = String::from("&[\n");
    for file in &files {
        let path = file.strip_prefix(&repository).map_err(io::Error::other)?;
        let file = file.canonicalize()?;
        writeln!(archive, "    ({path:?}, include_bytes!({file:?})),").map_err(io::Error::other)?;
    }
    archive.push_str("]\n");
    fs::write(variable("OUT_DIR")?.join("archive.rs"), archive)
}

/// Collects the regular files below a path. Links are left out: that to the contract, in the SDKs, is replaced by the contract.
fn collect(path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    let kind = fs::symlink_metadata(path)?.file_type();
    let is_excluded = path.file_name().is_some_and(|name| EXCLUDED.iter().any(|excluded| name == *excluded));
    if kind.is_dir() && !is_excluded {
        for entry in fs::read_dir(path)? {
            collect(&entry?.path(), files)?;
        }
    } else if kind.is_file() && !is_excluded {
        files.push(path.to_owned());
    }
    Ok(())
}
