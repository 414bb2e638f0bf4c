//! Statements that attempt more than reading, on PostgreSQL: none has an effect, which a comparison of the database
//! verifies.
//!
//! Each statement is tried by a read-only role, and by the superuser with `allow-writing-role`, where only the host
//! protects the database.

use mcp_host_tests::{Plugin, Postgresql, StdioServer, component};
use toml::Value;

use super::{SHOP, config, statement_uri};

/// Statements that are rejected without being run.
const REFUSED: &[&str] = &[
    // Statements that are not queries.
    "INSERT INTO customers VALUES (9, 'x')",
    "INSERT INTO customers VALUES (9, 'x') RETURNING id",
    "UPDATE customers SET name = 'x'",
    "DELETE FROM customers",
    "DELETE FROM customers RETURNING *",
    "TRUNCATE customers",
    "MERGE INTO customers USING orders ON false WHEN NOT MATCHED THEN INSERT VALUES (9, 'x')",
    "CREATE TABLE t (a int)",
    "CREATE TABLE t AS SELECT 1",
    "CREATE TEMP TABLE t (a int)",
    "CREATE TEMP TABLE t AS SELECT 1",
    "CREATE UNLOGGED TABLE t (a int)",
    "CREATE VIEW v AS SELECT 1",
    "CREATE MATERIALIZED VIEW v AS SELECT 1",
    "CREATE INDEX ON customers (name)",
    "CREATE SCHEMA s",
    "CREATE ROLE r SUPERUSER",
    "CREATE DATABASE d",
    "CREATE EXTENSION dblink",
    "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE TRIGGER t AFTER INSERT ON customers EXECUTE FUNCTION touch()",
    "CREATE SEQUENCE s",
    "CREATE TYPE t AS (a int)",
    "CREATE STATISTICS s ON id, name FROM customers",
    "CREATE SUBSCRIPTION s CONNECTION 'host=x' PUBLICATION p",
    "CREATE PUBLICATION p FOR ALL TABLES",
    "CREATE SERVER s FOREIGN DATA WRAPPER postgres_fdw",
    "CREATE RULE r AS ON SELECT TO customers DO INSTEAD NOTHING",
    "CREATE EVENT TRIGGER e ON ddl_command_start EXECUTE FUNCTION touch()",
    "DROP TABLE customers",
    "DROP SCHEMA public CASCADE",
    "DROP DATABASE shop",
    "DROP ROLE reader",
    "DROP OWNED BY postgres",
    "REASSIGN OWNED BY postgres TO reader",
    "ALTER TABLE customers ADD COLUMN x int",
    "ALTER TABLE customers DISABLE TRIGGER ALL",
    "ALTER ROLE reader SUPERUSER",
    "ALTER ROLE reader SET default_transaction_read_only = off",
    "ALTER SYSTEM SET fsync = off",
    "ALTER DATABASE shop RENAME TO x",
    "ALTER SEQUENCE counter RESTART",
    "ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO reader",
    "GRANT ALL ON customers TO PUBLIC",
    "REVOKE ALL ON customers FROM reader",
    "COMMENT ON TABLE customers IS 'x'",
    "SECURITY LABEL ON TABLE customers IS 'x'",
    "VACUUM",
    "VACUUM FULL customers",
    "ANALYZE",
    "CLUSTER customers USING customers_pkey",
    "REINDEX TABLE customers",
    "REFRESH MATERIALIZED VIEW v",
    "CHECKPOINT",
    "LOCK TABLE customers",
    "LOCK TABLE customers IN ACCESS EXCLUSIVE MODE",
    "COPY customers TO STDOUT",
    "COPY customers FROM STDIN",
    "COPY customers TO '/tmp/mcp-host-copied'",
    "COPY (SELECT 1) TO PROGRAM 'touch /tmp/mcp-host-copied'",
    "COPY customers FROM '/etc/passwd'",
    "COPY customers FROM PROGRAM 'echo 9,x'",
    "DO $$ BEGIN DELETE FROM customers; END $$",
    "CALL touch()",
    "EXECUTE s",
    "PREPARE s AS DELETE FROM customers",
    "DEALLOCATE ALL",
    "DISCARD ALL",
    "EXPLAIN SELECT 1",
    "EXPLAIN ANALYZE DELETE FROM customers",
    "SHOW ALL",
    "LOAD 'auto_explain'",
    "LISTEN x",
    "NOTIFY x",
    "UNLISTEN *",
    "DECLARE c CURSOR FOR SELECT 1",
    "FETCH ALL FROM mcp_host_rows",
    "MOVE ALL IN mcp_host_rows",
    "CLOSE ALL",
    "IMPORT FOREIGN SCHEMA s FROM SERVER x INTO public",
    // Control of the transaction.
    "BEGIN",
    "START TRANSACTION READ WRITE",
    "COMMIT",
    "COMMIT AND CHAIN",
    "END",
    "ROLLBACK",
    "ABORT",
    "SAVEPOINT s",
    "RELEASE s",
    "ROLLBACK TO s",
    "PREPARE TRANSACTION 'x'",
    "COMMIT PREPARED 'x'",
    "SET TRANSACTION READ WRITE",
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
    "SET default_transaction_read_only = off",
    "SET LOCAL transaction_read_only = off",
    "SET statement_timeout = 0",
    "SET search_path = private",
    "SET ROLE postgres",
    "SET SESSION AUTHORIZATION postgres",
    "RESET ALL",
    "RESET ROLE",
    // More than one statement.
    "SELECT 1; DELETE FROM customers",
    "SELECT 1; COMMIT; DROP TABLE customers",
    "SELECT 1;; SELECT 2",
    "; DELETE FROM customers",
    "SELECT 1 /* */; COMMIT",
    "",
    "--",
    // Queries that write, or lock.
    "SELECT 1 INTO t",
    "SELECT * INTO TEMP t FROM customers",
    "WITH w AS (DELETE FROM customers RETURNING *) SELECT * FROM w",
    "WITH w AS (INSERT INTO customers VALUES (9, 'x') RETURNING *) SELECT * FROM w",
    "WITH w AS (UPDATE customers SET name = 'x' RETURNING *) SELECT * FROM w",
    "SELECT * FROM customers FOR UPDATE",
    "SELECT * FROM customers FOR SHARE",
    "SELECT * FROM customers FOR KEY SHARE SKIP LOCKED",
    "SELECT nextval('counter')",
    "SELECT setval('counter', 42)",
    "SELECT touch()",
    "SELECT owned()",
    "SELECT set_config('transaction_read_only', 'off', false), touch()",
    "SELECT set_config('transaction_read_only', 'off', true)",
    "SELECT set_config('default_transaction_read_only', 'off', false), touch()",
    "SELECT query_to_xml('DELETE FROM customers RETURNING 1', true, true, '')",
    "SELECT query_to_xml('COMMIT', true, true, '')",
    "SELECT cursor_to_xml('mcp_host_rows', 1, true, true, '')",
    "SELECT * FROM (VALUES (1)) v, LATERAL (SELECT touch()) t",
    "TABLE customers FOR UPDATE",
];

