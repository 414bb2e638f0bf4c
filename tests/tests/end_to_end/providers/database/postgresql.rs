//! PostgreSQL: tables, pages, types, saved queries, schemas.

use mcp_host_tests::{Plugin, Postgresql, RawStdio, Revision, StdioServer, component, run};
use serde_json::json;
use toml::Value;

use super::{all_rows, config, dictionary, free_sql, json, shop, statement_uri};

#[tokio::test]
async fn schemas_tables_and_saved_queries_are_listed() {
    let shop = shop();
    let saved: Value = toml::toml! { all = { sql = "SELECT 1", title = "One" } }.into();
    let config = config(Plugin::database("shop", shop.url("reader")).config("queries", saved));
    let server = StdioServer::start(&config).await;
    assert_eq!(server.client().uris().await, ["db://shop/dictionary", "db://shop/public", "db://shop/query/all"]);
    let index = server.client().text("db://shop/public").await;
    assert!(
        index.contains("(<db://shop/public/orders/rows>) (text/markdown): What customers have ordered.\n"),
        "{index}"
    );
    assert!(
        index.contains("(<db://shop/public/paid/rows>) (text/markdown)\n") && !index.contains("salaries"),
        "{index}"
    );
    server.end().await;
}

#[tokio::test]
async fn the_dictionary_has_columns_comments_keys_indexes_and_enums() {
    let shop = shop();
    let config = config(Plugin::database("shop", shop.url("reader")));
    let server = StdioServer::start(&config).await;
    let dictionary = dictionary(server.client()).await;
    assert_eq!(dictionary["kind"], "postgresql");
    let tables = dictionary["tables"].as_array().unwrap();
    let orders = tables.iter().find(|table| table["name"] == "orders").unwrap();
    assert_eq!((&orders["comment"], &orders["key"]), (&json!("What customers have ordered."), &json!(["id"])));
    assert_eq!(
        orders["columns"][3],
        json!({
            "name": "price", "type": "numeric(10,2)", "required": false, "default": null,
            "comment": "In euros, with tax."
        })
    );
    let constraints = orders["constraints"].to_string();
    assert!(constraints.contains("FOREIGN KEY (customer) REFERENCES customers(id)"), "{constraints}");
    assert!(orders["indexes"].to_string().contains("orders_by_customer"));
    assert_eq!(dictionary["enums"], json!([{ "name": "public.state", "members": ["new", "paid", "sent"] }]));
    let schema = json(server.client(), "db://shop/public/orders/schema").await;
    assert_eq!(schema, *orders);
    server.end().await;
}

#[tokio::test]
async fn a_materialized_view_is_described_and_read_like_a_table() {
    let shop = shop();
    shop.sql(
        "CREATE MATERIALIZED VIEW totals AS SELECT customer, count(*) AS orders FROM orders GROUP BY customer; \
         CREATE UNIQUE INDEX totals_by_customer ON totals (customer); COMMENT ON MATERIALIZED VIEW totals IS 'Nightly.'; \
         GRANT SELECT ON totals TO reader",
    );
    let config = config(Plugin::database("shop", shop.url("reader")));
    let server = StdioServer::start(&config).await;
    let totals = json(server.client(), "db://shop/public/totals/schema").await;
    assert_eq!((&totals["kind"], &totals["comment"]), (&json!("materialized view"), &json!("Nightly.")));
    assert!(totals["indexes"].to_string().contains("totals_by_customer"), "{totals}");
    let (rows, pages) = all_rows(server.client(), "db://shop/public/totals/rows?limit=2").await;
    assert_eq!((rows.len(), pages), (3, 2), "{rows:?}");
    server.end().await;
}

#[tokio::test]
async fn pages_have_every_row_once_in_every_order() {
    let shop = shop();
    let config = config(Plugin::database("shop", shop.url("reader")));
    let server = StdioServer::start(&config).await;
    let expected = |order: &str| -> Vec<String> {
        let ids = shop.sql(&format!("SELECT id FROM orders ORDER BY {order}"));
        ids.lines().map(str::to_owned).collect()
    };
    for (order, sql) in [
        ("", "id"),
        ("&order=price", "price NULLS LAST, id"),
        ("&order=-price", "price DESC NULLS LAST, id"),
        ("&order=placed", "placed, id"),
        ("&order=state", "state, id"),
    ] {
        let (rows, pages) =
            all_rows(server.client(), &format!("db://shop/public/orders/rows?limit=10&columns=id{order}")).await;
        let ids: Vec<_> = rows.iter().map(|row| row[0].to_string()).collect();
        assert_eq!((ids, pages), (expected(sql), 11), "{order}");
    }
    let (rows, _) = all_rows(server.client(), "db://shop/public/Odd%20%7C%20%22name%22/rows?limit=1").await;
    assert_eq!(rows, [json!([1, "a|b"]), json!([2, null]), json!([3, "c"])]);
    server.end().await;
}

