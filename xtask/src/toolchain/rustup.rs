//! Installs the target with rustup.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result};

use super::TARGET;
use crate::cargo;
use crate::progress::Progress;
use crate::workspace::Workspace;

/// Returns whether the present compiler has the target's standard library.
///
/// # Errors
///
/// When there is no compiler.
pub(super) fn is_installed(workspace: &Workspace) -> Result<bool> {
    let libraries = rustc(workspace, &["--print", "target-libdir", "--target", TARGET])?;
    Ok(has_standard_library(Path::new(libraries.trim())))
}

/// Installs the target with rustup if it is missing.
pub(super) fn ensure(workspace: &Workspace, progress: &Progress) -> Result<()> {
    if is_installed(workspace)? {
        return Ok(());
    }
    let step = progress.step(format!("installing the target {TARGET}: rustup target add"));
    let mut rustup = Command::new("rustup");
    // If this variable is set, rustup adds a backtrace to its error messages.
    rustup.args(["target", "add", TARGET]).current_dir(workspace.guests()).env("RUST_BACKTRACE", "0");
    cargo::capture(&mut rustup).with_context(|| format!("rustup cannot install the target {TARGET}"))?;
    step.done(&format!("installed the target {TARGET} by rustup"));
    Ok(())
}

/// Returns the folder of the tools of rustup's compiler, such as the linkers.
pub(super) fn tool_dir(workspace: &Workspace) -> Result<PathBuf> {
    let sysroot = rustc(workspace, &["--print", "sysroot"])?;
    let version = rustc(workspace, &["--version", "--verbose"])?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).context("`rustc -vV` names no host")?;
    Ok(Path::new(sysroot.trim()).join("lib/rustlib").join(host).join("bin"))
}

fn rustc(workspace: &Workspace, arguments: &[&str]) -> Result<String> {
    let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    cargo::capture(rustc.args(arguments).current_dir(workspace.guests()).env("RUSTUP_AUTO_INSTALL", "0"))
}

fn has_standard_library(libraries: &Path) -> bool {
    let Ok(files) = fs::read_dir(libraries) else { return false };
    files.flatten().any(|file| {
        let name = file.file_name();
        let name = name.to_string_lossy();
        name.starts_with("libstd-") && name.ends_with(".rlib")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_without_its_standard_library_is_not_installed() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!has_standard_library(&folder.path().join("missing")));
        fs::write(folder.path().join("libcore-0123.rlib"), "").unwrap();
        assert!(!has_standard_library(folder.path()));
        fs::write(folder.path().join("libstd-0123.rlib"), "").unwrap();
        assert!(has_standard_library(folder.path()));
    }
}
