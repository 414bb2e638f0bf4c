//! `mcp-host new`: creates a project in each language outside of the repository, and follows the instructions that the
//! command prints.
//!
//! One shell runs the printed commands literally, with the toolchains of this task in PATH. The commands build the
//! component, read a resource of it through the host, run the unit test, and test that the component keeps the
//! contract. The component is copied to `target/plugins/fixtures/new-LANG.wasm`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, ensure};

use super::{c, component, files, folder, go, host_program};
use crate::cargo;
use crate::install::Stamp;
use crate::progress::Progress;
use crate::toolchain::{self, TARGET, Toolchain};
use crate::workspace::Workspace;

/// The languages, each with the folder of its SDK.
const LANGUAGES: [(&str, &str); 6] =
    [("rust", "rust"), ("python", "python"), ("typescript", "js"), ("javascript", "js"), ("c", "c"), ("go", "go")];

/// The directory of the project. The name needs quotes in a shell, and must be converted for the name of a package.
const DIRECTORY: &str = "My Notes";

pub(super) fn build(workspace: &Workspace, progress: &Progress) -> Result<()> {
    let mut host = None;
    LANGUAGES.iter().try_for_each(|(language, sdk)| try_project(workspace, progress, language, sdk, &mut host))
}

/// Tries one language. The first call that needs the host builds it.
fn try_project(
    workspace: &Workspace,
    progress: &Progress,
    language: &str,
    sdk: &str,
    host: &mut Option<PathBuf>,
) -> Result<()> {
    let output = component(workspace, &format!("new-{language}"));
    let below_root = |path: &str| workspace.root().join(path);
    let sdk = format!("sdk-guest/{sdk}");
    let mut inputs = files(&["sdk-guest/templates", &sdk, "wit", "host/devkit/src/scaffold"].map(below_root))?;
    inputs.extend(["host/devkit/src/scaffold.rs", "host/cli/src/new.rs", "host/devkit/build.rs"].map(below_root));
    let stamp = Stamp::new(&folder(workspace, &format!("new-{language}")), &inputs, "")?;
    if stamp.is_current() && output.is_file() {
        return Ok(());
    }
    let host = match host {
        Some(host) => &*host,
        None => host.insert(host_program(workspace, progress)?),
    };
    let mut step = progress.step(format!("following `mcp-host new --lang {language}`"));
    stamp.clear()?;
    let parent = TemporaryFolder::new(language)?;
    let run = |command: &mut Command| {
        let environment = environment(workspace, progress, language, host)?;
        cargo::capture(command.current_dir(&parent.0).envs(environment))
    };
    let printed = run(Command::new(host).args(["new", DIRECTORY, "--lang", language]))?;
    let project = parent.0.join(DIRECTORY);
    match toolchain::ensure(workspace, progress)? {
        Toolchain::Distribution(overlay) if language == "rust" => {
            progress.print("not followed: the instructions for Rust, which are for rustup's toolchain");
            let mut cargo = workspace.cargo(&project);
            cargo.args(["build", "--release", "--target", TARGET]);
            Toolchain::Distribution(overlay).configure(&mut cargo)?;
            cargo::capture(&mut cargo)?;
        }
        _ => {
            step.at("its printed commands");
            let script: Vec<_> = printed.lines().filter(|line| line.starts_with("  ")).collect();
            let said = run(Command::new("sh").args(["-e", "-c", &script.join("\n")]))?;
            for expected in ["my-notes:///square.png", "# Welcome", " 0 failed"] {
                ensure!(said.contains(expected), "the commands for {language} print no `{expected}`:\n{said}");
            }
        }
    }
    let config = fs::read_to_string(project.join("mcp-host.toml")).context("the project has no config")?;
    let built = config.lines().find_map(|line| line.strip_prefix("component = \"")?.strip_suffix('"'));
    let built = project.join(built.context("its config names no component")?);
    fs::copy(&built, &output).with_context(|| format!("cannot copy {}", built.display()))?;
    stamp.set()?;
    step.done(&format!("followed `mcp-host new --lang {language}`: {}", workspace.display(&output)));
    Ok(())
}

/// Returns the environment in which `mcp-host` and the language's toolchain are in PATH.
fn environment(
    workspace: &Workspace,
    progress: &Progress,
    language: &str,
    host: &Path,
) -> Result<Vec<(&'static str, PathBuf)>> {
    let mut path: Vec<_> = host.parent().map(Path::to_owned).into_iter().collect();
    // The tests share this cache, so they do not compile these components again.
    let mut environment = vec![
        ("XDG_CACHE_HOME", workspace.target().join("test-cache")),
        ("XDG_STATE_HOME", workspace.target().join("test-state")),
        ("RUSTUP_AUTO_INSTALL", "0".into()),
    ];
    match language {
        "c" => environment.extend([("CLANG", c::CLANG.into()), ("WASI_SYSROOT", c::sysroot(workspace, progress)?)]),
        "go" => {
            let go = go::toolchain(workspace, &workspace.root().join("sdk-guest/go"), progress)?;
            path.extend(go.parent().map(Path::to_owned));
            environment.extend(go::environment(workspace));
        }
        _ => {}
    }
    path.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
    let path =
        env::join_paths(path).context("a folder of a toolchain has a `:` in its name, which PATH cannot have")?;
    environment.push(("PATH", path.into()));
    Ok(environment)
}

/// A folder outside of the repository, removed when dropped.
struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    fn new(name: &str) -> Result<Self> {
        let folder = env::temp_dir().join(format!("mcp-host-new-{name}-{}", std::process::id()));
        fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Self(folder))
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // The system cleans up a folder that cannot be removed.
        let _ = fs::remove_dir_all(&self.0);
    }
}