#[tokio::test]
async fn a_page_of_a_view_says_that_it_is_cut_off() {
    let shop = shop();
    let config = config(Plugin::database("shop", shop.url("reader")));
    let server = StdioServer::start(&config).await;
    let text = server.client().text("db://shop/public/paid/rows?limit=2&format=markdown").await;
    assert!(text.starts_with("| id | price |\n| --- | --- |\n"), "{text}");
    let contents = server.client().read("db://shop/public/paid/rows?limit=2&format=markdown").await.unwrap();
    let notices = serde_json::to_value(&contents).unwrap()[0]["_meta"]["mcp-host/notices"].clone();
    let notice = notices[0]["text"].as_str().unwrap_or_default();
    assert!(notice.contains("2 rows, and there are more; it has no next page"), "{notices}");
    let most = notices[0]["next"].as_str().unwrap_or_default();
    assert_eq!(most, "db://shop/public/paid/rows?format=markdown&limit=1000");
    let all = server.client().text(most).await;
    assert!(all.starts_with(text.trim_end()) && all.lines().count() > text.lines().count(), "{all}");
    let csv = server.client().text("db://shop/public/customers/rows?format=csv").await;
    assert_eq!(csv, "id,name,email\r\n1,Ada,ada@example.com\r\n2,Grace,\r\n3,Ken,ken@example.com\r\n");
    for uri in ["public/nothing/rows", "nothing/orders/rows", "private/salaries/rows", "pg_catalog/pg_class/rows"] {
        let error = server.client().read_error(&format!("db://shop/{uri}")).await;
        assert_eq!(error.code.0, -32002, "{uri}: {error:?}");
    }
    server.end().await;
}

#[tokio::test]
async fn values_of_all_types_arrive_as_they_are() {
    let shop = Postgresql::start("CREATE ROLE reader LOGIN");
    let config = config(free_sql(shop.url("reader")));
    let server = StdioServer::start(&config).await;
    for (sql, type_name, expected) in [
        ("NULL::int", "int4", json!(null)),
        ("true", "bool", json!(true)),
        ("9223372036854775807::int8", "int8", json!(i64::MAX)),
        ("1.5::float8", "float8", json!(1.5)),
        ("'NaN'::float4", "float4", json!("NaN")),
        ("12345678901234567890.10::numeric", "numeric", json!("12345678901234567890.10")),
        ("'ü\"|'::text", "text", json!("ü\"|")),
        ("'\\x00ff'::bytea", "bytea", json!("\\x00ff")),
        ("'2026-11-22'::date", "date", json!("2026-11-22")),
        ("'12:34:56.789'::time", "time", json!("12:34:56.789")),
        ("'2026-11-22 12:34'::timestamp", "timestamp", json!("2026-11-22T12:34:00")),
        ("'2026-11-22 12:34+02'::timestamptz", "timestamptz", json!("2026-11-22T10:34:00Z")),
        ("'infinity'::timestamptz", "timestamptz", json!("infinity")),
        ("'1 day 2 hours'::interval", "interval", json!("P1DT2H")),
        ("'123E4567-e89b-12d3-a456-426614174000'::uuid", "uuid", json!("123e4567-e89b-12d3-a456-426614174000")),
        ("'{\"a\": [1, null]}'::jsonb", "jsonb", json!({ "a": [1, null] })),
        ("'{{1,NULL},{3,4}}'::int[]", "_int4", json!([[1, null], [3, 4]])),
        ("ARRAY['a b', 'c\"d', NULL]", "_text", json!(["a b", "c\"d", null])),
        ("'[1,5)'::int4range", "int4range", json!("[1,5)")),
        ("'10.0.0.1'::inet", "inet", json!("10.0.0.1")),
        ("'(1,2)'::point", "point", json!("(1,2)")),
    ] {
        let result = json(server.client(), &statement_uri(&format!("SELECT {sql} AS v"))).await;
        assert_eq!(result["rows"], json!([[expected]]), "{sql}");
        assert_eq!(result["columns"], json!([{ "name": "v", "type": type_name }]), "{sql}");
    }
    server.end().await;
}