/// Statements that a reader may not run, and that leave no trace even in a superuser's transaction.
const WITHOUT_TRACE: &[&str] = &[
    "SELECT lo_create(4242)",
    "SELECT lo_from_bytes(4243, 'x')",
    "SELECT lo_unlink(4242)",
    "SELECT pg_notify('x', 'y')",
    "SELECT set_config('search_path', 'private', false)",
    "SELECT set_config('role', 'postgres', false)",
    "SELECT set_config('session_authorization', 'postgres', false)",
    "SELECT pg_advisory_lock(7)",
    "SELECT pg_try_advisory_lock(8)",
    "SELECT pg_export_snapshot()",
    "SELECT setseed(0.5)",
    "SELECT pg_backend_pid()",
    // Only sessions of the same role may be terminated, and there are none.
    "SELECT pg_terminate_backend(1)",
    // One statement.
    "SELECT 1; --",
];

/// Functions with effects beyond the database, which a reader may not run. A superuser may: such a role is rejected
/// unless the config allows it, and its capabilities are documented.
const BEYOND: &[&str] = &[
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT pg_read_binary_file('/etc/passwd')",
    "SELECT pg_ls_dir('/')",
    "SELECT pg_stat_file('/etc/passwd')",
    "SELECT lo_import('/etc/passwd')",
    "SELECT lo_export(1, '/tmp/mcp-host-copied')",
    "SELECT pg_reload_conf()",
    "SELECT pg_rotate_logfile()",
    "SELECT pg_switch_wal()",
    "SELECT pg_create_restore_point('x')",
    "SELECT pg_create_physical_replication_slot('x', true)",
    "SELECT pg_create_logical_replication_slot('x', 'test_decoding')",
    "SELECT pg_promote()",
    "SELECT pg_stat_reset()",
    "SELECT pg_logical_emit_message(true, 'x', 'y')",
    "SELECT rolpassword FROM pg_authid",
    "SELECT passwd FROM pg_shadow",
    "SELECT * FROM pg_file_settings",
    "SELECT * FROM pg_hba_file_rules",
];

fn plugin(url: Value, more: &[(&str, Value)]) -> Plugin {
    let plugin = Plugin::new("shop", &component("database"), "db://shop/").config("free-sql", true);
    match more {
        [] => plugin.sql("shop", url, []),
        [(key, value), ..] => plugin.sql("shop", url, [(*key, value.clone())]),
    }
}

#[tokio::test]
async fn no_statement_of_a_reader_has_an_effect() {
    let shop = Postgresql::start(SHOP);
    let before = shop.dump();
    let config = config(plugin(shop.url("reader"), &[]));
    let server = StdioServer::start(&config).await;
    for sql in REFUSED.iter().chain(BEYOND) {
        let answer = server.client().read(&statement_uri(sql)).await;
        // Every role may write a WAL message. It is not part of the database.
        let is_harmless = sql.contains("pg_logical_emit_message");
        assert!(answer.is_err() || is_harmless, "{sql}: {answer:?}");
    }
    for sql in WITHOUT_TRACE {
        let _ = server.client().read(&statement_uri(sql)).await;
    }
    assert!(before == shop.dump(), "the database has changed");
    assert_eq!(shop.sql("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").trim(), "0");
    assert!(!std::path::Path::new("/tmp/mcp-host-copied").exists());
    let path =
        server.client().text(&format!("{}&format=csv", statement_uri("SELECT current_setting('search_path')"))).await;
    assert_eq!(path, "current_setting\r\npublic\r\n", "a setting of another query is left");
    server.end().await;
}

#[tokio::test]
async fn no_statement_of_a_superuser_changes_the_database() {
    let shop = Postgresql::start(SHOP);
    let before = shop.dump();
    let plugin = plugin(shop.url("postgres"), &[("allow-writing-role", true.into())]);
    let config = config(plugin);
    let server = StdioServer::start(&config).await;
    for sql in REFUSED {
        let answer = server.client().read(&statement_uri(sql)).await;
        assert!(answer.is_err(), "{sql}: {answer:?}");
    }
    for sql in WITHOUT_TRACE {
        let _ = server.client().read(&statement_uri(sql)).await;
    }
    assert!(before == shop.dump(), "the database has changed");
    assert_eq!(shop.sql("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").trim(), "0");
    server.end().await;
}
