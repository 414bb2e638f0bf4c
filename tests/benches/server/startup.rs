//! Startup: from the start of the process to the first response.
//!
//! Over stdio that is `initialize` and one read; over HTTP it is the time until it listens, a connection and one read.
//! The components have been compiled before, as in every start but the first.

use std::time::{Duration, Instant};

use mcp_host_tests::{ConfigFile, Plugin, WrittenConfig};
use rmcp::model::ProtocolVersion;

use crate::bench_request::BenchRequest;
use crate::git_pack_fixture::GitPack;
use crate::http::HttpClient;
use crate::load::percentile;
use crate::options::Options;
use crate::process::Program;
use crate::requests::{self, sizes};
use crate::setup;
use crate::stdio_client::StdioClient;
use crate::table;

/// Measures the host with one plugin, and with a typical config.
pub(crate) async fn run(options: &Options) {
    let one = requests::config(sizes());
    let pack = GitPack::open_or_create(1);
    let all = ConfigFile::new()
        .allow_all()
        .plugin(sizes())
        .plugin(Plugin::git("pack", pack.path()))
        .plugin(Plugin::notes("notes", &setup::example_notes()))
        .write();
    let programs = [
        ("native", Program::Native),
        ("host, one small plugin", Program::Host(&one)),
        ("host, with git and notes", Program::Host(&all)),
    ];
    let mut rows = Vec::new();
    for transport in ["stdio", "HTTP"] {
        let mut baseline = None;
        for (name, program) in programs {
            let mut times = Vec::new();
            // The first start may compile.
            for _ in 0..=options.starts() {
                times.push(if transport == "stdio" { over_stdio(program).await } else { over_http(program).await });
            }
            let mut times = times.split_off(1);
            times.sort_unstable();
            let median = percentile(&times, 0.5);
            let baseline = *baseline.get_or_insert(median);
            rows.push(vec![
                format!("{name}, over {transport}"),
                table::millis(median),
                table::millis(percentile(&times, 0.0)),
                table::millis(percentile(&times, 1.0)),
                table::ratio(median.as_secs_f64(), baseline.as_secs_f64()),
            ]);
        }
    }
    let header = ["from process start to first answer", "median ms", "least ms", "most ms", "ratio to native"];
    table::print("Start", &header, rows);
    println!("\nThe first start ever, which compiles that small plugin: {} ms.", table::millis(first_start().await));
}

fn read_request() -> BenchRequest {
    BenchRequest::read("read 1 KiB of text", "sizes:///text/1024", 1 << 10)
}

async fn over_stdio(program: Program<'_>) -> Duration {
    let start = Instant::now();
    let (server, stdin, stdout) = program.over_stdio();
    StdioClient::connect(stdin, stdout, ProtocolVersion::V_2025_11_25).await.send(&read_request()).await;
    let took = start.elapsed();
    server.end().await;
    took
}

async fn over_http(program: Program<'_>) -> Duration {
    let start = Instant::now();
    let (server, address) = program.over_http().await;
    HttpClient::connect(address, ProtocolVersion::V_2026_07_28).await.send(&read_request()).await;
    let took = start.elapsed();
    server.end().await;
    took
}

/// Measures a start with an empty cache.
async fn first_start() -> Duration {
    let config = requests::config(sizes());
    use_empty_cache(&config);
    over_stdio(Program::Host(&config)).await
}

/// Sets an empty cache directory of its own in a config.
fn use_empty_cache(config: &WrittenConfig) {
    let text = std::fs::read_to_string(config.path()).expect("it was written");
    let mut table: toml::Table = text.parse().expect("it is TOML");
    let server = table.get_mut("server").and_then(toml::Value::as_table_mut).expect("it has a server");
    let cache = config.dir().join("cache");
    server.insert("cache".to_owned(), cache.to_str().expect("it is UTF-8").into());
    std::fs::write(config.path(), table.to_string()).expect("it can be written");
}
