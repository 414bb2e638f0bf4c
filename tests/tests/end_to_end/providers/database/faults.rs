//! Servers that fail, send false answers, or have too many permissions.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mcp_host_tests::{
    CertificateAuthority, Plugin, Postgresql, PostgresqlOptions, ReservedPort, StdioServer, run, wait_until,
};
use rmcp::model::ErrorData;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use toml::Value;

use super::{SHOP, config, free_sql, json, shop, statement_uri};

fn assert_unavailable(error: &ErrorData) {
    assert_eq!(error.data.as_ref().unwrap()["kind"], "unavailable", "{error:?}");
}

#[tokio::test]
async fn a_statement_that_takes_too_long_is_cancelled_at_the_server() {
    let shop = shop();
    let plugin = Plugin::new("shop", &mcp_host_tests::component("database"), "db://shop/").config("free-sql", true);
    let plugin = plugin.sql("shop", shop.url("reader"), [("timeout", "3s".into()), ("connections", 2.into())]);
    let config = config(plugin.limit("deadline", "1m"));
    let server = StdioServer::start(&config).await;
    for sql in [
        "SELECT pg_sleep(60)",
        "SELECT count(*) FROM generate_series(1, 1000000000000)",
        "SELECT set_config('statement_timeout', '0', true), pg_sleep(60)",
        "SELECT pg_advisory_lock(1), pg_sleep(60)",
    ] {
        let begun = Instant::now();
        assert_unavailable(&server.client().read_error(&statement_uri(sql)).await);
        assert!(begun.elapsed() < Duration::from_secs(40), "{sql}: {:?}", begun.elapsed());
    }
    let running = "SELECT query FROM pg_stat_activity WHERE usename = 'reader' AND state = 'active'";
    wait_until("no statement runs", || shop.sql(running).is_empty()).await;
    assert_eq!(shop.sql("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").trim(), "0");
    assert!(server.client().read(&statement_uri("SELECT 1")).await.is_ok());
    server.end().await;
}

#[tokio::test]
async fn a_result_that_is_too_large_takes_no_memory() {
    let shop = shop();
    let plugin = Plugin::new("shop", &mcp_host_tests::component("database"), "db://shop/").config("free-sql", true);
    let plugin = plugin.sql("shop", shop.url("reader"), [("timeout", "5m".into())]);
    let config = config(plugin.limit("deadline", "5m"));
    let server = StdioServer::start(&config).await;
    assert!(server.client().read(&statement_uri("SELECT 1")).await.is_ok());
    let before = server.peak_rss();
    for sql in [
        "SELECT repeat('x', 100000000)",
        "SELECT repeat('x', 1000000) FROM generate_series(1, 49)",
        "SELECT array_agg(n) FROM generate_series(1, 5000000) n",
    ] {
        let error = server.client().read_error(&statement_uri(sql)).await;
        assert!(error.message.contains("max-bytes"), "{sql}: {error:?}");
    }
    let more = server.peak_rss().saturating_sub(before);
    assert!(more < 96 << 20, "{more} bytes more");
    assert!(server.client().read(&statement_uri("SELECT 1")).await.is_ok());
    server.end().await;
}

#[tokio::test]
async fn types_that_are_nested_without_end_are_an_error_of_the_query() {
    let shop = shop();
    let nested: String = (1..=2000).map(|level| format!("CREATE TYPE c{level} AS (a c{});", level - 1)).collect();
    shop.sql(&format!("CREATE TYPE c0 AS (a int); {nested}"));
    let config = config(free_sql(shop.url("reader")));
    let server = StdioServer::start(&config).await;
    // Each type could refer to the previous ones.
    for level in [2000, 90, 150, 210, 270, 2000] {
        let error = server.client().read_error(&statement_uri(&format!("SELECT NULL::c{level} AS x"))).await;
        assert!(error.message.contains("54001"), "{level}: {error:?}");
    }
    assert_eq!(json(server.client(), &statement_uri("SELECT ROW(1)::c0 AS x, 1")).await["rows"][0][1], 1);
    assert_eq!(json(server.client(), &statement_uri("SELECT NULL::c20 AS x, 1")).await["rows"][0][1], 1);
    server.end().await;
}

#[tokio::test]
async fn a_server_that_was_killed_is_used_again_when_it_is_back() {
    let shop = shop();
    let plugin = Plugin::new("shop", &mcp_host_tests::component("database"), "db://shop/").config("free-sql", true);
    let plugin = plugin.config("formats", vec![Value::from("json")]).limit("deadline", "5m");
    let config = config(plugin.sql("shop", shop.url("reader"), [("timeout", "5m".into())]));
    let server = StdioServer::start(&config).await;
    let client = server.client();
    // Afterwards, several connections of the pool are dead.
    let (a, b) = (statement_uri("SELECT pg_sleep(0.2)"), statement_uri("SELECT pg_sleep(0.21)"));
    let _ = tokio::join!(client.read(&a), client.read(&b));
    let sleep = statement_uri("SELECT pg_sleep(300)");
    let (killed, ()) = tokio::join!(client.read_error(&sleep), async {
        let running = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND usename = 'reader'";
        while shop.sql(running).trim() == "0" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        shop.kill();
    });
    assert_unavailable(&killed);
    assert_unavailable(&client.read_error(&statement_uri("SELECT 1")).await);
    shop.begin();
    assert_eq!(json(client, &statement_uri("SELECT 1")).await["rows"], serde_json::json!([[1]]));
    server.end().await;
}

