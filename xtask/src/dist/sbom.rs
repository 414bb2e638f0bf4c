//! Software bills of materials in CycloneDX format for the program and for each included provider, made by
//! `cargo cyclonedx`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::{EPOCH, Packaging};
use crate::cargo;
use crate::plugins::Plugins;
use crate::toolchain::TARGET;

/// The file name that `cargo cyclonedx` uses in the directory of each manifest of a workspace.
const FILE: &str = "sbom";

/// Writes the bills of materials into the directory `sbom`.
pub(super) fn write(packaging: &Packaging<'_>) -> Result<()> {
    let Packaging { sources, version, out, progress, .. } = packaging;
    let step = progress.step("writing the bills of materials");
    let directory = out.join("sbom");
    super::recreate(&directory)?;
    generate(packaging, sources.root(), &version.target)?;
    generate(packaging, &sources.guests(), TARGET)?;
    collect(packaging, &sources.root().join("host/cli"), &directory.join("mcp-host.cdx.json"))?;
    for (name, package) in Plugins::included(sources)? {
        collect(packaging, &package, &directory.join(format!("{name}.cdx.json")))?;
    }
    step.done("wrote the bills of materials");
    Ok(())
}

/// Writes a bill of materials to the directory of each manifest of a workspace.
fn generate(packaging: &Packaging<'_>, workspace: &Path, target: &str) -> Result<()> {
    let mut command = packaging.tools.cargo_cyclonedx();
    command.args(["--format", "json", "--spec-version", "1.5", "--no-build-deps", "--target", target]);
    command.args(["--override-filename", FILE, "--quiet", "--manifest-path"]).arg(workspace.join("Cargo.toml"));
    command.current_dir(workspace).env(EPOCH, packaging.version.epoch.to_string());
    cargo::capture(&mut command).map(drop)
}

/// Writes a package's bill of materials to `to`. Its identifiers of local crates become paths from the root of the
/// repository instead of paths of this machine.
fn collect(packaging: &Packaging<'_>, package: &Path, to: &Path) -> Result<()> {
    let from = package.join(format!("{FILE}.json"));
    let text = fs::read_to_string(&from).with_context(|| format!("cannot read {}", from.display()))?;
    let root = format!("{}/", packaging.sources.root().display());
    super::write(to, text.replace(&root, "/").as_bytes())
}
