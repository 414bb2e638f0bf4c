//! What it costs to be operated: the CPU time of a request with metrics, and with traces, beside a server without both;
//! and a scrape of a hundred plugins.
//!
//! The servers run at the same time. In a turn each of them is loaded several times for a fraction of a second, in an
//! order that rotates, so that what slows the machine down affects all. A row has the median of the ratios of the
//! turns, and the smallest and the largest one, which show the noise of the machine.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mcp_host_tests::{Collector, ReservedPort, WrittenConfig};
use rmcp::model::ProtocolVersion;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::bench_request::BenchRequest;
use crate::chart::{Chart, Ratio};
use crate::http::HttpClient;
use crate::load::{self, Client, Sample, percentile};
use crate::options::Options;
use crate::plugin_count;
use crate::process::{Program, Server, compile};
use crate::requests::{config_file, sizes};
use crate::table;

/// The resource that is read.
const READ: &str = "sizes:///text/1024";
/// The number of clients that read at once.
const CLIENTS: usize = 8;
/// The interval of scrapes: 15 times as often as Prometheus does by default.
const SCRAPE_INTERVAL: Duration = Duration::from_secs(1);
/// The number of times that each server is loaded in a turn.
const SLICES: usize = 16;
/// The number of plugins of a scrape.
const PLUGINS: usize = 100;

/// Measures both.
pub(crate) async fn run(options: &Options) {
    let collector = Collector::start().await;
    // No process listens there.
    let gone = ReservedPort::new();
    let admin = ReservedPort::new();
    let host = |more: &str| config_file(sizes().instances("max-calls", 128)).append(more).write();
    let admin_section = format!("\n[admin]\nlisten = \"{}\"\n", admin.address());
    let gone_section = format!("\n[telemetry]\notlp = \"http://{}\"\nsample = 1\n", gone.address());
    let variants = [
        ("off", host("")),
        ("metrics, scraped each second", host(&admin_section)),
        ("1 % of requests traced", host(&collector.section("sample = 0.01"))),
        ("all requests traced, no collector", host(&gone_section)),
    ];
    compile(&variants[0].1).await;
    let mut contenders = Vec::new();
    for (name, config) in &variants {
        contenders.push(Contender::start(name, config).await);
    }
    // The first turn fills caches and pools.
    turn(&mut contenders, options).await;
    let scraping = scrape_repeatedly(admin.address());
    let mut ratios = vec![Vec::new(); variants.len()];
    let mut costs = vec![Vec::new(); variants.len()];
    for _ in 0..options.alternating_runs() {
        let turn_costs = turn(&mut contenders, options).await;
        for (index, cost) in turn_costs.iter().enumerate() {
            ratios[index].push(cost / turn_costs[0]);
            costs[index].push(*cost);
        }
    }
    scraping.abort();
    let mut rows = Vec::new();
    let axis = "CPU time of the server for each read ÷ off: less is better";
    let mut chart = Chart::new("Metrics and traces", axis, ["on"]);
    for ((contender, mut ratios), mut costs) in contenders.into_iter().zip(ratios).zip(costs) {
        ratios.sort_by(f64::total_cmp);
        costs.sort_by(f64::total_cmp);
        if !rows.is_empty() {
            chart.add(contender.name, vec![Ratio::of(ratios.clone())]);
        }
        let format = |ratio: Option<&f64>| ratio.map_or_else(String::new, |ratio| format!("{ratio:.3}"));
        rows.push(vec![
            contender.name.to_owned(),
            format!("{:.1}", costs[costs.len() / 2] * 1e6),
            format(ratios.get(ratios.len() / 2)),
            format(ratios.first()),
            format(ratios.last()),
        ]);
        contender.server.end().await;
    }
    let header = ["the server", "CPU µs a read", "÷ off, median", "smallest", "largest"];
    table::print(
        "Metrics and traces: reads of 1 KiB from a reused instance, over HTTP (MCP 2026-07-28)",
        &header,
        rows,
    );
    chart.write(options.charts.as_deref(), "operations");
    scrapes(options).await;
}

