//! Requests under load: throughput, latency, and CPU time per request.
//!
//! Five servers are compared: [`bare_axum`](crate::bare_axum), the lower bound; [`native`](crate::native), made with
//! rmcp alone; and the host, with a fresh instance for each call, with reused instances, and with responses that have a
//! time to live and are cached. All run at the same time and are loaded in turn, so that other load on the machine
//! affects each. The load generator and the servers share the machine.
//!
//! The parts `audit` and `authentication` compare the host with itself: without and with an audit log, and with tokens.

use mcp_host_tests::{ConfigFile, Plugin, TokenIssuer, WrittenConfig, fixture};
use rmcp::model::ProtocolVersion;

use crate::bench_request::BenchRequest;
use crate::chart::{Chart, Ratio};
use crate::http::HttpClient;
use crate::load::{self, Client, Sample};
use crate::native::{COMPLETION_PREFIX, PAGE_SIZE, RESOURCE_COUNT, SIZES, TEMPLATE};
use crate::options::Options;
use crate::process::{Program, Server};
use crate::stdio_client::StdioClient;
use crate::table;

/// The numbers of concurrent clients.
const CONCURRENCY: [usize; 2] = [1, 64];
/// The turns of a comparison of two configs, for each of another measurement.
const PAIRED_TURNS: usize = 8;

/// A transport and revision.
#[derive(Clone, Copy)]
enum Transport {
    Http2025,
    Http2026,
    Stdio,
}

impl Transport {
    fn heading(self) -> &'static str {
        match self {
            Self::Http2025 => "Requests over HTTP with sessions (MCP 2025-11-25)",
            Self::Http2026 => "Requests over HTTP without sessions (MCP 2026-07-28)",
            Self::Stdio => "Requests over stdio (MCP 2025-11-25)",
        }
    }

    /// The prefix of the names of the charts.
    fn file(self) -> &'static str {
        match self {
            Self::Http2025 => "requests-sessions",
            Self::Http2026 => "requests-stateless",
            Self::Stdio => "requests-stdio",
        }
    }

    /// Starts a server, and connects that number of clients for each of the numbers.
    async fn open<const N: usize>(
        self,
        program: Program<'_>,
        token: Option<&str>,
        at_once: [usize; N],
    ) -> (Server, [Vec<Client>; N]) {
        let mut clients = at_once.map(|_| Vec::new());
        let server = match self {
            Self::Http2025 | Self::Http2026 => {
                let (server, address) = program.over_http().await;
                let revision = match self {
                    Self::Http2026 => ProtocolVersion::V_2026_07_28,
                    _ => ProtocolVersion::V_2025_11_25,
                };
                for (clients, number) in clients.iter_mut().zip(at_once) {
                    for _ in 0..number {
                        clients.push(Client::Http(HttpClient::connect_with(address, revision.clone(), token).await));
                    }
                }
                server
            }
            Self::Stdio => {
                let (server, stdin, stdout) = program.over_stdio();
                let client = StdioClient::connect(stdin, stdout, ProtocolVersion::V_2025_11_25).await;
                for (clients, number) in clients.iter_mut().zip(at_once) {
                    clients.extend((0..number).map(|_| Client::Stdio(client.clone())));
                }
                server
            }
        };
        (server, clients)
    }
}

/// Measures all transports.
pub(crate) async fn run(options: &Options) {
    let (fresh, reused) = (config(sizes()), config(sizes().instances("max-calls", 128)));
    let cached = config(sizes().instances("max-calls", 128).config("ttl", 3600));
    let contenders = [
        ("bare", Program::BareAxum),
        ("native", Program::Native),
        ("fresh", Program::Host(&fresh)),
        ("reused", Program::Host(&reused)),
        ("cached", Program::Host(&cached)),
    ];
    measure(Transport::Http2025, &contenders, options).await;
    measure(Transport::Http2026, &contenders, options).await;
    // The bare server speaks HTTP only.
    measure(Transport::Stdio, &contenders[1..], options).await;
}

/// Measures the cost of the audit log: a server without it, and one with it, loaded in turn.
pub(crate) async fn measure_audit(options: &Options) {
    let off = config(sizes().instances("max-calls", 128));
    let on = config_file(sizes().instances("max-calls", 128)).audit("file", "audit.jsonl").write();
    let heading = "The audit log, over HTTP with sessions (MCP 2025-11-25)";
    compare(heading, [("off", &off, None), ("on", &on, None)], options).await;
}

