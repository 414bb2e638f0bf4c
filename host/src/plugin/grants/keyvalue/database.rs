//! The file of one plugin's buckets: where it is, and how it is opened.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::error::StoreError;
use crate::config::PluginName;

/// How long an operation waits for another process that writes.
pub(super) const BUSY: Duration = Duration::from_secs(2);
/// How long to wait where SQLite does not do it itself.
const MOMENT: Duration = Duration::from_millis(5);
/// Marks the file as this host's: `mcph`.
const APPLICATION: i32 = 0x6d63_7068;
/// The version of the tables below.
const VERSION: i32 = 1;
/// Prepared statements that are kept: more than there are.
const STATEMENTS: usize = 32;

/// `buckets` has the totals of what `entries` holds. `writes` counts up with each change of the bucket, and gives each entry
/// that is written its version: no state of a key comes twice but its absence.
///
/// Keys are bytes, because SQLite's text does not get on with NUL. Values may be large, so the keys are in an index beside them.
const TABLES: &str = "
    CREATE TABLE buckets (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        bytes INTEGER NOT NULL DEFAULT 0,
        keys INTEGER NOT NULL DEFAULT 0,
        writes INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE TABLE entries (
        id INTEGER PRIMARY KEY,
        bucket INTEGER NOT NULL REFERENCES buckets (id),
        key BLOB NOT NULL,
        version INTEGER NOT NULL,
        value BLOB NOT NULL,
        UNIQUE (bucket, key)
    ) STRICT;
";

/// Where one plugin's buckets are kept.
#[derive(Clone, Debug)]
pub(super) struct Place {
    dir: PathBuf,
    /// The database. SQLite puts its log beside it.
    pub(super) file: PathBuf,
}

impl Place {
    /// The place of that plugin below a state directory.
    pub(super) fn of(state: &Path, plugin: &PluginName) -> Self {
        let dir = state.join("keyvalue");
        Self { file: dir.join(format!("{plugin}.sqlite3")), dir }
    }

    /// Sees to it that there is a file, for this user alone. SQLite gives the files beside it the same mode.
    fn make(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        OpenOptions::new().append(true).create(true).mode(0o600).open(&self.file)?;
        Ok(())
    }
}

/// An open database, with its tables.
pub(super) struct Database {
    pub(super) connection: Connection,
}

impl Database {
    /// Opens the database at that place, and makes it if there is none.
    pub(super) fn open(place: &Place) -> Result<Self, StoreError> {
        place.make().map_err(|error| StoreError::Failed(error.to_string()))?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(&place.file, flags)?;
        connection.busy_timeout(BUSY)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        // What a file says in its schema is not run, and what it says of its pages is checked.
        connection.pragma_update(None, "trusted_schema", false)?;
        connection.pragma_update(None, "cell_size_check", true)?;
        connection.pragma_update(None, "cache_size", -1024)?;
        write_ahead(&connection)?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        // What a large write has made of the log is given back.
        connection.pragma_update(None, "journal_size_limit", 16 << 20)?;
        make_tables(&mut connection)?;
        Ok(Self { connection })
    }
}

/// Switches to a write-ahead log, which the file remembers. SQLite does not wait for others who do the same.
fn write_ahead(connection: &Connection) -> Result<(), StoreError> {
    let begun = Instant::now();
    loop {
        let mode = connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0));
        match mode.map_err(StoreError::from) {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(mode) => {
                return Err(StoreError::Failed(format!("the file system allows no write-ahead log, but `{mode}`")));
            }
            Err(StoreError::Busy) if begun.elapsed() < BUSY => thread::sleep(MOMENT),
            Err(error) => return Err(error),
        }
    }
}

fn make_tables(connection: &mut Connection) -> Result<(), StoreError> {
    if is_ours(connection)? {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have been faster.
    if !is_ours(&transaction)? {
        transaction.execute_batch(TABLES)?;
        transaction.pragma_update(None, "application_id", APPLICATION)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
        transaction.commit()?;
    }
    Ok(())
}

/// Whether the tables are there; they are not in a new file.
fn is_ours(connection: &Connection) -> Result<bool, StoreError> {
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i32>(0));
    match (number("application_id")?, number("user_version")?, number("schema_version")?) {
        (APPLICATION, VERSION, _) => Ok(true),
        (0, 0, 0) => Ok(false),
        (APPLICATION, version, _) => Err(StoreError::Failed(format!(
            "it was written by another version of this host (its tables are of version {version})"
        ))),
        _ => Err(StoreError::Damaged("it is a database of another program".to_owned())),
    }
}
