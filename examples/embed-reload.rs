//! Reload from code: a config replaces another while a host serves, and one that does not load changes nothing.
//!
//! ```sh
//! cargo xtask plugins && cargo run --example embed-reload
//! ```
#![allow(clippy::print_stdout, reason = "an example prints its result")]

use std::error::Error;

use mcp_resource_host::access::Principal;
use mcp_resource_host::config::{Config, Plugin};
use mcp_resource_host::engine::{Compiler, run_compiler};
use mcp_resource_host::{Host, ListRequest, ReloadError, Update};

/// The component of `examples/hello-rust`.
const COMPONENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/plugins/hello.wasm");

fn main() -> Result<(), Box<dyn Error>> {
    run_compiler();
    tokio::runtime::Runtime::new()?.block_on(run())
}

/// A config from code. [`Config::load`] reads one from a file.
fn config(component: &str, names: &str) -> Result<Config, Box<dyn Error>> {
    let mut hello = Plugin::new("hello".parse()?, component, "hello:///".parse()?);
    hello.config.insert("names".to_owned(), names.to_owned());
    Ok(Config::new().plugin(hello)?)
}

async fn run() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let host = Host::builder(config(COMPONENT, "Ada")?)
        .compiler(Compiler::CurrentExe)
        .state_dir(directory.path().join("state"))
        .cache_dir(directory.path().join("cache"))
        .start()
        .await?;
    assert_eq!(uris(&host).await?, ["hello:///Ada"]);

    // A subscriber is notified when the listing that its principal sees changes, by a reload too.
    let subscriber = host.subscriber(&Principal::LOCAL);
    subscriber.watch_listing();
    subscriber.listing_ready().await;

    // The new plugins load beside the old ones and replace them together. Requests under way finish on the old ones.
    let report = host.reload(config(COMPONENT, "Ada, Grace")?).await?;
    println!("generation {}: changed {:?} in {:?}", report.generation, report.changed, report.elapsed);
    assert_eq!(report.changed, ["hello"]);
    assert_eq!(subscriber.next().await, Update::Listing);
    assert_eq!(uris(&host).await?, ["hello:///Ada", "hello:///Grace"]);

    // All or nothing: a plugin that does not load leaves the plugins as they are, and the error names it.
    match host.reload(config("no-such.wasm", "Ada")?).await {
        Err(ReloadError::Plugins(errors)) => {
            for (plugin, error) in &errors {
                println!("still serving the old `{plugin}`: {error}");
            }
            assert_eq!(errors.len(), 1);
        }
        other => return Err(format!("expected an error of the plugin, found {other:?}").into()),
    }
    assert_eq!(host.generation(), report.generation);
    assert_eq!(uris(&host).await?, ["hello:///Ada", "hello:///Grace"]);
    Ok(())
}

async fn uris(host: &Host) -> Result<Vec<String>, Box<dyn Error>> {
    let page = host.list(&Principal::LOCAL, ListRequest::default()).await?;
    Ok(page.items.into_iter().map(|entry| entry.uri.to_string()).collect())
}
