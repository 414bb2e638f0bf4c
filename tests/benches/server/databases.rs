//! Rows of PostgreSQL through the provider `database`, beside the same statements by the client library alone.
//!
//! One table of ten million rows, read in pages of 100 by keyset: the first page, one in the middle, the last; and a
//! saved query with a parameter. The host starts a fresh instance for each call, or reuses one. All get their requests
//! in turn.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use mcp_host_tests::{Plugin, Postgresql, component};
use tokio::net::UnixStream;
use tokio_postgres::{Client, Config, NoTls, Statement};
use toml::{Table, Value};

use crate::bench_request::BenchRequest;
use crate::load::percentile;
use crate::options::Options;
use crate::stdio_host::StdioHost;
use crate::table;

/// The rows of the table; with `--quick` a tenth of that.
const ROWS: i64 = 10_000_000;
/// The rows of a page.
const PAGE: i64 = 100;
/// The statement of a page: with a row more, as the provider has it.
const PAGE_SQL: &str = "SELECT id, name, amount, placed FROM orders WHERE id > $1 ORDER BY id LIMIT 101";
const SAVED_SQL: &str = "SELECT id, name, amount FROM orders WHERE id = $1";
const HEADER: [&str; 9] = [
    "request",
    "median ms",
    "p99 ms",
    "reused ms",
    "ratio to the first page",
    "client library ms",
    "its ratio to the first page",
    "ratio to the library",
    "reused",
];

/// Measures all requests.
pub(crate) async fn run(options: &Options) {
    let rows = if options.is_quick() { ROWS / 10 } else { ROWS };
    let server = Postgresql::start(&format!(
        "CREATE ROLE reader LOGIN;
         CREATE TABLE orders (id bigint PRIMARY KEY, name text NOT NULL, amount numeric(10, 2), placed timestamptz);
         INSERT INTO orders SELECT n, 'customer ' || n % 1000, n % 997 + 0.25, '2026-01-01Z'::timestamptz + n * interval '1 s'
         FROM generate_series(1, {rows}) n;
         GRANT SELECT ON orders TO reader;"
    ));
    server.sql("VACUUM ANALYZE orders");
    let fresh = StdioHost::start(plugin(&server)).await;
    let reused = StdioHost::start(plugin(&server).instances("max-calls", 1_000_000)).await;
    let library = Library::connect(server.socket()).await;
    let mut first = None;
    let mut table = Vec::new();
    for (name, after) in [("first page", 0), ("page in the middle", rows / 2), ("last page", rows - PAGE)] {
        let uri = format!("db://shop/public/orders/rows?limit={PAGE}&after=%5B{after}%5D&format=json");
        let request = BenchRequest::read(name, &uri, 5000);
        let times = measure(options, [&fresh, &reused], &request, &library, (&library.page, after)).await;
        let baseline = &*first.get_or_insert_with(|| times.clone());
        table.push(times.row(name, Some(baseline)));
    }
    let request = BenchRequest::read("saved query", "db://shop/query/order?id=4711&format=json", 100);
    let times = measure(options, [&fresh, &reused], &request, &library, (&library.saved, 4711)).await;
    table.push(times.row("saved query", None));
    table::print(&format!("A table of {rows} rows in PostgreSQL, pages of {PAGE}"), &HEADER, table);
    println!("\nPeak memory of the whole host process: {} MiB.", table::mebibytes(fresh.server.peak_memory()));
    fresh.end().await;
    reused.end().await;
}

fn plugin(server: &Postgresql) -> Plugin {
    let parameter: Table = [("name".to_owned(), Value::from("id"))].into_iter().collect();
    let query: Table = [
        ("sql".to_owned(), SAVED_SQL.replace("$1", "$1::bigint").into()),
        ("parameters".to_owned(), vec![Value::from(parameter)].into()),
    ]
    .into_iter()
    .collect();
    let queries: Table = [("order".to_owned(), query.into())].into_iter().collect();
    Plugin::new("shop", &component("database"), "db://shop/")
        .sql("shop", server.url("reader"), [])
        .config("queries", queries)
}

/// The client library, with both statements prepared.
struct Library {
    client: Client,
    page: Statement,
    saved: Statement,
}

impl Library {
    async fn connect(socket: PathBuf) -> Self {
        let mut config = Config::new();
        config.user("reader").dbname("shop");
        let stream = UnixStream::connect(socket).await.expect("the server listens");
        let (client, connection) = config.connect_raw(stream, NoTls).await.expect("the role may connect");
        tokio::spawn(connection);
        let page = client.prepare(PAGE_SQL).await.expect("the statement is valid");
        let saved = client.prepare(SAVED_SQL).await.expect("the statement is valid");
        Self { client, page, saved }
    }

    /// Runs a statement, and returns the time that it took until all rows were there.
    async fn time(&self, statement: &Statement, parameter: i64) -> Duration {
        let start = Instant::now();
        let rows = self.client.query(statement, &[&parameter]).await.expect("the statement runs");
        assert!(!rows.is_empty());
        start.elapsed()
    }
}

/// The times of a request, sorted.
#[derive(Clone)]
struct Times {
    fresh: Vec<Duration>,
    reused: Vec<Duration>,
    library: Vec<Duration>,
}

impl Times {
    fn row(&self, name: &str, first: Option<&Self>) -> Vec<String> {
        let median = |times: &[Duration]| percentile(times, 0.5).as_secs_f64();
        let to_first = |of: fn(&Self) -> &[Duration]| {
            first.map_or_else(|| "–".to_owned(), |first| table::ratio(median(of(self)), median(of(first))))
        };
        vec![
            name.to_owned(),
            table::millis(percentile(&self.fresh, 0.5)),
            table::millis(percentile(&self.fresh, 0.99)),
            table::millis(percentile(&self.reused, 0.5)),
            to_first(|times| &times.fresh),
            table::millis(percentile(&self.library, 0.5)),
            to_first(|times| &times.library),
            table::ratio(median(&self.fresh), median(&self.library)),
            table::ratio(median(&self.reused), median(&self.library)),
        ]
    }
}

async fn measure(
    options: &Options,
    [fresh, reused]: [&StdioHost; 2],
    request: &BenchRequest,
    library: &Library,
    (statement, parameter): (&Statement, i64),
) -> Times {
    let mut times = Times { fresh: Vec::new(), reused: Vec::new(), library: Vec::new() };
    for _ in 0..options.reads() {
        times.fresh.push(fresh.time(request).await);
        times.reused.push(reused.time(request).await);
        times.library.push(library.time(statement, parameter).await);
    }
    for times in [&mut times.fresh, &mut times.reused, &mut times.library] {
        times.sort_unstable();
    }
    times
}
