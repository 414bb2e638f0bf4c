//! Archives the files for `mcp-host new`: the templates, the SDKs and the contract.
//!
//! `OUT_DIR/archive.zlib` has the bytes of all files, one after the other, compressed: most of them are text.
//! `OUT_DIR/files.rs` is the source of a constant: the path of each file within the repository, and the end of its
//! bytes.
#![allow(clippy::print_stdout, reason = "that is how a build script talks to cargo")]

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::{env, fs};

use flate2::Compression;
use flate2::write::ZlibEncoder;

/// The files and directories of the archive: links into the repository, at the same paths. The published package of
/// this crate has the files themselves.
const EMBEDDED: &str = "embedded";

/// The suffix of some names there: cargo does not package a directory with a `Cargo.toml`, and git follows no link
/// called `.gitignore`.
const SUFFIX: &str = ".in";

/// Names in these directories that are not for users: the tests of the SDKs, and output of tools.
const EXCLUDED: &[&str] = &[
    "__pycache__",
    "failing",
    "granted",
    "preparing",
    "functions_test.go",
    "provider_test.go",
    "bucket_test.go",
    "sql_test.go",
    "transport_test.go",
    "requirements-build.txt",
];

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name| env::var_os(name).map(PathBuf::from).ok_or_else(|| io::Error::other(name));
    let embedded = variable("CARGO_MANIFEST_DIR")?.join(EMBEDDED);
    println!("cargo::rerun-if-changed={}", embedded.display());
    let mut files = Vec::new();
    collect_embedded(&embedded, Path::new(""), &mut files)?;
    files.sort_unstable();
    let mut archive = ZlibEncoder::new(Vec::new(), Compression::default());
    let (mut list, mut end) = (String::from("&[\n"), 0_usize);
    for (path, file) in &files {
        let bytes = fs::read(file)?;
        archive.write_all(&bytes)?;
        end = end.saturating_add(bytes.len());
        writeln!(list, "    ({path:?}, {end}),").map_err(io::Error::other)?;
    }
    list.push_str("]\n");
    let out = variable("OUT_DIR")?;
    fs::write(out.join("files.rs"), list)?;
    fs::write(out.join("archive.zlib"), archive.finish()?)
}

/// Collects the files of a directory, and the targets of its links: the path of each file in the archive, and the file.
fn collect_embedded(dir: &Path, path: &Path, files: &mut Vec<(PathBuf, PathBuf)>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_str().ok_or_else(|| io::Error::other("a name is not UTF-8"))?;
        let path = path.join(name.strip_suffix(SUFFIX).unwrap_or(name));
        let file = entry.path();
        if is_excluded(&path) {
            continue;
        }
        if entry.file_type()?.is_symlink() {
            let target = file.canonicalize()?;
            println!("cargo::rerun-if-changed={}", target.display());
            collect(&target, &path, files)?;
        } else if file.is_dir() {
            collect_embedded(&file, &path, files)?;
        } else {
            files.push((path, file));
        }
    }
    Ok(())
}

/// Collects the regular files below a file or directory. Links are skipped: the SDKs' link to the contract is replaced
/// by the contract itself.
fn collect(file: &Path, path: &Path, files: &mut Vec<(PathBuf, PathBuf)>) -> io::Result<()> {
    let kind = fs::symlink_metadata(file)?.file_type();
    if is_excluded(path) {
        return Ok(());
    }
    if kind.is_dir() {
        for entry in fs::read_dir(file)? {
            let entry = entry?;
            collect(&entry.path(), &path.join(entry.file_name()), files)?;
        }
    } else if kind.is_file() {
        files.push((path.to_owned(), file.to_owned()));
    }
    Ok(())
}

fn is_excluded(path: &Path) -> bool {
    path.file_name().is_some_and(|name| EXCLUDED.iter().any(|excluded| name == *excluded))
}
