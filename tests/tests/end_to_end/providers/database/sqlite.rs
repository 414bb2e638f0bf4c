//! SQLite: the same provider, on a file.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::mpsc::{self, TryRecvError};
use std::time::{Duration, Instant};

use mcp_host_tests::{
    ConfigFile, Folder, HttpServer, Plugin, RawStdio, Revision, Rule, StdioServer, component, fixture, run,
};
use rusqlite::Connection;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::timeout;
use toml::Value;

use super::{all_rows, config, dictionary, free_sql, json, statement_uri};

const SHOP: &str = "
    CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT UNIQUE);
    CREATE TABLE orders (customer INTEGER REFERENCES customers (id), item TEXT, price REAL, PRIMARY KEY (customer, item));
    CREATE TABLE \"Odd \"\"name\"\"\" (a);
    CREATE VIEW cheap AS SELECT item FROM orders WHERE price < 5;
    CREATE INDEX by_price ON orders (price);
    INSERT INTO customers VALUES (1, 'Ada', 'ada@example.com'), (2, 'Grace', NULL);
    INSERT INTO \"Odd \"\"name\"\"\" VALUES (1), ('x'), (x'00');
";

/// Creates a directory with the database, and returns it with the database's writer.
fn shop() -> (Folder, Connection, String) {
    let folder = Folder::with_files::<&str, &str>([]);
    let file = folder.path().join("shop.db");
    let writer = Connection::open(&file).unwrap();
    writer.pragma_update(None, "journal_mode", "WAL").unwrap();
    writer.execute_batch(SHOP).unwrap();
    for n in 0..50 {
        let price = (n % 3 > 0).then_some(f64::from(n % 10));
        writer.execute("INSERT INTO orders VALUES (?1, ?2, ?3)", (1 + n % 2, format!("item {n:02}"), price)).unwrap();
    }
    let url = format!("sqlite://{}", file.display());
    (folder, writer, url)
}

#[tokio::test]
async fn a_file_is_listed_described_and_read_in_pages() {
    let (_folder, writer, url) = shop();
    let config = config(Plugin::database("shop", url));
    let server = StdioServer::start(&config).await;
    let client = server.client();
    assert_eq!(client.uris().await, ["db://shop/dictionary", "db://shop/main"]);
    let dictionary = dictionary(client).await;
    let names: Vec<_> = dictionary["tables"].as_array().unwrap().iter().map(|table| &table["name"]).collect();
    assert_eq!(names, ["Odd \"name\"", "cheap", "customers", "orders"]);
    let orders = &dictionary["tables"][3];
    assert_eq!(orders["key"], json!(["customer", "item"]));
    assert_eq!(orders["constraints"], json!(["FOREIGN KEY (customer) REFERENCES customers (id)"]));
    for (order, sql) in [
        ("", "customer, item"),
        ("&order=price", "price NULLS LAST, customer, item"),
        ("&order=-price", "price DESC NULLS LAST, customer, item"),
    ] {
        let (rows, pages) = all_rows(client, &format!("db://shop/main/orders/rows?limit=7&columns=item{order}")).await;
        let mut expected = writer.prepare(&format!("SELECT item FROM orders ORDER BY {sql}")).unwrap();
        let expected: Vec<String> = expected.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        let items: Vec<_> = rows.iter().map(|row| row[0].as_str().unwrap().to_owned()).collect();
        assert_eq!((items, pages), (expected, 8), "{order}");
    }
    let (rows, _) = all_rows(client, "db://shop/main/Odd%20%22name%22/rows?limit=1").await;
    assert_eq!(rows, [json!([1]), json!(["x"]), json!(["\\x00"])]);
    server.end().await;
}

