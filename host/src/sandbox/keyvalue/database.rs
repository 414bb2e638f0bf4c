//! The file of one plugin's buckets: where it is, and how it is opened.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};

use super::error::StoreError;
use crate::config::PluginName;
use crate::private_dir::{PrivateDir, PrivateError};

/// How long an operation waits for another process that writes.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(2);
/// How long to wait where SQLite does not do it itself.
const BUSY_RETRY_DELAY: Duration = Duration::from_millis(5);
/// Marks the file as this host's: `mcph`.
const APPLICATION_ID: i32 = 0x6d63_7068;
/// The version of the tables below.
const SCHEMA_VERSION: i32 = 1;
/// The directory of all plugins' databases, below the state directory.
const DIRECTORY: &str = "keyvalue";
const OPEN_FLAGS: OpenFlags = OpenFlags::SQLITE_OPEN_READ_WRITE.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);
/// Prepared statements that are kept: more than there are.
const STATEMENT_CACHE_SIZE: usize = 32;

/// `buckets` has the totals of what `entries` holds. `writes` counts up with each change of the bucket, and gives each entry
/// that is written its version: no state of a key comes twice but its absence.
///
/// Keys are bytes, because SQLite's text does not get on with NUL. Values may be large, so the keys are in an index beside them.
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

/// Where one plugin's buckets are kept.
#[derive(Clone, Debug)]
pub(super) struct DatabasePath {
    state_dir: PathBuf,
    file_name: String,
    /// The database. SQLite puts its log beside it.
    pub(super) file: PathBuf,
}

impl DatabasePath {
    /// The place of that plugin below a state directory.
    pub(super) fn new(state_dir: &Path, plugin: &PluginName) -> Self {
        let file_name = format!("{plugin}.sqlite3");
        Self { state_dir: state_dir.to_owned(), file: state_dir.join(DIRECTORY).join(&file_name), file_name }
    }

    /// Sees to it that there is a database, and that it, its log and its directories are this user's own.
    fn ensure_exists(&self) -> Result<(), StoreError> {
        let dir = self.open_directory()?;
        if !dir.has_file(&self.file_name).map_err(to_store_error)? {
            self.create_file(&dir)?;
        }
        Ok(())
    }

    /// Whether there is a database. What there is of it, its log and its directories is this user's own; nothing is made.
    pub(super) fn has_database(&self) -> Result<bool, StoreError> {
        match fs::symlink_metadata(self.state_dir.join(DIRECTORY)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(to_store_error(error)),
            Ok(_) => self.open_directory()?.has_file(&self.file_name).map_err(to_store_error),
        }
    }

    /// The directory of the database, made if there is none. It and what lies beside the database are this user's own.
    fn open_directory(&self) -> Result<PrivateDir, StoreError> {
        let dir = PrivateDir::open(&self.state_dir)
            .and_then(|state| state.subdirectory(DIRECTORY))
            .map_err(to_store_error)?;
        for beside in ["-wal", "-shm", "-journal"] {
            dir.has_file(&format!("{}{beside}", self.file_name)).map_err(to_store_error)?;
        }
        Ok(dir)
    }

    /// Makes a database with its tables, for this user alone. SQLite gives the files beside it the same mode.
    fn create_file(&self, dir: &PrivateDir) -> Result<(), StoreError> {
        let new = dir.new_file().map_err(to_store_error)?;
        let connection = Connection::open_with_flags(new.path(), OPEN_FLAGS)?;
        // It is synchronised as a whole; until then nobody knows it.
        connection.pragma_update(None, "journal_mode", "OFF")?;
        connection.execute_batch(SCHEMA)?;
        connection.pragma_update(None, "application_id", APPLICATION_ID)?;
        connection.pragma_update(None, "user_version", SCHEMA_VERSION)?;
        connection.close().map_err(|(_, error)| error)?;
        new.as_file().sync_all().map_err(to_store_error)?;
        match new.persist_noclobber(&self.file) {
            // Another process was faster: its database is the one.
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            persisted => persisted.map(drop).map_err(|error| to_store_error(error.error)),
        }
    }
}

fn to_store_error(error: impl Into<PrivateError>) -> StoreError {
    StoreError::Failed(error.into().to_string())
}

/// An open database, with its tables.
pub(super) struct Database {
    pub(super) connection: Connection,
}

impl Database {
    /// Opens the database at that place, and makes it if there is none.
    pub(super) fn open(path: &DatabasePath) -> Result<Self, StoreError> {
        path.ensure_exists()?;
        let connection = Connection::open_with_flags(&path.file, OPEN_FLAGS)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.set_prepared_statement_cache_capacity(STATEMENT_CACHE_SIZE);
        // What a file says in its schema is not run, and what it says of its pages is checked.
        connection.pragma_update(None, "trusted_schema", false)?;
        connection.pragma_update(None, "cell_size_check", true)?;
        connection.pragma_update(None, "cache_size", -1024)?;
        check_schema(&connection)?;
        enable_wal(&connection)?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        // What a large write has made of the log is given back.
        connection.pragma_update(None, "journal_size_limit", 16 << 20)?;
        Ok(Self { connection })
    }
}

/// Switches to a write-ahead log, which the file remembers. SQLite does not wait for others who do the same.
fn enable_wal(connection: &Connection) -> Result<(), StoreError> {
    let begun = Instant::now();
    loop {
        let mode = connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0));
        match mode.map_err(StoreError::from) {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(mode) => {
                return Err(StoreError::Failed(format!("the file system allows no write-ahead log, but `{mode}`")));
            }
            Err(StoreError::Busy) if begun.elapsed() < BUSY_TIMEOUT => thread::sleep(BUSY_RETRY_DELAY),
            Err(error) => return Err(error),
        }
    }
}

/// Whether the tables are those of this host.
fn check_schema(connection: &Connection) -> Result<(), StoreError> {
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i32>(0));
    match (number("application_id")?, number("user_version")?, number("schema_version")?) {
        (APPLICATION_ID, SCHEMA_VERSION, _) => Ok(()),
        (0, 0, 0) => Err(StoreError::Damaged("it is empty: somebody has taken away all that was in it".to_owned())),
        (APPLICATION_ID, version, _) => Err(StoreError::Failed(format!(
            "it was written by another version of this host (its tables are of version {version})"
        ))),
        _ => Err(StoreError::Damaged("it is a database of another program".to_owned())),
    }
}
