//! An upstream that answers as a test says, over pipes in memory.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mcp_host_config::{Config, Environment, Plugin, UpstreamCommand};
use mcp_host_model::provider::{ProgramEndReason, Provider, async_trait};
use mcp_host_upstream::process::{Launched, Launcher, ProgramState};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::sync::mpsc;

/// What the server does with a message: the lines that it writes.
pub(crate) type Answer = dyn Fn(&Value) -> Reply + Send + Sync;

/// What follows a message.
pub(crate) enum Reply {
    /// The result of the request.
    Result(Value),
    /// An error.
    Error(i64, &'static str),
    /// Those lines, as they are.
    Lines(Vec<String>),
    /// Nothing.
    Silence,
    /// That text without the end of its line, and the program ends.
    Half(String),
    /// The program ends.
    End,
}

/// A server, started anew for each connection.
#[derive(Clone)]
pub(crate) struct Scripted {
    answer: Arc<Answer>,
    pub(crate) starts: Arc<AtomicUsize>,
    /// The methods that were called.
    pub(crate) calls: Arc<Mutex<Vec<(String, Value)>>>,
    push: Arc<Mutex<Option<mpsc::UnboundedSender<String>>>>,
}

impl std::fmt::Debug for Scripted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scripted").field("starts", &self.starts).finish_non_exhaustive()
    }
}

impl Scripted {
    pub(crate) fn new(answer: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> Self {
        Self { answer: Arc::new(answer), starts: Arc::default(), calls: Arc::default(), push: Arc::default() }
    }

    /// The answer to a message.
    pub(crate) fn answer(&self, message: &Value) -> Reply {
        (self.answer)(message)
    }

    /// Connects with further keys of the config.
    pub(crate) async fn connect(&self, keys: &str) -> Arc<dyn Provider> {
        self.try_connect(keys).await.unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) async fn try_connect(&self, keys: &str) -> Result<Arc<dyn Provider>, String> {
        let plugin = plugin(keys);
        let launcher = Arc::new(self.clone());
        let connected = mcp_host_upstream::connect_with(&plugin, launcher, Arc::new(()), None).await;
        connected.map_err(|error| error.to_string())
    }

    /// Sends a notification.
    pub(crate) fn notify(&self, method: &str, params: Value) {
        let line = json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string();
        if let Some(push) = &*self.push.lock() {
            push.send(line).unwrap_or_default();
        }
    }

    /// Ends the program.
    pub(crate) fn end(&self) {
        self.push.lock().take();
    }

    /// How often a method was called.
    pub(crate) fn count(&self, method: &str) -> usize {
        self.calls.lock().iter().filter(|(called, _)| called == method).count()
    }
}

/// An upstream with further keys.
pub(crate) fn plugin(keys: &str) -> Plugin {
    let mount = if keys.contains("mount") { "" } else { "mount = 'up+'\n" };
    let text = format!("[[upstream]]\nname = 'up'\ncommand = ['/bin/sh']\nsandbox = 'none'\n{mount}{keys}");
    let config = Config::parse_in(&text, Path::new("/etc/mcp-host.toml"), &Environment::empty());
    config.unwrap_or_else(|error| panic!("{error}")).plugins[0].clone()
}

/// Says that the program has ended, when it is dropped.
struct Ended(Arc<ProgramState>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.set_ended(ProgramEndReason::Exit, "it exited with code 0".to_owned());
    }
}

