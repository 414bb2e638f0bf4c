//! The SDK for JavaScript and TypeScript.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::{component, copy_folder, files, folder, make_empty, world_names};
use crate::cargo;
use crate::install::{self, Stamp};
use crate::progress::Progress;
use crate::workspace::Workspace;

pub(super) fn build(workspace: &Workspace, progress: &Progress) -> Result<()> {
    let project = folder(workspace, "javascript");
    let sdk = workspace.root().join("sdk-guest/js");
    let examples = ["csv/javascript", "csv/typescript", "folder/javascript", "folder/typescript"]
        .map(|name| workspace.root().join("examples").join(name));
    let shown = "target/languages/javascript";
    install::npm_install("install", &sdk, &project, progress, "the toolchain of JavaScript", shown)?;

    let names = [
        "csv-javascript",
        "csv-typescript",
        "folder-javascript",
        "folder-typescript",
        "failing-javascript",
        "granted-javascript",
        "preparing-javascript",
        "lists-typescript",
    ];
    let outputs = names.map(|name| component(workspace, name));
    let [javascript, typescript, folder_javascript, folder_typescript] = &examples;
    let mut inputs = files(&[sdk.clone(), workspace.root().join("wit")])?;
    inputs.extend(files(&examples)?);
    let stamp = Stamp::new(&folder(workspace, "javascript-built"), &inputs, "")?;
    if stamp.is_current() && outputs.iter().all(|output| output.is_file()) {
        return Ok(());
    }
    let mut step = progress.step("building the SDK for JavaScript");
    stamp.clear()?;
    step.at("the tarball");
    let tests = project.join("sdk");
    make_empty(&tests)?;
    copy_folder(&sdk, &tests)?;
    copy_folder(&workspace.root().join("wit"), &tests.join("wit"))?;
    unpack(&tarball(workspace, &tests)?, &project)?;

    step.at("unit tests and types");
    // Node resolves packages relative to the importing file, so the sources are copied into the folder of the packages.
    let run = |program: &str, arguments: &[&str], folder: &Path| {
        let mut command = Command::new(program);
        cargo::capture(command.args(arguments).current_dir(folder)).map(drop)
    };
    let tool = |name: &str| project.join("node_modules/.bin").join(name).display().to_string();
    run("node", &["--test", "test/sdk.test.js", "test/functions.test.js"], &tests)?;
    run(&tool("tsc"), &["--project", "test"], &tests)?;
    let [in_javascript, in_typescript, in_folder_javascript, in_folder_typescript] =
        ["csv-javascript", "csv-typescript", "folder-javascript", "folder-typescript"].map(|name| project.join(name));
    copy_folder(javascript, &in_javascript)?;
    run("node", &["--test"], &in_javascript)?;
    copy_folder(typescript, &in_typescript)?;
    run(&tool("tsc"), &[], &in_typescript)?;
    let bundled = ["--bundle", "--packages=external", "--platform=node", "--format=esm", "--outdir=build"];
    run(&tool("esbuild"), &[["test/app.test.ts"].as_slice(), &bundled].concat(), &in_typescript)?;
    run("node", &["--test", "build/app.test.js"], &in_typescript)?;
    copy_folder(folder_javascript, &in_folder_javascript)?;
    run("node", &["--test"], &in_folder_javascript)?;
    copy_folder(folder_typescript, &in_folder_typescript)?;
    run(&tool("tsc"), &[], &in_folder_typescript)?;
    check_worlds(workspace, &project)?;

    for provider in ["failing.js", "granted.js", "preparing.js", "lists.ts"] {
        install::copy_into(&sdk.join("test").join(provider), &in_javascript)?;
    }
    let sources = [
        in_javascript.join("app.js"),
        in_typescript.join("src/app.ts"),
        in_folder_javascript.join("app.js"),
        in_folder_typescript.join("src/app.ts"),
        in_javascript.join("failing.js"),
        in_javascript.join("granted.js"),
        in_javascript.join("preparing.js"),
        in_javascript.join("lists.ts"),
    ];
    for (source, output) in sources.iter().zip(&outputs) {
        step.at(format!("{}", workspace.display(output)));
        let mut command = Command::new("node");
        command.arg(project.join("node_modules/mcp-host-provider/bin/mcp-host-provider.js"));
        cargo::capture(command.arg("build").arg(source).arg("--output").arg(output))?;
    }
    stamp.set()?;
    step.done("built the SDK for JavaScript, and its providers in target/plugins/fixtures");
    Ok(())
}

/// Packages a copy of the SDK that contains the WIT files.
fn tarball(workspace: &Workspace, sdk: &Path) -> Result<PathBuf> {
    let tarballs = folder(workspace, "tarballs");
    make_empty(&tarballs)?;
    let mut npm = install::npm();
    npm.args(["pack", "--ignore-scripts", "--silent", "--pack-destination"]).arg(&tarballs).current_dir(sdk);
    cargo::capture(&mut npm)?;
    let made = files(&[tarballs])?;
    made.into_iter().find(|file| file.extension().is_some_and(|kind| kind == "tgz")).context("npm made no tarball")
}

/// Unpacks the SDK to its path after `npm install`. Its dependencies are already installed, at the versions of its lock
/// file.
fn unpack(tarball: &Path, project: &Path) -> Result<()> {
    let installed = project.join("node_modules/mcp-host-provider");
    make_empty(&installed)?;
    let mut tar = Command::new("tar");
    cargo::capture(
        tar.args(["--extract", "--strip-components=1", "--file"]).arg(tarball).arg("--directory").arg(&installed),
    )?;
    Ok(())
}

/// Verifies that componentize-qjs builds a component for every world that it supports: all worlds without HTTP.
fn check_worlds(workspace: &Workspace, project: &Path) -> Result<()> {
    let source = project.join("empty.js");
    let empty = "export const resourceProvider = {};\n";
    std::fs::write(&source, empty).with_context(|| format!("cannot write {}", source.display()))?;
    for world in
        world_names(workspace)?.iter().filter(|world| !["provider-http", "provider-all"].contains(&world.as_str()))
    {
        let mut command = Command::new(project.join("node_modules/.bin/componentize-qjs"));
        command.arg("--wit").arg(workspace.root().join("wit")).args(["--world", world.as_str(), "--sync"]);
        command.args(["--opt-size", "--js"]).arg(&source).arg("--output").arg(project.join("empty.wasm"));
        cargo::capture(&mut command).with_context(|| format!("componentize-qjs cannot use the world {world}"))?;
    }
    Ok(())
}
