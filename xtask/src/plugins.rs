//! `cargo xtask plugins`: builds every provider of the guest workspace.
//!
//! A package of `plugins/Cargo.toml` is a provider if its manifest has this table:
//!
//! ```toml
//! [package.metadata.mcp-host]
//! plugin = "git"          # ends up as target/plugins/git.wasm
//! # or, of a guest that only tests need:
//! fixture = "traps"       # ends up as target/plugins/fixtures/traps.wasm
//! ```
//!
//! A separate run of cargo builds each provider, because cargo unifies the features of all packages of one run. So the
//! bytes of a component depend neither on the other packages and their features, nor on the directory of the repository
//! ([`crate::reproducible`]). One run builds all fixtures, which are never shipped. A component is replaced atomically,
//! and only if its bytes changed, so that a running host never reads a partial file.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use cargo_metadata::{Artifact, Metadata, Package, PackageId};
use clap::Args;
use serde::Deserialize;

use crate::cargo;
use crate::progress::Progress;
use crate::reproducible;
use crate::toolchain::{self, TARGET};
use crate::workspace::Workspace;

/// The key below `[package.metadata]`.
const METADATA_KEY: &str = "mcp-host";

#[derive(Debug, Default, Args)]
pub(crate) struct Plugins {
    /// Also build the guests that only tests need, into target/plugins/fixtures
    #[arg(long)]
    pub(crate) fixtures: bool,

    /// The providers to build; all by default
    #[arg(value_name = "PLUGIN")]
    pub(crate) names: Vec<String>,
}

impl Plugins {
    /// Builds the providers and prints their paths.
    pub(crate) fn run(&self, workspace: &Workspace, progress: &Progress) -> Result<()> {
        let metadata = cargo::metadata(workspace.cargo(&workspace.guests()))?;
        let providers = select(discover(&metadata, self.fixtures)?, &self.names)?;
        let toolchain = toolchain::ensure(workspace, progress)?;

        let names: Vec<_> = providers.iter().map(|provider| provider.name.as_str()).collect();
        let mut step = progress.step(format!("building {}", names.join(", ")));
        let mut artifacts = Vec::new();
        for packages in runs(&providers) {
            let mut command = workspace.cargo(&workspace.guests());
            command.args(["build", "--release", "--target", TARGET]);
            for package in packages {
                command.args(["--package", package]);
            }
            reproducible::configure_guests(&mut command, workspace, TARGET)?;
            toolchain.configure(&mut command)?;
            artifacts.extend(cargo::build(command, workspace, progress, &mut step)?);
        }

        let mut changed = Vec::new();
        for provider in &providers {
            let component = component(&artifacts, provider)?;
            let installed = workspace.target().join("plugins").join(provider.file());
            if install(component, &installed)? {
                changed.push(workspace.display(&installed).to_string());
            }
        }
        step.done(&match changed.as_slice() {
            [] => format!("{} up to date in target/plugins, by {toolchain}", pluralize(providers.len())),
            changed => format!("built {}, by {toolchain}", changed.join(", ")),
        });
        Ok(())
    }

    /// Returns the providers that are part of every installation: their sources are in `plugins/`, so examples are
    /// excluded. The result maps the name of a provider to the directory of its package.
    pub(crate) fn included(workspace: &Workspace) -> Result<BTreeMap<String, PathBuf>> {
        let metadata = cargo::metadata(workspace.cargo(&workspace.guests()))?;
        let mut included = BTreeMap::new();
        for package in metadata.workspace_packages() {
            let Some(provider) = provider(package)? else { continue };
            let manifest = package.manifest_path.as_std_path();
            if !provider.fixture && manifest.starts_with(workspace.guests()) {
                included.insert(provider.name, manifest.parent().unwrap_or(manifest).to_owned());
            }
        }
        Ok(included)
    }
}

/// A package of the guest workspace that makes a component.
#[derive(Debug, PartialEq, Eq)]
struct Provider {
    package: String,
    id: PackageId,
    name: String,
    fixture: bool,
}

impl Provider {
    /// Returns the provider's path below `target/plugins`.
    fn file(&self) -> PathBuf {
        let folder = if self.fixture { "fixtures" } else { "" };
        Path::new(folder).join(format!("{}.wasm", self.name))
    }
}

