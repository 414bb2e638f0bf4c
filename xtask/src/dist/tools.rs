//! The tools that make packages, below `target/`: from crates.io, from npm and PyPI, and from unpacked Debian packages.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::debian;
use crate::install;
use crate::progress::Progress;
use crate::workspace::Workspace;

const CARGO_DEB: &str = "3.8.0";
const CARGO_CYCLONEDX: &str = "0.5.9";
const CARGO_GENERATE_RPM: &str = "0.21.1";

/// The Debian packages: the tools for images, and the third-party files of an image.
const DEBIAN: [&str; 6] = ["umoci", "runc", "libc6", "libgcc-s1", "ca-certificates", "libseccomp2"];

/// The installed tools.
#[derive(Debug)]
pub(super) struct Tools {
    cargo_deb: PathBuf,
    cargo_cyclonedx: PathBuf,
    cargo_generate_rpm: PathBuf,
    /// A Python virtual environment.
    python: PathBuf,
    mcpb: PathBuf,
    /// The directory of the unpacked Debian packages.
    pub(super) debian: PathBuf,
}

impl Tools {
    /// Installs missing tools.
    pub(super) fn install(workspace: &Workspace, progress: &Progress) -> Result<Self> {
        let cargo_deb = install::cargo_install("cargo-deb", CARGO_DEB, &[], workspace, progress)?;
        let cargo_cyclonedx = install::cargo_install("cargo-cyclonedx", CARGO_CYCLONEDX, &[], workspace, progress)?;
        let cargo_generate_rpm =
            install::cargo_install("cargo-generate-rpm", CARGO_GENERATE_RPM, &[], workspace, progress)?;
        let tools = workspace.target().join("tools");
        let python = tools.join("wheel");
        let requirements = workspace.root().join("packaging/python/requirements.txt");
        install::pip_install(&requirements, &python, progress, "the tool for wheels", "target/tools/wheel")?;
        let mcpb = tools.join("mcpb");
        let sources = workspace.root().join("packaging/mcpb");
        install::npm_install("ci", &sources, &mcpb, progress, "the tool for bundles", "target/tools/mcpb")?;
        let debian = super::work(workspace).join("debian");
        debian::unpack_into(&debian, &DEBIAN, "tools and libraries for images", progress)?;
        Ok(Self { cargo_deb, cargo_cyclonedx, cargo_generate_rpm, python, mcpb, debian })
    }

    /// Returns the command `cargo deb` in a workspace.
    pub(super) fn cargo_deb(&self, sources: &Workspace) -> Command {
        let mut command = Command::new(&self.cargo_deb);
        command.arg("deb").current_dir(sources.root());
        command
    }

    /// Returns the command `cargo cyclonedx`.
    pub(super) fn cargo_cyclonedx(&self) -> Command {
        let mut command = Command::new(&self.cargo_cyclonedx);
        command.arg("cyclonedx");
        command
    }

    /// Returns the command `cargo generate-rpm` in a workspace.
    pub(super) fn cargo_generate_rpm(&self, sources: &Workspace) -> Command {
        let mut command = Command::new(&self.cargo_generate_rpm);
        command.arg("generate-rpm").current_dir(sources.root());
        command
    }

    /// Returns the Python virtual environment with hatchling.
    pub(super) fn python(&self) -> &Path {
        &self.python
    }

    /// Returns the command `mcpb`.
    pub(super) fn mcpb(&self) -> Command {
        let mut command = Command::new("node");
        command.arg(self.mcpb.join("node_modules/@anthropic-ai/mcpb/dist/cli/cli.js"));
        command
    }

    /// Returns the command `umoci`.
    pub(super) fn umoci(&self) -> Command {
        Command::new(self.debian.join("usr/bin/umoci"))
    }

    /// Returns the command `runc`.
    pub(super) fn runc(&self) -> Command {
        let mut command = Command::new(self.debian.join("usr/sbin/runc"));
        let library = self.debian.join(format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH));
        command.env("LD_LIBRARY_PATH", library);
        command
    }
}
