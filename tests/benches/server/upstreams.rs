//! Existing servers as upstreams: what a read, a listing and an update cost through the host, beside the server itself.
//!
//! The upstream of reads and listings is [`native`](crate::native). It marks what it answers as private, so nothing is
//! cached. The upstream of updates is another host with the provider `files`: the same edit is received from it and
//! through the second host.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mcp_host_tests::{ConfigFile, Folder, Plugin, WrittenConfig};
use rmcp::model::ProtocolVersion;
use serde_json::Value;
use tokio::time::sleep;

use crate::bench_request::BenchRequest;
use crate::chart::{Chart, Ratio};
use crate::event_stream::{Connection, Version};
use crate::http::HttpClient;
use crate::load::{self, Client, Sample, percentile};
use crate::native::{PAGE_SIZE, SIZES};
use crate::options::Options;
use crate::process::Program;
use crate::table;

/// The number of entries of the listing.
const ENTRIES: usize = 10_000;
/// The pause before an edit: a plugin that changes all the time is polled less often.
const PAUSE: Duration = Duration::from_millis(500);

/// Measures all three.
pub(crate) async fn run(options: &Options) {
    let (upstream, direct) = Program::NativeOf(ENTRIES).over_http().await;
    let config = config_of(direct);
    let (host, through) = Program::Host(&config).over_http().await;
    let axis = "time through the host ÷ time directly: less is better";
    let mut chart = Chart::new("An existing server through the host", axis, ["through the host"]);
    measure_reads(options, direct, through, &mut chart).await;
    measure_listings(options, direct, through, &mut chart).await;
    chart.write(options.charts.as_deref(), "upstreams");
    host.end().await;
    upstream.end().await;
    measure_updates(options).await;
}

/// A host with nothing but the server at that address, behind `up+`.
fn config_of(address: SocketAddr) -> WrittenConfig {
    let section = format!(
        "\n[[upstream]]\nname = 'up'\nurl = 'http://{address}/mcp'\nmount = 'up+'\nlimits.rate = '1000000/s'\n"
    );
    ConfigFile::new().page_size(i64::try_from(PAGE_SIZE).expect("it is small")).append(&section).allow_all().write()
}

async fn measure_reads(options: &Options, direct: SocketAddr, through: SocketAddr, chart: &mut Chart) {
    let mut rows = Vec::new();
    for size in SIZES {
        let uri = format!("sizes:///text/{size}");
        let requests =
            [BenchRequest::read("direct", &uri, size), BenchRequest::read("through", &format!("up+{uri}"), size)];
        let mut clients = [client_of(direct).await, client_of(through).await];
        let mut samples = [Sample::default(), Sample::default()];
        let mut ratios = Vec::new();
        for _ in 0..options.alternating_runs() {
            let mut medians = Vec::new();
            for ((clients, request), sample) in clients.iter_mut().zip(&requests).zip(&mut samples) {
                let mut turn = Sample::default();
                turn.add(load::apply(clients, request, options.load_duration()).await);
                medians.push(turn.percentile(0.5).as_secs_f64());
                sample.add(turn);
            }
            ratios.push(medians[1] / medians[0]);
        }
        chart.add(&format!("read {} KiB", size >> 10), vec![Ratio::of(ratios)]);
        let [direct, through] = samples.map(|sample| sample.percentile(0.5));
        let beyond = through.saturating_sub(direct.mul_f64(1.5));
        rows.push(vec![
            format!("{} KiB", size >> 10),
            table::micros(direct),
            table::micros(through),
            table::ratio(through.as_secs_f64(), direct.as_secs_f64()),
            table::micros(beyond),
        ]);
    }
    let header = ["text", "direct µs", "through the host µs", "ratio", "beyond 1.5 × direct µs"];
    table::print("A read of one client", &header, rows);
}

async fn client_of(address: SocketAddr) -> Vec<Client> {
    vec![Client::Http(connect(address).await)]
}

async fn connect(address: SocketAddr) -> HttpClient {
    HttpClient::connect(address, ProtocolVersion::V_2026_07_28).await
}

async fn measure_listings(options: &Options, direct: SocketAddr, through: SocketAddr, chart: &mut Chart) {
    let mut clients = [connect(direct).await, connect(through).await];
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..options.alternating_runs() {
        for (client, times) in clients.iter_mut().zip(&mut times) {
            times.push(walk(client).await);
        }
    }
    let each = times[1].iter().zip(&times[0]);
    let ratios = each.map(|(through, direct)| through.as_secs_f64() / direct.as_secs_f64()).collect();
    chart.add(&format!("list {ENTRIES} entries"), vec![Ratio::of(ratios)]);
    let [direct, through] = times.map(|mut times| {
        times.sort_unstable();
        percentile(&times, 0.5)
    });
    let row =
        vec![table::millis(direct), table::millis(through), table::ratio(through.as_secs_f64(), direct.as_secs_f64())];
    let heading = format!("A listing of {ENTRIES} entries, {PAGE_SIZE} a page");
    table::print(&heading, &["direct ms", "through the host ms", "ratio"], vec![row]);
}

/// Walks a listing to its end, and returns the time of the requests.
async fn walk(client: &mut HttpClient) -> Duration {
    let (mut took, mut cursor, mut found) = (Duration::ZERO, None, 0);
    loop {
        let request = BenchRequest::page(cursor.as_deref());
        let began = Instant::now();
        let answer = client.send_for_text(&request).await;
        took += began.elapsed();
        let answer: Value = serde_json::from_str(&answer).expect("an answer is JSON");
        found += answer["result"]["resources"].as_array().expect("a page has resources").len();
        cursor = answer["result"]["nextCursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            assert_eq!(found, ENTRIES, "nothing is missing");
            return took;
        }
    }
}

async fn measure_updates(options: &Options) {
    let folder = Folder::with_files([("a.txt", "0")]);
    let files = ConfigFile::new().plugin(Plugin::files("f", folder.path())).allow_all().write();
    let (upstream, direct) = Program::Host(&files).over_http().await;
    let config = config_of(direct);
    let (host, through) = Program::Host(&config).over_http().await;
    let mut direct = Version::Http1.open(direct, "files://f/a.txt", 1).await;
    let mut through = Version::Http1.open(through, "up+files://f/a.txt", 1).await;
    let mut differences = Vec::new();
    // The first edit only shows that both subscriptions are in place.
    for edit in 0..=options.starts() {
        sleep(PAUSE).await;
        direct.skip_updates();
        through.skip_updates();
        folder.write("a.txt", format!("edit {edit}"));
        let (at_first, at_last) = tokio::join!(update_of(&mut direct), update_of(&mut through));
        if edit > 0 {
            differences.push(at_last.saturating_duration_since(at_first));
        }
    }
    differences.sort_unstable();
    let row = [0.5, 0.99, 1.0].map(|part| table::millis(percentile(&differences, part)));
    let heading = "An update: from its arrival from the upstream to its arrival through the host";
    table::print(heading, &["p50 ms", "p99 ms", "longest ms"], vec![row.into()]);
    drop((direct, through));
    host.end().await;
    upstream.end().await;
}

async fn update_of(connection: &mut Connection) -> Instant {
    connection.updated().await;
    Instant::now()
}
