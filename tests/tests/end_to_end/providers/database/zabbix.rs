//! A third-party schema: the monitoring system Zabbix, from its Debian package, with the shipped data.
//!
//! The provider's content is compared with PostgreSQL's catalogs and counts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader};

use flate2::read::GzDecoder;
use mcp_host_tests::{Plugin, Postgresql, StdioServer, debian_file};
use serde_json::Value;

use super::{all_rows, config, dictionary};

/// The minimum number of loaded lines of data. Each statement inserts a row, after the rows that it refers to.
const DATA_LINES: usize = 60_000;

fn lines(name: &str) -> impl Iterator<Item = String> {
    let file = File::open(debian_file(&format!("usr/share/zabbix-server-pgsql/{name}.sql.gz"))).unwrap();
    BufReader::new(GzDecoder::new(file)).lines().map(Result::unwrap)
}

fn zabbix() -> Postgresql {
    let database = Postgresql::start("CREATE ROLE reader LOGIN");
    let schema: Vec<_> = lines("schema").collect();
    database.load(&schema.join("\n"));
    // The file begins a transaction. A statement may have several lines.
    let data = lines("data").enumerate().take_while(|(number, line)| {
        let is_enough = *number >= DATA_LINES && line.starts_with("INSERT INTO ");
        !is_enough
    });
    let mut data: Vec<_> = data.map(|(_, line)| line).collect();
    data.push("COMMIT; GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader; ANALYZE;".to_owned());
    database.load(&data.join("\n"));
    database
}

/// Returns the lines of a result, each split at its first `|`.
fn pairs(text: &str) -> BTreeSet<(String, String)> {
    text.lines().filter_map(|line| line.split_once('|')).map(|(a, b)| (a.to_owned(), b.to_owned())).collect()
}

fn texts<'a>(values: &'a Value, key: &str) -> impl Iterator<Item = &'a str> {
    let key = key.to_owned();
    values.as_array().unwrap().iter().map(move |value| value[&key].as_str().unwrap())
}

#[tokio::test]
async fn a_foreign_schema_is_shown_as_its_catalogs_and_counts_have_it() {
    let database = zabbix();
    let url = database.url("reader");
    let server = StdioServer::start(&config(Plugin::database("shop", url))).await;
    let dictionary = dictionary(server.client()).await;
    assert_eq!(dictionary["hasMore"], false);
    let tables = &dictionary["tables"];

    let columns = tables.as_array().unwrap().iter().flat_map(|table| {
        texts(&table["columns"], "name").map(|column| (table["name"].as_str().unwrap().to_owned(), column.to_owned()))
    });
    let expected = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'";
    assert_eq!(columns.collect::<BTreeSet<_>>(), pairs(&database.sql(expected)));

    let keys = tables.as_array().unwrap().iter().map(|table| {
        let columns: Vec<_> = table["key"].as_array().unwrap().iter().map(|column| column.as_str().unwrap()).collect();
        (table["name"].as_str().unwrap().to_owned(), columns.join(","))
    });
    let expected = "SELECT conrelid::regclass, (SELECT string_agg(attname, ',' ORDER BY place) FROM unnest(conkey) \
                    WITH ORDINALITY AS part(number, place) JOIN pg_attribute ON attrelid = conrelid AND attnum = number) \
                    FROM pg_constraint WHERE contype = 'p' AND connamespace = 'public'::regnamespace";
    assert_eq!(keys.collect::<BTreeSet<_>>(), pairs(&database.sql(expected)));

    let references = tables.as_array().unwrap().iter().flat_map(|table| table["constraints"].as_array().unwrap());
    let references = references.filter(|line| line.as_str().unwrap().contains("FOREIGN KEY")).count();
    let expected = "SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND connamespace = 'public'::regnamespace";
    assert_eq!(references.to_string(), database.sql(expected).trim());

    let names: Vec<_> = texts(tables, "name").collect();
    let count = |table: &&str| format!("SELECT '{table}', count(*) FROM public.{table}");
    let expected = database.sql(&names.iter().map(count).collect::<Vec<_>>().join(" UNION ALL "));
    let mut shown = BTreeMap::new();
    for table in names {
        let (rows, pages) = all_rows(server.client(), &format!("db://shop/public/{table}/rows?limit=1000")).await;
        assert!(pages <= rows.len() / 1000 + 1, "{table}: {pages} pages");
        let distinct: BTreeSet<_> = rows.iter().map(Value::to_string).collect();
        assert_eq!(distinct.len(), rows.len(), "{table}: a row is shown twice");
        shown.insert(table.to_owned(), rows.len().to_string());
    }
    assert_eq!(shown.into_iter().collect::<BTreeSet<_>>(), pairs(&expected));
    assert!(expected.lines().count() > 150, "{expected}");
    server.end().await;
}
