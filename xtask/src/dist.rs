//! `cargo xtask dist`: builds the packages of a version for the machine's architecture, in `target/dist`.
//!
//! | file | contents |
//! |---|---|
//! | `mcp-host-VERSION-TARGET.tar.gz` | program, providers, manual pages, completions, units of systemd, to unpack into `/usr/local` |
//! | `mcp-host_VERSION-1_ARCH.deb` | the same files as a Debian package |
//! | `mcp-host-VERSION-ARCH.oci.tar` | an OCI image, as an archive of its layout |
//! | `mcp-host-VERSION-1.ARCH.rpm` | the same files as a Fedora package |
//! | `npm/*.tgz` | npm packages: a launcher, and the program for this platform |
//! | `python/*.whl` | a wheel for pip and uv |
//! | `mcp-host-VERSION-PLATFORM.mcpb` | a bundle that desktop clients install by a double click |
//! | `mcp-host.rb` | a Homebrew formula, which installs the tarball |
//! | `server.json` | the entry for the MCP registry |
//! | `sbom/NAME.cdx.json` | the crates in the program and in each provider (CycloneDX) |
//! | `SHA256SUMS` | the digests of all files |
//!
//! The packages depend on the sources and not on the machine. They are built in a copy of the tracked files, paths in
//! programs are replaced by names, and the time of all files is [`EPOCH`], else the time of the last commit. Equal
//! programs give equal packages. The providers have the same bytes as from `cargo xtask plugins`. To test packaging
//! alone, another profile than `release` packs the programs of the working tree, and `--binary` packs a given program.
//! All packages contain the program and the included providers, and have the version of `Cargo.toml`.

mod archive;
mod deb;
mod homebrew;
mod image;
mod mcpb;
mod npm;
mod platforms;
mod programs;
mod publication;
mod rpm;
mod sbom;
mod server_json;
mod sources;
mod tools;
mod tree;
mod verify;
mod wheel;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::Value;
use sha2::{Digest, Sha256};

use self::programs::Programs;
use self::publication::Publication;
use self::tools::Tools;
use self::verify::Way;
use crate::cargo;
use crate::progress::Progress;
use crate::workspace::Workspace;

/// The variable with the time of all files, in seconds since the Unix epoch (reproducible-builds.org).
const EPOCH: &str = "SOURCE_DATE_EPOCH";

/// The file with the checksums of the packages.
const CHECKSUMS: &str = "SHA256SUMS";

#[derive(Debug, Args)]
pub(crate) struct Dist {
    /// The directory for the packages; those of an earlier run are removed [default: target/dist]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// The profile of the program; with another than `release` the working tree's programs are packed, to try the
    /// packages
    #[arg(long, value_name = "PROFILE", default_value = programs::RELEASE)]
    profile: String,

    /// Pack this program, and the providers in target/plugins, as they are: to try the packages without a build
    #[arg(long, value_name = "FILE", conflicts_with = "profile")]
    binary: Option<PathBuf>,

    /// Then try the packages; in all ways by default. `service` needs root, debootstrap, systemd-nspawn and Debian's
    /// mirror
    #[arg(long, value_name = "WAY", num_args = 0.., value_delimiter = ',', require_equals = true)]
    verify: Option<Vec<Way>>,
}

impl Dist {
    /// Builds the packages and verifies them.
    pub(crate) fn run(&self, workspace: &Workspace, progress: &Progress) -> Result<()> {
        let ways = self.verify.as_deref().map(Way::named).unwrap_or_default();
        verify::ensure_possible(&ways)?;
        let out = match &self.out {
            Some(out) => std::path::absolute(out)?,
            None => workspace.target().join("dist"),
        };
        ensure_replaceable(&out)?;
        let version = Version::of(workspace)?;
        let publication = Publication::of(workspace)?;
        let tools = Tools::install(workspace, progress)?;
        let work = work(workspace);
        // Both copies at once: the working tree may change during the first build.
        let sources = sources::copy(workspace, &work.join("sources"))?;
        let other_sources = match ways.contains(&Way::Reproduction) {
            true => Some(sources::copy(workspace, &work.join("sources-in-another-directory"))?),
            false => None,
        };
        let build = |sources: &Workspace, out: &Path| {
            let programs = match &self.binary {
                Some(program) => Programs::given(workspace, program)?,
                None if self.profile == programs::RELEASE => Programs::release(sources, &version.target, progress)?,
                None => Programs::of_working_tree(workspace, &self.profile, progress)?,
            };
            let (version, publication, tools) = (&version, &publication, &tools);
            Packaging { sources, version, publication, tools, out, progress }.run(&programs)
        };
        build(&sources, &out)?;
        if publication.repository().is_none() {
            progress.print(&format!(
                "not for publishing: no `repository` in the manifest of {}, so the formula and server.json lead to {}",
                programs::PACKAGE,
                publication.homepage()
            ));
        }
        progress.print(&format!("the packages are in {}", workspace.display(&out)));
        if ways.contains(&Way::Install) {
            verify::install(workspace, &out, &version, &tools, progress)?;
        }
        if ways.contains(&Way::Service) {
            verify::service(&work, &out, &version, progress)?;
        }
        if ways.contains(&Way::Image) {
            verify::image(&work, &out, &version, &tools, progress)?;
        }
        if let Some(other_sources) = &other_sources {
            let again = work.join("again");
            build(other_sources, &again)?;
            verify::is_reproduced(&out, &again, progress)?;
            if self.binary.is_none() && self.profile == programs::RELEASE {
                verify::providers_are_reproduced(workspace, &sources, progress)?;
            }
        }
        Ok(())
    }
}

