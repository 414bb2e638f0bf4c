//! Each world of the contract in C and in Go: the task generates bindings from `wit/` alone, compiles them, and makes a
//! component.
//!
//! In C the linker keeps all functions, so that the component imports all functions of its world. In Go all packages
//! are compiled, and the component imports only the functions that it uses.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{c, copy_folder, files, folder, go, host_program, make_empty, world_names};
use crate::progress::Progress;
use crate::workspace::Workspace;
use crate::{bindings, cargo, install::Stamp};

/// A component contains only the imports of its `main` package.
const GO_MAIN: &str = "package main

import _ \"mcp-host.example/provider/internal/bindings/exports/wit_exports\"

func main() {}
";

pub(super) fn build(workspace: &Workspace, progress: &Progress) -> Result<()> {
    let sdks = workspace.root().join("sdk-guest");
    let stub = sdks.join("c/test/world.c");
    let runtime = sdks.join("go/internal/wit");
    let mut inputs = files(&[workspace.root().join("wit"), sdks.join("bindgen"), runtime.clone()])?;
    inputs.push(stub.clone());
    let out = folder(workspace, "worlds");
    let stamp = Stamp::new(&out, &inputs, "")?;
    if stamp.is_current() {
        return Ok(());
    }
    let sysroot = c::sysroot(workspace, progress)?;
    let go = go::toolchain(workspace, &sdks.join("go"), progress)?;
    let host = host_program(workspace, progress)?;
    let mut step = progress.step("building each world of the contract in C and Go");
    stamp.clear()?;
    for world in world_names(workspace)? {
        step.at(world.clone());
        let (in_c, in_go) = (out.join(&world).join("c"), out.join(&world).join("go"));
        make_empty(&in_c)?;
        make_empty(&in_go)?;
        let bindings = in_go.join("internal/bindings");
        bindings::generate_world(workspace, &world, &in_c, &bindings)?;
        let (sources, core) = ([in_c.join("provider.c"), stub.clone()], in_c.join("core.wasm"));
        c::compile(&sysroot, &sources, &["-Wl,--no-gc-sections"], &in_c, &core)
            .with_context(|| format!("C cannot use the world {world}"))?;
        let component = componentize(&host, &core, &world)?;
        for import in imports(workspace, &world)? {
            let is_imported = component.windows(import.len()).any(|name| name == import.as_bytes());
            ensure!(is_imported, "the component in C of the world {world} does not import {import}");
        }

        fs::copy(sdks.join("go/go.mod"), in_go.join("go.mod")).context("cannot copy go.mod")?;
        copy_folder(&runtime, &in_go.join("internal/wit"))?;
        fs::write(in_go.join("main.go"), GO_MAIN).context("cannot write main.go")?;
        let core = in_go.join("core.wasm");
        let run = |arguments: &[&str]| {
            let mut command = Command::new(&go);
            command.arg("build").args(arguments).current_dir(&in_go).envs(go::environment(workspace));
            let run = cargo::capture(command.envs([("GOOS", "wasip1"), ("GOARCH", "wasm")]));
            run.with_context(|| format!("Go cannot use the world {world}"))
        };
        run(&["./..."])?;
        run(&["-buildmode=c-shared", "-o", &core.display().to_string(), "."])?;
        componentize(&host, &core, &world)?;
    }
    stamp.set()?;
    step.done("built each world of the contract in C and Go");
    Ok(())
}

/// Makes a component for a world from a core module, and returns its bytes.
fn componentize(host: &Path, core: &Path, world: &str) -> Result<Vec<u8>> {
    let component: PathBuf = core.with_file_name("component.wasm");
    let mut command = Command::new(host);
    command.arg("componentize").arg(core).args(["--world", world, "--output"]).arg(&component);
    cargo::capture(&mut command)?;
    fs::read(&component).with_context(|| format!("cannot read {}", component.display()))
}

/// Returns the interfaces that a world imports, without the imports of included worlds.
fn imports(workspace: &Workspace, world: &str) -> Result<Vec<String>> {
    let file = workspace.root().join("wit/worlds.wit");
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let start = format!("world {world} {{");
    let lines = text.lines().skip_while(|line| *line != start).take_while(|line| *line != "}");
    let names = lines.filter_map(|line| line.trim().strip_prefix("import ")?.strip_suffix(';'));
    Ok(names.map(|name| name.split('@').next().unwrap_or(name).to_owned()).collect())
}
