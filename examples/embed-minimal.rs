//! A host inside an application: one plugin, listed and read. No server, no config file.
//!
//! ```sh
//! cargo xtask plugins && cargo run --example embed-minimal
//! ```
#![allow(clippy::print_stdout, reason = "an example prints its result")]

use std::error::Error;
use std::time::Duration;

use mcp_resource_host::access::Principal;
use mcp_resource_host::config::{Config, Plugin};
use mcp_resource_host::engine::{Compiler, run_compiler};
use mcp_resource_host::{Host, ListRequest};

/// The component of `examples/hello-rust`.
const COMPONENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/plugins/hello.wasm");

fn main() -> Result<(), Box<dyn Error>> {
    // Components are compiled in a child process under limits: this program, started again. In the child this call does not
    // return, so it comes first, before there are threads.
    run_compiler();
    tokio::runtime::Runtime::new()?.block_on(run())
}

async fn run() -> Result<(), Box<dyn Error>> {
    let mut hello = Plugin::new("hello".parse()?, COMPONENT, "hello:///".parse()?);
    hello.config.insert("names".to_owned(), "Ada, Grace".to_owned());
    hello.limits.memory = "32MiB".parse()?;

    // Without `state_dir` and `cache_dir`: the directories of the user (XDG).
    let directory = tempfile::tempdir()?;
    let host = Host::builder(Config::new().plugin(hello)?)
        .compiler(Compiler::CurrentExe)
        .state_dir(directory.path().join("state"))
        .cache_dir(directory.path().join("cache"))
        .start()
        .await?;

    // Every request is made for a principal. `LOCAL` is the one that started the host; without rules it may do everything.
    let page = host.list(&Principal::LOCAL, ListRequest::default()).await?;
    for entry in &page.items {
        let contents = host.read(&Principal::LOCAL, entry.uri.as_str()).await?;
        for content in contents {
            println!("{} reads {}", entry.uri, String::from_utf8_lossy(content.body.as_bytes()));
        }
    }

    // A plugin that fails is named in the page, and the others are listed.
    assert!(page.missing.is_empty(), "missing: {:?}", page.missing);
    let uris: Vec<_> = page.items.iter().map(|entry| entry.uri.as_str()).collect();
    assert_eq!(uris, ["hello:///Ada", "hello:///Grace"]);

    // Waits for the calls in flight.
    host.shutdown(Duration::from_secs(10)).await;
    Ok(())
}
