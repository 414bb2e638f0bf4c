//! Soak test of a server as it is operated, with everything on: `cargo xtask soak --operations --minutes 60`.
//!
//! Metrics are scraped each second, requests are traced, the audit log is written, search is on. Subscribers of two
//! lifecycles listen, and some are replaced in each turn; readers read. Beside that, at intervals: the config is
//! reloaded and replaces plugins, calls of a plugin trap, hang and fail, PostgreSQL is killed and started, the
//! collector of traces goes and comes back.
//!
//! In each turn a file is edited, and the turn ends when each of its subscribers has been notified and has read the
//! edit: an update that is lost fails the test. So do, at the end, more than [`MAX_MEMORY_RATIO`] of the memory at the
//! first row behind five minutes (or a twelfth of a shorter run), and descriptors or threads that have become more by
//! [`MAX_MORE`].

mod subscriber;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_host_tests::{
    Collector, ConfigFile, Folder, Plugin, Postgresql, RawHttp, ReservedPort, Revision, WrittenConfig,
};
use rmcp::model::ProtocolVersion;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::{interval, sleep, timeout};

use self::subscriber::{FileProgress, Subscriber};
use crate::options::Options;
use crate::process::{Program, Server, compile};
use crate::table;

/// Files of each of the two folders.
const FILES: usize = 10;
/// Subscribers; each has one file of one folder, and every second one a session.
const SUBSCRIBERS: usize = 200;
/// Subscribers that are replaced in each turn.
const REPLACED_PER_TURN: usize = 2;
/// The pause between turns.
const PAUSE: Duration = Duration::from_millis(500);
/// How long the subscribers of an edited file may take.
const TURN_TIMEOUT: Duration = Duration::from_secs(120);
/// The intervals of faults: of a reload, of a kill of PostgreSQL, and of the collector's absence, which lasts for half
/// of it.
const RELOAD_INTERVAL: Duration = Duration::from_secs(60);
const DATABASE_INTERVAL: Duration = Duration::from_secs(170);
const COLLECTOR_INTERVAL: Duration = Duration::from_secs(110);
/// The time from which on memory must not grow.
const SETTLED: Duration = Duration::from_secs(300);
/// The memory at the end ÷ the memory once settled.
const MAX_MEMORY_RATIO: f64 = 1.1;
/// More descriptors, and more threads, than once settled: connections and calls that happen to be under way.
const MAX_MORE: usize = 24;
/// Every fifth turn calls of the plugin `faulty` end so.
const FAULTS: [&str; 4] = ["changes.trap", "changes.hang", "read.fail", "changes.fail"];

/// A resource that there is none of.
const ABSENT: &str = "files://f/absent";

/// Runs the test.
pub(crate) async fn run(options: &Options) {
    let soak = Soak::start().await;
    let background = soak.background();
    let rows = soak.turns(options.soak_duration()).await;
    for task in background {
        task.abort();
        // One that has ended has failed, and says why.
        let ended = task.await;
        assert!(ended.is_err_and(|error| error.is_cancelled()), "a client or a fault ended before the test");
    }
    soak.judge(&rows);
    soak.server.end().await;
}

/// The server, and what it uses.
struct Soak {
    server: Server,
    url: String,
    admin: String,
    config: Arc<Shared>,
    progress: Vec<Arc<FileProgress>>,
}

/// What faults change.
struct Shared {
    files: Folder,
    faulty: Folder,
    database: Postgresql,
    collector: Collector,
    admin: ReservedPort,
    written: WrittenConfig,
}

/// The state of the process at a moment.
struct Row {
    elapsed: Duration,
    turns: usize,
    updates: usize,
    slowest: Duration,
    resident: u64,
    descriptors: usize,
    threads: usize,
}

impl Shared {
    async fn new() -> Self {
        let names = || (0..FILES).map(|number| (format!("f{number}.txt"), "version 0"));
        let database = Postgresql::start(
            "CREATE ROLE reader LOGIN; CREATE TABLE orders (id int PRIMARY KEY, text text); \
             INSERT INTO orders SELECT n, 'order ' || n FROM generate_series(1, 1000) n; GRANT SELECT ON orders TO reader;",
        );
        let (files, faulty) = (Folder::with_files(names()), Folder::with_files(names()));
        fs::create_dir(faulty.path().join(".faults")).expect("a directory for faults");
        let written = ConfigFile::new().write();
        let collector = Collector::start().await;
        Self { files, faulty, database, collector, admin: ReservedPort::new(), written }
    }

