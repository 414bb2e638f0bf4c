//! Installs third-party programs below `target/`: npm and pip packages, and crates of crates.io, at locked versions.
//!
//! A stamp file in each installation contains the digest of its inputs, so that a change of these causes a new
//! installation.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};

use crate::cargo;
use crate::progress::Progress;
use crate::workspace::Workspace;

/// The minimum Node.js version of the clients and of the SDK for JavaScript.
const MIN_NODE_VERSION: u32 = 20;

/// The minimum Python version of the client and of the SDK for Python: the minor version after 3.
const MIN_PYTHON_MINOR: u32 = 10;

/// Installs the packages of a `package-lock.json` by the npm command `ci`. The command is `install` if the lock file
/// lacks optional packages for other systems, which are not in the registry.
pub(crate) fn npm_install(
    command: &str,
    sources: &Path,
    installed: &Path,
    progress: &Progress,
    what: &str,
    shown: &str,
) -> Result<()> {
    let node = version("node", "node", MIN_NODE_VERSION)?;
    let manifests = ["package.json", "package-lock.json"].map(|name| sources.join(name));
    let stamp = Stamp::new(installed, &manifests, &node)?;
    if stamp.is_current() {
        return Ok(());
    }
    let step = progress.step(format!("installing {what} (npm)"));
    stamp.clear()?;
    for manifest in &manifests {
        copy_into(manifest, installed)?;
    }
    let mut npm = npm();
    npm.args([command, "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]).current_dir(installed);
    cargo::capture(&mut npm).with_context(|| format!("npm cannot install {what} (it needs to reach its registry)"))?;
    stamp.set()?;
    step.done(&format!("installed {what} into {shown}"));
    Ok(())
}

/// Installs a requirements file into a virtual environment.
pub(crate) fn pip_install(
    requirements: &Path,
    installed: &Path,
    progress: &Progress,
    what: &str,
    shown: &str,
) -> Result<()> {
    let program = if cfg!(windows) { "python" } else { "python3" };
    let found = version(program, "python", MIN_PYTHON_MINOR)?;
    let stamp = Stamp::new(installed, &[requirements.to_owned()], &found)?;
    if stamp.is_current() {
        return Ok(());
    }
    let mut step = progress.step(format!("installing {what} (pip)"));
    stamp.clear()?;
    step.at("making a virtual environment");
    cargo::capture(Command::new(program).args(["-m", "venv", "--clear"]).arg(installed)).context(
        "Python cannot make a virtual environment; on Debian and Ubuntu that needs: apt-get install python3-venv",
    )?;
    step.at("pip install");
    let mut pip = pip(installed);
    pip.args(["install", "--requirement"]).arg(requirements);
    cargo::capture(&mut pip).with_context(|| format!("pip cannot install {what} (it needs to reach its registry)"))?;
    stamp.set()?;
    step.done(&format!("installed {what} into {shown}"));
    Ok(())
}

/// Returns the path of a program from crates.io. A missing program is installed by `cargo install` with the given
/// options.
pub(crate) fn cargo_install(
    name: &str,
    version: &str,
    options: &[&str],
    workspace: &Workspace,
    progress: &Progress,
) -> Result<PathBuf> {
    let root = workspace.target().join("tools").join(format!("{name}-{version}"));
    let program = root.join("bin").join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    if !program.is_file() {
        let step = progress.step(format!("installing {name}"));
        let mut command = workspace.cargo(workspace.root());
        command.args(["install", name, "--locked", "--version", version, "--root"]).arg(&root);
        let build = root.join("build");
        cargo::capture(command.args(options).arg("--target-dir").arg(&build))?;
        // The build directory is far larger than the program.
        let _ = fs::remove_dir_all(&build);
        step.done(&format!("installed {name} {version} into target/tools"));
    }
    Ok(program)
}

/// Returns a command that runs the pip of a virtual environment.
pub(crate) fn pip(environment: &Path) -> Command {
    let mut pip = Command::new(venv_program(environment, "python"));
    pip.args(["-m", "pip", "--no-input", "--disable-pip-version-check", "--quiet"]);
    pip
}

/// Returns the path of a program of a virtual environment.
pub(crate) fn venv_program(environment: &Path, name: &str) -> PathBuf {
    environment.join(if cfg!(windows) { "Scripts" } else { "bin" }).join(name)
}

/// Returns a command that runs npm.
pub(crate) fn npm() -> Command {
    Command::new(if cfg!(windows) { "npm.cmd" } else { "npm" })
}

/// Returns the version of an interpreter. Fails if it is older than the minimum.
pub(crate) fn version(program: &str, kind: &str, oldest: u32) -> Result<String> {
    let (name, wanted, packages) = match kind {
        "node" => ("Node.js", format!("{oldest}"), "nodejs npm"),
        _ => ("Python", format!("3.{oldest}"), "python3 python3-venv"),
    };
    let advice = format!(
        "install {name} {wanted} or newer so that `{program}` is in PATH (on Debian and Ubuntu: apt-get install {packages}, \
         where the release has that version)"
    );
    let said = match Command::new(program).arg("--version").output() {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        Ok(output) => bail!("the tests need {name}, and `{program} --version` fails ({}); {advice}", output.status),
        Err(error) => bail!("the tests need {name}, and `{program}` cannot be run ({error}); {advice}"),
    };
    ensure!(
        is_supported(&said, kind, oldest),
        "the tests need {name} {wanted} or newer, and `{program}` is {said}; {advice}"
    );
    Ok(said)
}

/// Parses versions such as `v20.1.0` and `Python 3.11.7`.
fn is_supported(said: &str, kind: &str, oldest: u32) -> bool {
    let numbers = said.trim_start_matches("Python ").trim_start_matches('v');
    let mut numbers = numbers.split('.').map(|number| number.parse::<u32>().unwrap_or_default());
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    if kind == "node" { major >= oldest } else { (major, minor) >= (3, oldest) }
}

/// The stamp of an installation: a file with the digest of its inputs.
#[derive(Debug)]
pub(crate) struct Stamp {
    file: PathBuf,
    expected: String,
}

impl Stamp {
    /// Returns the stamp of `folder` for the given files and interpreter version.
    pub(crate) fn new(folder: &Path, files: &[PathBuf], interpreter: &str) -> Result<Self> {
        let mut hash = Sha256::new_with_prefix(interpreter);
        for file in files {
            hash.update(fs::read(file).with_context(|| format!("cannot read {}", file.display()))?);
        }
        let expected = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { file: folder.join(".made-from"), expected })
    }

    pub(crate) fn is_current(&self) -> bool {
        fs::read_to_string(&self.file).is_ok_and(|found| found == self.expected)
    }

    /// Removes the stamp, so that an interrupted installation is not regarded as complete.
    pub(crate) fn clear(&self) -> Result<()> {
        match fs::remove_file(&self.file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", self.file.display()))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn set(&self) -> Result<()> {
        let write = || {
            self.file.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::write(&self.file, &self.expected)
        };
        write().with_context(|| format!("cannot write {}", self.file.display()))
    }
}

/// Copies a file into a folder, and creates the folder if it is missing.
pub(crate) fn copy_into(file: &Path, folder: &Path) -> Result<()> {
    let name = file.file_name().context("a file has a name")?;
    let copy = || {
        fs::create_dir_all(folder)?;
        fs::copy(file, folder.join(name))
    };
    copy().with_context(|| format!("cannot copy {} into {}", file.display(), folder.display()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interpreter_is_measured_by_what_it_says_of_itself() {
        assert!(is_supported("v20.1.0", "node", 20));
        assert!(!is_supported("v18.20.4", "node", 20));
        assert!(is_supported("Python 3.11.7", "python", 10));
        assert!(!is_supported("Python 3.9.2", "python", 10));
        assert!(!is_supported("something else", "python", 10));
    }

    #[test]
    fn an_installation_is_current_until_what_it_was_made_from_changes() {
        let folder = tempfile::tempdir().unwrap();
        let files = [folder.path().join("requirements.txt")];
        fs::write(&files[0], "mcp==1").unwrap();
        let stamp = |interpreter| Stamp::new(folder.path(), &files, interpreter).unwrap();

        assert!(!stamp("Python 3.11").is_current());
        stamp("Python 3.11").set().unwrap();
        assert!(stamp("Python 3.11").is_current());
        assert!(!stamp("Python 3.12").is_current(), "another interpreter");
        fs::write(&files[0], "mcp==2").unwrap();
        assert!(!stamp("Python 3.11").is_current(), "other requirements");
    }

    #[test]
    fn a_missing_interpreter_is_named_with_what_to_do() {
        let error = version("no-such-node", "node", 20).unwrap_err().to_string();
        assert!(error.contains("`no-such-node` cannot be run"), "{error}");
        assert!(error.contains("apt-get install nodejs npm"), "{error}");
    }
}
