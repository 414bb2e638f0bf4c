//! `cargo xtask demo`: serves this repository with the example config, and reads it with a client.
//!
//! The task builds the providers and the host, serves `examples/demo.toml` on loopback, and runs a client that lists
//! and reads resources over HTTP. A release of the host in `target/release` is used if it is up to date. Then the task
//! serves until it is interrupted; with `--once` it exits. The host is always shut down gracefully: it receives a
//! signal first, and is killed only if it does not exit.

mod host;

use std::env;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;

use self::host::{Exit, Host};
use crate::cargo;
use crate::plugins::Plugins;
use crate::progress::Progress;
use crate::workspace::Workspace;

/// The path of the config in the repository.
const CONFIG: &str = "examples/demo.toml";

/// The providers that the config declares.
const PLUGINS: [&str; 4] = ["files", "git", "notes", "results"];

/// The address in the config.
const ADDRESS: &str = "127.0.0.1:8321";

/// An ephemeral port on loopback.
const ANY_PORT: &str = "127.0.0.1:0";

/// The URIs that the client reads in addition to one resource of each plugin: a file of the checkout, and the newest
/// result.
const SHOWN: [&str; 2] = ["files:///Cargo.toml?lines=1-4", "results:///latest"];

/// The URI of the latest commits, which the client reads if there is a repository.
const HISTORY: &str = "git://mcp-host/log/HEAD?limit=3";

/// The sources of the host.
const SOURCES: [&str; 5] = ["Cargo.lock", "Cargo.toml", "host", "sdk-guest", "wit"];

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Exit after the client has read, instead of continuing to serve
    #[arg(long)]
    once: bool,

    /// The address to listen on [default: 127.0.0.1:8321, or a free port if that is in use]
    #[arg(long, value_name = "ADDR")]
    http: Option<SocketAddr>,
}

impl Demo {
    /// Runs the demo.
    pub(crate) fn run(&self, workspace: &Workspace, progress: &Progress) -> Result<()> {
        Plugins { names: PLUGINS.map(str::to_owned).into(), ..Plugins::default() }.run(workspace, progress)?;
        let programs = build(workspace, progress)?;
        let lack = history_missing(workspace);
        if let Some(lack) = &lack {
            progress.print(lack);
        }

        compile(&programs, workspace, progress);

        let mut serve = Command::new(&programs.host);
        serve.args(["serve", "--config", CONFIG, "--http", &self.address(progress)?]);
        if !self.once {
            serve.arg("--open");
        }
        serve.current_dir(workspace.root());
        progress.print(&format!("\n$ {} {}", workspace.display(&programs.host), arguments(&serve)));
        let mut host = Host::start(serve)?;
        let url = host.url()?;

        let mut client = Command::new(&programs.client);
        client.arg(&url).args(SHOWN).current_dir(workspace.root());
        if lack.is_none() {
            client.arg(HISTORY);
        }
        progress.print(&format!("\n$ {} {}", workspace.display(&programs.client), arguments(&client)));
        let walked = cargo::pass_through(&mut client)?;
        ensure!(walked, "the client failed; see its message above, and those of the host before it");

        if self.once {
            return host.end();
        }
        progress.print(&format!("\nserving at {url} for any MCP client, until interrupted (Ctrl-C)"));
        match host.wait()? {
            Exit::Requested => Ok(()),
            Exit::Unexpected(status) => {
                anyhow::bail!("the host exited unexpectedly ({status}); see its last messages above")
            }
        }
    }

    fn address(&self, progress: &Progress) -> Result<String> {
        if let Some(address) = self.http {
            return Ok(address.to_string());
        }
        match TcpListener::bind(ADDRESS) {
            Ok(_) => Ok(ADDRESS.to_owned()),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                progress.print(&format!("{ADDRESS} is taken: listening on another port"));
                Ok(ANY_PORT.to_owned())
            }
            Err(error) => Err(error).with_context(|| format!("cannot listen on {ADDRESS}")),
        }
    }
}

/// The programs of the demo.
struct Programs {
    host: PathBuf,
    client: PathBuf,
}

