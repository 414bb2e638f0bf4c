//! Access of guests to SQLite databases.

use std::fs;
use std::path::PathBuf;

use mcp_host_config::grants::SqlUrl;
use mcp_host_model::principal::Principal;
use mcp_host_model::requester::Requester;
use tempfile::TempDir;

use super::*;
use crate::cpu::HostTimes;
use crate::memory::{CallOwner, MemoryAccount, MemoryBudget};
use crate::sql::bindings::databases::{Rows, Scalar, Value};

/// A database in a separate directory.
struct Fixture {
    dir: TempDir,
    database: SqliteDatabase,
    memory: Arc<MemoryAccount>,
    cpu: HostCpuBudget,
}

impl Fixture {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut SqlGrant)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("shop.db");
        let writer = Connection::open(&file).unwrap();
        writer
            .execute_batch(
                "CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL, price REAL, data BLOB);
                 INSERT INTO orders VALUES (1, 'tea', 2.5, x'00ff'), (2, 'cake', NULL, NULL);
                 CREATE VIRTUAL TABLE notes USING fts5(body);
                 INSERT INTO notes VALUES ('fresh tea'), ('old cake');
                 CREATE VIEW cheap AS SELECT item FROM orders WHERE price < 3;
                 CREATE TRIGGER logged AFTER DELETE ON orders BEGIN DELETE FROM notes; END;",
            )
            .unwrap();
        writer.close().unwrap();
        let mut grant = SqlGrant::new(SqlUrl::Sqlite(file.clone()));
        change(&mut grant);
        let memory = MemoryAccount::new(MemoryBudget::new(64 << 20, None), CallOwner::default());
        Self { database: SqliteDatabase::new(&file, None, &grant, None), memory, cpu: HostCpuBudget::unlimited(), dir }
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("shop.db")
    }

    fn request(&self, sql: &str, parameters: Vec<Scalar>) -> Query {
        Query {
            sql: sql.to_owned(),
            parameters: parameters.into_iter().map(Value::Scalar).collect(),
            bounds: ResultBounds { rows: 100, bytes: 1 << 20 },
            deadline: Instant::now() + Duration::from_secs(20),
            memory: self.memory.reservation(),
            usage: CallAccounts { memory: &self.memory, cpu: &self.cpu }.into(),
        }
    }

    async fn query(&self, sql: &str) -> Result<Rows, QueryError> {
        self.database.query(self.request(sql, Vec::new())).await.map(|result| result.rows)
    }

    /// The rows, each as one text.
    async fn texts(&self, sql: &str) -> Vec<String> {
        let rows = self.query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        rows.rows.iter().map(|row| format!("{:?}", row.values)).collect()
    }
}

#[tokio::test]
async fn rows_have_typed_values_and_the_types_of_their_columns() {
    let fixture = Fixture::new();
    let rows = fixture.query("SELECT id, item, price, data, price * 2 AS twice FROM orders ORDER BY id").await.unwrap();
    let columns: Vec<_> = rows.columns.iter().map(|column| (&*column.name, &*column.type_name)).collect();
    assert_eq!(columns, [("id", "INTEGER"), ("item", "TEXT"), ("price", "REAL"), ("data", "BLOB"), ("twice", "")]);
    assert_eq!(
        format!("{:?}", rows.rows[0].values),
        "[Value::Scalar(Scalar::Integer(1)), Value::Scalar(Scalar::Text(\"tea\")), Value::Scalar(Scalar::Float(2.5)), \
         Value::Scalar(Scalar::Bytes([0, 255])), Value::Scalar(Scalar::Float(5.0))]"
    );
    assert!(matches!(rows.rows[1].values[2], Value::Scalar(Scalar::Null)) && !rows.has_more);
}

#[tokio::test]
async fn parameters_are_values_and_never_sql() {
    let fixture = Fixture::new();
    let hostile = "tea' OR 1 = 1 --";
    let sql = "SELECT count(*) FROM orders WHERE item = ?1";
    for (parameter, count) in [("tea", 1), (hostile, 0)] {
        let query = fixture.request(sql, vec![Scalar::Text(parameter.to_owned())]);
        let rows = fixture.database.query(query).await.unwrap_or_else(|error| panic!("{error}")).rows;
        assert_eq!(format!("{:?}", rows.rows[0].values), format!("[Value::Scalar(Scalar::Integer({count}))]"));
    }
    let swapped = fixture.request("SELECT $2, $1, $2", vec![Scalar::Integer(1), Scalar::Integer(2)]);
    let rows = fixture.database.query(swapped).await.unwrap_or_else(|error| panic!("{error}")).rows;
    let numbers: Vec<_> = rows.rows[0].values.iter().map(|value| format!("{value:?}")).collect();
    assert_eq!(numbers, [2, 1, 2].map(|number| format!("Value::Scalar(Scalar::Integer({number}))")));
    let error = fixture.query(sql).await.unwrap_err();
    assert_eq!(error, QueryError::rejected("08P01", "the statement has 1 parameters, and 0 values"));
}