#[tokio::test]
async fn a_live_log_is_read_and_a_change_is_told() {
    let (_folder, writer, url) = shop();
    let config = config(Plugin::database("shop", url).set("watch-interval", "100ms"));
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    wire.subscribe("db://shop/main/customers/rows").await;
    writer.execute_batch("BEGIN IMMEDIATE; UPDATE customers SET name = 'Barbara' WHERE id = 2").unwrap();
    let text = wire.read("db://shop/main/customers/rows?format=csv").await.unwrap();
    assert!(text.contains("2,Grace,"), "it is not committed: {text}");
    writer.execute_batch("COMMIT").unwrap();
    let changed = wire.notification("notifications/resources/updated").await;
    assert_eq!(changed["params"]["uri"], "db://shop/main/customers/rows");
    let text = wire.read("db://shop/main/customers/rows?format=csv").await.unwrap();
    assert!(text.contains("2,Barbara,"), "{text}");
    wire.end().await;
}

/// The provider with clients' statements allowed, on one connection and with a timeout for each query.
fn one_connection(url: &str, timeout: &str) -> Plugin {
    connections(1, url, timeout)
}

/// The same, with `number` connections.
fn connections(number: i64, url: &str, timeout: &str) -> Plugin {
    Plugin::new("shop", &component("database"), "db://shop/")
        .sql("shop", url, [("connections", number.into()), ("timeout", timeout.into())])
        .config("free-sql", true)
        .config("formats", vec![Value::from("json")])
        .limit("deadline", "60s")
        .limit("cpu", "60s")
}

/// Inserts texts of a million bytes each, which are expensive to compare and to sort.
fn long_texts(writer: &Connection, number: usize) {
    writer.execute_batch("CREATE TABLE texts (a TEXT)").unwrap();
    for _ in 0..number {
        writer.execute("INSERT INTO texts VALUES (?1)", ["a".repeat(1_000_000)]).unwrap();
    }
}

#[tokio::test]
async fn a_function_that_takes_long_ends_with_its_query_and_frees_the_connection() {
    let (_folder, writer, url) = shop();
    long_texts(&writer, 1);
    let server = StdioServer::start(&config(one_connection(&url, "2s"))).await;
    // Calls whose time grows with the product of two lengths, without a loop between them.
    let many = |operator: &str, any: &str| {
        let calls: Vec<_> = (0..40).map(|n| format!("a {operator} p || {n}")).collect();
        let pattern = format!("'{any}' || substr(a, 1, 900) || 'b'");
        format!("SELECT {} FROM (SELECT a, {pattern} AS p FROM texts)", calls.join(", "))
    };
    for sql in [
        many("LIKE", "%"),
        many("GLOB", "*"),
        "SELECT instr(a, substr(a, 1, 500000) || 'b') FROM texts".to_owned(),
        "SELECT length(replace(a, substr(a, 1, 500000) || 'b', '')) FROM texts".to_owned(),
    ] {
        let begun = Instant::now();
        let error = server.client().read_error(&statement_uri(&sql)).await;
        assert!(begun.elapsed() < Duration::from_secs(20), "{sql:.40}: {error:?} after {:?}", begun.elapsed());
        let rows = json(server.client(), &statement_uri("SELECT 1")).await;
        assert_eq!(rows["rows"], json!([[1]]), "after {sql:.40}");
    }
    server.end().await;
}

const ENDLESS: &str = "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";

#[tokio::test]
async fn a_query_has_the_processor_time_of_its_call() {
    let (_folder, _, url) = shop();
    let plugin = one_connection(&url, "50s").limit("cpu", "500ms");
    let server = StdioServer::start(&config(plugin)).await;
    for _ in 0..2 {
        let begun = Instant::now();
        let error = server.client().read_error(&statement_uri(ENDLESS)).await;
        assert!(error.message.contains("it used up its CPU time"), "{error:?}");
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
        assert_eq!(json(server.client(), &statement_uri("SELECT 1")).await["rows"], json!([[1]]));
    }
    server.end().await;
}