#[async_trait]
impl Launcher for Scripted {
    async fn launch(&self, _: &Plugin, _: &UpstreamCommand) -> io::Result<Launched> {
        self.starts.fetch_add(1, Ordering::SeqCst);
        let (stdin, input) = tokio::io::duplex(1 << 16);
        let (mut output, stdout) = tokio::io::duplex(1 << 16);
        let (push, mut pushed) = mpsc::unbounded_channel::<String>();
        *self.push.lock() = Some(push);
        let (server, state) = (self.clone(), Arc::<ProgramState>::default());
        let ended = state.clone();
        tokio::spawn(async move {
            let _ended = Ended(ended);
            let mut lines = BufReader::new(input).lines();
            loop {
                let line = tokio::select! {
                    line = lines.next_line() => match line {
                        Ok(Some(line)) => line,
                        _ => break,
                    },
                    pushed = pushed.recv() => match pushed {
                        Some(line) => {
                            if output.write_all(format!("{line}\n").as_bytes()).await.is_err() {
                                break;
                            }
                            continue;
                        }
                        None => break,
                    },
                };
                let message: Value = serde_json::from_str(&line).unwrap_or_default();
                let method = message["method"].as_str().unwrap_or_default().to_owned();
                server.calls.lock().push((method, message["params"].clone()));
                let id = &message["id"];
                let written = match (server.answer)(&message) {
                    Reply::Result(result) => vec![json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string()],
                    Reply::Error(code, text) => {
                        vec![
                            json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": text } })
                                .to_string(),
                        ]
                    }
                    Reply::Lines(lines) => lines,
                    Reply::Silence => Vec::new(),
                    Reply::Half(text) => {
                        output.write_all(text.as_bytes()).await.unwrap_or_default();
                        break;
                    }
                    Reply::End => break,
                };
                for line in written {
                    if output.write_all(format!("{line}\n").as_bytes()).await.is_err() {
                        return;
                    }
                }
            }
        });
        Ok(Launched {
            stdin: Box::new(stdin),
            stdout: Box::new(stdout),
            stderr: Box::new(tokio::io::empty()),
            running: Box::new(()),
            state,
        })
    }
}

/// The handshake of a server with sessions; other messages are answered by `answer`.
pub(crate) fn with_session(answer: impl Fn(&str, &Value) -> Reply + Send + Sync + 'static) -> Scripted {
    Scripted::new(move |message| match message["method"].as_str().unwrap_or_default() {
        "server/discover" => Reply::Error(-32601, "no such method"),
        "initialize" => Reply::Result(json!({
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": { "resources": { "subscribe": true, "listChanged": true }, "completions": {} },
            "serverInfo": { "name": "scripted", "version": "1" },
        })),
        "notifications/initialized" => Reply::Silence,
        method => answer(method, message),
    })
}

/// The result of `server/discover` of a server without sessions, with these capabilities of its resources.
pub(crate) fn discovered(resources: Value) -> Value {
    json!({ "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": { "resources": resources }, "ttlMs": 0,
        "cacheScope": "public" })
}

/// The first message in the stream of a request `subscriptions/listen`.
pub(crate) fn acknowledged(listen: &Value) -> Value {
    let meta = json!({ "io.modelcontextprotocol/subscriptionId": listen["id"] });
    json!({ "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
        "params": { "notifications": listen["params"]["notifications"], "_meta": meta } })
}

/// A server without sessions.
pub(crate) fn stateless(answer: impl Fn(&str, &Value) -> Reply + Send + Sync + 'static) -> Scripted {
    Scripted::new(move |message| match message["method"].as_str().unwrap_or_default() {
        "server/discover" => Reply::Result(discovered(json!({ "subscribe": true, "listChanged": true }))),
        method => answer(method, message),
    })
}

/// A page of resources with those URIs.
pub(crate) fn page(uris: &[&str], next: Option<&str>) -> Reply {
    let resources: Vec<_> = uris.iter().map(|uri| json!({ "uri": uri, "name": uri })).collect();
    let mut page = json!({ "resources": resources });
    if let Some(next) = next {
        page["nextCursor"] = next.into();
    }
    Reply::Result(page)
}

/// The text of a resource.
pub(crate) fn text(uri: &str, text: &str) -> Reply {
    Reply::Result(json!({ "contents": [{ "uri": uri, "mimeType": "text/plain", "text": text }] }))
}