#[tokio::test]
async fn views_full_text_search_and_the_schema_can_be_read() {
    let fixture = Fixture::new();
    for (sql, rows) in [
        ("SELECT * FROM cheap", 1),
        ("SELECT * FROM notes WHERE notes MATCH 'tea'", 1),
        ("SELECT name FROM pragma_table_xinfo('orders')", 4),
        ("SELECT l.name FROM pragma_table_list AS l WHERE l.schema = 'main' AND l.type = 'view'", 1),
        ("SELECT name FROM sqlite_schema WHERE type = 'trigger'", 1),
        ("WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 3) SELECT i FROM n", 3),
        ("SELECT value FROM json_each('[1,2]')", 2),
        ("VALUES (1), (2)", 2),
    ] {
        assert_eq!(fixture.texts(sql).await.len(), rows, "{sql}");
    }
}

#[tokio::test]
async fn no_statement_writes_attaches_or_leaves_the_database() {
    let fixture = Fixture::new();
    let (other, copy) = (fixture.dir.path().join("other.db"), fixture.dir.path().join("copy.db"));
    let before = fs::read(fixture.file()).unwrap();
    let names = |fixture: &Fixture| fs::read_dir(fixture.dir.path()).unwrap().count();
    let files = names(&fixture);
    let statements = [
        "INSERT INTO orders VALUES (3, 'x', 1, NULL)".to_owned(),
        "INSERT INTO orders VALUES (3, 'x', 1, NULL) RETURNING id".to_owned(),
        "UPDATE orders SET item = 'x'".to_owned(),
        "DELETE FROM orders RETURNING *".to_owned(),
        "REPLACE INTO orders VALUES (1, 'x', 1, NULL)".to_owned(),
        "WITH gone AS (SELECT 1) DELETE FROM orders".to_owned(),
        "CREATE TABLE t (a)".to_owned(),
        "CREATE TEMP TABLE t (a)".to_owned(),
        "CREATE TEMP VIEW v AS SELECT 1".to_owned(),
        "CREATE INDEX i ON orders (item)".to_owned(),
        "CREATE VIRTUAL TABLE temp.t USING fts5(a)".to_owned(),
        "CREATE VIEW v AS SELECT 1".to_owned(),
        "CREATE TEMP TRIGGER tr AFTER INSERT ON orders BEGIN SELECT 1; END".to_owned(),
        "DROP TABLE orders".to_owned(),
        "DROP VIEW cheap".to_owned(),
        "DROP TRIGGER logged".to_owned(),
        "ALTER TABLE orders RENAME TO o".to_owned(),
        "ALTER TABLE orders ADD COLUMN x".to_owned(),
        "REINDEX".to_owned(),
        "ANALYZE".to_owned(),
        "VACUUM".to_owned(),
        format!("VACUUM INTO '{}'", copy.display()),
        format!("ATTACH '{}' AS other", other.display()),
        "ATTACH ':memory:' AS other".to_owned(),
        "ATTACH '' AS other".to_owned(),
        "DETACH main".to_owned(),
        "BEGIN".to_owned(),
        "BEGIN IMMEDIATE".to_owned(),
        "COMMIT".to_owned(),
        "ROLLBACK".to_owned(),
        "SAVEPOINT s".to_owned(),
        "RELEASE s".to_owned(),
        "PRAGMA query_only = 0".to_owned(),
        "PRAGMA writable_schema = 1".to_owned(),
        "PRAGMA journal_mode = DELETE".to_owned(),
        "PRAGMA journal_mode".to_owned(),
        "PRAGMA user_version = 7".to_owned(),
        "PRAGMA trusted_schema = 1".to_owned(),
        "PRAGMA temp_store_directory = '/tmp'".to_owned(),
        "PRAGMA database_list".to_owned(),
        "PRAGMA wal_checkpoint".to_owned(),
        "PRAGMA incremental_vacuum".to_owned(),
        "PRAGMA page_size = 512".to_owned(),
        "PRAGMA optimize".to_owned(),
        "PRAGMA integrity_check".to_owned(),
        "PRAGMA cache_size = 1000000".to_owned(),
        "PRAGMA mmap_size = 1000000000".to_owned(),
        "SELECT * FROM pragma_database_list".to_owned(),
        "SELECT * FROM pragma_user_version".to_owned(),
        "SELECT load_extension('/lib/x86_64-linux-gnu/libc.so.6')".to_owned(),
        "SELECT fts3_tokenizer('simple')".to_owned(),
        "SELECT fts3_tokenizer('simple', x'00')".to_owned(),
        "SELECT readfile('/etc/passwd')".to_owned(),
        "SELECT writefile('/tmp/x', 'x')".to_owned(),
        "SELECT edit('x')".to_owned(),
        "INSERT INTO notes(notes) VALUES ('delete-all')".to_owned(),
        "UPDATE sqlite_schema SET sql = ''".to_owned(),
        "DELETE FROM sqlite_dbpage".to_owned(),
        "SELECT 1; DELETE FROM orders".to_owned(),
        "SELECT 1; SELECT 2".to_owned(),
        String::new(),
        "-- nothing".to_owned(),
        "SELECT \"misspelt\" FROM orders".to_owned(),
    ];
    for sql in statements {
        let error = fixture.query(&sql).await.map(|rows| format!("{rows:?}")).unwrap_err();
        assert!(matches!(error, QueryError::Rejected { .. }), "{sql}: {error:?}");
        assert!(!error.to_string().contains("shop.db"), "{sql}: {error}");
    }
    assert!(before == fs::read(fixture.file()).unwrap(), "the database has changed");
    assert_eq!(names(&fixture), files, "a file was created");
}