#[tokio::test]
async fn the_queries_of_one_client_leave_connections_for_others() {
    let (_folder, _, url) = shop();
    let plugin = connections(4, &url, "8m").limit("deadline", "10m").limit("cpu", "10m");
    let server = HttpServer::start(&ConfigFile::new().plugin(plugin).allow_all().write()).await;
    let request = |sql: &str| json!({ "uri": statement_uri(sql) });
    let mut queries = JoinSet::new();
    for _ in 0..4 {
        let address = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
        let mut greedy = server.uninitialized(Revision::V_2026_07_28).from_address(address);
        let endless = request(ENDLESS);
        queries.spawn(async move { greedy.request("resources/read", endless).await });
    }
    // The queries end at their timeout, and started long before.
    assert!(timeout(Duration::from_secs(3), queries.join_next()).await.is_err());
    let mut other = server.uninitialized(Revision::V_2026_07_28);
    for number in 0..5 {
        let sql = request(&format!("SELECT {number}"));
        let answer = timeout(Duration::from_mins(2), other.request("resources/read", sql)).await.unwrap();
        assert!(answer.result()["contents"][0]["text"].as_str().is_some(), "{number}");
    }
    queries.shutdown().await;
    server.end().await;
}

#[tokio::test]
async fn long_texts_are_searched_and_compared() {
    let (_folder, writer, url) = shop();
    long_texts(&writer, 2);
    let server = StdioServer::start(&config(one_connection(&url, "30s"))).await;
    for (sql, expected) in [
        ("SELECT count(*) FROM texts WHERE a LIKE '%aab%'", 0),
        ("SELECT count(*) FROM texts WHERE a GLOB '*aa'", 2),
        ("SELECT sum(instr(a, 'b')) FROM texts", 0),
        ("SELECT max(length(trim(a, 'a'))) FROM texts", 0),
    ] {
        assert_eq!(json(server.client(), &statement_uri(sql)).await["rows"], json!([[expected]]), "{sql}");
    }
    server.end().await;
}

#[tokio::test]
async fn a_statement_has_the_memory_of_its_plugin_and_no_more() {
    let (_folder, _, url) = shop();
    let plugin = one_connection(&url, "30s").limit("memory", "48MiB");
    let server = StdioServer::start(&config(plugin)).await;
    let columns = (0..60).map(|n| format!("hex(randomblob(1000000)) a{n}")).collect::<Vec<_>>().join(", ");
    let lengths = (0..60).map(|n| format!("length(a{n})")).collect::<Vec<_>>().join(" + ");
    let sql = format!("SELECT {lengths} FROM (SELECT {columns} LIMIT 1)");
    let error = server.client().read_error(&statement_uri(&sql)).await;
    assert!(error.message.contains("out of memory"), "{error:?}");
    assert_eq!(json(server.client(), &statement_uri("SELECT 1")).await["rows"], json!([[1]]));
    server.end().await;
}

#[tokio::test]
async fn a_large_sort_succeeds_in_a_confined_server() {
    let (_folder, writer, url) = shop();
    let rows = "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 40000) \
                SELECT hex(randomblob(250)) AS a FROM n";
    writer.execute_batch(&format!("CREATE TABLE long AS {rows}")).unwrap();
    let state = Folder::with_files::<&str, &str>([]);
    let config = ConfigFile::new()
        .server("confine", true)
        .server("cache", state.path().join("cache").to_str().unwrap())
        .plugin(one_connection(&url, "30s"))
        .write();
    let server = StdioServer::start(&config).await;
    // The sorted rows are counted, which forces the sort.
    let sql =
        "SELECT count(*) FROM (SELECT a, row_number() OVER (ORDER BY a) FROM long ORDER BY a DESC LIMIT -1 OFFSET 1)";
    assert_eq!(json(server.client(), &statement_uri(sql)).await["rows"], json!([[39_999]]));
    server.end().await;
}

