//! The SDK for Rust, as a crate.

use anyhow::{Context, Result, ensure};

use super::{files, folder};
use crate::cargo;
use crate::install::Stamp;
use crate::progress::Progress;
use crate::workspace::Workspace;

/// Packages the SDK. Cargo then unpacks the package and builds it without the other files of the repository.
pub(super) fn build(workspace: &Workspace, progress: &Progress) -> Result<()> {
    let sdk = workspace.root().join("sdk-guest/rust");
    let inputs = files(&[sdk.clone(), workspace.root().join("wit")])?;
    let stamp = Stamp::new(&folder(workspace, "rust-built"), &inputs, "")?;
    if stamp.is_current() {
        return Ok(());
    }
    let mut step = progress.step("packaging the SDK for Rust");
    stamp.clear()?;
    let package = |arguments: &[&str]| {
        let mut command = workspace.cargo(&workspace.guests());
        command.args(["package", "--package", "mcp-provider", "--allow-dirty"]);
        cargo::capture(command.args(arguments))
    };
    let listed = package(&["--list"])?;
    for contract in files(&[workspace.root().join("wit")])? {
        let path = contract.strip_prefix(workspace.root()).context("it is below the repository")?;
        let is_packaged = listed.lines().any(|file| path == std::path::Path::new(file));
        ensure!(is_packaged, "the package of the SDK for Rust has no {}:\n{listed}", path.display());
    }
    step.at("building the package");
    package(&[])?;
    stamp.set()?;
    step.done("packaged the SDK for Rust, and built it from the package");
    Ok(())
}