/// Loads all servers in alternation, and returns the CPU time of each for a request, in seconds.
async fn turn(contenders: &mut [Contender], options: &Options) -> Vec<f64> {
    let mut samples: Vec<_> = contenders.iter().map(|_| Sample::default()).collect();
    let mut order: Vec<_> = (0..contenders.len()).collect();
    for _ in 0..SLICES {
        for &index in &order {
            samples[index].add(contenders[index].load(options.load_duration() / 4).await);
        }
        order.rotate_left(1);
    }
    samples.iter().map(|sample| sample.cpu_per_request().as_secs_f64()).collect()
}

/// A server with its clients.
struct Contender {
    name: &'static str,
    server: Server,
    clients: Vec<Client>,
}

impl Contender {
    async fn start(name: &'static str, config: &WrittenConfig) -> Self {
        let (server, address) = Program::Host(config).over_http().await;
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            clients.push(Client::Http(HttpClient::connect(address, ProtocolVersion::V_2026_07_28).await));
        }
        Self { name, server, clients }
    }

    /// Loads the server, and measures its CPU time meanwhile.
    async fn load(&mut self, duration: Duration) -> Sample {
        let question = BenchRequest::read("read 1 KiB of text", READ, 1 << 10);
        let before = self.server.cpu_time();
        let sample = load::apply(&mut self.clients, &question, duration).await;
        sample.with_cpu(self.server.cpu_time().saturating_sub(before))
    }
}

/// Scrapes that administration listener until the task is aborted.
fn scrape_repeatedly(admin: SocketAddr) -> JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            scrape(admin).await;
            sleep(SCRAPE_INTERVAL).await;
        }
    })
}

/// Scrapes once, and returns the size of the answer.
async fn scrape(admin: SocketAddr) -> usize {
    let request = reqwest::Client::new().get(format!("http://{admin}/metrics")).header("accept", "text/plain");
    let response = request.send().await.expect("the listener answers");
    assert!(response.status().is_success(), "{}", response.status());
    response.bytes().await.expect("a whole body").len()
}

/// Measures scrapes of many plugins, each of which has been called.
async fn scrapes(options: &Options) {
    let admin = ReservedPort::new();
    let section = format!("\n[admin]\nlisten = \"{}\"\n", admin.address());
    let config = plugin_count::config_file(PLUGINS).append(&section).write();
    compile(&config).await;
    let (server, address) = Program::Host(&config).over_http().await;
    let mut client = HttpClient::connect(address, ProtocolVersion::V_2026_07_28).await;
    for plugin in 0..PLUGINS {
        let uri = format!("sizes://{plugin}/text/1024");
        client.send(&BenchRequest::read("read 1 KiB of text", &uri, 1 << 10)).await;
    }
    client.send(&BenchRequest::list("list", 100)).await;
    client.send(&BenchRequest::templates()).await;
    let mut bytes = scrape(admin.address()).await;
    let (mut times, before) = (Vec::new(), server.cpu_time());
    for _ in 0..options.reads() {
        let start = Instant::now();
        bytes = bytes.max(scrape(admin.address()).await);
        times.push(start.elapsed());
    }
    times.sort_unstable();
    let cpu = server.cpu_time().saturating_sub(before) / u32::try_from(times.len()).expect("some hundreds");
    let header = ["plugins", "KiB", "p50 ms", "p99 ms", "CPU ms of the server"];
    let row = vec![
        PLUGINS.to_string(),
        table::kibibytes(bytes as u64),
        table::millis(percentile(&times, 0.5)),
        table::millis(percentile(&times, 0.99)),
        table::millis(cpu),
    ];
    table::print("Scrapes of `/metrics`, each over a connection of its own", &header, vec![row]);
    server.end().await;
}
