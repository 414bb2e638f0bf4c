//! The Debian package, by `cargo deb`, as `[package.metadata.deb]` of the program's manifest describes it.

use anyhow::Result;

use super::programs::PACKAGE;
use super::{EPOCH, Packaging};
use crate::cargo;

/// Writes the package of the files that [`super::tree`] has collected.
pub(super) fn package(packaging: &Packaging<'_>) -> Result<()> {
    let Packaging { sources, version, tools, out, progress } = packaging;
    let step = progress.step("writing the Debian package");
    let name = version.debian_package();
    let mut command = tools.cargo_deb(sources);
    command.args(["--no-build", "--no-strip", "--locked", "--offline", "--quiet", "--package", PACKAGE]);
    command.arg("--output").arg(out.join(&name)).env(EPOCH, version.epoch.to_string());
    cargo::capture(&mut command)?;
    step.done(&format!("wrote {name}"));
    Ok(())
}
