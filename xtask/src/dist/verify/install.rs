//! The packages that users install themselves. Each is installed like a user does it, from the file and without a
//! network. A client then starts the installed server and [reads a file](super::reader).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::reader::Reader;
use crate::dist::platforms::Platform;
use crate::dist::tools::Tools;
use crate::dist::{Version, homebrew, mcpb, npm, recreate, rpm, server_json, wheel};
use crate::plugins::Plugins;
use crate::progress::Progress;
use crate::toolchain::apt;
use crate::workspace::Workspace;
use crate::{cargo, install};

/// An address without a listener: packages that are not among the files cannot be downloaded.
const NO_REGISTRY: &str = "http://127.0.0.1:9/";

/// Installs and tries all packages.
pub(in crate::dist) fn install(
    workspace: &Workspace,
    out: &Path,
    version: &Version,
    tools: &Tools,
    progress: &Progress,
) -> Result<()> {
    let work = super::super::work(workspace).join("install");
    recreate(&work)?;
    let program = super::super::work(workspace).join("sources/target/package/bin/mcp-host");
    let reader = Reader::new(workspace, &work, &program, progress)?;
    let providers = Plugins::included(workspace)?.into_keys().map(|name| format!("{name}.wasm")).collect();
    let verified = Verified { out, version, tools, work: &work, reader: &reader, providers };
    type Verify<'a> = fn(&Verified<'a>, &Progress) -> Result<()>;
    let all: [(&str, Verify<'_>); 7] = [
        ("npx, from the packages of npm", Verified::npx),
        ("pip, from the wheel", Verified::pip),
        ("a client that unpacks the bundle", Verified::bundle),
        ("the tarball, as cargo binstall takes it", Verified::binary_installation),
        ("rpm", Verified::rpm),
        ("the formula", Verified::formula),
        ("server.json", Verified::server_json),
    ];
    for (what, verify) in all {
        let step = progress.step(format!("verifying {what}"));
        verify(&verified, progress).with_context(|| format!("verifying {what}"))?;
        step.done(&format!("verified {what}"));
    }
    Ok(())
}

/// The installed packages, and the directory of their installations.
struct Verified<'a> {
    out: &'a Path,
    version: &'a Version,
    tools: &'a Tools,
    work: &'a Path,
    reader: &'a Reader,
    /// The file names of the included providers.
    providers: Vec<String>,
}

