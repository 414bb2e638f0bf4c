//! Requests under load: per second, latency, and what they cost of the processors.
//!
//! Both servers run all the time and take turns under load, so that what else the machine does hits both. The load and
//! the servers share the machine.

use mcp_host_tests::{ConfigFile, Plugin, WrittenConfig, fixture};
use rmcp::model::ProtocolVersion;

use crate::http::HttpClient;
use crate::load::{self, Client, Sample};
use crate::native::COUNT;
use crate::options::Options;
use crate::pipe::PipeClient;
use crate::process::{Program, Server};
use crate::question::Question;
use crate::table;

const HEADER: [&str; 12] = [
    "request",
    "at once",
    "native/s",
    "host/s",
    "ratio",
    "native p50 ms",
    "host p50 ms",
    "native p99 ms",
    "host p99 ms",
    "native CPU µs",
    "host CPU µs",
    "CPU ratio",
];

/// A way for requests to get in.
#[derive(Clone, Copy)]
enum Face {
    Http2025,
    Http2026,
    Stdio,
}

impl Face {
    fn heading(self) -> &'static str {
        match self {
            Self::Http2025 => "Requests over HTTP with sessions (MCP 2025-11-25)",
            Self::Http2026 => "Requests over HTTP without sessions (MCP 2026-07-28)",
            Self::Stdio => "Requests over stdio (MCP 2025-11-25)",
        }
    }

    /// Starts a server, and connects so many clients for each of the numbers.
    async fn open<const N: usize>(self, program: Program<'_>, at_once: [usize; N]) -> (Server, [Vec<Client>; N]) {
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
                        clients.push(Client::Http(HttpClient::connect(address, revision.clone()).await));
                    }
                }
                server
            }
            Self::Stdio => {
                let (server, stdin, stdout) = program.over_stdio();
                let client = PipeClient::connect(stdin, stdout, ProtocolVersion::V_2025_11_25).await;
                for (clients, number) in clients.iter_mut().zip(at_once) {
                    clients.extend((0..number).map(|_| Client::Pipe(client.clone())));
                }
                server
            }
        };
        (server, clients)
    }
}

/// Measures all faces.
pub(crate) async fn run(options: &Options) {
    let config = config();
    for face in [Face::Http2025, Face::Http2026, Face::Stdio] {
        measure(face, &config, options).await;
    }
}

/// A host with the guest `sizes`, and all limits as they are by default.
pub(crate) fn config() -> WrittenConfig {
    let count = i64::try_from(COUNT).expect("it is small");
    ConfigFile::new().open().plugin(sizes().config("count", count)).write()
}

/// The guest `sizes` as a plugin.
pub(crate) fn sizes() -> Plugin {
    Plugin::new("sizes", &fixture("sizes"), "sizes:///")
}

fn questions() -> [Question; 4] {
    [
        Question::read("read 1 KiB of text", "sizes:///text/1024", 1 << 10),
        Question::read("read 64 KiB of text", "sizes:///text/65536", 64 << 10),
        Question::read("read 1 MiB of blob", "sizes:///blob/1048576", 1 << 20),
        Question::list("list 100 entries", 5000),
    ]
}

async fn measure(face: Face, config: &WrittenConfig, options: &Options) {
    let at_once = [1, 16];
    let (native, native_clients) = face.open(Program::Native, at_once).await;
    let (host, host_clients) = face.open(Program::Host(config), at_once).await;
    let mut rows = Vec::new();
    for ((number, mut native_clients), mut host_clients) in at_once.into_iter().zip(native_clients).zip(host_clients) {
        for question in questions() {
            let (mut of_native, mut of_host) = (Sample::default(), Sample::default());
            for _ in 0..options.rounds() {
                of_native.add(turn(&native, &mut native_clients, &question, options).await);
                of_host.add(turn(&host, &mut host_clients, &question, options).await);
            }
            rows.push(row(&question, number, &of_native, &of_host));
        }
    }
    table::print(face.heading(), &HEADER, rows);
    let [native_peak, host_peak] = [&native, &host].map(|server| table::mebibytes(server.peak_memory()));
    println!("\nPeak memory: native {native_peak} MiB, host {host_peak} MiB.");
    native.end().await;
    host.end().await;
}

/// One server's turn under load, after a quarter of that to get warm.
async fn turn(server: &Server, clients: &mut Vec<Client>, question: &Question, options: &Options) -> Sample {
    load::apply(clients, question, options.span() / 4).await;
    let before = server.cpu_time();
    let sample = load::apply(clients, question, options.span()).await;
    sample.with_cpu(server.cpu_time().saturating_sub(before))
}

fn row(question: &Question, at_once: usize, native: &Sample, host: &Sample) -> Vec<String> {
    vec![
        question.what.to_owned(),
        at_once.to_string(),
        format!("{:.0}", native.rate()),
        format!("{:.0}", host.rate()),
        table::ratio(host.rate(), native.rate()),
        table::millis(native.percentile(0.5)),
        table::millis(host.percentile(0.5)),
        table::millis(native.percentile(0.99)),
        table::millis(host.percentile(0.99)),
        table::micros(native.cpu()),
        table::micros(host.cpu()),
        table::ratio(host.cpu().as_secs_f64(), native.cpu().as_secs_f64()),
    ]
}