#[tokio::test]
async fn saved_queries_have_parameters_that_complete_from_the_data() {
    let shop = shop();
    let saved: Value = toml::toml! {
        [of]
        sql = "SELECT id FROM orders WHERE customer = $1 AND price > $2 ORDER BY id"
        parameters = [
            { name = "customer", complete = "SELECT name FROM customers WHERE name LIKE $1 || '%' ORDER BY 1" },
            { name = "above", default = "6" },
        ]
    }
    .into();
    let config = config(Plugin::database("shop", shop.url("reader")).config("queries", saved));
    let server = StdioServer::start(&config).await;
    let (client, uri) = (server.client(), "db://shop/query/of");
    let expected = shop.sql("SELECT id FROM orders WHERE customer = 2 AND price > 6 ORDER BY id");
    let rows = json(client, &format!("{uri}?customer=2")).await["rows"].clone();
    let ids: Vec<_> = rows.as_array().unwrap().iter().map(|row| row[0].to_string()).collect();
    assert_eq!(ids, expected.lines().collect::<Vec<_>>());
    assert_eq!(json(client, &format!("{uri}?customer=2&above=1000")).await["rows"], json!([]));
    for (query, expected) in [
        ("", "expected a value of the parameter `customer` of the query `of`, found none"),
        ("?customer=2&x=1", "the query `of` has no parameter `x`; it has `customer`, `above`, `limit`, `format`"),
        (
            "?customer=2%20OR%201%3D1",
            "the value of `customer` cannot be converted to the type integer, or is out of its range; found \"2 OR 1=1\"",
        ),
        ("?customer=2&above=x", "the value of `above` cannot be converted to the type numeric"),
        ("?customer=2&limit=x", "expected an integer from 1 in `limit`, found \"x\""),
    ] {
        let error = client.read_error(&format!("{uri}{query}")).await;
        assert!(error.message.contains(expected), "{query}: {error:?}");
    }
    let template = "db://shop/query/of{?customer,above,limit,format}";
    let completion = client.complete(template, ("customer", "G"), &[]).await.unwrap();
    assert_eq!(completion.values, ["Grace"]);
    let rows_template = "db://shop/{schema}/{table}/rows{?limit,after,columns,order,format}";
    let completion = client.complete(rows_template, ("table", "o"), &[("schema", "public")]).await.unwrap();
    assert_eq!(completion.values, ["orders"]);
    server.end().await;
}

#[tokio::test]
async fn a_schema_that_is_not_granted_is_not_read_by_any_way() {
    let shop = shop();
    let config = config(free_sql(shop.url("reader")));
    let server = StdioServer::start(&config).await;
    for sql in [
        "SELECT * FROM private.salaries",
        "SELECT count(*) FROM private.salaries",
        "SELECT 1 WHERE EXISTS (SELECT FROM private.salaries)",
        "SELECT query_to_xml('SELECT * FROM private.salaries', true, true, '')",
        "SELECT table_to_xml('private.salaries', true, true, '')",
        "SELECT schema_to_xml('private', true, true, '')",
        "SELECT database_to_xml(true, true, '')",
        "SELECT query_to_xml('SELECT * FROM private.salaries', true, true, ''), set_config('search_path', 'private', true)",
        "SELECT set_config('role', 'none', true), query_to_xml('SELECT * FROM private.salaries', true, true, '')",
        "SELECT * FROM names",
        "SELECT most_common_vals FROM pg_stats",
        "SELECT * FROM pg_catalog.pg_stats WHERE schemaname = 'private'",
    ] {
        let error = server.client().read_error(&statement_uri(sql)).await;
        assert!(error.message.contains("42501") && !error.message.contains("4711"), "{sql}: {error:?}");
    }
    // The view's owner exposes data that the role may not read directly.
    shop.sql("REVOKE SELECT ON private.salaries FROM reader");
    let names = json(server.client(), &statement_uri("SELECT * FROM names")).await;
    assert_eq!(names["rows"], json!([["Ada"]]));
    server.end().await;
}

