//! SQLite: the same provider on a file.

use std::sync::mpsc::{self, TryRecvError};

use mcp_host_tests::{Folder, Plugin, RawStdio, Revision, StdioServer, component, run};
use rusqlite::Connection;
use serde_json::json;
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

/// A directory with the database, and its writer.
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
    // A parameter is a table, since it may have a default.
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
