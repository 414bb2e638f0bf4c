//! `cargo xtask bindings`: generates the committed bindings of the C and Go SDKs from `wit/`.
//!
//! The generator, `sdk-guest/bindgen`, is a separate workspace, whose build takes most of a minute. So it is built on
//! request only. A digest of `wit/` and of the world of the SDKs records the inputs of the last run, and the test
//! command compares the digest.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use sha2::{Digest as _, Sha256};

use crate::cargo;
use crate::progress::Progress;
use crate::workspace::Workspace;

/// Generates the bindings.
pub(crate) fn generate(workspace: &Workspace, progress: &Progress) -> Result<()> {
    let step = progress.step("generating the bindings of the C and Go SDKs");
    let sdks = workspace.root().join("sdk-guest");
    for (what, c, go) in
        [("sdk", "c/bindings", "go/internal/bindings"), ("prepare", "c/prepare/bindings", "go/internal/prepare")]
    {
        let mut command = generator(workspace);
        command.arg(what).arg(workspace.root().join("wit"));
        cargo::capture(command.arg(sdks.join(c)).arg(sdks.join(go)))?;
    }
    let file = digest_file(workspace);
    fs::write(&file, digest(workspace)? + "\n").with_context(|| format!("cannot write {}", file.display()))?;
    step.done("generated bindings in sdk-guest/c and sdk-guest/go/internal");
    Ok(())
}

/// Generates the bindings of one world of the contract for C and for Go.
pub(crate) fn generate_world(workspace: &Workspace, world: &str, c: &Path, go: &Path) -> Result<()> {
    let mut command = generator(workspace);
    cargo::capture(command.arg("world").arg(workspace.root().join("wit")).arg(world).arg(c).arg(go))?;
    Ok(())
}

/// Returns the command that builds and runs the generator.
fn generator(workspace: &Workspace) -> Command {
    let mut command = workspace.cargo(&workspace.root().join("sdk-guest/bindgen"));
    command.args(["run", "--quiet", "--locked", "--target-dir"]).arg(workspace.target().join("bindgen")).arg("--");
    command
}

/// Verifies that the committed bindings were generated from the current WIT files.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let file = digest_file(workspace);
    let committed = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    ensure!(
        committed.trim() == digest(workspace)?,
        "the bindings of the C and Go SDKs are those of other WIT files or of another world: run `cargo xtask bindings` and commit the result"
    );
    Ok(())
}

fn digest_file(workspace: &Workspace) -> PathBuf {
    workspace.root().join("sdk-guest/bindgen/wit.sha256")
}

/// Returns the digest of the WIT files, with their names, and of the world of the SDKs.
fn digest(workspace: &Workspace) -> Result<String> {
    let root = workspace.root().join("wit");
    let mut files = Vec::new();
    for folder in [root.clone(), root.join("deps")] {
        let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
        files.extend(entries.flatten().map(|entry| entry.path()));
    }
    files.retain(|file| file.extension().is_some_and(|extension| extension == "wit"));
    files.sort_unstable();
    files.push(workspace.root().join("sdk-guest/bindgen/src/sdk.wit"));
    let mut hash = Sha256::new();
    for file in files {
        let name = file.strip_prefix(workspace.root()).unwrap_or(&file).display().to_string();
        let text = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        hash.update(format!("{name} {}\n", text.len()));
        hash.update(text);
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