/// Measures the cost of bearer tokens, and of access tokens that have been verified: a server without, and one with
/// them, loaded in turn.
pub(crate) async fn measure_authentication(options: &Options) {
    let host = || config_file(sizes().instances("max-calls", 128));
    let anonymous = host().write();
    let tokens = host().principal("bench", "test").write();
    let heading = "Bearer tokens, over HTTP with sessions (MCP 2025-11-25)";
    compare(heading, [("anonymous", &anonymous, None), ("token", &tokens, Some("test"))], options).await;

    let (issuer, audience) = (TokenIssuer::start().await, "http://localhost/mcp");
    let url = issuer.identifier();
    let entry = format!("\n[[issuer]]\nname = \"bench\"\nissuer = \"{url}\"\njwks = \"{url}/jwks\"\n");
    let issuers = host().http("public-url", audience).append(&entry).write();
    let jwt = issuer.sign(&issuer.claims("ada", audience));
    let heading = "Access tokens (JWT, ES256), over HTTP with sessions (MCP 2025-11-25)";
    compare(heading, [("anonymous", &anonymous, None), ("JWT", &issuers, Some(&jwt))], options).await;
}

/// Compares two configs of the host, loaded in turn by clients with that token.
async fn compare(heading: &str, configs: [(&'static str, &WrittenConfig, Option<&str>); 2], options: &Options) {
    let mut contenders = Vec::new();
    for (name, config, token) in configs {
        let (server, clients) = Transport::Http2025.open(Program::Host(config), token, CONCURRENCY).await;
        let idle = server.peak_memory();
        contenders.push(Contender { name, server, clients, idle });
    }
    let mut rows = Vec::new();
    for (place, number) in CONCURRENCY.into_iter().enumerate() {
        let question = BenchRequest::read("read 1 KiB of text", &format!("sizes:///text/{}", SIZES[0]), SIZES[0]);
        let mut samples = [Sample::default(), Sample::default()];
        let mut ratios = Vec::new();
        // The difference is small, so the turns are more, and short.
        for round in 0..options.rounds() * PAIRED_TURNS {
            let mut order = [0, 1];
            order.rotate_left(round % 2);
            let mut turn = [0.0; 2];
            for index in order {
                let contender = &mut contenders[index];
                let sample = measure_one(&contender.server, &mut contender.clients[place], &question, options).await;
                turn[index] = sample.requests_per_second();
                samples[index].add(sample);
            }
            ratios.push(turn[1] / turn[0]);
        }
        ratios.sort_by(f64::total_cmp);
        let [first, second] = &samples;
        let rate = |sample: &Sample| format!("{:.0}", sample.requests_per_second());
        let cpu = |sample: &Sample| table::micros(sample.cpu_per_request());
        // The median of the turns: a noisy moment of the machine is in one of them.
        let ratio = format!("{:.3}", ratios[ratios.len() / 2]);
        rows.push(vec![
            question.name.clone(),
            number.to_string(),
            rate(first),
            rate(second),
            ratio,
            cpu(first),
            cpu(second),
        ]);
    }
    let [first, second] = configs.map(|(name, ..)| name);
    let columns = [
        "request".to_owned(),
        "at once".to_owned(),
        format!("{first} /s"),
        format!("{second} /s"),
        format!("{second} ÷ {first}"),
        format!("{first} CPU µs"),
        format!("{second} CPU µs"),
    ];
    table::print(heading, &columns.each_ref().map(String::as_str), rows);
    for contender in contenders {
        contender.server.end().await;
    }
}

/// A host with the guest `sizes`, under default limits but for the rates.
pub(crate) fn config(sizes: Plugin) -> WrittenConfig {
    config_file(sizes).write()
}

/// The same, before it is written.
pub(crate) fn config_file(sizes: Plugin) -> ConfigFile {
    let count = i64::try_from(RESOURCE_COUNT).expect("it is small");
    // Connections are idle while the other servers are loaded.
    ConfigFile::new()
        .page_size(i64::try_from(PAGE_SIZE).expect("it is small"))
        .allow_all()
        .http_limit("idle-timeout", "1h")
        .http_limit("read-timeout", "10m")
        .http_limit("client-rate", "1000000/s")
        .http_limit("rate", "1000000/s")
        // All clients have one address, which takes half of the queue at most.
        .plugin(sizes.config("count", count).limit("rate", "1000000/s").limit("queue", 1024))
}

/// The guest `sizes` as a plugin.
pub(crate) fn sizes() -> Plugin {
    sizes_at("sizes", "sizes:///")
}

/// The same, with another name and another mount.
pub(crate) fn sizes_at(name: &str, mount: &str) -> Plugin {
    Plugin::new(name, &fixture("sizes"), mount)
}

fn bench_requests() -> Vec<BenchRequest> {
    let names = ["1 KiB", "64 KiB", "1 MiB"];
    let reads = ["text", "blob"].into_iter().flat_map(|kind| {
        names.into_iter().zip(SIZES).map(move |(name, size)| {
            BenchRequest::read(&format!("read {name} of {kind}"), &format!("sizes:///{kind}/{size}"), size)
        })
    });
    let others = [
        BenchRequest::list("list 100 entries", 5000),
        BenchRequest::templates(),
        BenchRequest::complete(TEMPLATE, "size", COMPLETION_PREFIX),
    ];
    reads.chain(others).collect()
}

/// A server with its clients, for each number of concurrent clients.
struct Contender {
    name: &'static str,
    server: Server,
    clients: [Vec<Client>; CONCURRENCY.len()],
    /// Its peak memory before the load.
    idle: u64,
}

async fn measure(face: Transport, programs: &[(&'static str, Program<'_>)], options: &Options) {
    let mut contenders = Vec::new();
    for (name, program) in programs {
        let (server, clients) = face.open(*program, None, CONCURRENCY).await;
        let idle = server.peak_memory();
        contenders.push(Contender { name, server, clients, idle });
    }
    let (mut rates, mut costs) = (Vec::new(), Vec::new());
    let names: Vec<_> = contenders.iter().map(|contender| contender.name).collect();
    let baseline = names.iter().position(|name| *name == "native").expect("the native server is one of them");
    let measured = names.get(baseline + 1..).expect("the hosts follow it");
    for (place, number) in CONCURRENCY.into_iter().enumerate() {
        let title = format!("{}: {number} at once", face.heading());
        let axis = "CPU time of the server for each request ÷ native: less is better";
        let mut chart = Chart::new(&title, axis, measured.iter().copied());
        for question in bench_requests() {
            let mut samples: Vec<_> = contenders.iter().map(|_| Sample::default()).collect();
            let mut ratios: Vec<_> = measured.iter().map(|_| Vec::new()).collect();
            for _ in 0..options.rounds() {
                let mut costs = Vec::new();
                for (contender, sample) in contenders.iter_mut().zip(&mut samples) {
                    let turn = measure_one(&contender.server, &mut contender.clients[place], &question, options).await;
                    costs.push(turn.cpu_per_request().as_secs_f64());
                    sample.add(turn);
                }
                for (ratios, cost) in ratios.iter_mut().zip(&costs[baseline + 1..]) {
                    ratios.push(cost / costs[baseline]);
                }
            }
            chart.add(&question.name, ratios.into_iter().map(Ratio::of).collect());
            let start = [question.name.clone(), number.to_string()];
            rates.push([start.as_slice(), &rate_cells(&samples)].concat());
            costs.push([start.as_slice(), &cost_cells(&samples)].concat());
        }
        chart.write(options.charts.as_deref(), &format!("{}-{number}", face.file()));
    }
    let columns = |of: &str| names.iter().map(move |name| format!("{name} {of}")).collect::<Vec<_>>();
    let start = ["request".to_owned(), "at once".to_owned()];
    let ratios = ["fresh ÷ native", "reused ÷ native", "cached ÷ native", "reused ÷ bare", "cached ÷ bare"];
    let ratios = ratios.map(str::to_owned);
    let ratios = &ratios[..if names.len() < 5 { 3 } else { 5 }];
    table::print(face.heading(), &[start.as_slice(), &columns("/s"), ratios].concat(), rates);
    let header = [start.as_slice(), &columns("p50 ms"), &columns("p99 ms"), &columns("CPU µs")].concat();
    table::print(&format!("{}: latency, and CPU time of the server for each", face.heading()), &header, costs);
    let peaks = contenders.iter().map(|Contender { name, server, idle, .. }| {
        let peak = server.peak_memory();
        let growth = table::mebibytes(peak.saturating_sub(*idle));
        format!("{name} {} MiB ({growth} more than idle)", table::mebibytes(peak))
    });
    println!("\nPeak memory: {}.", peaks.collect::<Vec<_>>().join(", "));
    for contender in contenders {
        contender.server.end().await;
    }
}

/// Loads one server, after a warm-up of a quarter of that time.
async fn measure_one(server: &Server, clients: &mut Vec<Client>, question: &BenchRequest, options: &Options) -> Sample {
    load::apply(clients, question, options.load_duration() / 4).await;
    let before = server.cpu_time();
    let sample = load::apply(clients, question, options.load_duration()).await;
    sample.with_cpu(server.cpu_time().saturating_sub(before))
}

/// Formats the throughput of each, and the ratio of the measured server to the one that it is compared with.
fn rate_cells(samples: &[Sample]) -> Vec<String> {
    let mut cells: Vec<_> = samples.iter().map(|sample| format!("{:.0}", sample.requests_per_second())).collect();
    if let [before @ .., native, fresh, reused, cached] = samples {
        let ratio = |sample: &Sample, to: &Sample| table::ratio(sample.requests_per_second(), to.requests_per_second());
        cells.extend([fresh, reused, cached].map(|sample| ratio(sample, native)));
        cells.extend(before.iter().flat_map(|bare| [reused, cached].map(|sample| ratio(sample, bare))));
    }
    cells
}

fn cost_cells(samples: &[Sample]) -> Vec<String> {
    let medians = samples.iter().map(|sample| table::millis(sample.percentile(0.5)));
    let slow = samples.iter().map(|sample| table::millis(sample.percentile(0.99)));
    medians.chain(slow).chain(samples.iter().map(|sample| table::micros(sample.cpu_per_request()))).collect()
}
