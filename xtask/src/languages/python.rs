//! The SDK for Python.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{component, copy_folder, files, folder, make_empty, world_names};
use crate::cargo;
use crate::install::{self, Stamp};
use crate::progress::Progress;
use crate::workspace::Workspace;

pub(super) fn build(workspace: &Workspace, progress: &Progress) -> Result<()> {
    let environment = folder(workspace, "python");
    let sdk = workspace.root().join("sdk-guest/python");
    let examples =
        ["csv", "folder", "calendar"].map(|name| workspace.root().join("examples").join(name).join("python"));
    let [csv, folder_of_files, _] = &examples;
    let requirements = sdk.join("requirements-build.txt");
    install::pip_install(&requirements, &environment, progress, "the toolchain of Python", "target/languages/python")?;

    let outputs =
        ["csv-python", "folder-python", "failing-python", "granted-python", "standard-python", "preparing-python"]
            .map(|name| component(workspace, name));
    let mut inputs = files(&[sdk.clone(), workspace.root().join("wit")])?;
    inputs.extend(files(&examples)?);
    inputs.extend(files(&[workspace.root().join("examples/calendar/data")])?);
    let stamp = Stamp::new(&folder(workspace, "python-built"), &inputs, "")?;
    if stamp.is_current() && outputs.iter().all(|output| output.is_file()) {
        return Ok(());
    }
    let mut step = progress.step("building the SDK for Python");
    stamp.clear()?;
    step.at("the wheel");
    let wheel = wheel(workspace, &environment, &sdk)?;
    let mut pip = install::pip(&environment);
    cargo::capture(pip.args(["install", "--no-deps", "--no-index", "--force-reinstall"]).arg(&wheel))?;

    step.at("unit tests and types");
    check_bindings(workspace, &environment, &sdk)?;
    let python = |arguments: &[&str], folder: &Path| {
        let mut command = Command::new(install::venv_program(&environment, "python"));
        command.args(arguments).current_dir(folder).env("PYTHONDONTWRITEBYTECODE", "1");
        cargo::capture(&mut command)
    };
    python(&["-m", "unittest", "discover", "--start-directory", "tests"], &sdk)?;
    for example in &examples {
        python(&["-m", "unittest"], example)?;
    }
    let cache = folder(workspace, "mypy").display().to_string();
    python(&["-m", "mypy", "--cache-dir", &cache], &sdk)?;
    for example in &examples {
        python(&["-m", "mypy", "--cache-dir", &cache, "--strict", "."], example)?;
    }

    let tests = ["failing.py", "granted.py", "standard.py", "preparing.py"].map(|name| sdk.join("tests").join(name));
    for (source, output) in
        [csv, folder_of_files].map(|example| example.join("app.py")).iter().chain(&tests).zip(&outputs)
    {
        step.at(format!("{}", workspace.display(output)));
        let mut command = Command::new(install::venv_program(&environment, "mcp-host-provider"));
        cargo::capture(command.arg("build").arg(source).arg("--output").arg(output))?;
    }
    stamp.set()?;
    step.done("built the SDK for Python, and its providers in target/plugins/fixtures");
    Ok(())
}

/// Packages the SDK.
fn wheel(workspace: &Workspace, environment: &Path, sdk: &Path) -> Result<PathBuf> {
    let wheels = folder(workspace, "wheels");
    make_empty(&wheels)?;
    let mut pip = install::pip(environment);
    pip.args(["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir"]).arg(&wheels).arg(sdk);
    cargo::capture(&mut pip)?;
    let made = files(&[wheels])?;
    made.into_iter().find(|file| file.extension().is_some_and(|kind| kind == "whl")).context("pip made no wheel")
}

/// The world of the committed bindings: everything that a provider may import and export.
const BINDINGS_WORLD: &str = "package mcp-host:provider@0.1.1;

world bindings {
  include provider-all;
  export prepare;
}
";

/// Verifies that the tool builds a component for every world, and that the committed bindings match `wit/`.
fn check_bindings(workspace: &Workspace, environment: &Path, sdk: &Path) -> Result<()> {
    for world in world_names(workspace)? {
        let made = folder(workspace, "python-bindings").join(&world);
        make_empty(&made)?;
        make_empty(&made.join("app"))?;
        let componentize = |arguments: &[&str]| {
            let mut command = Command::new(install::venv_program(environment, "componentize-py"));
            command.arg("--wit-path").arg(workspace.root().join("wit")).args(["--world", &world]).args(arguments);
            let run = cargo::capture(command.current_dir(&made));
            run.with_context(|| format!("componentize-py cannot use the world {world}"))
        };
        componentize(&["--full-names", "bindings", "bindings"])?;
        let app = made.join("app/empty.py");
        std::fs::write(&app, "class ResourceProvider: pass\n")
            .with_context(|| format!("cannot write {}", app.display()))?;
        componentize(&["componentize", "empty", "--python-path", "app", "--output", "../empty.wasm"])?;
    }
    let made = folder(workspace, "python-bindings").join("committed");
    make_empty(&made)?;
    copy_folder(&workspace.root().join("wit"), &made.join("wit"))?;
    let world = made.join("wit/bindings.wit");
    std::fs::write(&world, BINDINGS_WORLD).with_context(|| format!("cannot write {}", world.display()))?;
    let mut command = Command::new(install::venv_program(environment, "componentize-py"));
    command.args(["--wit-path", "wit", "--world", "bindings", "--full-names", "bindings", "bindings"]);
    cargo::capture(command.current_dir(&made))?;
    for committed in files(&[sdk.join("bindings")])? {
        let below = committed.strip_prefix(sdk.join("bindings")).context("it is below its folder")?;
        ensure!(
            std::fs::read(&committed).ok() == std::fs::read(made.join("bindings").join(below)).ok(),
            "{} is not what componentize-py makes of wit/; copy it from {}",
            workspace.display(&committed),
            workspace.display(&made.join("bindings").join(below))
        );
    }
    Ok(())
}