#[tokio::test]
async fn a_role_that_can_write_is_refused_unless_the_config_allows_it() {
    let shop = shop();
    shop.sql(
        "CREATE ROLE writer LOGIN; GRANT INSERT ON customers TO writer; CREATE ROLE maker LOGIN; \
         GRANT CREATE ON SCHEMA public TO maker; CREATE ROLE one_column LOGIN; \
         GRANT UPDATE (name) ON customers TO one_column; CREATE ROLE member LOGIN NOINHERIT; GRANT writer TO member; \
         CREATE ROLE all_data LOGIN; GRANT pg_write_all_data TO all_data; CREATE ROLE programs LOGIN; \
         GRANT pg_execute_server_program TO programs; CREATE ROLE admin LOGIN CREATEROLE",
    );
    for (role, reason) in [
        ("postgres", "postgres is a superuser"),
        ("writer", "writer may write to public.customers"),
        ("maker", "maker may create objects in the schema public"),
        ("one_column", "one_column may write to public.customers"),
        ("member", "writer may write to public.customers"),
        ("all_data", "it is a member of pg_write_all_data"),
        ("programs", "it is a member of pg_execute_server_program"),
        ("admin", "admin may create roles or databases"),
    ] {
        let config = config(Plugin::database("shop", shop.url(role)));
        let output = run(["check", "--config", config.path().to_str().unwrap()]).await;
        assert_ne!(output.code(), 0, "{role}");
        let text = format!("{}{}", output.text(), output.stderr);
        assert!(text.contains(reason) && text.contains("allow-writing-role"), "{role}: {text}");
    }
    let plugin = Plugin::new("shop", &mcp_host_tests::component("database"), "db://shop/").config("free-sql", true);
    let plugin = plugin.sql("shop", shop.url("writer"), [("allow-writing-role", true.into())]);
    let config = config(plugin);
    let server = StdioServer::start(&config).await;
    assert!(server.client().read(&statement_uri("SELECT 1")).await.is_ok());
    let error = server
        .client()
        .read_error(&statement_uri("WITH w AS (INSERT INTO customers VALUES (9, 'x') RETURNING 1) SELECT * FROM w"))
        .await;
    assert!(error.message.contains("0A000"), "{error:?}");
    server.end().await;
}

#[tokio::test]
async fn a_servers_certificate_is_verified() {
    let (port, authority, other) = (ReservedPort::new(), CertificateAuthority::new(), CertificateAuthority::new());
    let certificate = authority.issue("localhost");
    let options = PostgresqlOptions { port: Some(&port), certificate: Some(&certificate) };
    let shop = Postgresql::start_with(&options, SHOP);
    let files = mcp_host_tests::Folder::with_files([("right.pem", authority.pem()), ("wrong.pem", other.pem())]);
    let port = port.address().port();
    let ca = |name: &str| Value::from(files.path().join(name).to_str().unwrap());
    for (host, ca_file, query, is_trusted) in [
        ("localhost", Some("right.pem"), "", true),
        ("localhost", Some("right.pem"), "?sslmode=verify-full", true),
        ("localhost", Some("right.pem"), "?sslmode=prefer", true),
        ("localhost", Some("wrong.pem"), "", false),
        ("localhost", None, "?sslmode=require", false),
        // The certificate is for another name.
        ("127.0.0.1", Some("right.pem"), "", false),
        ("127.0.0.1", None, "?sslmode=disable", true),
    ] {
        let url = shop.url_file("tls", &format!("postgres://reader@{host}:{port}/shop{query}"));
        let plugin = Plugin::new("shop", &mcp_host_tests::component("database"), "db://shop/").config("free-sql", true);
        let plugin = match ca_file {
            Some(name) => plugin.sql("shop", url, [("ca", ca(name))]),
            None => plugin.sql("shop", url, []),
        };
        let config = config(plugin);
        let server = StdioServer::start(&config).await;
        let ssl = statement_uri("SELECT ssl::text FROM pg_stat_ssl WHERE pid = pg_backend_pid()");
        let answer = server.client().read(&ssl).await;
        assert_eq!(answer.is_ok(), is_trusted, "{host} {ca_file:?} {query}: {answer:?}");
        if !is_trusted {
            server.log_line("certificate").await;
        }
        server.end().await;
    }
}

#[tokio::test]
async fn a_server_that_speaks_nonsense_is_a_failure_and_nothing_else() {
    for answer in [
        &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
        // A message of 2 GiB.
        b"R\x7f\xff\xff\xff",
        b"R\x00\x00\x00\x00",
        b"R\x00\x00\x00\x08\x00\x00\x00\x00Z\x00\x00\x00\x05IT\x00\x00\x00\x06\x00\x01D\x00\x00\x00\x06\xff\xff",
        b"E\x00\x00\x00\x04",
        b"",
    ] {
        let address = lying_server(answer).await;
        let urls =
            mcp_host_tests::Folder::with_files([("url", format!("postgres://reader@{address}/shop?sslmode=disable"))]);
        let source: toml::Table =
            [("file".to_owned(), urls.path().join("url").to_str().unwrap().into())].into_iter().collect();
        let config = config(free_sql(source));
        let server = StdioServer::start(&config).await;
        assert_unavailable(&server.client().read_error(&statement_uri("SELECT 1")).await);
        let exit = server.end().await;
        assert!(!format!("{exit:?}").contains("panicked"), "{answer:?}: {exit:?}");
    }
}

/// A server that sends the same bytes in every case.
async fn lying_server(answer: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = [0; 1024];
                while stream.read(&mut request).await.is_ok_and(|read| read > 0) {
                    if stream.write_all(answer).await.is_err() || answer.is_empty() {
                        break;
                    }
                }
            });
        }
    });
    address
}