/// The content of `[package.metadata.mcp-host]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "lowercase")]
enum ProviderMark {
    Plugin(String),
    Fixture(String),
}

/// Returns the providers of a workspace, sorted by file name. Fixtures are included only if `fixtures` is set.
fn discover(metadata: &Metadata, fixtures: bool) -> Result<Vec<Provider>> {
    let mut providers = BTreeMap::new();
    for package in metadata.workspace_packages() {
        let Some(provider) = provider(package)? else { continue };
        if provider.fixture && !fixtures {
            continue;
        }
        let file = provider.file();
        if let Some(other) = providers.insert(file.clone(), provider) {
            bail!("both {} and {} would be target/plugins/{}", other.package, package.name, file.display());
        }
    }
    if providers.is_empty() {
        bail!("no package of plugins/Cargo.toml has a [package.metadata.{METADATA_KEY}] with plugin = \"NAME\"");
    }
    Ok(providers.into_values().collect())
}

/// Returns the packages of each run of cargo.
fn runs(providers: &[Provider]) -> Vec<Vec<&str>> {
    let (fixtures, shipped): (Vec<_>, Vec<_>) = providers.iter().partition(|provider| provider.fixture);
    let mut runs: Vec<_> = shipped.iter().map(|provider| vec![provider.package.as_str()]).collect();
    if !fixtures.is_empty() {
        runs.push(fixtures.iter().map(|provider| provider.package.as_str()).collect());
    }
    runs
}

/// Returns the providers with the given names, or all providers if `names` is empty.
fn select(mut providers: Vec<Provider>, names: &[String]) -> Result<Vec<Provider>> {
    if let Some(unknown) = names.iter().find(|&name| providers.iter().all(|provider| &provider.name != name)) {
        let known: Vec<_> = providers.iter().map(|provider| provider.name.as_str()).collect();
        bail!("no provider is called `{unknown}`; there are {}", known.join(", "));
    }
    if !names.is_empty() {
        providers.retain(|provider| names.contains(&provider.name));
    }
    Ok(providers)
}

fn provider(package: &Package) -> Result<Option<Provider>> {
    let Some(mark) = package.metadata.get(METADATA_KEY) else { return Ok(None) };
    let mark: ProviderMark = Deserialize::deserialize(mark).with_context(|| {
        format!(
            "{}: expected plugin = \"NAME\" or fixture = \"NAME\" in [package.metadata.{METADATA_KEY}]",
            package.manifest_path
        )
    })?;
    let (name, fixture) = match mark {
        ProviderMark::Plugin(name) => (name, false),
        ProviderMark::Fixture(name) => (name, true),
    };
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-') {
        bail!(
            "{}: [package.metadata.{METADATA_KEY}] expects a name of the letters a–z, digits and `-`, found {name:?}",
            package.manifest_path
        );
    }
    Ok(Some(Provider { package: package.name.to_string(), id: package.id.clone(), name, fixture }))
}

/// Returns a provider's component among the artifacts of cargo.
fn component<'a>(artifacts: &'a [Artifact], provider: &Provider) -> Result<&'a Path> {
    artifacts
        .iter()
        .filter(|artifact| artifact.package_id == provider.id)
        .flat_map(|artifact| &artifact.filenames)
        .find(|file| file.extension() == Some("wasm"))
        .map(|file| file.as_std_path())
        .with_context(|| {
            format!(
                "package {} is marked as a provider but its build gives no component: its Cargo.toml wants \
                 [lib] crate-type = [\"cdylib\", \"rlib\"]",
                provider.package
            )
        })
}

/// Copies `from` to `to` if their bytes differ, and returns whether it did.
fn install(from: &Path, to: &Path) -> Result<bool> {
    let new = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
    if fs::read(to).is_ok_and(|old| old == new) {
        return Ok(false);
    }
    let write = || {
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder)?;
        }
        // The temporary file is in the same directory, so that the rename stays within one file system.
        let aside = to.with_extension(format!("{}.new", std::process::id()));
        fs::write(&aside, &new)?;
        fs::rename(&aside, to)
    };
    write().with_context(|| format!("cannot write {}", to.display()))?;
    Ok(true)
}

fn pluralize(providers: usize) -> String {
    format!("{providers} {}", if providers == 1 { "provider" } else { "providers" })
}

#[cfg(test)]
mod tests;