#[tokio::test]
async fn a_statement_that_takes_long_ends_at_its_deadline() {
    let fixture = Fixture::new();
    let endless = "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
    let begun = Instant::now();
    let query = Query { deadline: begun + Duration::from_secs(1), ..fixture.request(endless, Vec::new()) };
    assert_eq!(fixture.database.query(query).await.map(|_| ()), Err(QueryError::Timeout));
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(fixture.texts("SELECT 1").await.len(), 1, "the connection is free again");
}

#[tokio::test]
async fn a_statement_that_computes_ends_with_the_processor_time_of_its_call() {
    let fixture = Fixture::new();
    let endless = "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
    let (times, limit) = (HostTimes::default(), Duration::from_millis(100));
    let usage = Usage { client: None, cpu: HostCpuBudget::new(times.clone(), limit) };
    let query = Query { usage, ..fixture.request(endless, Vec::new()) };
    assert_eq!(fixture.database.query(query).await.map(|_| ()), Err(QueryError::OutOfCpu));
    assert!(times.cpu() >= limit && times.cpu() < limit * 5, "{times:?}");
}

#[tokio::test]
async fn the_queries_of_one_client_leave_connections_for_others() {
    let fixture = Fixture::new();
    let usage = |name: &str| Usage {
        client: Some(Requester::Principal(Principal::new(name))),
        cpu: HostCpuBudget::unlimited(),
    };
    let deadline = Instant::now() + Duration::from_secs(1);
    // One client gets two of four connections.
    let _held = [(); 2].map(|()| fixture.database.permits.try_acquire(usage("ada").client).unwrap());
    let ada = usage("ada");
    let of_ada = fixture.database.acquire(deadline, &ada);
    let query = Query { usage: usage("bob"), ..fixture.request("SELECT 1", Vec::new()) };
    let (waited, answered) = tokio::join!(of_ada, fixture.database.query(query));
    assert_eq!(waited.map(drop), Err(QueryError::Busy(4)));
    assert_eq!(answered.map(|result| result.rows.rows.len()), Ok(1));
}

#[tokio::test]
async fn a_query_whose_caller_is_gone_frees_its_connection() {
    let fixture = Fixture::with(|grant| grant.connections = 1.try_into().unwrap());
    let endless = "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n";
    {
        let query = fixture.database.query(fixture.request(endless, Vec::new()));
        assert!(tokio::time::timeout(Duration::from_millis(50), query).await.is_err());
    }
    assert_eq!(fixture.texts("SELECT 1").await.len(), 1);
}

#[tokio::test]
async fn a_query_waits_for_a_connection_until_its_deadline() {
    let fixture = Fixture::with(|grant| grant.connections = 1.try_into().unwrap());
    let _taken = fixture.database.permits.try_acquire(None).unwrap();
    let query = Query { deadline: Instant::now(), ..fixture.request("SELECT 1", Vec::new()) };
    assert_eq!(fixture.database.query(query).await.map(|_| ()), Err(QueryError::Busy(1)));
}

