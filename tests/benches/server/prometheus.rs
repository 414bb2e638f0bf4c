//! Queries of Debian's Prometheus through the provider `prometheus`, beside `promtool query`.
//!
//! A day of 100 series, with a sample of each every 15 seconds, in blocks that promtool makes. The host does not cache
//! responses, so each request is a query to the server.

use std::fmt::Write as _;
use std::process::Command;

use mcp_host_tests::{Plugin, PrometheusServer, component, debian_file};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::bench_request::BenchRequest;
use crate::beside::{Comparison, Hosts};
use crate::options::Options;

/// The time of the first sample.
const START: u64 = 1_700_000_000;
/// The number of series.
const SERIES: u64 = 100;
/// The number of samples of each; with `--quick` a tenth of that.
const SAMPLES: u64 = 5760;
/// The time between two samples, in seconds.
const STEP: u64 = 15;
/// The number of points of each series in a result.
const POINTS: u64 = 200;

/// Measures each kind of query.
pub(crate) async fn run(options: &Options) {
    let samples = if options.is_quick() { SAMPLES / 10 } else { SAMPLES };
    let server = PrometheusServer::builder().blocks(&blocks(samples)).start().await;
    let hosts = Hosts::start(plugin(server.url())).await;
    let heading = format!("Prometheus: {SERIES} series of {samples} samples");
    hosts.compare(options, [&heading, "prometheus", "`promtool`"], comparisons(server.url(), samples)).await;
    println!("\nPeak memory of the whole host process: {}.", hosts.peak_memory());
    hosts.end().await;
}

fn blocks(samples: u64) -> String {
    let mut text = "# TYPE requests counter\n".to_owned();
    for series in 0..SERIES {
        for n in 0..samples {
            let (job, instance) = (series % 10, series / 10);
            let (value, time) = (n * (series + 1), START + STEP * n);
            writeln!(text, "requests_total{{job=\"{job}\",instance=\"{instance}\"}} {value} {time}")
                .expect("a string can be written");
        }
    }
    text + "# EOF\n"
}

fn plugin(url: &str) -> Plugin {
    let rate = toml::Table::from_iter([("rate".to_owned(), "100000/m".into())]);
    Plugin::new("metrics", &component("prometheus"), "prometheus:///")
        .origin(url)
        .config("url", url)
        .limit("http", rate)
        .set("response-cache", false)
}

fn comparisons(url: &str, samples: u64) -> Vec<Comparison> {
    let (step, end) = (samples * STEP / POINTS, START + samples * STEP);
    let range = |name: &str, query: &str, least: usize| {
        let time = format!("range={}s&step={step}s&end={end}", POINTS * step);
        let flags = [format!("--start={}", end - POINTS * step), format!("--end={end}"), format!("--step={step}s")];
        comparison(name, query, &time, least, url, "range", &flags)
    };
    vec![
        range("one series", "requests_total{job=\"0\",instance=\"0\"}", 5000),
        range("a sum of rates", "sum by (job) (rate(requests_total[5m]))", 20_000),
        range("all series", "requests_total", 200_000),
        comparison(
            "all series now",
            "requests_total",
            &format!("end={end}"),
            5000,
            url,
            "instant",
            &[format!("--time={end}")],
        ),
    ]
}

/// Compares a read of a query with `promtool query KIND`.
fn comparison(
    name: &str,
    query: &str,
    time: &str,
    least: usize,
    url: &str,
    kind: &str,
    flags: &[String],
) -> Comparison {
    let uri = format!("prometheus:///query?q={}&{time}", utf8_percent_encode(query, NON_ALPHANUMERIC));
    let mut arguments = vec!["query".to_owned(), kind.to_owned()];
    arguments.extend(flags.iter().cloned().chain([url.to_owned(), query.to_owned()]));
    Comparison::new(BenchRequest::read(name, &uri, least), move || {
        let mut command = Command::new(debian_file("usr/bin/promtool"));
        command.args(&arguments);
        command
    })
}
