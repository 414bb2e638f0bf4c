//! Packages of Debian whose programs and documents the tests use: unpacked into `target/debian`, never installed.
//!
//! | package | used by the tests of |
//! |---|---|
//! | `prometheus` with `promtool`, `prometheus-node-exporter` | the provider `prometheus`: a server, and an exporter that it scrapes |
//! | `debian-reference-ja`, `developers-reference-ja`, `manpages-ja` | the provider `notes`: documents in Japanese |

use anyhow::{Context, Result};
use std::fs;

use crate::progress::Progress;
use crate::toolchain::apt::Release;
use crate::toolchain::unpack::unpack;
use crate::workspace::Workspace;

const PACKAGES: [&str; 5] =
    ["prometheus", "prometheus-node-exporter", "debian-reference-ja", "developers-reference-ja", "manpages-ja"];

/// Unpacks them, unless they are there.
pub(crate) fn install(workspace: &Workspace, progress: &Progress) -> Result<()> {
    let release = Release::current()?;
    let installed = workspace.target().join("debian");
    // The list of what it was made from is written last.
    let list = installed.join(".packages");
    let expected = format!("{} {}", release.codename, PACKAGES.join(" "));
    if fs::read_to_string(&list).is_ok_and(|found| found == expected) {
        return Ok(());
    }
    let mut step = progress.step("unpacking packages of Debian for the tests");
    let scratch = workspace.target().join("debian.new");
    let unpacked = unpack(&PACKAGES, &release, &release.codename, &scratch, &mut step)?;
    if installed.exists() {
        fs::remove_dir_all(&installed).with_context(|| format!("cannot remove {}", installed.display()))?;
    }
    fs::rename(&unpacked, &installed).with_context(|| format!("cannot make {}", installed.display()))?;
    fs::write(&list, expected).with_context(|| format!("cannot write {}", list.display()))?;
    fs::remove_dir_all(&scratch).with_context(|| format!("cannot remove {}", scratch.display()))?;
    step.done("unpacked packages of Debian into target/debian");
    Ok(())
}
