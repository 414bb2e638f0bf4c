//! The WIT package of the contract, a copy of the repository's `wit/` embedded in the program.

use wit_parser::{PackageId, Resolve, SourceMap, UnresolvedPackageGroup};

/// A file below `wit/`: its relative path and its text.
type WitFile = (&'static str, &'static str);

macro_rules! wit_files {
    ($($path:literal),* $(,)?) => { &[$(($path, include_str!(concat!("../embedded/wit/", $path)))),*] };
}

/// The files of the package itself.
const PACKAGE: &[WitFile] = wit_files!["prepare.wit", "provider.wit", "worlds.wit"];

/// The supported versions of the package, the latest first. Each includes the interfaces of the earlier ones.
pub(crate) const VERSIONS: [&str; 2] = ["0.1.1", "0.1.0"];

/// The dependencies of the package, one file each.
const DEPENDENCIES: &[WitFile] = wit_files![
    "deps/cli.wit",
    "deps/clocks.wit",
    "deps/config.wit",
    "deps/filesystem.wit",
    "deps/http.wit",
    "deps/io.wit",
    "deps/keyvalue.wit",
    "deps/logging.wit",
    "deps/sql.wit",
];

/// Parses the package and its dependencies, with this version. `world` is the text of an additional world, or empty.
pub(crate) fn resolve(version: &str, world: &str) -> anyhow::Result<(Resolve, PackageId)> {
    let mut resolve = Resolve::default();
    let dependencies =
        DEPENDENCIES.iter().map(|(path, text)| parse([(*path, (*text).to_owned())])).collect::<Result<_, _>>()?;
    let package = format!("package mcp-host:provider@{version};");
    let declared = format!("package mcp-host:provider@{};", VERSIONS[0]);
    let files = PACKAGE.iter().map(|(path, text)| (*path, text.replace(&declared, &package)));
    let more = (!world.is_empty()).then(|| ("world.wit", format!("{package}\n{world}")));
    let package = resolve.push_groups(parse(files.chain(more))?, dependencies)?;
    Ok((resolve, package))
}

fn parse(files: impl IntoIterator<Item = (&'static str, String)>) -> anyhow::Result<UnresolvedPackageGroup> {
    let mut sources = SourceMap::new();
    for (path, text) in files {
        sources.push_str(path, text);
    }
    sources.parse().map_err(|(_, error)| error.into())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn the_embedded_files_are_all_files_of_the_package() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit");
        let names = |below: &str| -> Vec<String> {
            let files = std::fs::read_dir(root.join(below)).unwrap().map(|file| file.unwrap().file_name());
            let files = files.map(|name| format!("{below}{}", name.to_str().unwrap()));
            files.filter(|name| name.ends_with(".wit")).collect()
        };
        let found: BTreeSet<_> = names("").into_iter().chain(names("deps/")).collect();
        let embedded = PACKAGE.iter().chain(DEPENDENCIES).map(|(path, _)| (*path).to_owned()).collect();
        assert_eq!(found, embedded);
    }

    #[test]
    fn the_embedded_package_parses_under_each_version() {
        assert!(PACKAGE.iter().all(|(_, text)| text.contains(&format!("package mcp-host:provider@{};", VERSIONS[0]))));
        for version in VERSIONS {
            let (resolve, package) = resolve(version, "").unwrap();
            assert_eq!(resolve.packages[package].name.version.as_ref().unwrap().to_string(), version);
        }
    }
}
