//! The provider `http-cache`, with a local web server as its origin.

mod caching;
mod contents;
mod failures;
mod limits;
mod listing;
mod subscriptions;

use mcp_host_tests::{ConfigFile, MockOrigin, Plugin, RawStdio, Revision, WrittenConfig, component};
use serde_json::{Value, json};

/// The provider at `web://`, with grants for these servers, plain HTTP, and a bucket for pages.
fn web_plugin(origins: &[&MockOrigin]) -> Plugin {
    let hosts: Vec<String> = origins.iter().map(|origin| host_and_port(origin)).collect();
    let plugin = Plugin::new("web", &component("http-cache"), "web://").bucket("pages").config("plain-http", hosts);
    // The provider's timeout for origins ends a call, however busy the machine is.
    let plugin = plugin.limit("deadline", "1m");
    origins.iter().fold(plugin, |plugin, origin| plugin.origin(&origin.origin()))
}

/// A config with only this plugin.
fn plugin_config(plugin: Plugin) -> WrittenConfig {
    ConfigFile::new().plugin(plugin).write()
}

/// Returns the server as a URI names it: `127.0.0.1:PORT`.
fn host_and_port(origin: &MockOrigin) -> String {
    format!("127.0.0.1:{}", origin.port())
}

/// Returns the URI of an origin's page.
fn page_uri(origin: &MockOrigin, path: &str) -> String {
    format!("web://{}{path}", host_and_port(origin))
}

/// A server, with access to details that the official client would hide.
struct PageReader(RawStdio);

impl PageReader {
    async fn start(config: &WrittenConfig) -> Self {
        Self(RawStdio::start(config, Revision::V_2025_11_25).await)
    }

    /// Reads the contents of a page.
    async fn contents(&mut self, uri: &str) -> Vec<Value> {
        let answer = self.0.request("resources/read", json!({ "uri": uri })).await;
        answer.result()["contents"].as_array().expect("contents are a list").clone()
    }

    /// Reads the text of a page with one content.
    async fn text(&mut self, uri: &str) -> String {
        let contents = self.contents(uri).await;
        assert_eq!(contents.len(), 1, "{contents:?}");
        contents[0]["text"].as_str().expect("it is text").to_owned()
    }

    /// Reads a page that must fail, and returns the error.
    async fn error(&mut self, uri: &str) -> Value {
        self.0.request("resources/read", json!({ "uri": uri })).await.error().clone()
    }

    /// Reads a page, and returns the error if it fails.
    async fn try_error(&mut self, uri: &str) -> Option<Value> {
        let answer = self.0.request("resources/read", json!({ "uri": uri })).await;
        answer.message.get("error").cloned()
    }

    /// Returns the URIs of the listing.
    async fn listed(&mut self) -> Vec<String> {
        let answer = self.0.request("resources/list", json!({})).await;
        let listed = answer.result()["resources"].as_array().expect("resources are a list");
        listed.iter().map(|resource| resource["uri"].as_str().expect("a URI is text").to_owned()).collect()
    }

    async fn end(self) {
        self.0.end().await;
    }
}