    /// Writes the config of a generation: odd and even ones differ in a limit, so that a reload replaces the plugins.
    fn write_config(&self, generation: usize) {
        let rate = if generation.is_multiple_of(2) { "100000/s" } else { "100001/s" };
        let database = Plugin::database("shop", self.database.url("reader"));
        let plugins = [
            Plugin::files("f", self.files.path()).searched(),
            Plugin::faulty("f", self.faulty.path()).set("name", "faulty").limit("deadline", "2s"),
            database,
        ];
        let config = ConfigFile::new()
            .allow_all()
            .server("response-cache", "16MiB")
            .audit("file", "audit.jsonl")
            .http_limit("client-rate", "1000000/s")
            .http_limit("rate", "1000000/s")
            .http_limit("client-share", "1/1")
            .append(&format!("\n[admin]\nlisten = \"{}\"\n", self.admin.address()))
            .append(&self.collector.section("sample = 0.1"));
        let config = plugins.into_iter().fold(config, |config, plugin| config.plugin(plugin.limit("rate", rate)));
        self.written.replace(config);
    }

    fn folder(&self, file: usize) -> &Path {
        if file < FILES { self.files.path() } else { self.faulty.path() }
    }

    /// The path of a file, by its number in both folders together.
    fn path(&self, file: usize) -> PathBuf {
        self.folder(file).join(format!("f{}.txt", file % FILES))
    }

    /// Replaces the file, so that no reader finds it empty.
    fn edit(&self, file: usize, turn: usize) {
        let beside = self.folder(file).join(".edit");
        fs::write(&beside, format!("version {turn}")).expect("the file can be written");
        fs::rename(&beside, self.path(file)).expect("the file can be replaced");
    }
}

/// The URI of a file, by its number in both folders together.
fn uri(file: usize) -> String {
    let scheme = if file < FILES { "files" } else { "faulty" };
    format!("{scheme}://f/f{}.txt", file % FILES)
}

impl Soak {
    async fn start() -> Self {
        let config = Arc::new(Shared::new().await);
        config.write_config(0);
        compile(&config.written).await;
        let (server, address) = Program::Host(&config.written).over_http().await;
        let progress = (0..2 * FILES).map(|_| Arc::default()).collect();
        let admin = format!("http://{}", config.admin.address());
        Self { server, url: format!("http://{address}/mcp"), admin, config, progress }
    }

    /// Scrapes, readers, and faults at intervals.
    fn background(&self) -> Vec<JoinHandle<()>> {
        let admin = self.admin.clone();
        let scrapes = tokio::spawn(async move {
            let (client, mut seconds) = (reqwest::Client::new(), interval(Duration::from_secs(1)));
            loop {
                seconds.tick().await;
                for path in ["metrics", "readyz", "api/v1/status"] {
                    let answer = client.get(format!("{admin}/{path}")).send().await.expect("the listener answers");
                    assert!(path != "metrics" || answer.status().is_success(), "{path}: {}", answer.status());
                    answer.bytes().await.expect("a whole body");
                }
            }
        });
        let config = self.config.clone();
        let database = tokio::spawn(async move {
            loop {
                sleep(DATABASE_INTERVAL).await;
                let config = config.clone();
                let restart = move || {
                    config.database.kill();
                    std::thread::sleep(Duration::from_secs(5));
                    config.database.begin();
                };
                tokio::task::spawn_blocking(restart).await.expect("PostgreSQL starts again");
            }
        });
        let config = self.config.clone();
        let collector = tokio::spawn(async move {
            loop {
                sleep(COLLECTOR_INTERVAL / 2).await;
                config.collector.origin().take_down().await;
                sleep(COLLECTOR_INTERVAL / 2).await;
                config.collector.origin().bring_up().await;
            }
        });
        let requests = [
            ("resources/list", json!({})),
            ("resources/read", json!({ "uri": "search:///?q=version" })),
            ("resources/read", json!({ "uri": "context:///?q=version&budget=500" })),
            ("resources/read", json!({ "uri": "db://shop/public/orders/rows?limit=5" })),
            ("resources/templates/list", json!({})),
            ("resources/read", json!({ "uri": ABSENT })),
        ];
        let readers = requests.into_iter().map(|(method, params)| {
            let url = self.url.clone();
            tokio::spawn(async move {
                let mut client = RawHttp::start(&url, Revision::V_2026_07_28).await;
                let first = client.request(method, params.clone()).await.message;
                assert!(first["result"].is_object() || params["uri"] == ABSENT, "{method} {params}: {first}");
                loop {
                    // A plugin that is down is an error, which is an answer.
                    client.request(method, params.clone()).await;
                    sleep(Duration::from_millis(100)).await;
                }
            })
        });
        readers.chain([scrapes, database, collector]).collect()
    }

