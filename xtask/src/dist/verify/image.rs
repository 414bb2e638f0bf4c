//! Runs the image by runc, as its user and with a read-only root file system.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::cargo;
use crate::dist::image::{CONFIG, TAG, USER};
use crate::dist::tools::Tools;
use crate::dist::{Version, recreate};
use crate::progress::Progress;

/// The config that is mounted at [`CONFIG`]. The system assigns the port.
const SERVED: &str = r#"
[server]
http = "127.0.0.1:0"

[admin]
listen = "unix:/run/mcp-host/admin.sock"

[[plugin]]
name = "docs"
component = "files"
mount = "files:///"
required = true
grants.dirs = [{ host = "/srv/docs", guest = "/files" }]

[[rule]]
principals = ["anonymous"]
allow = ["files:///**"]
"#;

/// The name of the container.
const CONTAINER: &str = "mcp-host-verify";

/// The maximum time until the server is ready.
const READY: Duration = Duration::from_secs(60);

/// Runs the image, and requests its health check.
pub(in crate::dist) fn image(
    work: &Path,
    out: &Path,
    version: &Version,
    tools: &Tools,
    progress: &Progress,
) -> Result<()> {
    let step = progress.step("verifying the image with runc");
    let work = work.join("image");
    recreate(&work)?;
    let layout = work.join("layout");
    fs::create_dir_all(&layout)?;
    let archive = out.join(version.image());
    cargo::capture(Command::new("tar").arg("--extract").arg("--file").arg(&archive).arg("--directory").arg(&layout))?;
    let bundle = work.join("bundle");
    let image = format!("{}:{TAG}", layout.display());
    cargo::capture(tools.umoci().args(["unpack", "--image", &image]).arg(&bundle))?;
    let (config, documents) = (work.join("mcp-host.toml"), work.join("docs"));
    fs::write(&config, SERVED)?;
    fs::create_dir_all(&documents)?;
    fs::write(documents.join("a.md"), "hello from the file")?;
    let specification = bundle.join("config.json");
    let mut runtime: Value = serde_json::from_slice(&fs::read(&specification)?)?;
    let user = runtime.pointer("/process/user/uid").and_then(Value::as_u64);
    ensure!(user == Some(USER.into()), "the image's user is {user:?}");
    configure(&mut runtime, &config, &documents);
    fs::write(&specification, serde_json::to_vec(&runtime)?)?;

    let mut container = Container::run(tools, &work, &bundle)?;
    let url = container.url()?;
    container.await_probe()?;
    let answer = get(&url)?;
    ensure!(answer.starts_with("HTTP/1.1 200 "), "the server in the container answers {answer:?}");
    container.stop()?;
    step.done("verified the image: run by runc as its user with a read-only root, it is ready and answers");
    Ok(())
}

/// Removes all capabilities, makes the root read-only with writable directories for state, cache and administration
/// socket, and uses the network of this machine.
fn configure(runtime: &mut Value, config: &Path, documents: &Path) {
    let list = |pointer| runtime.pointer(pointer).and_then(Value::as_array).cloned().unwrap_or_default();
    let (mut namespaces, mut mounts) = (list("/linux/namespaces"), list("/mounts"));
    namespaces.retain(|namespace| namespace.get("type") != Some(&json!("network")));
    for (source, destination) in [(config, CONFIG), (documents, "/srv/docs")] {
        mounts.push(json!({ "type": "bind", "source": source, "destination": destination, "options": ["bind", "ro"] }));
    }
    for destination in ["/var/lib/mcp-host", "/var/cache/mcp-host", "/run/mcp-host"] {
        let options = [format!("uid={USER}"), format!("gid={USER}"), "mode=0700".to_owned()];
        mounts.push(json!({ "type": "tmpfs", "source": "tmpfs", "destination": destination, "options": options }));
    }
    patch(
        runtime,
        json!({
            "root": { "readonly": true },
            "process": { "terminal": false, "capabilities": null, "noNewPrivileges": true },
            "linux": { "namespaces": namespaces },
            "mounts": mounts,
        }),
    );
}

/// Applies a merge patch (RFC 7396).
fn patch(document: &mut Value, change: Value) {
    match (document, change) {
        (Value::Object(document), Value::Object(changes)) => {
            for (key, change) in changes {
                if change.is_null() {
                    document.remove(&key);
                } else {
                    patch(document.entry(key).or_insert(Value::Null), change);
                }
            }
        }
        (document, change) => *document = change,
    }
}

/// A running container. It is deleted on drop.
struct Container<'a> {
    tools: &'a Tools,
    state: PathBuf,
    process: Child,
}

impl<'a> Container<'a> {
    fn run(tools: &'a Tools, work: &Path, bundle: &Path) -> Result<Self> {
        let state = work.join("runc");
        let mut run = tools.runc();
        run.arg("--root").arg(&state).args(["run", "--bundle"]).arg(bundle).arg(CONTAINER);
        let process = run.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().context("cannot run runc")?;
        Ok(Self { tools, state, process })
    }

    fn runc(&self, arguments: &[&str]) -> Command {
        let mut runc = self.tools.runc();
        runc.arg("--root").arg(&self.state).args(arguments);
        runc
    }

    /// Returns the URL of the server from its output on standard error.
    fn url(&mut self) -> Result<String> {
        let stderr = self.process.stderr.take().context("the output of runc is not piped")?;
        let mut lines = BufReader::new(stderr).lines();
        let mut said = String::new();
        while let Some(Ok(line)) = lines.next() {
            if let Some(url) = line.strip_prefix("listening on ") {
                let url = url.to_owned();
                // The server would block on a full pipe.
                thread::spawn(move || lines.for_each(drop));
                return Ok(url);
            }
            said.push_str(&line);
            said.push('\n');
        }
        anyhow::bail!("the container does not listen:\n{said}")
    }

    /// Waits until the health check of the program in the container succeeds.
    fn await_probe(&self) -> Result<()> {
        let started = Instant::now();
        loop {
            match cargo::capture(&mut self.runc(&["exec", CONTAINER, "/usr/bin/mcp-host", "status", "--probe"])) {
                Ok(_) => return Ok(()),
                Err(error) if started.elapsed() > READY => return Err(error),
                Err(_) => thread::sleep(Duration::from_millis(200)),
            }
        }
    }

    /// Shuts the server down by a signal, as an orchestrator does.
    fn stop(&mut self) -> Result<()> {
        cargo::capture(&mut self.runc(&["kill", CONTAINER, "TERM"]))?;
        let status = self.process.wait()?;
        ensure!(status.success(), "the server ended with {status}");
        Ok(())
    }
}

impl Drop for Container<'_> {
    fn drop(&mut self) {
        // An error means that the container no longer exists, which is the intended state.
        let _ = cargo::capture(&mut self.runc(&["delete", "--force", CONTAINER]));
        let _ = self.process.wait();
    }
}

/// Requests `/healthz` of the server at the given URL, and returns the head of the response.
fn get(url: &str) -> Result<String> {
    let address = url.strip_prefix("http://").and_then(|rest| rest.split('/').next()).context("the URL is not HTTP")?;
    let mut stream = TcpStream::connect(address).with_context(|| format!("cannot connect to {address}"))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(stream, "GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