#[tokio::test]
async fn no_parallel_worker_reads_what_is_not_granted() {
    let shop = shop();
    shop.sql(
        "CREATE FUNCTION private.peek() RETURNS int LANGUAGE plpgsql STABLE PARALLEL SAFE AS \
         'BEGIN RETURN (SELECT amount FROM private.salaries); END'",
    );
    let config = config(free_sql(shop.url("reader")));
    let server = StdioServer::start(&config).await;
    // The name of the setting depends on the version of PostgreSQL.
    let forced = shop.sql("SELECT name FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query')");
    let forced = format!("set_config('{}', 'on', true)", forced.trim());
    let peek = "query_to_xml('SELECT private.peek()', true, true, '')";
    let allowed = "set_config('max_parallel_workers_per_gather', '2', true)";
    for (sql, expected) in [
        (format!("SELECT {forced}, {peek}"), "permission denied for private.salaries"),
        (format!("SELECT {allowed}"), "a statement must not set max_parallel_workers_per_gather"),
        (format!("SELECT {forced}, {allowed}, {peek}"), ""),
    ] {
        let error = server.client().read_error(&statement_uri(&sql)).await;
        assert!(error.message.contains("42501") && error.message.contains(expected), "{sql}: {error:?}");
        assert!(!error.message.contains("4711"), "{sql}: {error:?}");
    }
    // The statement that turns workers off again is not noticed. Without the right to set anything, it fails.
    shop.sql("REVOKE EXECUTE ON FUNCTION pg_catalog.set_config(text, text, boolean) FROM PUBLIC");
    let off = "set_config('max_parallel_workers_per_gather', '0', true)";
    let sql = format!("SELECT {forced}, {allowed}, {peek}, {off}");
    let error = server.client().read_error(&statement_uri(&sql)).await;
    assert!(error.message.contains("42501") && !error.message.contains("4711"), "{error:?}");
    // The host itself does not need that function.
    assert_eq!(json(server.client(), &statement_uri("SELECT 1")).await["rows"], json!([[1]]));
    server.end().await;
}

#[tokio::test]
async fn no_message_has_a_value_that_the_statement_has_read() {
    let shop = shop();
    let config = config(free_sql(shop.url("reader")));
    let server = StdioServer::start(&config).await;
    let (stored, private) = ("(SELECT name FROM customers WHERE id = 1)", "(SELECT name FROM private.salaries)");
    let xml = "(xpath('//name/text()', query_to_xml('SELECT name FROM private.salaries', true, true, '')))[1]::text";
    for (value, is_refused_before_it_runs) in [(stored, false), (private, true), (xml, false)] {
        for sql in [
            format!("SELECT {value}::regclass"),
            format!("SELECT {value}::text::regtype"),
            format!("SELECT current_setting({value})"),
            format!("SELECT {value}::int"),
            format!("SELECT to_regclass({value}), nextval({value}::text::regclass)"),
            format!("SELECT 1 / (CASE WHEN {value} LIKE 'A%' THEN 0 ELSE 1 END)"),
        ] {
            let error = server.client().read_error(&statement_uri(&sql)).await;
            assert!(!format!("{error:?}").to_lowercase().contains("\"ada"), "{sql}: {error:?}");
            assert_eq!(error.message.contains("schema is not granted"), is_refused_before_it_runs, "{sql}: {error:?}");
        }
    }
    // The parser's message quotes the statement.
    let error = server.client().read_error(&statement_uri("SELECT 1 FROM nothing")).await;
    assert!(error.message.contains("relation \"nothing\" does not exist"), "{error:?}");
    let exit = server.end().await;
    assert!(!exit.log.to_lowercase().contains("\"ada"), "{exit:?}");
}

#[tokio::test]
async fn the_toast_table_of_a_table_that_is_not_granted_is_not_read() {
    let shop = shop();
    shop.sql(
        "CREATE TABLE private.letters (id int, text text); ALTER TABLE private.letters ALTER text SET STORAGE EXTERNAL; \
         CREATE TABLE letters (id int, text text); ALTER TABLE letters ALTER text SET STORAGE EXTERNAL; \
         INSERT INTO private.letters VALUES (1, repeat('secret ', 4000)); \
         INSERT INTO letters VALUES (1, repeat('public ', 4000)); \
         CREATE ROLE everything LOGIN; GRANT pg_read_all_data TO everything; \
         CREATE VIEW opened AS SELECT text FROM private.letters; \
         GRANT SELECT ON letters, opened TO reader",
    );
    let toast = shop.sql("SELECT reltoastrelid::regclass FROM pg_class WHERE oid = 'private.letters'::regclass");
    let sql = format!("SELECT convert_from(substr(chunk_data, 1, 60), 'UTF8') FROM {} LIMIT 1", toast.trim());
    let everything = config(free_sql(shop.url("everything")));
    let server = StdioServer::start(&everything).await;
    let error = server.client().read_error(&statement_uri(&sql)).await;
    assert!(error.message.contains("42501"), "{error:?}");
    server.end().await;
    // Long values of granted tables, and of views on other tables, are stored in such tables, too, and can be read.
    let reader = config(free_sql(shop.url("reader")));
    let server = StdioServer::start(&reader).await;
    for sql in ["SELECT length(text || '') FROM letters", "SELECT length(text || '') FROM opened"] {
        assert_eq!(json(server.client(), &statement_uri(sql)).await["rows"], json!([[28_000]]), "{sql}");
    }
    server.end().await;
}

