//! The console in a browser, on a catalog of 100,000 files and 200 plugins: the first view, a filter over all files,
//! and the time from an edit on disk until it is drawn.
//!
//! It needs the browser and its driver: `cargo xtask debian`, `cargo xtask clients`. The browser measures the times
//! (`tests/clients/console/figures.mjs`), from the start of the navigation, or of the edit, to the frame that shows the
//! result.
//!
//! Each step is printed on standard error when it ends, with its duration. A step that takes too long ends the
//! benchmark with a message that says what was waited for: those in the browser by `figures.mjs`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use mcp_host_tests::{LargeCatalog, Plugin, ReservedPort, client_program};
use serde_json::json;
use tokio::process::Command;
use tokio::time::timeout;

use crate::chart::{Chart, Ratio};
use crate::options::Options;
use crate::process::{Program, compile};
use crate::table;

/// The token of the administrator.
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// The time for the compiler, on a machine that compiles other programs meanwhile.
const COMPILED: Duration = Duration::from_mins(10);
/// The time until the server listens, once its components are compiled.
const LISTENING: Duration = Duration::from_mins(1);
/// The time for all steps in the browser, which have timeouts of their own.
const BROWSED: Duration = Duration::from_mins(30);

/// The figures, by their names in the output of the browser.
const FIGURES: [(&str, &str); 6] = [
    ("first-view", "the first view, nothing in the browser's cache"),
    ("first-view-again", "the same with its files in the cache"),
    ("rows", "rows of it that are elements"),
    ("filter", "a filter by name, until all 100,000 were looked at"),
    ("edit-small", "an edit of one of three files"),
    ("edit-many", "an edit of one of 100,000 files"),
];

/// The figures with targets: the names in the output of the browser and in the chart, and the targets in milliseconds.
const TARGETS: [(&str, &str, f64); 4] = [
    ("first-view", "first view", 500.0),
    ("first-view-again", "first view, files in the cache", 500.0),
    ("edit-small", "edit of one of three files", 300.0),
    ("edit-many", "edit of one of 100,000 files", 300.0),
];

/// Measures the figures, prints the median and the maximum of the turns, and draws the ratios to the targets.
pub(crate) async fn run(options: &Options) {
    let mut steps = Steps::begin();
    let (catalog, port) = (LargeCatalog::write(), ReservedPort::new());
    steps.ended("writing 100,000 files");
    let folder = tempfile::tempdir().expect("a directory");
    let (token, files) = (folder.path().join("admin.token"), folder.path().join("files.json"));
    fs::write(&token, TOKEN).expect("the token can be written");
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).expect("the owner may do so");
    let (turns, filters) = if options.is_quick() { (5, 1) } else { (20, 3) };
    let (few, many) = (catalog.file_of_few(), catalog.file_of_many());
    let described = json!({ "few": few, "many": many, "turns": turns, "filters": filters });
    fs::write(&files, described.to_string()).expect("the names can be written");
    let admin = format!("\n[admin]\nlisten = \"{}\"\ntoken = {{ file = {token:?} }}\n", port.address());
    let config = catalog.config(Plugin::sample("another")).allow_all().append(&admin).write();
    timeout(COMPILED, compile(&config)).await.expect("`mcp-host check` compiles the components in 10 min");
    steps.ended("compiling the components");
    let server = timeout(LISTENING, Program::Host(&config).over_http()).await;
    let (server, _) = server.expect("the server with 200 plugins listens within a minute");
    steps.ended("starting the server");

    let mut browser = Command::new("node");
    browser.arg(client_program("console/console.mjs")).args(["figures", &format!("http://{}", port.address()), TOKEN]);
    browser.arg(folder.path()).arg(&files).stderr(Stdio::inherit()).kill_on_drop(true);
    let output = timeout(BROWSED, browser.output()).await.expect("the browser ends within 30 min");
    let output = output.expect("the browser starts");
    assert!(output.status.success(), "the browser fails");
    server.end().await;
    steps.ended("the browser");

    let printed = String::from_utf8_lossy(&output.stdout);
    let rows = FIGURES.iter().map(|(name, shown)| {
        let prefix = format!("figure {name} ");
        let line = printed.lines().find_map(|line| line.strip_prefix(&prefix)).expect("the browser prints each figure");
        [*shown].into_iter().chain(line.split(' ')).map(str::to_owned).collect()
    });
    let heading = "The console in Chromium, 100,000 resources and 200 plugins, in milliseconds";
    table::print(heading, &["", "median", "longest", "turns"], rows.collect());
    chart_of(&printed).write(options.charts.as_deref(), "console");
    drop(catalog);
    steps.ended("removing the files");
}

/// The chart of the times in the output of the browser.
fn chart_of(printed: &str) -> Chart {
    let axis = "time ÷ target, 500 ms for a view and 300 ms for an edit: less is better";
    let mut chart = Chart::new("The console: 100,000 resources and 200 plugins", axis, ["Chromium"]);
    for (name, shown, target) in TARGETS {
        let prefix = format!("times {name} ");
        let times = printed.lines().find_map(|line| line.strip_prefix(&prefix)).expect("the browser prints all times");
        let ratio = |time: &str| time.parse::<f64>().expect("a time is a number") / target;
        chart.add(shown, vec![Ratio::of(times.split(' ').map(ratio).collect())]);
    }
    chart
}

/// Prints how long each step takes.
struct Steps(Instant);

impl Steps {
    fn begin() -> Self {
        Self(Instant::now())
    }

    fn ended(&mut self, step: &str) {
        eprintln!("console: {step}: {:.1} s", self.0.elapsed().as_secs_f64());
        self.0 = Instant::now();
    }
}
