//! Software bills of materials in the format CycloneDX, by `cargo cyclonedx`: of the program, and of each included provider.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::{EPOCH, Packaging};
use crate::cargo;
use crate::plugins::Plugins;
use crate::toolchain::TARGET;

/// The name that `cargo cyclonedx` is told for the files that it writes beside each manifest of a workspace.
const FILE: &str = "sbom";

/// Writes them into the directory `sbom`.
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

/// Writes one beside each manifest of a workspace.
fn generate(packaging: &Packaging<'_>, workspace: &Path, target: &str) -> Result<()> {
    let mut command = packaging.tools.cargo_cyclonedx();
    command.args(["--format", "json", "--spec-version", "1.5", "--no-build-deps", "--target", target]);
    command.args(["--override-filename", FILE, "--quiet", "--manifest-path"]).arg(workspace.join("Cargo.toml"));
    command.current_dir(workspace).env(EPOCH, packaging.version.epoch.to_string());
    cargo::capture(&mut command).map(drop)
}

/// Moves one to its place. Its identifiers of our crates are paths from the root of the repository, instead of this machine's.
fn collect(packaging: &Packaging<'_>, package: &Path, to: &Path) -> Result<()> {
    let from = package.join(format!("{FILE}.json"));
    let text = fs::read_to_string(&from).with_context(|| format!("cannot read {}", from.display()))?;
    let root = format!("{}/", packaging.sources.root().display());
    super::write(to, text.replace(&root, "/").as_bytes())
}
