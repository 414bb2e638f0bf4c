//! The programs in the packages: `mcp-host` and the included providers.
//!
//! Released programs do not contain the paths of this machine ([`crate::reproducible`]).

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use crate::cargo;
use crate::plugins::Plugins;
use crate::progress::Progress;
use crate::reproducible;
use crate::workspace::Workspace;

/// The profile of released programs.
pub(super) const RELEASE: &str = "release";

/// The package of the program.
pub(super) const PACKAGE: &str = "mcp-resource-host-cli";

/// Compiled programs.
pub(super) struct Programs {
    pub(super) host: PathBuf,
    /// The components, by name.
    pub(super) providers: Vec<(String, PathBuf)>,
}

impl Programs {
    /// Compiles the sources for a release. See [`linker_flags`].
    pub(super) fn release(sources: &Workspace, target: &str, progress: &Progress) -> Result<Self> {
        let mut cargo = cargo_build(sources);
        reproducible::configure_host(&mut cargo, sources, linker_flags(target))?;
        cargo.args(["--package", PACKAGE]);
        let host = build(cargo, sources, RELEASE, progress)?;
        Ok(Self { host, providers: providers(sources, progress)? })
    }

    /// Compiles the working tree. Cargo skips up-to-date programs.
    pub(super) fn of_working_tree(workspace: &Workspace, profile: &str, progress: &Progress) -> Result<Self> {
        let mut cargo = cargo_build(workspace);
        // The demo and the tests build these packages with the same features, so that nothing is compiled again.
        cargo.args(["--package", PACKAGE, "--package", "smoke-client"]);
        let host = build(cargo, workspace, profile, progress)?;
        Ok(Self { host, providers: providers(workspace, progress)? })
    }

    /// Uses a given program, and the providers in `target/plugins`, without building them.
    pub(super) fn given(workspace: &Workspace, program: &Path) -> Result<Self> {
        ensure!(program.is_file(), "{} is no file", program.display());
        let names = Plugins::included(workspace)?.into_keys().collect();
        let providers = components(workspace, names);
        for (name, component) in &providers {
            ensure!(component.is_file(), "there is no {}: `cargo xtask plugins {name}` builds it", component.display());
        }
        Ok(Self { host: program.to_owned(), providers })
    }
}

fn cargo_build(workspace: &Workspace) -> Command {
    let mut cargo = workspace.cargo(workspace.root());
    cargo.arg("build");
    cargo
}

fn build(mut cargo: Command, workspace: &Workspace, profile: &str, progress: &Progress) -> Result<PathBuf> {
    let mut step = progress.step(format!("building the host, with the profile {profile}"));
    cargo.args(["--locked", "--profile", profile, "--bins"]);
    let artifacts = cargo::build(cargo, workspace, progress, &mut step)?;
    let program = cargo::program(&artifacts, "mcp-host")?;
    step.done(&format!("built {}", workspace.display(&program)));
    Ok(program)
}

/// Builds the included providers, and returns the components by name.
pub(super) fn providers(workspace: &Workspace, progress: &Progress) -> Result<Vec<(String, PathBuf)>> {
    let plugins = Plugins { fixtures: false, names: Plugins::included(workspace)?.into_keys().collect() };
    plugins.run(workspace, progress)?;
    Ok(components(workspace, plugins.names))
}

fn components(workspace: &Workspace, names: Vec<String>) -> Vec<(String, PathBuf)> {
    let file = |name: String| {
        let file = workspace.target().join("plugins").join(format!("{name}.wasm"));
        (name, file)
    };
    names.into_iter().map(file).collect()
}

/// Returns the flags for a smaller program, for a target whose linker is known to support them; Rust's linker for x86-64
/// Linux does. Identical code is folded, because generic functions have many copies. Relative relocations are packed
/// (`DT_RELR`), to a few percent of their size; the program then needs glibc 2.36.
fn linker_flags(target: &str) -> &'static [&'static str] {
    match target {
        "x86_64-unknown-linux-gnu" => &["-Clink-arg=-Wl,--icf=all", "-Clink-arg=-Wl,-z,pack-relative-relocs"],
        _ => &[],
    }
}

/// Removes debug information, symbols and the build ID from a program. The names of symbols that link-time optimization
/// makes public end in a hash of the build directory, and the linker includes them in the build ID. Everything else
/// does not depend on the directory.
pub(super) fn strip(program: &Path) -> Result<()> {
    let options = ["--strip-all", "--remove-section=.note.gnu.build-id"];
    cargo::capture(Command::new("strip").args(options).arg(program)).map(drop)
}