    /// Edits a file in each turn, until the time is over.
    async fn turns(&self, duration: Duration) -> Vec<Row> {
        let mut subscribers = std::collections::VecDeque::new();
        for number in 0..SUBSCRIBERS {
            subscribers.push_back(self.subscriber(number).await);
        }
        let began = Instant::now();
        let (mut turn, mut updates, mut slowest, mut reloads) = (0, 0, Duration::ZERO, 0);
        let (mut rows, mut next_row) = (Vec::new(), duration / 12);
        while began.elapsed() < duration {
            turn += 1;
            for _ in 0..REPLACED_PER_TURN {
                let replaced: Subscriber = subscribers.pop_front().expect("there are hundreds");
                let number = replaced.number;
                replaced.end().await;
                subscribers.push_back(self.subscriber(number).await);
            }
            if began.elapsed() >= RELOAD_INTERVAL * u32::try_from(reloads + 1).expect("some dozens") {
                reloads += 1;
                self.config.write_config(reloads);
                self.server.hang_up();
            }
            let fault = self.config.faulty.path().join(".faults").join(FAULTS[turn % FAULTS.len()]);
            if turn.is_multiple_of(5) {
                fs::write(&fault, "").expect("a file");
            }
            let file = turn % (2 * FILES);
            let edited = Instant::now();
            self.config.edit(file, turn);
            sleep(PAUSE).await;
            if turn.is_multiple_of(5) {
                fs::remove_file(&fault).expect("it is there");
            }
            let of_file = subscribers.iter().filter(|subscriber| subscriber.file() == file).count();
            let everyone = self.progress[file].wait_until_seen(turn, of_file);
            assert!(
                timeout(TURN_TIMEOUT, everyone).await.is_ok(),
                "turn {turn}: {} of {of_file} subscribers of {} read the edit within {TURN_TIMEOUT:?}",
                self.progress[file].seen(turn),
                uri(file),
            );
            slowest = slowest.max(edited.elapsed());
            updates += of_file;
            if began.elapsed() >= next_row {
                next_row += duration / 12;
                rows.push(self.row(began.elapsed(), turn, updates, std::mem::take(&mut slowest)));
            }
        }
        for subscriber in subscribers {
            subscriber.end().await;
        }
        rows
    }

    async fn subscriber(&self, number: usize) -> Subscriber {
        let file = number % (2 * FILES);
        let revision = if (number / FILES).is_multiple_of(2) {
            ProtocolVersion::V_2025_11_25
        } else {
            ProtocolVersion::V_2026_07_28
        };
        Subscriber::start(&self.url, revision, number, file, uri(file), self.progress[file].clone()).await
    }

    fn row(&self, elapsed: Duration, turns: usize, updates: usize, slowest: Duration) -> Row {
        let resident = self.server.memory().resident;
        let (descriptors, threads) = (self.server.descriptors(), self.server.threads());
        Row { elapsed, turns, updates, slowest, resident, descriptors, threads }
    }

    fn judge(&self, rows: &[Row]) {
        let cells = rows.iter().map(|row| {
            vec![
                row.elapsed.as_secs().to_string(),
                row.turns.to_string(),
                row.updates.to_string(),
                table::millis(row.slowest),
                table::mebibytes(row.resident),
                row.descriptors.to_string(),
                row.threads.to_string(),
            ]
        });
        let header =
            ["s", "edits", "updates that were read", "longest ms to the last reader", "MiB", "descriptors", "threads"];
        let heading = format!("{SUBSCRIBERS} subscribers of {} files, {} plugins, with faults", 2 * FILES, 3);
        table::print(&heading, &header, cells.collect());
        let (Some(last), Some(settled)) =
            (rows.last(), rows.iter().find(|row| row.elapsed >= SETTLED).or_else(|| rows.first()))
        else {
            panic!("the time was too short for a row")
        };
        #[allow(clippy::cast_precision_loss, reason = "a ratio")]
        let ratio = last.resident as f64 / settled.resident as f64;
        println!("\nLost: 0. Memory at the end ÷ at {} s: {ratio:.3}.", settled.elapsed.as_secs());
        assert!(ratio <= MAX_MEMORY_RATIO, "memory grew by a factor of {ratio:.3}; {MAX_MEMORY_RATIO} is allowed");
        let more = |last: usize, settled: usize| last.saturating_sub(settled);
        assert!(more(last.descriptors, settled.descriptors) <= MAX_MORE, "descriptors grew by more than {MAX_MORE}");
        assert!(more(last.threads, settled.threads) <= MAX_MORE, "threads grew by more than {MAX_MORE}");
    }
}
