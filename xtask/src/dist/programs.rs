//! The programs in the packages: `mcp-host` and the included providers.
//!
//! Released programs do not contain the paths of this machine: the compilers replace the prefixes of the sources and of
//! the registry's crates by names.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cargo;
use crate::plugins::Plugins;
use crate::progress::Progress;
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
    /// Compiles the sources for a release: the host in `sources`, and the providers in `guests`, a second copy. See
    /// [`reproducibly`] and [`folding`].
    pub(super) fn release(sources: &Workspace, guests: &Workspace, target: &str, progress: &Progress) -> Result<Self> {
        let mut cargo = cargo_build(sources);
        reproducibly(&mut cargo, sources, folding(target))?;
        cargo.args(["--package", PACKAGE]);
        let host = build(cargo, sources, RELEASE, progress)?;
        let reproducibly = |cargo: &mut Command| reproducibly(cargo, guests, None);
        Ok(Self { host, providers: providers(guests, reproducibly, progress)? })
    }

    /// Compiles the working tree. Cargo skips up-to-date programs.
    pub(super) fn of_working_tree(workspace: &Workspace, profile: &str, progress: &Progress) -> Result<Self> {
        let mut cargo = cargo_build(workspace);
        // The demo and the tests build these packages with the same features, so that nothing is compiled again.
        cargo.args(["--package", PACKAGE, "--package", "smoke-client"]);
        let host = build(cargo, workspace, profile, progress)?;
        Ok(Self { host, providers: providers(workspace, |_| Ok(()), progress)? })
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

fn providers(
    workspace: &Workspace,
    configure: impl Fn(&mut Command) -> Result<()>,
    progress: &Progress,
) -> Result<Vec<(String, PathBuf)>> {
    let plugins = Plugins { fixtures: false, names: Plugins::included(workspace)?.into_keys().collect() };
    plugins.build(workspace, configure, progress)?;
    Ok(components(workspace, plugins.names))
}

fn components(workspace: &Workspace, names: Vec<String>) -> Vec<(String, PathBuf)> {
    let file = |name: String| {
        let file = workspace.target().join("plugins").join(format!("{name}.wasm"));
        (name, file)
    };
    names.into_iter().map(file).collect()
}

/// Configures the compilers of Rust and C to replace the directories of this machine by names. `flag` is an additional
/// flag for the Rust compiler.
fn reproducibly(cargo: &mut Command, sources: &Workspace, flag: Option<&str>) -> Result<()> {
    let registry = cargo_home()?.join("registry/src");
    let prefixes = [(sources.root(), "mcp-host"), (registry.as_path(), "crates")];
    let flags = |option: &str| prefixes.map(|(path, name)| format!("{option}={}=/{name}", path.display()));
    // This character separates the flags for Rust, because paths may contain blanks.
    let mut of_rust = flags("--remap-path-prefix").to_vec();
    of_rust.extend(flag.map(str::to_owned));
    cargo.env("CARGO_ENCODED_RUSTFLAGS", of_rust.join("\x1f"));
    cargo.env("CFLAGS", flags("-ffile-prefix-map").join(" "));
    Ok(())
}

/// Returns the flag for identical code folding in the linker, because generic functions have many copies. Returns
/// `None` for a target whose linker may not support the flag; Rust's linker for x86-64 Linux does.
fn folding(target: &str) -> Option<&'static str> {
    (target == "x86_64-unknown-linux-gnu").then_some("-Clink-arg=-Wl,--icf=all")
}

fn cargo_home() -> Result<PathBuf> {
    let home = || env::home_dir().map(|home| home.join(".cargo"));
    env::var_os("CARGO_HOME").map(PathBuf::from).or_else(home).context("there is neither CARGO_HOME nor a home")
}

/// Removes debug information, symbols and the build ID from a program. The names of symbols that link-time optimization
/// makes public end in a hash of the build directory, and the linker includes them in the build ID. Everything else
/// does not depend on the directory.
pub(super) fn strip(program: &Path) -> Result<()> {
    let options = ["--strip-all", "--remove-section=.note.gnu.build-id"];
    cargo::capture(Command::new("strip").args(options).arg(program)).map(drop)
}
