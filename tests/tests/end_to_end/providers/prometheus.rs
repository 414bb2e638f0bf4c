//! The provider `prometheus`, compared with Debian's Prometheus: on blocks of samples, on scraped samples, and on
//! servers with false answers.

mod hostile;
mod live;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use mcp_host_tests::{ConfigFile, Plugin, PrometheusServer, StdioServer, component};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rmcp::model::{ErrorCode, ResourceContents};
use serde_json::Value;

/// The time of the first sample.
const START: i64 = 1_700_000_000;

/// The provider at `prometheus:///` for a server at this address.
fn prometheus_plugin(url: &str) -> Plugin {
    let rate = toml::Table::from_iter([("rate".to_owned(), "10000/m".into())]);
    Plugin::new("metrics", &component("prometheus"), "prometheus:///")
        .origin(url)
        .config("url", url)
        .limit("http", rate)
        .limit("cpu", "5s")
        .limit("deadline", "20s")
}

/// Samples of a day, every 15 seconds: counters with resets, gauges with NaN and infinities, a gap, and labels that
/// need quotes.
fn samples() -> String {
    let mut text = String::new();
    let steps = || (0..5760).map(|n| (n, START + 15 * n));
    text.push_str("# HELP requests Requests that were answered.\n# TYPE requests counter\n");
    for (job, each) in [("api", 3), ("web", 7)] {
        for (n, time) in steps() {
            writeln!(text, "requests_total{{job=\"{job}\",code=\"200\"}} {} {time}", (n % 2000) * each).unwrap();
        }
    }
    text.push_str("# HELP temperature Of rooms.\n# TYPE temperature gauge\n");
    for (room, instance) in [("会議室", "a\\\"b\\\\c,d"), ("kitchen", "10.0.0.1:9100")] {
        for (n, time) in steps().filter(|(n, _)| room == "kitchen" || !(1000..1400).contains(n)) {
            let value = match n % 50 {
                7 => "NaN".to_owned(),
                8 => "+Inf".to_owned(),
                9 => "-Inf".to_owned(),
                _ => format!("{}", 20.0 + (f64::from(i32::try_from(n).unwrap()) / 40.0).sin()),
            };
            writeln!(text, "temperature{{room=\"{room}\",instance=\"{instance}\"}} {value} {time}").unwrap();
        }
    }
    text.push_str("# EOF\n");
    text
}

fn encode(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// Reads the two contents of a resource: the rows of the CSV, and the JSON.
async fn read(server: &StdioServer, uri: &str) -> (Vec<Vec<String>>, Value) {
    let contents = server.client().read(uri).await.unwrap_or_else(|error| panic!("{uri}: {error:?}"));
    let [csv, json] = contents.as_slice() else { panic!("{uri}: {contents:?}") };
    (rows(text(csv, "text/csv")), serde_json::from_str(text(json, "application/json")).unwrap())
}

fn text<'a>(contents: &'a ResourceContents, expected: &str) -> &'a str {
    match contents {
        ResourceContents::TextResourceContents { text, mime_type, .. } if mime_type.as_deref() == Some(expected) => {
            text
        }
        other => panic!("{other:?}"),
    }
}

/// Parses CSV.
fn rows(csv: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell, mut is_quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut characters = csv.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '"' if is_quoted && characters.peek() == Some(&'"') => cell.push(characters.next().unwrap()),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => row.push(std::mem::take(&mut cell)),
            '\n' if !is_quoted => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            c => cell.push(c),
        }
    }
    rows
}

/// Asserts that the range equals the API's result for the same times, point by point. Returns the number of points.
async fn assert_same_range(prometheus: &PrometheusServer, server: &StdioServer, uri: &str) -> usize {
    let (rows, json) = read(server, uri).await;
    let step = json["step"].as_str().unwrap();
    let times = |key: &str| json[key].as_str().unwrap().to_owned();
    let (start, end) = (times("start"), times("end"));
    let parameters = [("query", json["query"].as_str().unwrap()), ("start", &start), ("end", &end), ("step", step)];
    let expected = prometheus.api("query_range", &parameters).await;
    assert_eq!(json["resultType"], expected["resultType"], "{uri}");
    assert!(json["result"] == expected["result"], "{uri}: {} and {}", json["result"], expected["result"]);
    let series = expected["result"].as_array().unwrap();
    let mut points: BTreeSet<(i64, usize, String)> = BTreeSet::new();
    for (column, series) in series.iter().enumerate() {
        for point in series["values"].as_array().unwrap() {
            points.insert((point[0].as_i64().unwrap(), column + 1, point[1].as_str().unwrap().to_owned()));
        }
    }
    let mut cells: BTreeSet<(i64, usize, String)> = BTreeSet::new();
    for row in &rows[1..] {
        assert_eq!(row.len(), series.len() + 1, "{uri}");
        let time = seconds(&row[0]);
        let filled = row.iter().enumerate().skip(1).filter(|(_, cell)| !cell.is_empty());
        cells.extend(filled.map(|(column, cell)| (time, column, cell.clone())));
    }
    assert!(cells == points, "{uri}");
    points.len()
}

