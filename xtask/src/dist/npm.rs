//! The npm packages, made by `npm pack`: one with the program for this platform, and a launcher that depends on one
//! package for each platform.
//!
//! npm installs the optional dependency with the matching `os`, `cpu` and `libc`, and ignores the others.

use std::path::Path;

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::platforms::{PLATFORMS, Platform};
use super::publication::{AUTHOR, DESCRIPTION, KEYWORDS, NAME, Publication};
use super::{Packaging, copy, recreate, set, tree, write};
use crate::{cargo, install};

/// The directory of the packages.
pub(super) const DIRECTORY: &str = "npm";

/// The minimum version of Node.js.
const ENGINE: &str = ">=18";

/// Returns the file names of the launcher and of the package for a platform.
pub(super) fn files(version: &str, platform: &Platform) -> [String; 2] {
    [format!("{NAME}-{version}.tgz"), format!("{}-{version}.tgz", platform_package(platform))]
}

fn platform_package(platform: &Platform) -> String {
    format!("{NAME}-{}", platform.name())
}

/// Writes both packages.
pub(super) fn package(tree: &Path, packaging: &Packaging<'_>) -> Result<()> {
    let Packaging { sources, version, publication, out, progress, .. } = packaging;
    let step = progress.step("writing the packages of npm");
    let work = sources.target().join("npm");
    recreate(&work)?;
    let out = out.join(DIRECTORY);
    recreate(&out)?;
    let platform = Platform::of(&version.target)?;

    let program = work.join("platform");
    tree::copy_program(tree, &program, "bin/mcp-host", "lib/mcp-host/plugins")?;
    write_manifest(&program, &platform_manifest(&version.number, &platform, publication))?;
    let launcher = work.join("launcher");
    copy(&sources.root().join("packaging/npm/mcp-host.js"), &launcher.join("bin/mcp-host.js"))?;
    write_manifest(&launcher, &launcher_manifest(&version.number, publication))?;

    for package in [&launcher, &program] {
        copy(&sources.root().join("LICENSE"), &package.join("LICENSE"))?;
        copy(&sources.root().join("packaging/npm/README.md"), &package.join("README.md"))?;
        let mut npm = install::npm();
        npm.args(["pack", "--ignore-scripts", "--loglevel=error", "--pack-destination"]).arg(&out);
        cargo::capture(npm.current_dir(package))?;
    }
    step.done(&format!("wrote {}", files(&version.number, &platform).join(", ")));
    Ok(())
}

fn write_manifest(package: &Path, manifest: &Value) -> Result<()> {
    write(&package.join("package.json"), format!("{manifest:#}\n").as_bytes())
}

fn manifest(name: &str, version: &str, description: &str, publication: &Publication) -> Value {
    let mut manifest = json!({
        "name": name,
        "version": version,
        "description": description,
        "keywords": KEYWORDS,
        "license": env!("CARGO_PKG_LICENSE"),
        "author": AUTHOR,
        "engines": { "node": ENGINE },
        "files": ["bin", "lib"],
    });
    if let Some(repository) = publication.repository() {
        set(&mut manifest, "repository", json!({ "type": "git", "url": format!("git+{repository}.git") }));
        set(&mut manifest, "homepage", json!(repository));
        // The MCP registry reads this proof of ownership.
        set(&mut manifest, "mcpName", json!(publication.server_name()));
    }
    manifest
}

fn launcher_manifest(version: &str, publication: &Publication) -> Value {
    let mut manifest = manifest(NAME, version, DESCRIPTION, publication);
    set(&mut manifest, "bin", json!({ "mcp-host": "bin/mcp-host.js" }));
    let dependencies: Map<_, _> =
        PLATFORMS.iter().map(|platform| (platform_package(platform), json!(version))).collect();
    set(&mut manifest, "optionalDependencies", Value::Object(dependencies));
    manifest
}

fn platform_manifest(version: &str, platform: &Platform, publication: &Publication) -> Value {
    let description = format!("The program of {NAME} for {}", platform.name());
    let mut manifest = manifest(&platform_package(platform), version, &description, publication);
    set(&mut manifest, "os", json!([platform.os]));
    set(&mut manifest, "cpu", json!([platform.cpu]));
    if platform.has_glibc() {
        set(&mut manifest, "libc", json!(["glibc"]));
    }
    // Some package managers run packages from archives, where a program cannot be executed.
    set(&mut manifest, "preferUnplugged", json!(true));
    manifest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Workspace;

    #[test]
    fn the_launcher_depends_on_the_same_version_for_every_platform() {
        let publication = Publication::of(&Workspace::find().unwrap()).unwrap();
        let launcher = launcher_manifest("1.2.3", &publication);
        let dependencies = launcher["optionalDependencies"].as_object().unwrap();
        assert_eq!(dependencies.len(), PLATFORMS.len());
        for platform in &PLATFORMS {
            let manifest = platform_manifest("1.2.3", platform, &publication);
            assert_eq!(dependencies[manifest["name"].as_str().unwrap()], "1.2.3");
            assert_eq!((&manifest["os"][0], &manifest["cpu"][0]), (&json!(platform.os), &json!(platform.cpu)));
        }
        assert!(launcher.get("dependencies").is_none() && launcher.get("scripts").is_none(), "{launcher}");
    }
}
