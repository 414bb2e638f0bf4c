//! The tools that make packages, below `target/`: of crates.io by cargo, of Debian unpacked.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::debian;
use crate::install;
use crate::progress::Progress;
use crate::workspace::Workspace;

const CARGO_DEB: &str = "3.8.0";
const CARGO_CYCLONEDX: &str = "0.5.9";

/// The packages of Debian: the tools for images, and what an image has beside our programs.
const DEBIAN: [&str; 6] = ["umoci", "runc", "libc6", "libgcc-s1", "ca-certificates", "libseccomp2"];

/// The installed tools.
#[derive(Debug)]
pub(super) struct Tools {
    cargo_deb: PathBuf,
    cargo_cyclonedx: PathBuf,
    /// The unpacked packages of Debian.
    pub(super) debian: PathBuf,
}

impl Tools {
    /// Installs what is missing.
    pub(super) fn install(workspace: &Workspace, progress: &Progress) -> Result<Self> {
        let cargo_deb = install::cargo_install("cargo-deb", CARGO_DEB, workspace, progress)?;
        let cargo_cyclonedx = install::cargo_install("cargo-cyclonedx", CARGO_CYCLONEDX, workspace, progress)?;
        let debian = super::work(workspace).join("debian");
        debian::unpack_into(&debian, &DEBIAN, "tools and libraries for images", progress)?;
        Ok(Self { cargo_deb, cargo_cyclonedx, debian })
    }

    /// `cargo deb`, in a workspace.
    pub(super) fn cargo_deb(&self, sources: &Workspace) -> Command {
        let mut command = Command::new(&self.cargo_deb);
        command.arg("deb").current_dir(sources.root());
        command
    }

    /// `cargo cyclonedx`.
    pub(super) fn cargo_cyclonedx(&self) -> Command {
        let mut command = Command::new(&self.cargo_cyclonedx);
        command.arg("cyclonedx");
        command
    }

    /// `umoci`.
    pub(super) fn umoci(&self) -> Command {
        Command::new(self.debian.join("usr/bin/umoci"))
    }

    /// `runc`.
    pub(super) fn runc(&self) -> Command {
        let mut command = Command::new(self.debian.join("usr/sbin/runc"));
        let library = self.debian.join(format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH));
        command.env("LD_LIBRARY_PATH", library);
        command
    }
}
