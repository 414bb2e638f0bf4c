//! `cargo xtask dist`: the packages of a version, for the machine's architecture, in `target/dist`.
//!
//! | file | contents |
//! |---|---|
//! | `mcp-host-VERSION-TARGET.tar.gz` | program, providers, manual pages, completions, units of systemd, to unpack into `/usr/local` |
//! | `mcp-host_VERSION-1_ARCH.deb` | the same as a package of Debian |
//! | `mcp-host-VERSION-ARCH.oci.tar` | an OCI image, as an archive of its layout |
//! | `sbom/NAME.cdx.json` | the crates in the program and in each provider (CycloneDX) |
//! | `SHA256SUMS` | the digests of all of them |
//!
//! The packages are *reproducible*: the same sources give the same bytes in any directory. All are built in a copy of the tracked
//! files, paths in programs are replaced by names, and times of files are [`EPOCH`], else the time of the last commit.
//! With another profile than `release` the programs of the working tree are packed instead, as they are: to try the packages.

mod archive;
mod deb;
mod image;
mod programs;
mod sbom;
mod sources;
mod tools;
mod tree;
mod verify;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;
use sha2::{Digest, Sha256};

use self::programs::Programs;
use self::tools::Tools;
use crate::cargo;
use crate::progress::Progress;
use crate::workspace::Workspace;

/// The time of all files, in seconds since the epoch of Unix (reproducible-builds.org).
const EPOCH: &str = "SOURCE_DATE_EPOCH";

/// The checksums of the packages.
const CHECKSUMS: &str = "SHA256SUMS";

#[derive(Debug, Args)]
pub(crate) struct Dist {
    /// The directory for the packages; it is emptied first [default: target/dist]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// The profile of the program; with another than `release` the working tree's programs are packed, to try the packages
    #[arg(long, value_name = "PROFILE", default_value = programs::RELEASE)]
    profile: String,

    /// Then build all again in another directory and compare, install the Debian package under a systemd, and run the image; needs
    /// Linux, root and Debian's mirror
    #[arg(long)]
    verify: bool,
}

impl Dist {
    /// Builds the packages, and verifies them.
    pub(crate) fn run(&self, workspace: &Workspace, progress: &Progress) -> Result<()> {
        let out = self.out.clone().unwrap_or_else(|| workspace.target().join("dist"));
        let version = Version::of(workspace)?;
        let tools = Tools::install(workspace, progress)?;
        let work = work(workspace);
        let build = |directory: &str, out: &Path| {
            let sources = sources::copy(workspace, &work.join(directory))?;
            let programs = if self.profile == programs::RELEASE {
                Programs::release(&sources, progress)?
            } else {
                Programs::of_working_tree(workspace, &self.profile, progress)?
            };
            let packaging = Packaging { sources: &sources, version: &version, tools: &tools, out, progress };
            packaging.run(&programs).map(|()| programs)
        };
        let programs = build("sources", &out)?;
        if self.verify {
            let again = work.join("again");
            build("sources-in-another-directory", &again)?;
            verify::is_reproduced(&out, &again, progress)?;
            verify::service(&work, &out, &version, progress)?;
            verify::image(&work, &out, &version, &tools, progress)?;
        }
        drop(programs);
        progress.print(&format!("the packages are in {}", workspace.display(&out)));
        Ok(())
    }
}

/// The directory for everything that is not a package.
fn work(workspace: &Workspace) -> PathBuf {
    workspace.target().join("dist-work")
}

/// What names and dates the packages.
#[derive(Debug)]
struct Version {
    /// `0.1.0`.
    number: String,
    /// `x86_64-unknown-linux-gnu`.
    target: String,
    /// The time of all files.
    epoch: u64,
}

impl Version {
    fn of(workspace: &Workspace) -> Result<Self> {
        let compiler = cargo::capture(Command::new("rustc").arg("-vV").current_dir(workspace.root()))?;
        let target = compiler.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc names no host")?;
        let epoch = match env::var(EPOCH) {
            Ok(epoch) => epoch,
            Err(_) => {
                cargo::capture(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(workspace.root()))
                    .with_context(|| format!("set {EPOCH} where there is no git history"))?
            }
        };
        let epoch = epoch.trim().parse().with_context(|| format!("{EPOCH} is a number of seconds"))?;
        Ok(Self { number: env!("CARGO_PKG_VERSION").to_owned(), target: target.to_owned(), epoch })
    }

    /// The architecture, as Debian and OCI name it.
    fn architecture(&self) -> &str {
        match self.target.split('-').next() {
            Some("x86_64") => "amd64",
            Some("aarch64") => "arm64",
            Some(other) => other,
            None => &self.target,
        }
    }

    fn tarball(&self) -> String {
        format!("mcp-host-{}-{}.tar.gz", self.number, self.target)
    }

    fn debian_package(&self) -> String {
        format!("mcp-host_{}-1_{}.deb", self.number, self.architecture())
    }

    fn image(&self) -> String {
        format!("mcp-host-{}-{}.oci.tar", self.number, self.architecture())
    }
}

/// What all packages are made with.
struct Packaging<'a> {
    /// The copy of the tracked files.
    sources: &'a Workspace,
    version: &'a Version,
    tools: &'a Tools,
    out: &'a Path,
    progress: &'a Progress,
}

impl Packaging<'_> {
    fn run(&self, programs: &Programs) -> Result<()> {
        recreate(self.out)?;
        let tree = tree::stage(self.sources, programs)?;
        tree::archive(&tree, self)?;
        deb::package(self)?;
        image::package(&tree, self)?;
        sbom::write(self)?;
        checksums(self.out)
    }
}

/// Makes an empty directory.
fn recreate(directory: &Path) -> Result<()> {
    if directory.exists() {
        fs::remove_dir_all(directory).with_context(|| format!("cannot empty {}", directory.display()))?;
    }
    fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))
}

/// The files and links below a directory, by their paths from there, sorted.
fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(current) = directories.pop() {
        for entry in fs::read_dir(&current).with_context(|| format!("cannot read {}", current.display()))? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                directories.push(entry.path());
            } else {
                found.push(entry.path().strip_prefix(directory)?.to_owned());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Writes the digests of all files, in the format of sha256sum(1).
fn checksums(out: &Path) -> Result<()> {
    let mut sums = String::new();
    for file in files(out)? {
        let bytes = fs::read(out.join(&file)).with_context(|| format!("cannot read {}", file.display()))?;
        let digest: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        sums.push_str(&format!("{digest}  {}\n", file.display()));
    }
    fs::write(out.join(CHECKSUMS), sums).with_context(|| format!("cannot write {CHECKSUMS}"))
}
