//! The database file of one plugin's buckets: its path, creation and opening.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};

use super::error::StoreError;
use crate::config::PluginName;
use crate::private_dir::{PrivateDir, PrivateError};

/// The longest time that an operation waits for another process that writes.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(2);
/// The delay between retries of an operation for which SQLite does not wait itself.
const BUSY_RETRY_DELAY: Duration = Duration::from_millis(5);
/// SQLite's application id, which marks the file as this host's: `mcph`.
const APPLICATION_ID: i32 = 0x6d63_7068;
/// The version of [`SCHEMA`].
const SCHEMA_VERSION: i32 = 1;
/// The directory of all plugins' databases, below the state directory.
const DIRECTORY: &str = "keyvalue";
const OPEN_FLAGS: OpenFlags = OpenFlags::SQLITE_OPEN_READ_WRITE.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);
/// The number of prepared statements that are cached: more than exist.
const STATEMENT_CACHE_SIZE: usize = 32;

/// `buckets` has the totals of the rows in `entries`. `writes` is incremented by each change of the bucket, and is the
/// version of each entry that is written: no state of a key ever recurs, except for its absence.
///
/// Keys are bytes, because SQLite's text does not support NUL. Values may be large, so the keys have a separate index.
const SCHEMA: &str = "
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

/// The location of one plugin's database.
#[derive(Clone, Debug)]
pub(super) struct DatabasePath {
    state_dir: PathBuf,
    file_name: String,
    /// The database file. SQLite creates its log next to it.
    pub(super) file: PathBuf,
}

impl DatabasePath {
    /// Returns the location of a plugin's database below a state directory.
    pub(super) fn new(state_dir: &Path, plugin: &PluginName) -> Self {
        let file_name = format!("{plugin}.sqlite3");
        Self { state_dir: state_dir.to_owned(), file: state_dir.join(DIRECTORY).join(&file_name), file_name }
    }

    /// Creates the database unless it exists. Fails unless the database, its log and its directories belong to this
    /// user only.
    fn ensure_exists(&self) -> Result<(), StoreError> {
        let dir = self.open_directory()?;
        if !dir.has_file(&self.file_name).map_err(to_store_error)? {
            self.create_file(&dir)?;
        }
        Ok(())
    }

    /// Returns whether the database exists. Fails unless the database, its log and its directories, as far as they
    /// exist, belong to this user only. Creates no database.
    pub(super) fn has_database(&self) -> Result<bool, StoreError> {
        match fs::symlink_metadata(self.state_dir.join(DIRECTORY)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(to_store_error(error)),
            Ok(_) => self.open_directory()?.has_file(&self.file_name).map_err(to_store_error),
        }
    }

    /// Opens the directory of the database, and creates it if it does not exist. Fails unless it and SQLite's auxiliary
    /// files belong to this user only.
    fn open_directory(&self) -> Result<PrivateDir, StoreError> {
        let dir = PrivateDir::open(&self.state_dir)
            .and_then(|state| state.subdirectory(DIRECTORY))
            .map_err(to_store_error)?;
        for beside in ["-wal", "-shm", "-journal"] {
            dir.has_file(&format!("{}{beside}", self.file_name)).map_err(to_store_error)?;
        }
        Ok(dir)
    }

    /// Creates a database with its tables, accessible to this user only. SQLite gives the auxiliary files the same
    /// mode.
    fn create_file(&self, dir: &PrivateDir) -> Result<(), StoreError> {
        let new = dir.new_file().map_err(to_store_error)?;
        let connection = Connection::open_with_flags(new.path(), OPEN_FLAGS)?;
        // No journal: the file is synchronized as a whole, and is not visible under its name before that.
        connection.pragma_update(None, "journal_mode", "OFF")?;
        connection.execute_batch(SCHEMA)?;
        connection.pragma_update(None, "application_id", APPLICATION_ID)?;
        connection.pragma_update(None, "user_version", SCHEMA_VERSION)?;
        connection.close().map_err(|(_, error)| error)?;
        new.as_file().sync_all().map_err(to_store_error)?;
        match new.persist_noclobber(&self.file) {
            // Another process has created the database first, and that one is used.
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            persisted => persisted.map(drop).map_err(|error| to_store_error(error.error)),
        }
    }
}

fn to_store_error(error: impl Into<PrivateError>) -> StoreError {
    StoreError::Failed(error.into().to_string())
}

/// An open database with its tables.
pub(super) struct Database {
    pub(super) connection: Connection,
}

impl Database {
    /// Closes the database, which checkpoints the log.
    pub(super) fn close(self) {
        drop(self);
    }

    /// Opens the database, and creates it if it does not exist.
    pub(super) fn open(path: &DatabasePath) -> Result<Self, StoreError> {
        path.ensure_exists()?;
        let connection = Connection::open_with_flags(&path.file, OPEN_FLAGS)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.set_prepared_statement_cache_capacity(STATEMENT_CACHE_SIZE);
        // Code in the file's schema is not executed, and its pages are validated.
        connection.pragma_update(None, "trusted_schema", false)?;
        connection.pragma_update(None, "cell_size_check", true)?;
        connection.pragma_update(None, "cache_size", -1024)?;
        check_schema(&connection)?;
        enable_wal(&connection)?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        // Truncates a log that a large write has extended.
        connection.pragma_update(None, "journal_size_limit", 16 << 20)?;
        Ok(Self { connection })
    }
}

/// Switches to a write-ahead log, which is stored in the file. SQLite does not wait for other processes that do the
/// same.
fn enable_wal(connection: &Connection) -> Result<(), StoreError> {
    let begun = Instant::now();
    loop {
        let mode = connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0));
        match mode.map_err(StoreError::from) {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(mode) => {
                return Err(StoreError::Failed(format!(
                    "the file system does not support a write-ahead log (journal mode `{mode}`)"
                )));
            }
            Err(StoreError::Busy) if begun.elapsed() < BUSY_TIMEOUT => thread::sleep(BUSY_RETRY_DELAY),
            Err(error) => return Err(error),
        }
    }
}

/// Checks that the tables are this host's.
fn check_schema(connection: &Connection) -> Result<(), StoreError> {
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i32>(0));
    match (number("application_id")?, number("user_version")?, number("schema_version")?) {
        (APPLICATION_ID, SCHEMA_VERSION, _) => Ok(()),
        (0, 0, 0) => Err(StoreError::Damaged("it is empty: all its content was removed".to_owned())),
        (APPLICATION_ID, version, _) => Err(StoreError::Failed(format!(
            "it was written by another version of this host (schema version {version})"
        ))),
        _ => Err(StoreError::Damaged("it is a database of another application".to_owned())),
    }
}
