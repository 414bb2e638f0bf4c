//! `mcp-host dev`, with a project whose build is cheap.

use std::path::PathBuf;
use std::process::Stdio;

use rmcp::transport::StreamableHttpClientTransport;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::process::{Exit, Process};
use crate::terminal::Terminal;
use crate::{Client, Folder, Revision, TIMEOUT, component, fixture, host_command};

/// A project that is built by copying a component: its source `choice` names it, at first `hello`, or `sample`. While
/// it has the source `slow`, a build does not end.
#[derive(Debug)]
pub struct DevProject {
    folder: Folder,
}

/// The build command: it writes its process group to `.building`.
const BUILD: &str = r#"
echo $$ > .building
if [ -e slow ]; then sleep 600 & sleep 600; fi
printf 'building \033[31m%s\033[0m \033[2J\n' "$(cat choice)"
cp ".components/$(cat choice).wasm" provider.wasm
"#;

impl DevProject {
    /// A project that chooses `hello`, and is not built yet.
    pub fn new() -> Self {
        let plugin = "[[plugin]]\nname = 'x'\ncomponent = 'provider.wasm'\nmount = 'x:///'\n";
        let config = format!("{plugin}\n[dev]\nbuild = '''{BUILD}'''\n");
        let folder = Folder::with_files([("mcp-host.toml", config.as_str()), ("choice", "hello")]);
        for (name, file) in [("hello", component("hello")), ("sample", fixture("sample"))] {
            folder.write(format!(".components/{name}.wasm"), std::fs::read(file).expect("it is built"));
        }
        Self { folder }
    }

    /// Its directory.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// The process group of the last build.
    pub fn build_group(&self) -> Option<i32> {
        std::fs::read_to_string(self.folder.path().join(".building")).ok()?.trim().parse().ok()
    }

    fn command(&self) -> Command {
        let mut command = host_command();
        command.arg("dev").arg(self.folder.path()).args(["--color", "never"]);
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        command
    }
}

impl Default for DevProject {
    fn default() -> Self {
        Self::new()
    }
}

/// `mcp-host dev` without a terminal.
#[derive(Debug)]
pub struct DevServer {
    process: Process,
    url: String,
}

impl DevServer {
    /// Starts it, and waits until it listens.
    pub async fn start(project: &DevProject) -> Self {
        Self::start_command(project.command()).await
    }

    /// Starts it with these options, and waits until it listens.
    pub async fn start_with(project: &DevProject, options: &[&str]) -> Self {
        let mut command = project.command();
        command.args(options);
        Self::start_command(command).await
    }

    /// Starts it in a directory with those environment variables, and waits until it listens.
    pub async fn start_in(dir: PathBuf, environment: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        let mut command = host_command();
        command.arg("dev").current_dir(dir).args(["--color", "never"]).envs(environment);
        Self::start_command(command).await
    }

    async fn start_command(command: Command) -> Self {
        let (process, ..) = Process::start(command);
        let line = process.stderr().wait_for_line("listening on ").await;
        let url = line.trim_start_matches("listening on ").to_owned();
        Self { process, url }
    }

    /// Connects an official client.
    pub async fn client(&self) -> Client {
        Client::connect(StreamableHttpClientTransport::from_uri(self.url.as_str()), Revision::V_2025_11_25).await
    }

    /// Waits for the first line that contains that text.
    pub async fn line(&self, wanted: &str) -> String {
        self.process.stderr().wait_for_line(wanted).await
    }

    /// Waits until `number` lines contain that text.
    pub async fn lines(&self, wanted: &str, number: usize) {
        self.process.stderr().wait_for_lines(wanted, number).await;
    }

    /// Everything that it wrote.
    pub fn text(&self) -> String {
        self.process.stderr().snapshot()
    }

    /// Ends it by SIGTERM, and asserts a clean exit.
    pub async fn end(self) -> Exit {
        self.process.signal(Signal::TERM);
        self.process.wait_exit().await.assert_clean_exit()
    }
}

/// `mcp-host dev` on a terminal.
#[derive(Debug)]
pub struct DevOnTerminal {
    child: Child,
    terminal: Terminal,
    /// Behind what was waited for.
    position: usize,
}

impl DevOnTerminal {
    /// Starts it.
    pub fn start(project: &DevProject) -> Self {
        Self::start_with(project, &[])
    }

    /// Starts it with these options.
    pub fn start_with(project: &DevProject, options: &[&str]) -> Self {
        let terminal = Terminal::open();
        let mut command = project.command();
        command.args(options).env("TERM", "xterm");
        command.stdin(terminal.stream()).stdout(Stdio::null()).stderr(terminal.stream());
        let child = command.spawn().expect("`mcp-host` starts");
        Self { child, terminal, position: 0 }
    }

    /// Waits until that text is written behind what was waited for before.
    pub async fn wait_for(&mut self, wanted: &str) {
        self.position = self.terminal.wait_for(self.position, wanted).await;
    }

    /// Presses keys.
    pub fn press(&mut self, keys: &str) {
        self.terminal.press(keys);
    }

    /// Everything that it wrote.
    pub fn text(&self) -> String {
        self.terminal.text()
    }

    /// Stops it, sets the terminal's mode as a shell does, and lets it continue.
    pub fn stop_and_continue(&self) {
        self.signal(Signal::STOP);
        self.terminal.reset();
        self.signal(Signal::CONT);
    }

    /// Whether input is by line and with an echo.
    pub fn is_terminal_cooked(&self) -> bool {
        self.terminal.is_cooked()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        let id = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed())).expect("it still runs");
        kill_process(id, signal).expect("a process may signal its child");
    }

    /// Waits for its exit, and returns the exit code and whether the terminal is as it was.
    pub async fn wait_exit(&mut self) -> (Option<i32>, bool) {
        let status = timeout(TIMEOUT, self.child.wait()).await.expect("it ends").expect("it can be waited for");
        (status.code(), self.terminal.is_cooked())
    }
}
