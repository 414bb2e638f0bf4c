//! The wheel for pip and uv, made by hatchling from `packaging/python`. The program is among the scripts of the
//! environment, and the providers are below its prefix, where the program finds them.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::platforms::Platform;
use super::publication::NAME;
use super::{EPOCH, Packaging, copy, recreate, tree};
use crate::{cargo, install};

/// The directory of the wheel.
pub(super) const DIRECTORY: &str = "python";

/// Writes the wheel.
pub(super) fn package(tree: &Path, packaging: &Packaging<'_>) -> Result<()> {
    let Packaging { sources, version, tools, out, progress, .. } = packaging;
    let step = progress.step("writing the wheel");
    let work = sources.target().join("wheel");
    recreate(&work)?;
    for file in ["pyproject.toml", "program.py", "README.md"] {
        copy(&sources.root().join("packaging/python").join(file), &work.join(file))?;
    }
    copy(&sources.root().join("LICENSE"), &work.join("LICENSE"))?;
    tree::copy_program(tree, &work, "bin/mcp-host", "lib/mcp-host/plugins")?;
    tree::copy_manual(tree, &work)?;
    let out = out.join(DIRECTORY);
    recreate(&out)?;
    let tag = platform_tag(&tree.join("bin/mcp-host"), &Platform::of(&version.target)?)?;

    let mut pip = install::pip(tools.python());
    pip.args(["wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir"]).arg(&out).arg(&work);
    pip.env("MCP_HOST_VERSION", &version.number).env("MCP_HOST_PLATFORM", &tag).env(EPOCH, version.epoch.to_string());
    cargo::capture(&mut pip)?;
    let file = format!("{}-{}-py3-none-{tag}.whl", NAME.replace('-', "_"), version.number);
    ensure!(out.join(&file).is_file(), "pip made no {file}");
    step.done(&format!("wrote {file}"));
    Ok(())
}

/// Returns the platform tag of a wheel with a program. It contains the version of glibc that the program needs (PEP
/// 600).
fn platform_tag(program: &Path, platform: &Platform) -> Result<String> {
    ensure!(platform.has_glibc(), "wheels are made on Linux only; {} needs another tag", platform.target);
    let mut readelf = Command::new("readelf");
    readelf.arg("--version-info").arg("--wide").arg(program).env("LC_ALL", "C");
    let (major, minor) = glibc(&cargo::capture(&mut readelf)?)
        .with_context(|| format!("readelf finds no version of glibc in {}", program.display()))?;
    let architecture = platform.target.split('-').next().unwrap_or(platform.target);
    Ok(format!("manylinux_{major}_{minor}_{architecture}"))
}

/// The version of glibc that programs with packed relative relocations require by another name.
const PACKED_RELOCATIONS: (&str, (u32, u32)) = ("GLIBC_ABI_DT_RELR", (2, 36));

/// Returns the newest version of glibc that a program requires.
fn glibc(version_info: &str) -> Option<(u32, u32)> {
    let versions = version_info.split("GLIBC_").skip(1).filter_map(|version| {
        let end = version.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(version.len());
        let mut numbers = version.get(..end)?.split('.').map(str::parse);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    });
    let (name, packed) = PACKED_RELOCATIONS;
    versions.chain(version_info.contains(name).then_some(packed)).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_of_glibc_counts() {
        let info = "  0x0040:   Name: GLIBC_2.34  Flags: none  Version: 9\n  Name: GLIBC_2.9  Flags\n  Name: GLIBC_2.2.5\n  Name: GLIBC_PRIVATE";
        assert_eq!(glibc(info), Some((2, 34)));
        assert_eq!(glibc(&format!("{info}\n  Name: GLIBC_ABI_DT_RELR  Flags: none")), Some((2, 36)));
        assert_eq!(glibc("Name: GCC_3.0"), None);
    }
}
