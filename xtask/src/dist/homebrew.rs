//! The Homebrew formula, which installs this platform's tarball from a release.

use std::fs;

use anyhow::{Context, Result};

use super::{Packaging, sha256, write};

/// The file name of the formula by Homebrew's convention.
pub(super) const FILE: &str = "mcp-host.rb";

/// The template of the formula, with names in braces for variable parts.
const TEMPLATE: &str = "packaging/homebrew/mcp-host.rb";

/// Writes the formula.
pub(super) fn package(packaging: &Packaging<'_>) -> Result<()> {
    let Packaging { sources, version, publication, out, progress, .. } = packaging;
    let step = progress.step("writing the formula");
    let template = sources.root().join(TEMPLATE);
    let text = fs::read_to_string(&template).with_context(|| format!("cannot read {}", template.display()))?;
    let tarball = version.tarball();
    let mut formula = text;
    for (name, value) in [
        ("HOMEPAGE", publication.homepage()),
        ("VERSION", &version.number),
        ("LICENSE", env!("CARGO_PKG_LICENSE")),
        ("URL", &publication.file(&version.number, &tarball)),
        ("SHA256", &sha256(&out.join(&tarball))?),
        ("ARCH", if version.architecture() == "arm64" { "arm64" } else { "x86_64" }),
    ] {
        formula = formula.replace(&format!("{{{name}}}"), value);
    }
    write(&out.join(FILE), formula.as_bytes())?;
    step.done(&format!("wrote {FILE}"));
    Ok(())
}
