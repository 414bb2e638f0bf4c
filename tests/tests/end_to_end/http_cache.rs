//! The provider `http-cache`, with a local web server for the web.

mod bounds;
mod caching;
mod contents;
mod listing;
mod trouble;
mod watching;

use mcp_host_tests::{ConfigFile, Origin, Plugin, Revision, StdioWire, WrittenConfig, component};
use serde_json::{Value, json};

/// The provider at `web://`, which may speak to those servers, without TLS, and keep pages.
fn web(origins: &[&Origin]) -> Plugin {
    let hosts: Vec<String> = origins.iter().map(|origin| host(origin)).collect();
    let plugin = Plugin::new("web", &component("http-cache"), "web://").bucket("pages").config("plain-http", hosts);
    origins.iter().fold(plugin, |plugin, origin| plugin.origin(&origin.origin()))
}

/// A config with that plugin alone.
fn serving(plugin: Plugin) -> WrittenConfig {
    ConfigFile::new().plugin(plugin).write()
}

/// The server as a URI names it: `127.0.0.1:PORT`.
fn host(origin: &Origin) -> String {
    format!("127.0.0.1:{}", origin.port())
}

/// The URI of one of its pages.
fn uri(origin: &Origin, path: &str) -> String {
    format!("web://{}{path}", host(origin))
}

/// A server that answers what the official client would hide.
struct Reader(StdioWire);

impl Reader {
    async fn start(config: &WrittenConfig) -> Self {
        Self(StdioWire::start(config, Revision::V_2025_11_25).await)
    }

    /// The contents of a page.
    async fn contents(&mut self, uri: &str) -> Vec<Value> {
        let answer = self.0.request("resources/read", json!({ "uri": uri })).await;
        answer.result()["contents"].as_array().expect("contents are a list").clone()
    }

    /// The text of a page that has one.
    async fn text(&mut self, uri: &str) -> String {
        let contents = self.contents(uri).await;
        assert_eq!(contents.len(), 1, "{contents:?}");
        contents[0]["text"].as_str().expect("it is text").to_owned()
    }

    /// The error for a page that cannot be read.
    async fn error(&mut self, uri: &str) -> Value {
        self.0.request("resources/read", json!({ "uri": uri })).await.error().clone()
    }

    async fn end(mut self) {
        self.0.close();
        self.0.ended().await;
    }
}
