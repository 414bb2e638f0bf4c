//! The SDK for Go.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::{component, files, folder, host_program};
use crate::cargo;
use crate::install::{self, Stamp};
use crate::progress::Progress;
use crate::workspace::Workspace;

/// The oldest version of Go that exports functions of a core module (`//go:wasmexport`): the minor version after 1.
const MIN_GO_MINOR: u32 = 24;

/// The examples, each a module of its own.
const EXAMPLES: [&str; 3] = ["csv", "folder", "calendar"];

pub(super) fn build(workspace: &Workspace, progress: &Progress) -> Result<()> {
    let sdk = workspace.root().join("sdk-guest/go");
    let examples = EXAMPLES.map(|name| workspace.root().join("examples").join(name).join("go"));
    let of_tests = ["failing", "granted", "preparing", "unexported"];
    let outputs: Vec<_> =
        EXAMPLES.iter().chain(&of_tests).map(|name| component(workspace, &format!("{name}-go"))).collect();
    let built = folder(workspace, "go-build");
    let mut inputs =
        files(&[sdk.clone(), workspace.root().join("wit"), workspace.root().join("examples/calendar/data")])?;
    inputs.extend(files(&examples)?);
    let stamp = Stamp::new(&built, &inputs, "")?;
    if stamp.is_current() && outputs.iter().all(|output| output.is_file()) {
        return Ok(());
    }
    let go = toolchain(workspace, &sdk, progress)?;
    let host = host_program(workspace, progress)?;
    let mut step = progress.step("building the SDK for Go");
    stamp.clear()?;
    fs::create_dir_all(&built).with_context(|| format!("cannot make {}", built.display()))?;
    let run = |arguments: &[&str], module: &Path, is_component: bool| {
        let mut command = Command::new(&go);
        command.args(arguments).current_dir(module).envs(environment(workspace));
        if is_component {
            command.envs([("GOOS", "wasip1"), ("GOARCH", "wasm")]);
        }
        cargo::capture(&mut command)
    };
    step.at("unit tests");
    let of_sdk = [(&sdk, [".", "./keyvalue", "./sql", "./wasihttp"].as_slice())];
    for (module, packages) in of_sdk.into_iter().chain(examples.iter().map(|example| (example, ["."].as_slice()))) {
        run(&[&["test"], packages].concat(), module, false)?;
        run(&[&["vet"], packages].concat(), module, true)?;
    }
    let of_tests = of_tests.map(|name| format!("./internal/{name}"));
    let of_tests = of_tests.iter().map(|package| (&sdk, package.as_str()));
    let providers: Vec<_> = examples.iter().map(|example| (example, ".")).chain(of_tests).collect();
    for ((module, package), output) in providers.iter().zip(&outputs) {
        step.at(format!("{}", workspace.display(output)));
        let core = built.join("core.wasm").display().to_string();
        let flags = ["build", "-buildmode=c-shared", "-trimpath", "-ldflags=-w", "-o", &core, package];
        run(&flags, module, true)?;
        let mut componentize = Command::new(&host);
        componentize.args(["componentize", &core, "--output"]).arg(output);
        let needs = module.join(package).join("needs.json");
        if needs.is_file() {
            componentize.arg("--needs").arg(needs);
        }
        cargo::capture(&mut componentize)?;
    }
    stamp.set()?;
    step.done("built the SDK for Go, and its providers in target/plugins/fixtures");
    Ok(())
}

/// Returns environment variables that forbid downloads by Go, and set its caches below `target/`.
pub(super) fn environment(workspace: &Workspace) -> [(&'static str, PathBuf); 5] {
    [
        ("GOPROXY", "off".into()),
        ("GOTOOLCHAIN", "local".into()),
        ("GOFLAGS", PathBuf::new()),
        ("GOCACHE", folder(workspace, "go-cache")),
        ("GOPATH", folder(workspace, "go-path")),
    ]
}

/// Returns the path of Go: the program in PATH if it is recent enough, else a program that pip installs.
pub(super) fn toolchain(workspace: &Workspace, sdk: &Path, progress: &Progress) -> Result<PathBuf> {
    let said = Command::new("go").arg("version").env("GOTOOLCHAIN", "local").output();
    if said.is_ok_and(|said| is_supported(&String::from_utf8_lossy(&said.stdout))) {
        return Ok("go".into());
    }
    let environment = folder(workspace, "go");
    let requirements = sdk.join("requirements-build.txt");
    install::pip_install(&requirements, &environment, progress, "Go", "target/languages/go")?;
    Ok(install::venv_program(&environment, "go"))
}

/// Parses versions such as `go version go1.26.6 linux/amd64`.
fn is_supported(said: &str) -> bool {
    let version = said.split_whitespace().find_map(|word| word.strip_prefix("go1."));
    let minor = version.and_then(|version| version.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u32>().ok());
    minor.is_some_and(|minor| minor >= MIN_GO_MINOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_go_is_used_that_exports_functions() {
        assert!(is_supported("go version go1.26.6 linux/amd64"));
        assert!(is_supported("go version go1.24rc1 linux/amd64"));
        assert!(!is_supported("go version go1.19.8 linux/amd64"));
        assert!(!is_supported("gccgo"));
    }
}