/// Builds the client and, unless there is a release of it, the host, without the tests.
fn build(workspace: &Workspace, progress: &Progress) -> Result<Programs> {
    let release = release(workspace);
    let mut command = workspace.cargo(workspace.root());
    command.args(["build", "--bins", "--package", "smoke-client"]);
    let mut step = if release.is_some() {
        command.arg("--no-default-features");
        progress.step("building the client")
    } else {
        command.args(["--package", "mcp-resource-host-cli"]);
        progress.step("building the host (the first time about 8 minutes on two processors)")
    };
    let artifacts = cargo::build(command, workspace, progress, &mut step)?;
    let client = cargo::program(&artifacts, "smoke-client")?;
    let programs = match release {
        Some(host) => {
            step.done(&format!("built {}; {} is up to date", workspace.display(&client), workspace.display(&host)));
            Programs { host, client }
        }
        None => {
            let host = cargo::program(&artifacts, "mcp-host")?;
            step.done(&format!("built {}", workspace.display(&host)));
            Programs { host, client }
        }
    };
    Ok(programs)
}

/// Returns the release of the host, if there is one and no tracked source of it is newer.
fn release(workspace: &Workspace) -> Option<PathBuf> {
    let modified = |file: &Path| file.metadata().and_then(|metadata| metadata.modified()).ok();
    let program = workspace.target().join("release").join(format!("mcp-host{}", env::consts::EXE_SUFFIX));
    let built = modified(&program)?;
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--"]).args(SOURCES).current_dir(workspace.root());
    let sources = cargo::capture(&mut git).ok()?;
    let mut sources = sources.split('\0').filter(|source| !source.is_empty());
    let is_older = |source: &str| modified(&workspace.root().join(source)).is_some_and(|at| at <= built);
    sources.all(is_older).then_some(program)
}

/// Runs `mcp-host check`, which compiles the components into the host's cache. During the compilation, a client would
/// get a retryable error.
fn compile(programs: &Programs, workspace: &Workspace, progress: &Progress) {
    let step = progress.step("compiling the components");
    let mut check = Command::new(&programs.host);
    check.args(["check", "--config", CONFIG]).current_dir(workspace.root());
    // The log of the server that starts next has any error of a plugin.
    let _ = cargo::capture(&mut check);
    step.done("compiled the components");
}

/// Returns the reason why this copy of the repository has no history to serve; `None` if it has a history.
fn history_missing(workspace: &Workspace) -> Option<String> {
    let git = workspace.root().join(".git");
    let why = if git.is_dir() {
        return None;
    } else if git.is_file() {
        format!("{} is a link to a repository elsewhere, outside of what the demo grants", git.display())
    } else {
        format!("there is no {}: this copy was not made by `git clone`", git.display())
    };
    Some(format!("no git history will be served: {why}; run the demo in a clone to see it"))
}

fn arguments(command: &Command) -> String {
    command.get_args().map(|argument| argument.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::{Duration, SystemTime};

    use super::*;

    const CONFIG_TEXT: &str = include_str!("../../examples/demo.toml");

    #[test]
    fn the_config_listens_where_the_demo_does() {
        assert!(CONFIG_TEXT.contains(&format!("http = \"{ADDRESS}\"")), "{CONFIG_TEXT}");
    }

    #[test]
    fn a_release_is_used_unless_a_source_is_newer() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::at(folder.path());
        let write = |file: &str, age: u64| {
            let file = folder.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, "").unwrap();
            let time = SystemTime::now().checked_sub(Duration::from_secs(age)).unwrap();
            fs::File::options().append(true).open(file).unwrap().set_modified(time).unwrap();
        };
        for arguments in [["init", "--quiet"].as_slice(), &["add", "host"]] {
            write("host/lib.rs", 100);
            cargo::capture(Command::new("git").args(arguments).current_dir(folder.path())).unwrap();
        }
        assert_eq!(release(&workspace), None);
        let program = format!("target/release/mcp-host{}", env::consts::EXE_SUFFIX);
        write(&program, 50);
        assert_eq!(release(&workspace), Some(folder.path().join(&program)));
        write("host/lib.rs", 10);
        assert_eq!(release(&workspace), None);
    }

    #[test]
    fn the_plugins_of_the_config_are_built() {
        let mut declared: Vec<_> = CONFIG_TEXT
            .lines()
            .filter_map(|line| line.strip_prefix("component = \"../target/plugins/")?.strip_suffix(".wasm\""))
            .collect();
        declared.sort_unstable();
        assert_eq!(declared, PLUGINS);
    }
}