#[tokio::test]
async fn a_plugin_that_may_write_beside_a_database_does_not_redirect_its_path() {
    let (folder, _writer, url) = shop();
    let (other, _other_writer, _) = shop();
    let writing = Plugin::new("files", &fixture("files"), "files:///").writable_dir(folder.path(), "/a", "100MiB");
    let config = ConfigFile::new().plugin(free_sql(url)).plugin(writing).write();
    let server = StdioServer::start(&config).await;
    let count = |table: &str| statement_uri(&format!("SELECT count(*) FROM {table}"));
    assert_eq!(json(server.client(), &count("orders")).await["rows"], json!([[50]]));
    fs::rename(folder.path().join("shop.db"), folder.path().join("moved.db")).unwrap();
    let outside = other.path().file_name().unwrap().to_str().unwrap();
    folder.symlink("shop.db", format!("../{outside}/shop.db"));
    server.client().read_error(&count("customers")).await;
    let line = server.log_line("follows no link there").await;
    assert!(line.contains("shop.db"), "{line}");
    server.end().await;
}

fn make_fifo(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

#[tokio::test]
async fn a_fifo_in_place_of_a_database_or_its_journal_is_not_waited_for() {
    let folder = Folder::with_files::<&str, &str>([]);
    let file = folder.path().join("shop.db");
    Connection::open(&file).unwrap().execute_batch(SHOP).unwrap();
    let url = format!("sqlite://{}", file.display());
    // A wait for the writer of a FIFO takes this timeout.
    let server = StdioServer::start(&config(one_connection(&url, "5m").limit("deadline", "10m"))).await;
    let count = statement_uri("SELECT count(*) FROM customers");
    assert_eq!(json(server.client(), &count).await["rows"], json!([[2]]));
    let (kept, journal) = (folder.path().join("kept.db"), folder.path().join("shop.db-journal"));
    fs::rename(&file, &kept).unwrap();
    for fifo in [&file, &journal] {
        make_fifo(fifo);
        let begun = Instant::now();
        server.client().read_error(&count).await;
        assert!(begun.elapsed() < Duration::from_mins(4), "{fifo:?}: {:?}", begun.elapsed());
        fs::remove_file(fifo).unwrap();
        if fifo == &file {
            fs::rename(&kept, &file).unwrap();
        }
    }
    assert_eq!(json(server.client(), &count).await["rows"], json!([[2]]));
    server.end().await;
}

#[tokio::test]
async fn check_prepares_saved_queries() {
    let (_folder, _, url) = shop();
    let saved: Value = toml::toml! {
        [good]
        sql = "SELECT count(*) FROM orders WHERE customer = $1"
        parameters = [{ name = "customer" }]
        [misspelt]
        sql = "SELECT count(*) FROM oders"
        [forgotten]
        sql = "SELECT count(*) FROM orders WHERE customer = $1"
    }
    .into();
    let config = config(Plugin::database("shop", url).config("queries", saved));
    let output = run(["check", "--json", "--config", config.path().to_str().unwrap()]).await;
    let report = output.success().json();
    let warnings: Vec<_> =
        report["plugins"][0]["warnings"].as_array().unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(warnings.len(), 2, "{report:#}");
    assert!(warnings[0].contains("`forgotten`") && warnings[0].contains("1 parameters, and 0 values"), "{warnings:?}");
    assert!(warnings[1].contains("`misspelt`") && warnings[1].contains("no such table: oders"), "{warnings:?}");
}

#[tokio::test]
async fn a_rule_counts_at_once_while_the_file_of_a_database_is_missing() {
    let (folder, writer, url) = shop();
    let served = || ConfigFile::new().plugin(Plugin::database("shop", url.clone())).plugin(Plugin::sample("s"));
    let config = served().rule(Rule::for_principal("*").allow(["**"])).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    wire.read("db://shop/dictionary").await.unwrap();
    drop(writer);
    fs::remove_file(folder.path().join("shop.db")).unwrap();
    config.replace(served().rule(Rule::for_principal("*").allow(["**"]).deny(["db://shop/**"])));
    wire.log_line("there is no database file").await;
    let refused = wire.read("db://shop/dictionary").await.unwrap_err();
    assert_eq!(refused["code"], -32002, "{refused}");
    wire.end().await;
}

#[tokio::test]
async fn a_writer_that_never_pauses_delays_no_reader() {
    let (folder, _, url) = shop();
    let config = config(free_sql(url));
    let server = StdioServer::start(&config).await;
    let file = folder.path().join("shop.db");
    let (stop, stopped) = mpsc::channel::<()>();
    let writing = std::thread::spawn(move || {
        let writer = Connection::open(file).unwrap();
        let mut written = 0;
        while stopped.try_recv() == Err(TryRecvError::Empty) {
            // Both tables change together, or not at all.
            let sql = "BEGIN IMMEDIATE; INSERT INTO customers (name) VALUES ('x'); INSERT INTO \"Odd \"\"name\"\"\" VALUES (0); COMMIT";
            writer.execute_batch(sql).unwrap();
            written += 1;
        }
        written
    });
    let sql = "SELECT (SELECT count(*) FROM customers) - (SELECT count(*) FROM \"Odd \"\"name\"\"\")";
    for _ in 0..200 {
        let rows = json(server.client(), &statement_uri(sql)).await;
        assert_eq!(rows["rows"], json!([[-1]]), "a query sees one state");
    }
    stop.send(()).unwrap();
    assert!(writing.join().unwrap() > 0);
    server.end().await;
}

#[tokio::test]
async fn saved_queries_take_numbers_and_texts() {
    let (_folder, _, url) = shop();
    let saved: Value = toml::toml! {
        [of]
        sql = "SELECT count(*) AS n FROM orders WHERE customer = $1"
        parameters = ["customer"]
    }
    .into();
    // A parameter is a table, because it may have a default.
    let output = run([
        "check",
        "--config",
        config(Plugin::database("shop", url.clone()).config("queries", saved)).path().to_str().unwrap(),
    ])
    .await;
    assert_ne!(output.code(), 0);
    let saved: Value = toml::toml! {
        [of]
        sql = "SELECT count(*) AS n FROM orders WHERE customer = $1"
        parameters = [{ name = "customer" }]
        [first]
        sql = "SELECT customer FROM orders LIMIT $1"
        parameters = [{ name = "count" }]
    }
    .into();
    let config = config(Plugin::database("shop", url).config("queries", saved));
    let server = StdioServer::start(&config).await;
    assert_eq!(json(server.client(), "db://shop/query/of?customer=2").await["rows"], json!([[25]]));
    assert_eq!(json(server.client(), "db://shop/query/of?customer=x").await["rows"], json!([[0]]));
    let refused = server.client().read_error("db://shop/query/first?count=x").await;
    assert!(
        refused.message.contains("a value does not fit its parameter")
            && refused.message.contains("found `count`: \"x\""),
        "{refused:?}"
    );
    assert!(server.client().read_error("db://shop/sql?q=SELECT%201").await.code.0 == -32002);
    server.end().await;
}

#[tokio::test]
async fn the_provider_keeps_the_contract() {
    let (_folder, writer, url) = shop();
    drop(writer);
    let grant = format!("shop={url}");
    let component = component("database");
    let config = config(Plugin::new("patient", &component, "patient:///").limit("deadline", "1m"));
    let config_file = config.path();
    let of_config = ["--config", config_file.to_str().unwrap(), "--plugin", "patient"];
    let tested = ["test", component.to_str().unwrap(), "--log", "off", "--json", "--sql", &grant];
    let output = run(tested.into_iter().chain(of_config)).await;
    let report = output.success().json();
    assert_eq!(report["passed"], true, "{report:#}");
}
