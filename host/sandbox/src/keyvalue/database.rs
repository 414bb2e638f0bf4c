//! The database file of one plugin's buckets: its path, creation and opening.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mcp_host_base::private_dir::PrivateDir;
use mcp_host_base::private_file::PrivateError;
use mcp_host_base::sqlite_file::{self, Format};
use mcp_host_config::PluginName;
use rusqlite::{Connection, ErrorCode};

use super::error::StoreError;

/// The maximum time for which an operation waits for a writer in another process.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(2);
/// SQLite's application id, which marks the file as created by this host: `mcph`.
const APPLICATION_ID: i32 = 0x6d63_7068;
/// The version of [`SCHEMA`].
const SCHEMA_VERSION: i32 = 1;
/// The directory of all plugins' databases, below the state directory.
const DIRECTORY: &str = "keyvalue";
const FORMAT: Format = Format { application_id: APPLICATION_ID, version: SCHEMA_VERSION, schema: &[SCHEMA] };

/// `buckets` has the totals of the rows in `entries`. `writes` is incremented by each change of the bucket, and becomes
/// the version of each written entry: no state of a key ever recurs, except for its absence.
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

    /// Creates the database unless it exists. Fails if another user can access the database, its log or its
    /// directories.
    fn ensure_exists(&self) -> Result<(), StoreError> {
        let dir = self.open_directory()?;
        if !dir.has_file(&self.file_name)? {
            sqlite_file::create::<StoreError>(&dir, &self.file_name, &FORMAT)?;
        }
        Ok(())
    }

    /// Returns whether the database exists. Fails if another user can access the existing ones of the database, its log
    /// and its directories. Creates no database.
    pub(super) fn has_database(&self) -> Result<bool, StoreError> {
        match fs::symlink_metadata(self.state_dir.join(DIRECTORY)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(PrivateError::from(error).into()),
            Ok(_) => Ok(self.open_directory()?.has_file(&self.file_name)?),
        }
    }

    /// Opens the directory of the database, and creates it if it does not exist. Fails if another user can access the
    /// directory or SQLite's auxiliary files.
    fn open_directory(&self) -> Result<PrivateDir, StoreError> {
        let dir = PrivateDir::open(&self.state_dir)?.subdirectory(DIRECTORY)?;
        sqlite_file::check_auxiliary(&dir, &self.file_name)?;
        Ok(dir)
    }
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
        let connection = sqlite_file::open(&path.file, BUSY_TIMEOUT)?;
        connection.pragma_update(None, "cache_size", -1024)?;
        check_schema(&connection)?;
        sqlite_file::enable_wal(&connection, BUSY_TIMEOUT)?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        // The limit truncates a log that a large write has extended.
        connection.pragma_update(None, "journal_size_limit", 16 << 20)?;
        Ok(Self { connection })
    }
}

/// Checks that this host created the tables.
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

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged(error.to_string()),
            Some(_) => Self::Failed(error.to_string()),
            // The error is not SQLite's: a value has a type that this host never writes, or a table is missing.
            None => Self::Damaged(error.to_string()),
        }
    }
}

impl From<PrivateError> for StoreError {
    fn from(error: PrivateError) -> Self {
        Self::Failed(error.to_string())
    }
}