/// SQLite's memory limit is global to the process, so tests that come near it run one after the
/// other.
static HEAP: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

#[tokio::test]
async fn values_that_are_too_large_fail_before_they_take_memory() {
    let _turn = HEAP.lock().await;
    let fixture = Fixture::with(|grant| grant.max_bytes = "1MiB".parse().unwrap());
    for sql in [
        "SELECT randomblob(2000000)",
        "SELECT zeroblob(1073741824)",
        "SELECT printf('%1000000000d', 1)",
        "SELECT hex(zeroblob(400000)) || hex(zeroblob(400000))",
        "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n LIMIT 400000) SELECT group_concat(i) FROM n",
        "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n LIMIT 90) SELECT randomblob(50000) FROM n",
    ] {
        let error = fixture.query(sql).await.map(|rows| rows.rows.len()).unwrap_err();
        assert_eq!(error, QueryError::TooLarge(1 << 20), "{sql}");
    }
    assert!(fixture.memory.try_reserve(64 << 20).is_ok(), "the memory is free again");
}

#[tokio::test]
async fn values_of_one_row_together_take_a_bounded_memory() {
    let _turn = HEAP.lock().await;
    let fixture = Fixture::with(|grant| grant.max_bytes = "4MiB".parse().unwrap());
    let columns: Vec<_> = (0..400).map(|index| format!("hex(randomblob(2000000)) a{index}")).collect();
    let lengths: Vec<_> = (0..150).map(|index| format!("length(a{index})")).collect();
    let inner = format!("SELECT {} FROM (SELECT {} LIMIT 1)", lengths.join(" + "), columns.join(", "));
    for sql in [format!("SELECT {}", columns.join(", ")), inner] {
        let query = Query { deadline: Instant::now() + Duration::from_secs(60), ..fixture.request(&sql, Vec::new()) };
        assert_eq!(fixture.database.query(query).await.map(|_| ()), Err(QueryError::OutOfMemory), "{sql:.40}");
    }
    assert_eq!(fixture.texts("SELECT 1").await.len(), 1);
}