#[tokio::test]
async fn subscribers_are_told_what_changed() {
    let shop = shop();
    let config = config(Plugin::database("shop", shop.url("reader")).set("watch-interval", "100ms"));
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    wire.subscribe("db://shop/public/customers/rows").await;
    wire.subscribe("db://shop/public/orders/rows?limit=1").await;
    wire.subscribe("db://shop/public").await;
    shop.sql("UPDATE customers SET name = 'Barbara' WHERE id = 3");
    let changed = wire.notification("notifications/resources/updated").await;
    assert_eq!(changed["params"]["uri"], "db://shop/public/customers/rows");
    shop.sql("CREATE TABLE added (id int); GRANT SELECT ON added TO reader");
    let changed = wire.notification("notifications/resources/updated").await;
    assert_eq!(changed["params"]["uri"], "db://shop/public");
    wire.end().await;
}

#[tokio::test]
async fn check_finds_schemas_that_are_not_there_and_functions_that_read_beside_them() {
    let server = shop();
    server.load(
        "CREATE FUNCTION private.peek() RETURNS int LANGUAGE sql SECURITY DEFINER AS 'SELECT amount FROM private.salaries';
         CREATE FUNCTION private.try() RETURNS int LANGUAGE plpgsql AS
             'BEGIN RETURN 1; EXCEPTION WHEN others THEN RETURN 2; END';
         CREATE FUNCTION private.harmless() RETURNS int LANGUAGE sql AS 'SELECT 1';
         CREATE FUNCTION private.inlined() RETURNS int LANGUAGE sql PARALLEL SAFE AS 'SELECT amount FROM private.salaries';
         CREATE FUNCTION private.rows() RETURNS SETOF int LANGUAGE sql PARALLEL SAFE AS 'SELECT amount FROM private.salaries';
         CREATE FUNCTION private.shared() RETURNS int LANGUAGE plpgsql PARALLEL SAFE AS 'BEGIN RETURN 1; END';
         CREATE SCHEMA closed;
         CREATE FUNCTION closed.peek() RETURNS int LANGUAGE sql SECURITY DEFINER AS 'SELECT 1';",
    );
    let check = async |schemas: &[&str], more: &[&str]| {
        let schemas: Vec<_> = schemas.iter().map(|schema| Value::from(*schema)).collect();
        let plugin = Plugin::new("shop", &component("database"), "db://shop/").sql(
            "shop",
            server.url("reader"),
            [("schemas", schemas.into())],
        );
        let config = config(plugin);
        let path = config.path();
        let arguments = ["check", "--json", "--config", path.to_str().unwrap()].into_iter().chain(more.iter().copied());
        run(arguments).await
    };
    let report = check(&["public"], &[]).await.success().json();
    let warnings = report["plugins"][0]["warnings"].to_string();
    let expected = "private.peek, private.rows, private.shared, private.try.";
    assert!(warnings.contains(expected) && !warnings.contains("closed"), "{report:#}");
    let report = check(&["public", "private"], &[]).await.success().json();
    assert_eq!(report["plugins"][0]["warnings"], json!([]), "{report:#}");
    let report = check(&["public", "closed"], &[]).await.success().json();
    assert!(report["plugins"][0]["warnings"].to_string().contains("may not use closed of its `schemas`"), "{report:#}");
    let missing = check(&["public", "absent"], &[]).await;
    assert_eq!(missing.code(), 1);
    assert!(missing.text().contains("`schemas` do not exist in the database: absent"), "{}", missing.text());
    check(&["public", "absent"], &["--offline"]).await.success();
}