/// Parses `2023-11-14T22:13:20Z`.
fn seconds(rfc3339: &str) -> i64 {
    let number = |range: std::ops::Range<usize>| rfc3339[range].parse::<i64>().unwrap();
    let (year, month, day) = (number(0..4), number(5..7), number(8..10));
    // Days since 1970, by Howard Hinnant's algorithm.
    let (y, m) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let (era, of_era) = (y.div_euclid(400), y.rem_euclid(400));
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + (153 * m + 2) / 5 + day - 1 - 719_468;
    days * 86_400 + number(11..13) * 3600 + number(14..16) * 60 + number(17..19)
}

#[tokio::test]
async fn each_point_is_that_of_the_api() {
    let prometheus = PrometheusServer::builder().blocks(&samples()).start().await;
    let config = ConfigFile::new().plugin(prometheus_plugin(prometheus.url())).write();
    let server = StdioServer::start(&config).await;
    let end = START + 86_000;
    let mut points = 0;
    for q in [
        "temperature",
        "requests_total",
        "sum by (job) (rate(requests_total[5m]))",
        "temperature > 20.5",
        "1 / (temperature - temperature)",
        "label_replace(temperature, \"place\", \"$1の隣\", \"room\", \"(.*)\")",
        "histogram_quantile(0.9, temperature)",
        "absent(nothing)",
        "nothing",
        "vector(1)",
        "time()",
    ] {
        for times in ["range=1h", "range=6h&step=15s", "range=1d", "range=10m&step=7s", "range=3d"] {
            let uri = format!("prometheus:///query?q={}&{times}&end={end}", encode(q));
            points += assert_same_range(&prometheus, &server, &uri).await;
        }
    }
    for uri in [
        format!("series/temperature?end={end}"),
        format!("series/temperature?match={}&range=1d&end={end}", encode("room=\"会議室\"")),
        format!("series/requests_total?match={}&end=2023-11-15T12:00:00Z", encode("job=~\"a.+\",code!=\"500\"")),
    ] {
        points += assert_same_range(&prometheus, &server, &format!("prometheus:///{uri}")).await;
    }
    assert!(points > 10_000, "{points} points were compared");
    server.end().await;
}

#[tokio::test]
async fn each_current_value_is_that_of_the_api() {
    let prometheus = PrometheusServer::builder().blocks(&samples()).start().await;
    let config = ConfigFile::new().plugin(prometheus_plugin(prometheus.url())).write();
    let server = StdioServer::start(&config).await;
    for time in [START + 105, START + 120, START + 17_000, START + 86_000] {
        for q in ["temperature", "sum(requests_total)", "42", "sort_desc(temperature)", "nothing"] {
            let uri = format!("prometheus:///query?q={}&end={time}", encode(q));
            let (rows, json) = read(&server, &uri).await;
            let expected = prometheus.api("query", &[("query", q), ("time", &time.to_string())]).await;
            assert_eq!((&json["resultType"], &json["result"]), (&expected["resultType"], &expected["result"]), "{uri}");
            let values = if expected["resultType"] == "scalar" {
                vec![expected["result"][1].as_str().unwrap()]
            } else {
                let series = expected["result"].as_array().unwrap().iter();
                series.map(|series| series["value"][1].as_str().unwrap()).collect()
            };
            assert_eq!(rows[1..].iter().map(|row| row.last().unwrap()).collect::<Vec<_>>(), values, "{uri}");
        }
    }
    server.end().await;
}

#[tokio::test]
async fn a_series_has_about_two_hundred_points_and_lives_for_a_step() {
    let prometheus = PrometheusServer::builder().blocks(&samples()).start().await;
    let config = ConfigFile::new().plugin(prometheus_plugin(prometheus.url())).write();
    let server = StdioServer::start(&config).await;
    for (range, points, step) in [("10m", 201, "3s"), ("1h", 181, "20s"), ("6h", 181, "2m"), ("1d", 181, "8m")] {
        let uri = format!("prometheus:///query?q=vector(1)&range={range}&end=1700080000");
        let (rows, json) = read(&server, &uri).await;
        assert_eq!((rows.len() - 1, json["step"].as_str()), (points, Some(step)), "{range}");
    }
    server.end().await;
}

