//! The provider `database` on PostgreSQL and SQLite, and its grant.

mod example;
mod faults;
mod listen;
mod postgresql;
mod sqlite;
mod statements;
mod zabbix;

use mcp_host_tests::{Client, ConfigFile, Plugin, Postgresql};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rmcp::model::ResourceContents;
use toml::Value;

/// A shop, with a role that may only read it.
const SHOP: &str = "
    CREATE ROLE reader LOGIN;
    CREATE TABLE customers (id int PRIMARY KEY, name text NOT NULL, email text UNIQUE);
    CREATE TYPE state AS ENUM ('new', 'paid', 'sent');
    CREATE TABLE orders (
        id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer int NOT NULL REFERENCES customers,
        state state NOT NULL DEFAULT 'new', price numeric(10, 2), placed timestamptz
    );
    COMMENT ON TABLE orders IS 'What customers have ordered.';
    COMMENT ON COLUMN orders.price IS 'In euros, with tax.';
    CREATE INDEX orders_by_customer ON orders (customer);
    CREATE VIEW paid AS SELECT id, price FROM orders WHERE state = 'paid';
    CREATE TABLE \"Odd | \"\"name\"\"\" (\"a b\" int, c text);
    INSERT INTO customers VALUES (1, 'Ada', 'ada@example.com'), (2, 'Grace', NULL), (3, 'Ken', 'ken@example.com');
    INSERT INTO orders (customer, state, price, placed)
    SELECT 1 + n % 3, CASE WHEN n % 2 = 0 THEN 'paid' ELSE 'new' END::state, CASE WHEN n % 5 > 0 THEN n % 7 + 0.5 END,
        '2026-11-22T12:00:00Z'::timestamptz + n * interval '1 hour' FROM generate_series(1, 103) n;
    INSERT INTO \"Odd | \"\"name\"\"\" VALUES (1, 'a|b'), (2, NULL), (3, 'c');
    CREATE SCHEMA private;
    CREATE TABLE private.salaries (name text, amount int);
    INSERT INTO private.salaries VALUES ('Ada', 4711);
    CREATE VIEW names AS SELECT name FROM private.salaries;
    CREATE FUNCTION touch() RETURNS int LANGUAGE plpgsql AS $$ BEGIN UPDATE customers SET name = 'x'; RETURN 1; END $$;
    CREATE FUNCTION owned() RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS $$
        BEGIN UPDATE customers SET name = 'x'; RETURN 1; END $$;
    CREATE SEQUENCE counter;
    GRANT USAGE ON SCHEMA public, private TO reader;
    GRANT SELECT ON ALL TABLES IN SCHEMA public, private TO reader;
    GRANT USAGE ON SEQUENCE counter TO reader;
";

fn shop() -> Postgresql {
    Postgresql::start(SHOP)
}

/// The provider with clients' statements allowed, and JSON as its only format.
fn free_sql(url: impl Into<Value>) -> Plugin {
    Plugin::database("shop", url).config("free-sql", true).config("formats", vec![Value::from("json")])
}

fn config(plugin: Plugin) -> mcp_host_tests::WrittenConfig {
    ConfigFile::new().plugin(plugin).write()
}

/// Returns the URI of a client's statement.
fn statement_uri(sql: &str) -> String {
    format!("db://shop/sql?q={}", utf8_percent_encode(sql, NON_ALPHANUMERIC))
}

/// Returns the JSON of a result.
async fn json(client: &Client, uri: &str) -> serde_json::Value {
    let contents = client.read(uri).await.unwrap_or_else(|error| panic!("{uri}: {error:?}"));
    let texts = contents.iter().filter_map(|content| match content {
        ResourceContents::TextResourceContents { text, mime_type, .. } => Some((text, mime_type.as_deref())),
        _ => None,
    });
    let (text, _) = texts.into_iter().find(|(_, kind)| *kind == Some("application/json")).expect("it has JSON");
    serde_json::from_str(text).expect("it is valid")
}

/// Returns the dictionary: the description of the database, with the descriptions of the tables that the same read
/// returns.
async fn dictionary(client: &Client) -> serde_json::Value {
    let uri = "db://shop/dictionary";
    let contents = client.read(uri).await.unwrap_or_else(|error| panic!("{uri}: {error:?}"));
    let documents = contents.iter().filter_map(|content| match content {
        ResourceContents::TextResourceContents { uri, text, mime_type, .. } => {
            (mime_type.as_deref() == Some("application/json")).then_some((uri.as_str(), text))
        }
        _ => None,
    });
    let documents = documents.map(|(uri, text)| (uri, serde_json::from_str::<serde_json::Value>(text).unwrap()));
    let (own, tables): (Vec<_>, Vec<_>) = documents.partition(|(of, _)| *of == uri);
    let [(_, own)] = &own[..] else { panic!("expected one description of the database, found {own:?}") };
    let mut dictionary = own.clone();
    dictionary["tables"] = tables.into_iter().map(|(_, table)| table).collect();
    dictionary
}

/// Returns the URI of the next part, which must be in every format of a result.
async fn next_part(client: &Client, uri: &str) -> Option<String> {
    let contents = client.read(uri).await.unwrap_or_else(|error| panic!("{uri}: {error:?}"));
    let next = |contents: &ResourceContents| {
        let (ResourceContents::TextResourceContents { meta, .. } | ResourceContents::BlobResourceContents { meta, .. }) =
            contents
        else {
            return None;
        };
        Some(meta.as_ref()?.get("mcp-host/notices")?[0]["next"].as_str()?.to_owned())
    };
    let all: Vec<_> = contents.iter().map(next).collect();
    assert!(all.iter().all(|one| *one == all[0]), "{all:?}");
    all.into_iter().next().flatten()
}

/// Returns all rows of a table, read page by page, and the number of pages.
async fn all_rows(client: &Client, first: &str) -> (Vec<serde_json::Value>, usize) {
    let (mut uri, mut rows, mut pages) = (first.to_owned(), Vec::new(), 0);
    loop {
        let page = json(client, &uri).await;
        rows.extend(page["rows"].as_array().unwrap().iter().cloned());
        pages += 1;
        match next_part(client, &uri).await {
            Some(next) => uri = next,
            None => return (rows, pages),
        }
    }
}
