//! Idle streams of `subscriptions/listen` over HTTP/1.1 (MCP 2026-07-28), one connection each: their memory, the time until the
//! last of them has an update, and the time until all of them that reconnect at once have one.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use mcp_host_tests::{ConfigFile, Folder, Plugin, WrittenConfig};
use rmcp::model::ProtocolVersion;
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};

use crate::bench_request::BenchRequest;
use crate::http::HttpClient;
use crate::load::percentile;
use crate::options::Options;
use crate::process::Program;
use crate::table;

/// The resource that all listen for.
const URI: &str = "files://f/a.txt";
/// What an update of it has in its event.
const UPDATED: &[u8] = b"notifications/resources/updated";
/// The pause after which what was allocated for a moment is free again.
const SETTLE: Duration = Duration::from_secs(3);
/// The pause before an edit.
const PAUSE: Duration = Duration::from_millis(500);
/// The interval of edits while streams are opened again.
const EDIT_INTERVAL: Duration = Duration::from_millis(100);

/// Measures so many streams.
pub(crate) async fn run(options: &Options) {
    let (count, edits) = if options.is_quick() { (500, 5) } else { (5000, 20) };
    raise_file_limit();
    let folder = Folder::with_files([("a.txt", "0")]);
    let config = config(&folder, count);
    let (server, address) = Program::Host(&config).over_http().await;
    connect(address).await.send(&BenchRequest::read("read", URI, 1)).await;
    sleep(SETTLE).await;

    let idle = server.memory();
    let mut streams = open(address, count).await;
    sleep(SETTLE).await;
    let listening = server.memory();
    let each = |memory: u64, before: u64| table::kibibytes(memory.saturating_sub(before) / count as u64);

    let mut times = Vec::new();
    for edit in 0..edits {
        // The host polls a plugin that changes all the time less often.
        sleep(PAUSE).await;
        let start = Instant::now();
        folder.write("a.txt", format!("edit {edit}"));
        streams = updated(streams).await;
        times.push(start.elapsed());
    }
    times.sort_unstable();

    drop(streams);
    sleep(SETTLE).await;
    let reopened = reopen(address, count, folder.path()).await;

    let header = [
        "streams",
        "resident KiB a stream",
        "private KiB a stream",
        "edit to the last, p50 ms",
        "longest ms",
        "reconnected at once: until all had an update ms",
    ];
    let row = vec![
        count.to_string(),
        each(listening.resident, idle.resident),
        each(listening.private, idle.private),
        table::millis(percentile(&times, 0.5)),
        table::millis(percentile(&times, 1.0)),
        table::millis(reopened),
    ];
    table::print("Idle streams of `subscriptions/listen` over HTTP/1.1", &header, vec![row]);
    server.end().await;
}

/// The descriptors of this process and of the server, which inherits the limit.
fn raise_file_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("the soft limit can be raised to the hard one");
}

fn config(folder: &Folder, count: usize) -> WrittenConfig {
    let most = i64::try_from(count).expect("a small number") + 100;
    ConfigFile::new()
        .allow_all()
        .http_limit("connections", most)
        .http_limit("streams", most)
        .http_limit("client-share", "1/1")
        .plugin(Plugin::files("f", folder.path()).limit("rate", "1000000/s"))
        .write()
}

async fn connect(address: SocketAddr) -> HttpClient {
    HttpClient::connect(address, ProtocolVersion::V_2026_07_28).await
}

/// Opens so many streams, each when the last one is acknowledged.
async fn open(address: SocketAddr, count: usize) -> Vec<Incoming> {
    let mut streams = Vec::with_capacity(count);
    for _ in 0..count {
        streams.push(connect(address).await.listen(URI).await);
    }
    streams
}

/// Waits until each stream has had an update.
async fn updated(streams: Vec<Incoming>) -> Vec<Incoming> {
    let tasks: JoinSet<_> = streams.into_iter().map(next_update).collect();
    tasks.join_all().await
}

/// Waits for the next update of a stream.
pub(crate) async fn next_update(mut stream: Incoming) -> Incoming {
    loop {
        let frame = stream.frame().await.expect("the stream lasts").expect("an event");
        let data = frame.into_data().unwrap_or_default();
        if data.windows(UPDATED.len()).any(|window| window == UPDATED) {
            return stream;
        }
    }
}

/// Opens so many streams at once, while the resource is edited again and again. Returns the time until each has had an update.
async fn reopen(address: SocketAddr, count: usize, folder: &Path) -> Duration {
    let file = folder.join("a.txt");
    let editing = tokio::spawn(async move {
        let mut interval = interval(EDIT_INTERVAL);
        for edit in 0_u64.. {
            interval.tick().await;
            std::fs::write(&file, format!("again {edit}")).expect("the file can be written");
        }
    });
    let start = Instant::now();
    let opening = (0..count).map(|_| async move { next_update(connect(address).await.listen(URI).await).await });
    let streams = opening.collect::<JoinSet<_>>().join_all().await;
    let time = start.elapsed();
    editing.abort();
    drop(streams);
    time
}
