//! A host that serves one plugin over stdio, and its client.

use std::time::{Duration, Instant};

use mcp_host_tests::{ConfigFile, Plugin, WrittenConfig, host_command};
use rmcp::model::ProtocolVersion;

use crate::bench_request::BenchRequest;
use crate::process::{Program, Server};
use crate::stdio_client::StdioClient;

/// A running host.
pub(crate) struct StdioHost {
    pub(crate) server: Server,
    pub(crate) client: StdioClient,
    /// Removed when this is dropped.
    _config: WrittenConfig,
}

impl StdioHost {
    /// Starts a host with that plugin, whose component is compiled first, so that no request waits for that.
    pub(crate) async fn start(plugin: Plugin) -> Self {
        let config = ConfigFile::new().page_size(100).allow_all().plugin(plugin).write();
        let mut check = host_command();
        // What is wrong with the plugin is found by the requests: a limit that is measured may be too low for its
        // listing.
        let _checked = check.args(["check", "--config"]).arg(config.path()).output().await.expect("the host starts");
        let (server, stdin, stdout) = Program::Host(&config).over_stdio();
        let client = StdioClient::connect(stdin, stdout, ProtocolVersion::V_2025_11_25).await;
        Self { server, client, _config: config }
    }

    /// Sends a request, and returns the time that it took.
    pub(crate) async fn time(&self, request: &BenchRequest) -> Duration {
        let start = Instant::now();
        self.client.send(request).await;
        start.elapsed()
    }

    /// Ends the host.
    pub(crate) async fn end(self) {
        self.server.end().await;
    }
}
