//! The Debian package, built by `cargo deb` from `[package.metadata.deb]` of the program's manifest.

use anyhow::Result;

use super::programs::PACKAGE;
use super::{EPOCH, Packaging};
use crate::cargo;

/// Writes the package with the files that [`super::tree`] has collected.
pub(super) fn package(packaging: &Packaging<'_>) -> Result<()> {
    let Packaging { sources, version, tools, out, progress, .. } = packaging;
    let step = progress.step("writing the Debian package");
    let name = version.debian_package();
    let mut command = tools.cargo_deb(sources);
    command.args(["--no-build", "--no-strip", "--locked", "--offline", "--quiet", "--package", PACKAGE]);
    command.arg("--output").arg(out.join(&name)).env(EPOCH, version.epoch.to_string());
    cargo::capture(&mut command)?;
    step.done(&format!("wrote {name}"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::dist::tree;
    use crate::workspace::Workspace;

    /// Returns the files that the program's manifest names for the package, by their paths in the repository.
    fn assets() -> Vec<String> {
        let workspace = Workspace::find().unwrap();
        let metadata = cargo::metadata(workspace.cargo(workspace.root())).unwrap();
        let package = metadata.packages.iter().find(|package| package.name.as_str() == PACKAGE).unwrap();
        let assets = package.metadata["deb"]["assets"].as_array().unwrap();
        assets.iter().map(|asset| asset[0].as_str().unwrap().trim_start_matches("../../").to_owned()).collect()
    }

    #[test]
    fn every_file_of_the_package_is_collected_or_in_the_repository() {
        let workspace = Workspace::find().unwrap();
        for asset in assets() {
            match asset.strip_prefix("target/package/") {
                Some(collected) => {
                    let directory = collected.trim_end_matches("/*");
                    assert!(tree::paths().any(|path| Path::new(path).starts_with(directory)), "{asset}");
                }
                None => assert!(workspace.root().join(&asset).is_file(), "{asset}"),
            }
        }
    }

    #[test]
    fn every_collected_file_is_in_the_package() {
        // Other keys of the metadata package the units, the system user and the licence.
        let others =
            ["lib/systemd/", "lib/sysusers.d/", "share/doc/mcp-host/LICENSE", "share/doc/mcp-host/mcp-host.toml"];
        let assets = assets();
        for path in tree::paths().filter(|path| !others.iter().any(|other| path.starts_with(other))) {
            let is_in = |asset: &&String| format!("target/package/{path}").starts_with(asset.trim_end_matches("/*"));
            assert!(assets.iter().any(|asset| is_in(&asset)), "{path}");
        }
    }
}
