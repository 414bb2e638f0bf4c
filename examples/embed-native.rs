//! A native provider beside a WebAssembly one: the tasks of the application, listed with the resources of a component.
//!
//! ```sh
//! cargo xtask plugins && cargo run --example embed-native
//! ```
#![allow(clippy::print_stdout, reason = "an example prints its result")]

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mcp_resource_host::access::Principal;
use mcp_resource_host::config::{Config, Plugin};
use mcp_resource_host::engine::{Compiler, run_compiler};
use mcp_resource_host::provider::{
    ChangeSet, Contents, Entry, Failure, Page, Provider, ProviderInfo, Result, async_trait,
};
use mcp_resource_host::{Host, ListRequest, Update};

/// The component of `examples/hello-rust`.
const COMPONENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/plugins/hello.wasm");

/// The state of the application: what is to be done. Clones share it.
#[derive(Clone, Default)]
struct Tasks(Arc<Mutex<Vec<String>>>);

impl Tasks {
    fn add(&self, task: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(task.to_owned());
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The same functions as a provider in WebAssembly has. It serves paths and need not know where it is mounted; access,
/// limits, merging and subscriptions are the host's.
#[async_trait]
impl Provider for Tasks {
    fn describe(&self) -> ProviderInfo {
        ProviderInfo::new("tasks", env!("CARGO_PKG_VERSION")).watches(true)
    }

    async fn list(&self, _parent: Option<&str>, _cursor: Option<&str>, _limit: usize) -> Result<Page> {
        Ok(Page::last([self.stat("open").await?]))
    }

    async fn stat(&self, path: &str) -> Result<Entry> {
        match path {
            "open" => Ok(Entry::new("open", "open").title("Open tasks").mime_type("text/plain").subscribable()),
            _ => Err(Failure::NotFound),
        }
    }

    async fn read(&self, path: &str) -> Result<Vec<Contents>> {
        Ok(vec![Contents::text(self.stat(path).await?, self.all().join("\n"))])
    }

    /// The token is the number of tasks: a caller with another token has missed a change.
    async fn changes(&self, watched: &[String], since: Option<&str>) -> Result<ChangeSet> {
        let now = self.all().len().to_string();
        Ok(match since {
            Some(since) if since != now => ChangeSet::all(now, watched),
            _ => ChangeSet::none(now),
        })
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    run_compiler();
    tokio::runtime::Runtime::new()?.block_on(run())
}

async fn run() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let hello = Plugin::new("hello".parse()?, COMPONENT, "hello:///".parse()?);
    let tasks = Tasks::default();
    tasks.add("Read the documentation");
    let host = Host::builder(Config::new().plugin(hello)?)
        .provider("tasks".parse()?, "tasks:///".parse()?, tasks.clone())
        .compiler(Compiler::CurrentExe)
        .state_dir(directory.path().join("state"))
        .cache_dir(directory.path().join("cache"))
        .start()
        .await?;

    let page = host.list(&Principal::LOCAL, ListRequest::default()).await?;
    let uris: Vec<_> = page.items.iter().map(|entry| entry.uri.as_str()).collect();
    println!("one listing of both: {uris:?}");
    assert_eq!(uris, ["hello:///world", "tasks:///open"]);

    // A change of the application's state reaches subscribers.
    let subscriber = host.subscriber(&Principal::LOCAL);
    host.subscribe(&subscriber, "tasks:///open").await?;
    tasks.add("Mount a provider");
    let update = tokio::time::timeout(Duration::from_secs(30), subscriber.next()).await?;
    assert_eq!(update, Update::Resource("tasks:///open".to_owned()));

    let contents = host.read(&Principal::LOCAL, "tasks:///open").await?;
    let text: Vec<_> = contents.iter().map(|content| String::from_utf8_lossy(content.body.as_bytes())).collect();
    println!("after the update:\n{}", text.concat());
    assert_eq!(text, ["Read the documentation\nMount a provider"]);
    Ok(())
}
