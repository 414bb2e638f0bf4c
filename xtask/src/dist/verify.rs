//! What takes longer than continuous integration has, or needs root: that packages are reproducible, and that they work where they are
//! installed.

mod image;
mod service;

pub(super) use self::image::image;
pub(super) use self::service::service;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::CHECKSUMS;
use crate::cargo;
use crate::progress::Progress;

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

/// Finds out before the builds whether containers can be made.
pub(super) fn ensure_possible() -> Result<()> {
    let user = cargo::capture(Command::new("id").arg("--user"))?;
    ensure!(user.trim() == "0", "containers are made by root: run this as root, or leave out --verify");
    for program in ["debootstrap", "systemd-nspawn"] {
        cargo::capture(Command::new(program).arg("--version"))
            .with_context(|| format!("install {program} (apt-get install debootstrap systemd-container)"))?;
    }
    Ok(())
}