/// Returns the directory of all intermediate files.
fn work(workspace: &Workspace) -> PathBuf {
    workspace.target().join("dist-work")
}

/// The values that determine the names and times of the packages.
#[derive(Debug)]
struct Version {
    /// For example `0.1.0`.
    number: String,
    /// For example `x86_64-unknown-linux-gnu`.
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

    /// Returns the architecture by its name in Debian and OCI.
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

/// The inputs of all packages.
struct Packaging<'a> {
    /// The copy of the tracked files.
    sources: &'a Workspace,
    version: &'a Version,
    publication: &'a Publication,
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
        rpm::package(self)?;
        image::package(&tree, self)?;
        npm::package(&tree, self)?;
        wheel::package(&tree, self)?;
        mcpb::package(&tree, self)?;
        homebrew::package(self)?;
        server_json::package(self)?;
        sbom::write(self)?;
        checksums(self.out)
    }
}

/// Fails if `out` has files and is not a directory of packages, because its contents will be removed.
fn ensure_replaceable(out: &Path) -> Result<()> {
    let is_empty = fs::read_dir(out).map_or(true, |mut entries| entries.next().is_none());
    ensure!(
        is_empty || out.join(CHECKSUMS).is_file(),
        "{} is not empty, and has no packages: name another directory by --out",
        out.display()
    );
    Ok(())
}

/// Makes a directory, or empties it.
fn recreate(directory: &Path) -> Result<()> {
    if directory.exists() {
        fs::remove_dir_all(directory).with_context(|| format!("cannot empty {}", directory.display()))?;
    }
    fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))
}

/// Copies a file, and creates its parent directories.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let copy = || {
        to.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::copy(from, to)
    };
    copy().with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(())
}

/// Writes a file, and creates its parent directories.
fn write(file: &Path, bytes: &[u8]) -> Result<()> {
    let write = || {
        file.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(file, bytes)
    };
    write().with_context(|| format!("cannot write {}", file.display()))
}

/// Sets a key of a JSON object.
fn set(object: &mut Value, key: &str, value: Value) {
    if let Some(object) = object.as_object_mut() {
        object.insert(key.to_owned(), value);
    }
}

/// Returns the relative paths of the files and links below a directory, sorted.
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

/// Returns the SHA-256 digest of a file in hexadecimal digits.
fn sha256(file: &Path) -> Result<String> {
    let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Writes the digests of all files, in the format of sha256sum(1).
fn checksums(out: &Path) -> Result<()> {
    let mut sums = String::new();
    for file in files(out)? {
        sums.push_str(&format!("{}  {}\n", sha256(&out.join(&file))?, file.display()));
    }
    write(&out.join(CHECKSUMS), sums.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_with_other_files_is_not_emptied() {
        let folder = tempfile::tempdir().unwrap();
        ensure_replaceable(&folder.path().join("missing")).unwrap();
        ensure_replaceable(folder.path()).unwrap();
        fs::write(folder.path().join("thesis.txt"), "years of work").unwrap();
        assert!(ensure_replaceable(folder.path()).is_err());
        fs::write(folder.path().join(CHECKSUMS), "").unwrap();
        ensure_replaceable(folder.path()).unwrap();
    }

    #[test]
    fn checksums_are_those_of_sha256sum() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("sbom")).unwrap();
        fs::write(folder.path().join("sbom/a.json"), "abc").unwrap();
        checksums(folder.path()).unwrap();
        let sums = fs::read_to_string(folder.path().join(CHECKSUMS)).unwrap();
        assert_eq!(sums, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  sbom/a.json\n");
    }
}
