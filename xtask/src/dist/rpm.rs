//! The package for Fedora and other systems with rpm, built by `cargo generate-rpm` from
//! `[package.metadata.generate-rpm]` of the program's manifest.

use anyhow::{Context, Result};

use super::{EPOCH, Packaging, Version};
use crate::cargo;

/// The directory of the program's manifest.
const PACKAGE: &str = "host/cli";

/// Returns the file name of the package.
pub(super) fn file(version: &Version) -> String {
    let architecture = version.target.split('-').next().unwrap_or(&version.target);
    format!("mcp-host-{}-1.{architecture}.rpm", version.number)
}

/// Writes the package with the files that [`super::tree`] has collected.
pub(super) fn package(packaging: &Packaging<'_>) -> Result<()> {
    let Packaging { sources, version, tools, out, progress, .. } = packaging;
    let step = progress.step("writing the package for rpm");
    let name = file(version);
    let mut command = tools.cargo_generate_rpm(sources);
    command.args(["--package", PACKAGE, "--auto-req", "builtin", "--output"]).arg(out.join(&name));
    // The tool stores seconds in 32 bits.
    let epoch = u32::try_from(version.epoch).context("the time of all files is after 2106")?;
    cargo::capture(command.env(EPOCH, epoch.to_string()))?;
    step.done(&format!("wrote {name}"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::programs;
    use super::super::publication::Publication;
    use super::*;
    use crate::dist::tree;
    use crate::workspace::Workspace;

    /// Returns a table of `[package.metadata]` in the program's manifest.
    fn metadata(key: &str) -> serde_json::Value {
        let workspace = Workspace::find().unwrap();
        let metadata = cargo::metadata(workspace.cargo(workspace.root())).unwrap();
        let package = metadata.packages.iter().find(|package| package.name.as_str() == programs::PACKAGE).unwrap();
        package.metadata[key].clone()
    }

    #[test]
    fn every_collected_file_is_in_the_package() {
        let metadata = metadata("generate-rpm");
        let assets = metadata["assets"].as_array().unwrap();
        let destinations: Vec<_> = assets.iter().map(|asset| asset["dest"].as_str().unwrap()).collect();
        // The config is packaged in /etc/mcp-host/, and the licence is in rpm's directory for licences.
        let others = ["share/doc/mcp-host/mcp-host.toml", "share/doc/mcp-host/LICENSE"];
        for path in tree::paths().filter(|path| !others.contains(path)) {
            let path = format!("/usr/{path}/");
            let holds = |directory: &&&str| path.starts_with(&format!("{}/", directory.trim_end_matches('/')));
            assert!(destinations.iter().any(|destination| holds(&destination)), "{path}");
        }
        assert!(destinations.contains(&"/etc/mcp-host/"));
    }

    #[test]
    fn a_binary_installation_finds_the_tarball_and_the_program_in_it() {
        let workspace = Workspace::find().unwrap();
        let publication = Publication::of(&workspace).unwrap();
        let version = Version { number: "1.2.3".to_owned(), target: "x86_64-unknown-linux-gnu".to_owned(), epoch: 0 };
        let metadata = metadata("binstall");
        let value = |key: &str| {
            let text = metadata[key].as_str().unwrap().replace("{ repo }", publication.homepage());
            let text = text.replace("{ version }", &version.number).replace("{ target }", &version.target);
            text.replace("{ bin }", "mcp-host").replace("{ binary-ext }", "")
        };
        assert_eq!(value("pkg-url"), publication.file(&version.number, &version.tarball()));
        let tarball = version.tarball();
        assert_eq!(value("bin-dir"), format!("{}/bin/mcp-host", tarball.strip_suffix(".tar.gz").unwrap()));
    }
}