impl Verified<'_> {
    /// Verifies `npx --package FILE` with both packages, and an installation of both with the command in PATH.
    fn npx(&self, _: &Progress) -> Result<()> {
        let platform = Platform::of(&self.version.target)?;
        let files = npm::files(&self.version.number, &platform)
            .map(|name| self.out.join(npm::DIRECTORY).join(name).display().to_string());
        let [launcher, program] = &files;
        let cache = self.work.join("npm-cache");
        let configure = |command: &mut Command| {
            let settings =
                [("registry", NO_REGISTRY), ("fetch_retries", "0"), ("audit", "false"), ("update_notifier", "false")];
            for (name, value) in settings {
                command.env(format!("npm_config_{name}"), value);
            }
            command.env("npm_config_cache", &cache);
        };
        let folder = self.reader.folder();
        let words = [
            "npx",
            "--yes",
            "--package",
            launcher,
            "--package",
            program,
            "--",
            "mcp-host",
            "serve",
            "--stdio",
            &folder,
        ];
        self.reader.reads_with(&words, configure)?;

        let prefix = self.work.join("npm");
        let mut npm = install::npm();
        npm.args(["install", "--global", "--ignore-scripts", "--prefix"]).arg(&prefix).args(&files);
        configure(&mut npm);
        cargo::capture(&mut npm)?;
        self.is_installed(&prefix.join("bin/mcp-host"))?;
        self.has_providers(&prefix)
    }

    /// Verifies `pip install FILE` in a new virtual environment.
    fn pip(&self, _: &Progress) -> Result<()> {
        let environment = self.work.join("python");
        cargo::capture(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
        let wheels = self.out.join(wheel::DIRECTORY);
        let files = crate::dist::files(&wheels)?;
        let [wheel] = files.as_slice() else { anyhow::bail!("there are {} wheels, not one", files.len()) };
        cargo::capture(install::pip(&environment).args(["install", "--no-index"]).arg(wheels.join(wheel)))?;
        self.is_installed(&install::venv_program(&environment, "mcp-host"))?;
        self.has_providers(&environment)?;
        cargo::capture(install::pip(&environment).args(["uninstall", "--yes", crate::dist::publication::NAME]))?;
        let left = environment.join("lib/mcp-host");
        ensure!(crate::dist::files(&left).map_or(true, |files| files.is_empty()), "pip leaves {}", left.display());
        Ok(())
    }

    /// Verifies `mcpb unpack`, and then starts the server as a client does from the manifest.
    fn bundle(&self, _: &Progress) -> Result<()> {
        let file = mcpb::file(&self.version.number, &Platform::of(&self.version.target)?);
        let unpacked = self.work.join("bundle");
        cargo::capture(self.tools.mcpb().arg("unpack").arg(self.out.join(file)).arg(&unpacked))?;
        let manifest = unpacked.join("manifest.json");
        cargo::capture(self.tools.mcpb().arg("validate").arg(&manifest))?;
        let text = fs::read_to_string(&manifest).with_context(|| format!("cannot read {}", manifest.display()))?;
        let manifest: Value = serde_json::from_str(&text).context("the manifest is JSON")?;
        let config = manifest.pointer("/server/mcp_config").context("the manifest has no command")?;
        let arguments = config.get("args").and_then(Value::as_array).into_iter().flatten();
        let words = config.get("command").into_iter().chain(arguments);
        let words: Vec<_> = words
            .map(|word| {
                let word = word.as_str().unwrap_or_default().replace("${__dirname}", &unpacked.display().to_string());
                word.replace("${user_config.folders}", &self.reader.folder())
            })
            .collect();
        self.reader.reads_by(&words.iter().map(String::as_str).collect::<Vec<_>>())?;
        self.has_providers(&unpacked)
    }

    /// Verifies the part of the tarball that `cargo binstall` installs, and then the command of docs/operations.md for
    /// the providers.
    fn binary_installation(&self, _: &Progress) -> Result<()> {
        let tarball = self.version.tarball();
        let top = tarball.trim_end_matches(".tar.gz");
        let prefix = self.work.join("cargo");
        let program = prefix.join("bin/mcp-host");
        recreate(&prefix)?;
        let unpack = |options: &[&str]| {
            let mut tar = Command::new("tar");
            tar.arg("--extract").arg("--file").arg(self.out.join(&tarball)).arg("--directory").arg(&prefix);
            cargo::capture(tar.args(["--strip-components", "1"]).args(options))
        };
        unpack(&[&format!("{top}/bin/mcp-host")])?;
        let folder = self.reader.folder();
        let alone = Command::new(&program).args(["serve", "--stdio", &folder]).stdin(Stdio::null()).output()?;
        let said = String::from_utf8_lossy(&alone.stderr).into_owned();
        let providers = prefix.join("lib/mcp-host/plugins");
        ensure!(
            said.contains(&providers.display().to_string()),
            "without providers the program does not name {}:\n{said}",
            providers.display()
        );
        unpack(&["--wildcards", "*/lib/mcp-host"])?;
        self.is_installed(&program)?;
        self.has_providers(&prefix)
    }

    /// Verifies `rpm --install` into a directory, without scripts, because the directory has no shell.
    fn rpm(&self, progress: &Progress) -> Result<()> {
        install_missing("rpm", "rpm", progress)?;
        let file = self.out.join(rpm::file(self.version));
        let root = self.work.join("rpm");
        let mut rpm = Command::new("rpm");
        rpm.arg("--root").arg(&root).args(["--install", "--nodeps", "--noscripts", "--nosignature"]).arg(&file);
        cargo::capture(&mut rpm)?;
        let requires = cargo::capture(Command::new("rpm").args(["--query", "--requires", "--package"]).arg(&file))?;
        ensure!(requires.contains("libc.so.6(GLIBC_"), "the package requires no version of glibc:\n{requires}");
        for path in ["etc/mcp-host/mcp-host.toml", "usr/lib/systemd/system/mcp-host.service"] {
            ensure!(root.join(path).is_file(), "the package installs no /{path}");
        }
        let configs = cargo::capture(Command::new("rpm").args(["--query", "--configfiles", "--package"]).arg(&file))?;
        ensure!(configs.trim() == "/etc/mcp-host/mcp-host.toml", "the files of config are {configs}");
        self.is_installed(&root.join("usr/bin/mcp-host"))?;
        self.has_providers(&root)
    }

    /// Verifies the syntax of the formula by `ruby -c`, and that it names the tarball.
    fn formula(&self, progress: &Progress) -> Result<()> {
        install_missing("ruby", "ruby", progress)?;
        let file = self.out.join(homebrew::FILE);
        cargo::capture(Command::new("ruby").arg("-c").arg(&file))?;
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let tarball = self.version.tarball();
        let sum = crate::dist::sha256(&self.out.join(&tarball))?;
        ensure!(text.contains(&format!("/{tarball}\"")), "the formula does not name {tarball}");
        ensure!(text.contains(&format!("sha256 \"{sum}\"")), "the formula has not the digest of {tarball}");
        Ok(())
    }

    /// Verifies that `server.json` follows the rules of the registry, and has the digest of the bundle.
    fn server_json(&self, _: &Progress) -> Result<()> {
        let file = self.out.join(server_json::FILE);
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let server: Value = serde_json::from_str(&text).context("server.json is JSON")?;
        server_json::validate(&server)?;
        let bundle = mcpb::file(&self.version.number, &Platform::of(&self.version.target)?);
        let sum = crate::dist::sha256(&self.out.join(bundle))?;
        let packages = server.get("packages").and_then(Value::as_array).into_iter().flatten();
        let mut digests = packages.filter_map(|package| package.get("fileSha256"));
        ensure!(digests.any(|digest| *digest == *sum), "server.json has not {sum}");
        Ok(())
    }

    /// Verifies the version of a program, and that a client can read through it.
    fn is_installed(&self, program: &Path) -> Result<()> {
        let said = cargo::capture(Command::new(program).arg("--version"))?;
        let expected = format!("mcp-host {}", self.version.number);
        ensure!(said.starts_with(&expected), "expected {expected}, found {said}");
        let folder = self.reader.folder();
        self.reader.reads_by(&[&program.display().to_string(), "serve", "--stdio", &folder])
    }

    /// Verifies that every included provider is somewhere below a directory.
    fn has_providers(&self, directory: &Path) -> Result<()> {
        let files = crate::dist::files(directory)?;
        let names: Vec<_> = files.iter().filter_map(|file: &PathBuf| file.file_name()?.to_str()).collect();
        let missing: Vec<_> = self.providers.iter().filter(|name| !names.contains(&name.as_str())).collect();
        ensure!(missing.is_empty(), "{} has not {missing:?}", directory.display());
        Ok(())
    }
}

/// Installs a package of the distribution if its program is missing.
fn install_missing(program: &str, package: &str, progress: &Progress) -> Result<()> {
    if Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success()) {
        return Ok(());
    }
    apt::install(&[package], "verifying packages", progress)
}
