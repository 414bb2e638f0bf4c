//! A long listing, walked from the first page to the last: whether later pages are slower, and whether memory grows.
//!
//! A million entries of 100 plugins, 100 per page. All pages are compared with the first tenth.

use std::time::{Duration, Instant};

use mcp_host_tests::{ConfigFile, WrittenConfig};
use rmcp::model::ProtocolVersion;
use serde_json::Value;

use crate::bench_request::BenchRequest;
use crate::http::HttpClient;
use crate::load::percentile;
use crate::options::Options;
use crate::process::Program;
use crate::requests::sizes_at;
use crate::table;

/// The number of plugins.
const PLUGINS: usize = 100;
/// The number of entries of each; with `--quick` a tenth of that.
const ENTRIES_PER_PLUGIN: usize = 10_000;
/// The number of sections of the walk that are reported separately.
const PARTS: usize = 10;

/// Walks the listing, and returns the time of each page.
pub(crate) async fn run(options: &Options) {
    let entries = if options.is_quick() { ENTRIES_PER_PLUGIN / 10 } else { ENTRIES_PER_PLUGIN };
    let config = config(entries);
    let (server, address) = Program::Host(&config).over_http().await;
    let mut client = HttpClient::connect(address, ProtocolVersion::V_2026_07_28).await;
    let (mut times, mut memory, mut cursor, mut found) = (Vec::new(), Vec::new(), None, 0);
    let each_part = PLUGINS * entries / PARTS;
    loop {
        let question = BenchRequest::page(cursor.as_deref());
        let began = Instant::now();
        let answer = client.send_for_text(&question).await;
        times.push(began.elapsed());
        let answer: Value = serde_json::from_str(&answer).expect("an answer is JSON");
        found += answer["result"]["resources"].as_array().expect("a page has resources").len();
        if found / each_part > memory.len() {
            memory.push(server.memory().resident);
        }
        cursor = answer["result"]["nextCursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    server.end().await;
    assert_eq!(found, PLUGINS * entries, "nothing is missing, and nothing is there twice");
    let parts: Vec<_> = times.chunks(times.len().div_ceil(PARTS)).map(sorted).collect();
    let rows = parts.iter().zip(&memory).enumerate().map(|(part, (times, memory))| {
        let median = percentile(times, 0.5);
        vec![
            (part + 1).to_string(),
            times.len().to_string(),
            table::millis(median),
            table::millis(percentile(times, 0.99)),
            table::millis(percentile(times, 1.0)),
            table::ratio(median.as_secs_f64(), percentile(&parts[0], 0.5).as_secs_f64()),
            table::mebibytes(*memory),
        ]
    });
    let header = ["tenth", "pages", "p50 ms", "p99 ms", "longest ms", "p50 ratio to the first", "resident MiB"];
    table::print(&format!("Pages of a listing of {found} entries, {PLUGINS} plugins"), &header, rows.collect());
}

fn config(entries: usize) -> WrittenConfig {
    let entries = i64::try_from(entries).expect("it is small");
    let plugins =
        (0..PLUGINS).map(|one| sizes_at(&format!("p{one}"), &format!("sizes://{one}/")).config("count", entries));
    plugins.fold(ConfigFile::new().page_size(100).allow_all(), ConfigFile::plugin).write()
}

fn sorted(times: &[Duration]) -> Vec<Duration> {
    let mut times = times.to_vec();
    times.sort_unstable();
    times
}
