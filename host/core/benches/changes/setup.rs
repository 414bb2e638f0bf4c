//! A host with plugins of the guest `faulty`, all on the same folder.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use mcp_resource_host::config::Config;
use mcp_resource_host::{Host, PluginState};
use tempfile::TempDir;

/// A host, the folder that it serves, and its directories.
pub(crate) struct Setup {
    pub(crate) host: Arc<Host>,
    pub(crate) folder: TempDir,
    state: TempDir,
    plugins: usize,
}

impl Setup {
    /// Starts a host with `plugins` plugins `p0`, `p1` and so on, and `files` files `f0`, `f1` and so on.
    pub(crate) async fn start(plugins: usize, files: usize) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join(".faults")).expect("a folder");
        for file in 0..files {
            std::fs::write(folder.path().join(format!("f{file}")), "0").expect("a file");
        }
        let state = tempfile::tempdir().expect("a directory for the state");
        let host = Host::start(config(folder.path(), state.path(), plugins, 0)).await.expect("the host starts");
        assert!(host.plugins().iter().all(|plugin| matches!(plugin.state, PluginState::Ready)), "{:?}", host.plugins());
        Self { host: Arc::new(host), folder, state, plugins }
    }

    /// Writes a file.
    pub(crate) fn edit(&self, file: usize, text: &str) {
        std::fs::write(self.folder.path().join(format!("f{file}")), text).expect("a file");
    }

    /// Reloads with a changed first plugin, and returns the duration.
    pub(crate) async fn reload(&self, time: usize) -> Duration {
        let config = config(self.folder.path(), self.state.path(), self.plugins, time);
        self.host.reload(config).await.expect("it reloads").elapsed
    }
}

fn config(folder: &Path, state: &Path, plugins: usize, time: usize) -> Config {
    let component = root().join("target/plugins/fixtures/faulty.wasm");
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("components");
    let mut text = format!("[server]\ncache = {cache:?}\nstate = {state:?}\n");
    for plugin in 0..plugins {
        let time = if plugin == 0 { time } else { 0 };
        write!(
            text,
            "[[plugin]]\nname = \"p{plugin}\"\ncomponent = {component:?}\nmount = \"faulty://p{plugin}/\"\n\
             config = {{ time = {time} }}\ngrants.dirs = [{{ host = {folder:?}, guest = \"/data\" }}]\n\
             limits = {{ deadline = \"500ms\" }}\n"
        )
        .expect("text");
    }
    Config::parse(&text, Path::new("bench.toml")).expect("a config")
}

/// Builds the guests for tests and benchmarks. It takes a second when everything is up to date.
pub(crate) fn build_fixtures() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo).args(["xtask", "plugins", "--fixtures"]).current_dir(root()).status();
    assert!(built.is_ok_and(|status| status.success()), "`cargo xtask plugins --fixtures` failed");
}

/// Returns the resident memory of this process, in bytes.
pub(crate) fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux says");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a line about it");
    line.split_whitespace().nth(1).and_then(|text| text.parse::<usize>().ok()).expect("a number") << 10
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the host lies in a folder of the repository")
}