#[tokio::test]
async fn a_call_of_a_function_does_not_outlast_the_deadline() {
    let fixture = Fixture::with(|grant| grant.max_bytes = "4MiB".parse().unwrap());
    let zeros = |length: usize| format!("hex(zeroblob({}))", length / 2);
    for sql in [
        format!("instr({}, {} || '1')", zeros(4_000_000), zeros(2_000_000)),
        format!("InStr({}, {} || '1')", zeros(260_000), zeros(130_000)),
        format!("replace({}, {} || '1', '')", zeros(260_000), zeros(130_000)),
        format!("rtrim({}, replace({}, '0', 'b') || '0')", zeros(2_000_000), zeros(2_000_000)),
        format!("trim({}, replace({}, '0', 'b') || '0')", zeros(16_000), zeros(16_000)),
    ] {
        let begun = Instant::now();
        let endless =
            format!("WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n) SELECT max({sql} || i) FROM n");
        let query = Query { deadline: begun + Duration::from_millis(100), ..fixture.request(&endless, Vec::new()) };
        let _ = fixture.database.query(query).await;
        assert!(begun.elapsed() < Duration::from_secs(60), "{sql}: {:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn values_are_shorter_only_beside_functions_that_take_long() {
    let fixture = Fixture::with(|grant| grant.max_bytes = "1MiB".parse().unwrap());
    let long = "SELECT length(hex(zeroblob(200000)))";
    let (trimmed, replaced) =
        ("SELECT length(trim(hex(zeroblob(200000))))", "SELECT replace(hex(zeroblob(20000)), '0', 'xxxxxxxx')");
    assert_eq!(fixture.texts(long).await, ["[Value::Scalar(Scalar::Integer(400000))]"]);
    let error = fixture.query(trimmed).await.unwrap_err();
    assert!(error.to_string().contains("54000: a value has more than 16384 bytes"), "{error}");
    let error = fixture.query(replaced).await.unwrap_err();
    assert!(error.to_string().contains("54000: a value has more than 262144 bytes"), "{error}");
    assert_eq!(fixture.texts(long).await.len(), 1, "the bound of one statement is left to the next");
    assert_eq!(fixture.texts("SELECT replace('a.b', '.', ','), trim(' x ')").await.len(), 1);
}

#[tokio::test]
async fn values_are_shorter_beside_views_and_generated_columns_that_call_such_functions() {
    let fixture = Fixture::with(|grant| grant.max_bytes = "1MiB".parse().unwrap());
    let writer = Connection::open(fixture.file()).unwrap();
    writer
        .execute_batch(
            "CREATE TABLE texts (a TEXT, size AS (length(a)), place AS (instr(a, a || '1')), end AS (\"RTrim\"(a, 'x')) STORED);
             CREATE TABLE plain (a TEXT, trim TEXT);
             CREATE TABLE sized (a TEXT, instructions AS (length(a)));
             CREATE VIEW trimmed AS SELECT trim(a) AS a FROM plain;
             WITH long(a) AS (SELECT hex(zeroblob(200000))) INSERT INTO texts SELECT a FROM long;
             INSERT INTO plain SELECT a, '' FROM texts; INSERT INTO sized SELECT a FROM texts;",
        )
        .unwrap();
    writer.close().unwrap();
    for sql in ["SELECT place FROM texts", "SELECT length(a) FROM texts", "SELECT length(a) FROM trimmed"] {
        let error = fixture.query(sql).await.unwrap_err();
        assert!(error.to_string().contains("54000: a value has more than 16384 bytes"), "{sql}: {error}");
    }
    for sql in ["SELECT length(a) FROM plain", "SELECT instructions FROM sized"] {
        assert_eq!(fixture.texts(sql).await, ["[Value::Scalar(Scalar::Integer(400000))]"], "{sql}");
    }
}

#[tokio::test]
async fn statements_that_are_too_complex_are_refused() {
    let fixture = Fixture::new();
    let deep = format!("SELECT {}1{}", "1 + (".repeat(300), ")".repeat(300));
    let wide = vec!["SELECT 1"; 60].join(" UNION ALL ");
    let joined = format!("SELECT 1 FROM {}", vec!["orders"; 70].join(", "));
    for sql in [deep, wide, joined] {
        assert!(matches!(fixture.query(&sql).await, Err(QueryError::Rejected { .. })), "{sql}");
    }
}

#[tokio::test]
async fn rows_beyond_the_bound_are_not_read() {
    let fixture = Fixture::new();
    let endless = "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n) SELECT i FROM n";
    let rows = fixture.query(endless).await.unwrap();
    assert_eq!((rows.rows.len(), rows.has_more), (100, true));
}

#[tokio::test]
async fn a_log_is_read_while_a_writer_writes() {
    let fixture = Fixture::new();
    let writer = Connection::open(fixture.file()).unwrap();
    writer.pragma_update(None, "journal_mode", "WAL").unwrap();
    assert_eq!(fixture.texts("SELECT * FROM orders").await.len(), 2);
    writer.execute_batch("BEGIN IMMEDIATE; INSERT INTO orders VALUES (3, 'jam', 1, NULL)").unwrap();
    assert_eq!(fixture.texts("SELECT * FROM orders").await.len(), 2, "it is not committed");
    writer.execute_batch("COMMIT").unwrap();
    assert_eq!(fixture.texts("SELECT * FROM orders").await.len(), 3);
}

#[tokio::test]
async fn a_file_that_was_replaced_is_read_anew() {
    let fixture = Fixture::new();
    assert_eq!(fixture.texts("SELECT * FROM orders").await.len(), 2);
    let new = fixture.dir.path().join("new.db");
    Connection::open(&new).unwrap().execute_batch("CREATE TABLE orders (id)").unwrap();
    fs::rename(&new, fixture.file()).unwrap();
    assert_eq!(fixture.texts("SELECT * FROM orders").await.len(), 0);
}

#[tokio::test]
async fn what_is_no_database_is_a_fault_for_the_admin() {
    let fixture = Fixture::new();
    fs::write(fixture.file(), "no database at all, but long enough to have a header of one".repeat(10)).unwrap();
    let bounds = ResultBounds { rows: 1, bytes: 1 };
    let accounts = CallAccounts { memory: &fixture.memory, cpu: &fixture.cpu };
    let error = fixture.database.describe(bounds, Instant::now() + Duration::from_secs(5), accounts).await.map(|_| ());
    assert!(matches!(error, Err(QueryError::Unreachable(_))), "{error:?}");
    fs::remove_file(fixture.file()).unwrap();
    assert!(matches!(fixture.query("SELECT 1").await, Err(QueryError::Unreachable(_))));
}
