//! Idle streams of `subscriptions/listen` (MCP 2026-07-28): their memory, the time until the last of them has an
//! update, and the time until all of them that reconnect at once have one. Over HTTP/1.1 each has a connection of its
//! own, over HTTP/2 32 have one together.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use mcp_host_tests::{ConfigFile, Folder, Plugin, WrittenConfig};
use rmcp::model::ProtocolVersion;
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};

use crate::bench_request::BenchRequest;
use crate::event_stream::{Connection, Version};
use crate::http::HttpClient;
use crate::load::percentile;
use crate::options::Options;
use crate::process::{Program, Server};
use crate::table;

/// The resource that all listen for.
const URI: &str = "files://f/a.txt";
/// The pause after which what was allocated for a moment is free again.
const SETTLE: Duration = Duration::from_secs(3);
/// The number of descriptors that the server may open besides connections.
const OTHER_DESCRIPTORS: usize = 16;
/// The pause before an edit.
const PAUSE: Duration = Duration::from_millis(500);
/// The interval of edits while streams are opened again.
const EDIT_INTERVAL: Duration = Duration::from_millis(100);

/// Measures streams over the version of HTTP that the options name.
pub(crate) async fn run(options: &Options) {
    let (version, count) = (options.listener_version(), options.listeners());
    let edits = if options.is_quick() { 5 } else { 20 };
    raise_file_limit();
    let folder = Folder::with_files([("a.txt", "0")]);
    let config = config(&folder, count);
    let (server, address) = Program::Host(&config).over_http().await;
    let mut client = HttpClient::connect(address, ProtocolVersion::V_2026_07_28).await;
    client.send(&BenchRequest::read("read", URI, 1)).await;
    sleep(SETTLE).await;

    let (idle, descriptors) = (server.memory(), server.descriptors());
    let mut connections = open(version, address, count).await;
    sleep(SETTLE).await;
    let listening = server.memory();
    let each = |memory: u64, before: u64| table::kibibytes(memory.saturating_sub(before) / count as u64);

    let mut times = Vec::new();
    for edit in 0..edits {
        // The host polls a plugin that changes all the time less often.
        sleep(PAUSE).await;
        connections.iter_mut().for_each(Connection::skip_updates);
        let start = Instant::now();
        folder.write("a.txt", format!("edit {edit}"));
        connections = updated(connections).await;
        times.push(start.elapsed());
    }
    times.sort_unstable();

    drop(connections);
    wait_until_closed(&server, descriptors).await;
    sleep(SETTLE).await;
    let reopened = reopen(version, address, count, folder.path()).await;

    let header = [
        "streams",
        "connections",
        "resident KiB a stream",
        "private KiB a stream",
        "edit to the last, p50 ms",
        "longest ms",
        "reconnected at once: until all had an update ms",
    ];
    let row = vec![
        count.to_string(),
        version.connections(count).len().to_string(),
        each(listening.resident, idle.resident),
        each(listening.private, idle.private),
        table::millis(percentile(&times, 0.5)),
        table::millis(percentile(&times, 1.0)),
        table::millis(reopened),
    ];
    let heading = format!("Idle streams of `subscriptions/listen` over {}", version.name());
    table::print(&heading, &header, vec![row]);
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

/// Opens this number of streams, each when the last one is acknowledged.
async fn open(version: Version, address: SocketAddr, count: usize) -> Vec<Connection> {
    let mut connections = Vec::new();
    for streams in version.connections(count) {
        connections.push(version.open(address, URI, streams).await);
    }
    connections
}

/// Waits until each stream has had an update.
async fn updated(connections: Vec<Connection>) -> Vec<Connection> {
    let updated = connections.into_iter().map(|mut connection| async move {
        connection.updated().await;
        connection
    });
    updated.collect::<JoinSet<_>>().join_all().await
}

/// Waits until the server has closed the connections that it did not have when it had this number of descriptors.
async fn wait_until_closed(server: &Server, descriptors: usize) {
    while server.descriptors() > descriptors + OTHER_DESCRIPTORS {
        sleep(PAUSE).await;
    }
}

/// Opens this number of streams, on all connections at once, while the resource is edited again and again. Returns the
/// time until each has had an update.
async fn reopen(version: Version, address: SocketAddr, count: usize, folder: &Path) -> Duration {
    let file = folder.join("a.txt");
    let editing = tokio::spawn(async move {
        let mut interval = interval(EDIT_INTERVAL);
        for edit in 0_u64.. {
            interval.tick().await;
            std::fs::write(&file, format!("again {edit}")).expect("the file can be written");
        }
    });
    let start = Instant::now();
    let opening = version.connections(count).into_iter().map(|streams| async move {
        let mut connection = version.open(address, URI, streams).await;
        connection.updated().await;
        connection
    });
    let connections = opening.collect::<JoinSet<_>>().join_all().await;
    let time = start.elapsed();
    editing.abort();
    drop(connections);
    time
}