#[tokio::test]
async fn names_and_values_are_completed_by_the_server() {
    let prometheus = PrometheusServer::builder().blocks(&samples()).start().await;
    let config = ConfigFile::new().plugin(prometheus_plugin(prometheus.url())).write();
    let server = StdioServer::start(&config).await;
    let series = "prometheus:///series/{metric}{?match,range,step,end}";
    let query = "prometheus:///query{?q,range,step,end}";
    for (template, argument, known, expected) in [
        ("prometheus:///metric/{name}", ("name", "req"), None, vec!["requests_total"]),
        ("prometheus:///metric/{name}", ("name", "perat"), None, vec!["temperature"]),
        ("prometheus:///label/{name}", ("name", "r"), None, vec!["room"]),
        (series, ("metric", ""), None, vec!["requests_total", "temperature"]),
        (series, ("match", "j"), Some("requests_total"), vec!["job=\""]),
        (series, ("match", "room=\""), Some("temperature"), vec!["room=\"kitchen\"", "room=\"会議室\""]),
        (series, ("match", "room=\""), Some("requests_total"), vec![]),
        (series, ("match", "code=\"200\",job=\"w"), None, vec!["code=\"200\",job=\"web\""]),
        (series, ("range", "1"), None, vec!["15m", "1h", "1d"]),
        (query, ("q", "sum(rate(req"), None, vec!["sum(rate(requests_total"]),
    ] {
        let known: Vec<_> = known.map(|metric| ("metric", metric)).into_iter().collect();
        let completion = server.client().complete(template, argument, &known).await.unwrap();
        assert_eq!(completion.values, expected, "{template} {argument:?}");
    }
    let (rows, _) = read(&server, "prometheus:///label/job").await;
    assert_eq!(rows, [["value"], ["api"], ["web"]]);
    let (rows, json) = read(&server, "prometheus:///metric/temperature").await;
    assert_eq!(rows[2], ["room", "2", "kitchen 会議室"]);
    assert_eq!(json["series"], 2);
    for missing in ["metric/nothing", "label/nothing", "series/nothing", "saved/nothing", "nothing"] {
        let error = server.client().read_error(&format!("prometheus:///{missing}")).await;
        assert_eq!(error.code, ErrorCode(-32002), "{missing}");
    }
    server.end().await;
}

#[tokio::test]
async fn a_query_that_is_too_heavy_or_wrong_is_refused_with_what_would_do() {
    let prometheus = PrometheusServer::builder().blocks(&samples()).flag("--query.max-samples=5000").start().await;
    let plugin = prometheus_plugin(prometheus.url()).config("max-series", 3).config("max-points", 2000);
    let config = ConfigFile::new().plugin(plugin).write();
    let server = StdioServer::start(&config).await;
    let end = START + 86_000;
    for (q, times, expected) in [
        ("sum(", "", "it says: "),
        ("temperature[5m]", "", "add `range=1h`"),
        ("\"text\"", "", "found a string"),
        ("{__name__=~\".+\"}", "&range=10m", "more than 3 series, the `max-series` of this plugin"),
        ("temperature", "&range=6h&step=15s", "`step=45s` would do"),
        ("sum_over_time(temperature[1d])", "&range=1d", "would load too many samples"),
        ("up", "&range=1d&step=1s", "`step=8s` would do"),
        ("up", "&step=1s", "expected a `range` beside `step`"),
    ] {
        let error = server.client().read_error(&format!("prometheus:///query?q={}&end={end}{times}", encode(q))).await;
        assert!(error.code == ErrorCode::INVALID_PARAMS && error.message.contains(expected), "{q}: {error:?}");
    }
    server.end().await;
}

#[tokio::test]
async fn a_rule_for_a_metric_covers_that_metric_alone() {
    let prometheus = PrometheusServer::builder().blocks(&samples()).start().await;
    let rule = "[[rule]]\nprincipals = [\"local\"]\nallow = [\"prometheus:///series/requests_total\"]\n";
    let config = ConfigFile::new().plugin(prometheus_plugin(prometheus.url())).append(rule).write();
    let server = StdioServer::start(&config).await;
    let uri = |text: &str| format!("prometheus:///series/requests_total?match={}&end=1700050000", encode(text));
    assert_eq!(read(&server, &uri("job=\"api\"")).await.0[0].len(), 2);
    for escape in
        ["job=\"api\"} or {__name__=\"temperature\"", "} or temperature or {a=\"\"", "job=\"api\\\"} or temperature"]
    {
        assert_eq!(server.client().read_error(&uri(escape)).await.code, ErrorCode::INVALID_PARAMS, "{escape}");
    }
    assert_eq!(server.client().read_error("prometheus:///query?q=up").await.code, ErrorCode(-32002));
    server.end().await;
}
