//! Checks that take longer than the time of continuous integration, or need root: packages are reproducible, and work
//! after installation.

mod image;
mod install;
mod reader;
mod service;

pub(super) use self::image::image;
pub(super) use self::install::install;
pub(super) use self::service::service;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use super::{CHECKSUMS, programs, sha256};
use crate::cargo;
use crate::progress::Progress;
use crate::workspace::Workspace;

/// A way to try the packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Way {
    /// Install those of npm, pip, rpm and desktop clients, and read a folder by a client of each
    Install,
    /// Install, reload, restart, upgrade and remove the service under a systemd
    Service,
    /// Run the image
    Image,
    /// Build all again in another directory, and the providers in the working tree, and compare
    Reproduction,
}

impl Way {
    /// Returns the named ways, or all ways if none is named.
    pub(super) fn named(ways: &[Self]) -> Vec<Self> {
        if ways.is_empty() { Self::value_variants().to_vec() } else { ways.to_vec() }
    }
}

/// Compares the packages of two builds.
pub(super) fn is_reproduced(first: &Path, second: &Path, progress: &Progress) -> Result<()> {
    let sums = |directory: &Path| -> Result<BTreeSet<String>> {
        let file = directory.join(CHECKSUMS);
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        Ok(text.lines().map(str::to_owned).collect())
    };
    let (first, second) = (sums(first)?, sums(second)?);
    let different: Vec<_> = first.symmetric_difference(&second).map(String::as_str).collect();
    ensure!(different.is_empty(), "two builds in two directories differ in:\n{}", different.join("\n"));
    progress.print(&format!("two builds in two directories gave the same {} files", first.len()));
    Ok(())
}

/// Compares the providers of the working tree, as `cargo xtask plugins` builds them, with the providers of a copy.
pub(super) fn providers_are_reproduced(workspace: &Workspace, copy: &Workspace, progress: &Progress) -> Result<()> {
    let providers = programs::providers(workspace, progress)?;
    for (name, component) in &providers {
        let copied = copy.target().join("plugins").join(format!("{name}.wasm"));
        ensure!(sha256(component)? == sha256(&copied)?, "{} and {} differ", component.display(), copied.display());
    }
    progress.print(&format!("the working tree gave the same {} providers", providers.len()));
    Ok(())
}

/// Checks before the builds whether containers can be made.
pub(super) fn ensure_possible(ways: &[Way]) -> Result<()> {
    if !ways.iter().any(|way| matches!(way, Way::Service | Way::Image)) {
        return Ok(());
    }
    let user = cargo::capture(Command::new("id").arg("--user"))?;
    ensure!(user.trim() == "0", "containers are made by root: run this as root, or with --verify=install");
    if !ways.contains(&Way::Service) {
        return Ok(());
    }
    for program in ["debootstrap", "systemd-nspawn"] {
        cargo::capture(Command::new(program).arg("--version"))
            .with_context(|| format!("install {program} (apt-get install debootstrap systemd-container)"))?;
    }
    Ok(())
}
