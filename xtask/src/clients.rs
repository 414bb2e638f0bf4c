//! The official MCP clients in other languages, which the tests use.
//!
//! | client | sources | installed to | run as |
//! |---|---|---|---|
//! | TypeScript | `tests/clients/typescript` | `target/clients/typescript` | `node target/clients/typescript/walk.mjs …`, or `watch.mjs` |
//! | Python | `tests/clients/python` | `target/clients/python` | `target/clients/python/bin/python tests/clients/python/walk.py …`, or `watch.py` |
//! | the authorization server `oidc-provider` | `tests/clients/authorization-server` | `target/clients/authorization-server` | with the same Node.js, `target/clients/authorization-server/server.mjs` |
//! | the conformance suite and MCP Inspector | `tests/clients/tools` | `target/clients/tools` | with the Node.js that is installed beside them, in `node_modules/node-linux-*/bin/node` |
//!
//! Versions are locked in the sources. A stamp beside each installation has the digest of its inputs, so that it is
//! installed again only when these change.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};

use crate::cargo;
use crate::progress::Progress;
use crate::workspace::Workspace;

/// The minimum Node.js version of the TypeScript client.
const MIN_NODE_VERSION: u32 = 20;

/// The minimum Python version of the Python client, as its minor version after 3.
const MIN_PYTHON_MINOR: u32 = 10;

/// Installs all of them, unless they are installed.
pub(crate) fn install(workspace: &Workspace, progress: &Progress) -> Result<()> {
    install_typescript(workspace, progress)?;
    install_tools(workspace, progress)?;
    install_authorization_server(workspace, progress)?;
    install_python(workspace, progress)
}

fn install_typescript(workspace: &Workspace, progress: &Progress) -> Result<()> {
    let (sources, installed) = client_paths(workspace, "typescript");
    npm_install(&sources, &installed, progress, "the TypeScript client", "target/clients/typescript")?;
    // Node resolves packages relative to the file that imports them, so the programs are copied beside them.
    ["connect.mjs", "oauth.mjs", "walk.mjs", "watch.mjs"]
        .iter()
        .try_for_each(|program| copy_into(&sources.join(program), &installed))
}

fn install_tools(workspace: &Workspace, progress: &Progress) -> Result<()> {
    let (sources, installed) = client_paths(workspace, "tools");
    npm_install(&sources, &installed, progress, "the conformance suite and MCP Inspector", "target/clients/tools")
}

fn install_authorization_server(workspace: &Workspace, progress: &Progress) -> Result<()> {
    let (sources, installed) = client_paths(workspace, "authorization-server");
    let shown = "target/clients/authorization-server";
    npm_install(&sources, &installed, progress, "the authorization server", shown)?;
    copy_into(&sources.join("server.mjs"), &installed)
}

/// Installs the packages of a `package-lock.json`.
fn npm_install(sources: &Path, installed: &Path, progress: &Progress, what: &str, shown: &str) -> Result<()> {
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
    let mut npm = Command::new(if cfg!(windows) { "npm.cmd" } else { "npm" });
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]).current_dir(installed);
    cargo::capture(&mut npm).with_context(|| format!("npm cannot install {what} (it needs to reach its registry)"))?;
    stamp.set()?;
    step.done(&format!("installed {what} into {shown}"));
    Ok(())
}

fn install_python(workspace: &Workspace, progress: &Progress) -> Result<()> {
    let program = if cfg!(windows) { "python" } else { "python3" };
    let found = version(program, "python", MIN_PYTHON_MINOR)?;
    let (sources, installed) = client_paths(workspace, "python");
    let requirements = [sources.join("requirements.txt")];
    let stamp = Stamp::new(&installed, &requirements, &found)?;
    if stamp.is_current() {
        return Ok(());
    }
    let mut step = progress.step("installing the Python client (pip)");
    stamp.clear()?;
    step.at("making a virtual environment");
    cargo::capture(Command::new(program).args(["-m", "venv", "--clear"]).arg(&installed)).context(
        "Python cannot make a virtual environment; on Debian and Ubuntu that needs: apt-get install python3-venv",
    )?;
    step.at("pip install");
    let environment = installed.join(if cfg!(windows) { "Scripts" } else { "bin" });
    let mut pip = Command::new(environment.join("python"));
    pip.args(["-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--quiet", "--requirement"]);
    cargo::capture(pip.args(&requirements))
        .context("pip cannot install the Python client (it needs to reach its registry)")?;
    stamp.set()?;
    step.done("installed the Python client into target/clients/python");
    Ok(())
}

/// The sources of a client, and its installation.
fn client_paths(workspace: &Workspace, language: &str) -> (PathBuf, PathBuf) {
    let below = Path::new("clients").join(language);
    (workspace.root().join("tests").join(&below), workspace.target().join(below))
}

/// Returns the version of an interpreter, after checking it against the minimum.
fn version(program: &str, kind: &str, oldest: u32) -> Result<String> {
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

/// Parses `v20.1.0` and `Python 3.11.7`.
fn is_supported(said: &str, kind: &str, oldest: u32) -> bool {
    let numbers = said.trim_start_matches("Python ").trim_start_matches('v');
    let mut numbers = numbers.split('.').map(|number| number.parse::<u32>().unwrap_or_default());
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    if kind == "node" { major >= oldest } else { (major, minor) >= (3, oldest) }
}

/// The inputs of an installation.
#[derive(Debug)]
struct Stamp {
    file: PathBuf,
    expected: String,
}

impl Stamp {
    /// Returns the stamp of `folder` for these files and this interpreter.
    fn new(folder: &Path, files: &[PathBuf], interpreter: &str) -> Result<Self> {
        let mut hash = Sha256::new_with_prefix(interpreter);
        for file in files {
            hash.update(fs::read(file).with_context(|| format!("cannot read {}", file.display()))?);
        }
        let expected = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { file: folder.join(".made-from"), expected })
    }

    fn is_current(&self) -> bool {
        fs::read_to_string(&self.file).is_ok_and(|found| found == self.expected)
    }

    /// Removes the stamp, so that an interrupted installation does not count.
    fn clear(&self) -> Result<()> {
        match fs::remove_file(&self.file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", self.file.display()))
            }
            _ => Ok(()),
        }
    }

    fn set(&self) -> Result<()> {
        fs::write(&self.file, &self.expected).with_context(|| format!("cannot write {}", self.file.display()))
    }
}

fn copy_into(file: &Path, folder: &Path) -> Result<()> {
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
