//! Debian's Prometheus, for one test: a server on blocks that promtool makes, and what it scrapes.
//!
//! ```no_run
//! # use mcp_host_tests::PrometheusServer;
//! # async fn test() {
//! let server = PrometheusServer::builder().blocks("up{job=\"a\"} 1 1700000000\n# EOF\n").start().await;
//! let url = server.url(); // http://127.0.0.1:PORT
//! let answer = server.api("query", &[("query", "up"), ("time", "1700000000")]).await;
//! # }
//! ```

use std::fs;
use std::process::Stdio;

use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::artifacts::debian_file;
use crate::log::Log;
use crate::{ReservedPort, TIMEOUT};

/// A server to be started.
#[derive(Debug, Default)]
#[must_use]
pub struct PrometheusBuilder {
    blocks: Option<String>,
    targets: Vec<(String, String)>,
    rules: String,
    flags: Vec<String>,
}

/// A running server. It ends when it is dropped.
#[derive(Debug)]
pub struct PrometheusServer {
    _process: Child,
    _dir: TempDir,
    _port: ReservedPort,
    log: Log,
    url: String,
}

/// A running node exporter. It ends when it is dropped.
#[derive(Debug)]
pub struct NodeExporter {
    _process: Child,
    port: ReservedPort,
}

impl NodeExporter {
    /// Starts one.
    pub async fn start() -> Self {
        let port = ReservedPort::new();
        let mut command = Command::new(debian_file("usr/bin/prometheus-node-exporter"));
        command.arg(format!("--web.listen-address={}", port.address()));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().expect("the node exporter starts");
        Log::new(process.stderr.take().expect("a pipe")).wait_for_line("Listening on").await;
        Self { _process: process, port }
    }

    /// Its host and port, as a target.
    pub fn target(&self) -> String {
        self.port.address().to_string()
    }
}

impl PrometheusBuilder {
    /// Adds blocks of samples in the OpenMetrics text format.
    pub fn blocks(self, openmetrics: &str) -> Self {
        Self { blocks: Some(openmetrics.to_owned()), ..self }
    }

    /// Scrapes `host:port` every second.
    pub fn target(mut self, job: &str, target: &str) -> Self {
        self.targets.push((job.to_owned(), target.to_owned()));
        self
    }

    /// Evaluates a group of rules every second, in YAML: the list below `rules:`.
    pub fn rules(self, rules: &str) -> Self {
        Self { rules: rules.to_owned(), ..self }
    }

    /// Adds a flag of the command line.
    pub fn flag(mut self, flag: &str) -> Self {
        self.flags.push(flag.to_owned());
        self
    }

    /// Starts it, and waits until it answers.
    pub async fn start(self) -> PrometheusServer {
        let dir = tempfile::tempdir().expect("a directory for the server");
        let (data, config) = (dir.path().join("tsdb"), dir.path().join("prometheus.yml"));
        if let Some(blocks) = &self.blocks {
            let samples = dir.path().join("samples.om");
            fs::write(&samples, blocks).expect("samples can be written");
            let mut promtool = Command::new(debian_file("usr/bin/promtool"));
            promtool.args(["tsdb", "create-blocks-from", "openmetrics"]).arg(&samples).arg(&data);
            let output = timeout(TIMEOUT, promtool.output()).await.expect("promtool ends").expect("promtool starts");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        fs::write(dir.path().join("rules.yml"), format!("groups:\n- name: tests\n  rules:\n{}", self.rules))
            .expect("rules can be written");
        let jobs: String = self
            .targets
            .iter()
            .map(|(job, target)| format!("- job_name: {job}\n  static_configs:\n  - targets: ['{target}']\n"))
            .collect();
        let global =
            "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\nrule_files: [rules.yml]";
        fs::write(&config, format!("{global}\nscrape_configs:\n{jobs}")).expect("the config can be written");
        let port = ReservedPort::new();
        let mut command = Command::new(debian_file("usr/bin/prometheus"));
        command.arg(format!("--config.file={}", config.display()));
        command.arg(format!("--storage.tsdb.path={}", data.display()));
        // Otherwise samples of the past would be deleted.
        command.arg("--storage.tsdb.retention.time=100y").arg(format!("--web.listen-address={}", port.address()));
        command.args(&self.flags).current_dir(dir.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().expect("Prometheus starts");
        let log = Log::new(process.stderr.take().expect("a pipe"));
        log.wait_for_line("Server is ready to receive web requests").await;
        let url = format!("http://{}", port.address());
        PrometheusServer { _process: process, _dir: dir, _port: port, log, url }
    }
}

impl PrometheusServer {
    /// Describes a server.
    pub fn builder() -> PrometheusBuilder {
        PrometheusBuilder::default()
    }

    /// Its address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Asks its own API, and returns the data of the answer.
    pub async fn api(&self, endpoint: &str, parameters: &[(&str, &str)]) -> Value {
        let encode = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
        let query: Vec<String> = parameters.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
        let url = format!("{}/api/v1/{endpoint}?{}", self.url, query.join("&"));
        let response =
            timeout(TIMEOUT, reqwest::get(&url)).await.expect("Prometheus answers").expect("Prometheus runs");
        let mut answer: Value = response.json().await.expect("an answer is JSON");
        assert_eq!(answer["status"], "success", "{url}: {answer}\n{}", self.log.snapshot());
        answer["data"].take()
    }

    /// Waits until an instant query has a result that is not empty.
    pub async fn wait_for(&self, query: &str) {
        let waiting = async {
            while self.api("query", &[("query", query)]).await["result"].as_array().is_none_or(Vec::is_empty) {
                tokio::time::sleep(crate::POLL_INTERVAL).await;
            }
        };
        assert!(timeout(TIMEOUT, waiting).await.is_ok(), "`{query}` has no result\n{}", self.log.snapshot());
    }
}
