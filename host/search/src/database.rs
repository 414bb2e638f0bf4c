//! The database file of the index: its tables, creation, opening and rebuilding.
//!
//! The index is derived data. A file that is damaged, or was written by an older version, is deleted and created again,
//! and its content is indexed again. A file of a newer version is neither used nor deleted, because that version may be
//! running at the same time, or be started again. The file is `search/index.sqlite3` below the state directory,
//! accessible to this user only. Several hosts may share it: each finds its own sources in it.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mcp_host_base::private_dir::{PrivateDir, SECRET_LEN};
use mcp_host_base::private_file::PrivateError;
use mcp_host_base::sqlite_file::{self, AUXILIARY, Format};
use rusqlite::Connection;

use super::bm25;
use super::embeddings::vector_store;
use super::error::IndexError;
use super::space::{BALLAST, Space};

/// The directory of the index, below the state directory.
const DIRECTORY: &str = "search";
const FILE_NAME: &str = "index.sqlite3";
/// A file of zeros that is deleted when the disk is full.
const BALLAST_FILE: &str = "ballast";
/// The file of the secret that is mixed into the keys of sources, which depend on secret values of the config.
const SECRET_FILE: &str = "sources.key";
/// SQLite's application id, which marks the file as an index of this host: `mcps`.
const APPLICATION_ID: i32 = 0x6d63_7073;
/// The version of [`SCHEMA`], of the tables of vectors, and of the tokens.
const SCHEMA_VERSION: i32 = 4;
/// The maximum time that a lookup waits for another process that has locked the file.
const READER_BUSY_TIMEOUT: Duration = Duration::from_secs(2);
/// The maximum time that a write waits for other processes. Their writing threads have low priority, too, so on a busy
/// machine each may hold a lock for seconds. Only indexers wait for a write.
const WRITER_BUSY_TIMEOUT: Duration = Duration::from_secs(30);
const FORMAT: Format =
    Format { application_id: APPLICATION_ID, version: SCHEMA_VERSION, schema: &[SCHEMA, vector_store::SCHEMA] };

/// A source is a plugin with everything that its content depends on, identified by a digest. `terms` has the tokens of
/// a document, made by `tokens` and separated by spaces, without the text; `passages` has the text.
const SCHEMA: &str = "
    CREATE TABLE sources (
        id INTEGER PRIMARY KEY,
        key BLOB NOT NULL UNIQUE,
        documents INTEGER NOT NULL DEFAULT 0,
        bytes INTEGER NOT NULL DEFAULT 0,
        without_text INTEGER NOT NULL DEFAULT 0,
        used INTEGER NOT NULL,
        report TEXT NOT NULL DEFAULT '{}'
    ) STRICT;
    CREATE TABLE documents (
        id INTEGER PRIMARY KEY,
        source INTEGER NOT NULL REFERENCES sources (id),
        path TEXT NOT NULL,
        kind TEXT,
        language TEXT,
        priority REAL,
        modified TEXT,
        audience INTEGER NOT NULL,
        UNIQUE (source, path)
    ) STRICT;
    CREATE INDEX documents_by_priority ON documents (priority DESC, modified DESC, id);
    CREATE TABLE details (
        document INTEGER PRIMARY KEY,
        entry TEXT NOT NULL,
        entry_hash INTEGER NOT NULL,
        text_hash INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        is_without_text INTEGER NOT NULL,
        checked INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE passages (
        document INTEGER NOT NULL,
        number INTEGER NOT NULL,
        line INTEGER NOT NULL,
        text TEXT NOT NULL,
        PRIMARY KEY (document, number)
    ) STRICT, WITHOUT ROWID;
    CREATE VIRTUAL TABLE terms USING fts5(name, text, content='', contentless_delete=1, tokenize='ascii');
";

/// The device and inode number of a file.
pub(super) type FileId = (u64, u64);

/// The location of the index.
#[derive(Clone, Debug)]
pub(super) struct DatabasePath {
    state_dir: PathBuf,
    file: PathBuf,
}

impl DatabasePath {
    pub(super) fn new(state_dir: &Path) -> Self {
        Self { state_dir: state_dir.to_owned(), file: state_dir.join(DIRECTORY).join(FILE_NAME) }
    }

    /// Opens the index for writing, and creates it if it does not exist.
    pub(super) fn open_writer(&self) -> Result<Connection, IndexError> {
        let dir = PrivateDir::open(&self.state_dir)?.subdirectory(DIRECTORY)?;
        for suffix in AUXILIARY {
            has_file(&dir, &format!("{FILE_NAME}{suffix}"))?;
        }
        if !has_file(&dir, FILE_NAME)? {
            sqlite_file::create::<IndexError>(&dir, FILE_NAME, &FORMAT)?;
        }
        let connection = self.connect(WRITER_BUSY_TIMEOUT)?;
        sqlite_file::enable_wal(&connection, WRITER_BUSY_TIMEOUT)?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        Ok(connection)
    }

    /// The secret for computing the keys of sources. It is created if it does not exist.
    pub(super) fn source_secret(&self) -> Result<[u8; SECRET_LEN], IndexError> {
        let dir = PrivateDir::open(&self.state_dir)?.subdirectory(DIRECTORY)?;
        dir.load_or_create_secret(SECRET_FILE).map_err(|error| in_file(&dir, SECRET_FILE, error))
    }

    /// Whether there is an index.
    pub(super) fn exists(&self) -> bool {
        self.file.exists()
    }

    /// Creates the ballast, if it does not exist.
    pub(super) fn create_ballast(&self) -> Result<(), IndexError> {
        let dir = PrivateDir::open(&self.state_dir)?.subdirectory(DIRECTORY)?;
        if has_file(&dir, BALLAST_FILE)? {
            return Ok(());
        }
        let mut file = dir.new_file()?;
        io::copy(&mut io::repeat(0).take(BALLAST), file.as_file_mut())?;
        file.persist(dir.path().join(BALLAST_FILE)).map_err(|error| error.error)?;
        Ok(())
    }

    /// Deletes the ballast, which frees space for urgent writes.
    pub(super) fn release_ballast(&self) {
        // If the disk stays full, the ballast may not exist.
        let _ = fs::remove_file(self.file.with_file_name(BALLAST_FILE));
    }

    /// The device and inode number of the file. None if the file does not exist.
    pub(super) fn file_id(&self) -> Option<FileId> {
        fs::metadata(&self.file).ok().map(|found| (found.dev(), found.ino()))
    }

    /// Opens the existing index for reading.
    pub(super) fn open_reader(&self) -> Result<Connection, IndexError> {
        let connection = self.connect(READER_BUSY_TIMEOUT)?;
        connection.pragma_update(None, "query_only", true)?;
        bm25::register(&connection)?;
        Ok(connection)
    }

    /// Deletes the index. Another process that has the index open keeps the deleted file until it reopens the index.
    pub(super) fn delete(&self) -> Result<(), IndexError> {
        for beside in AUXILIARY.into_iter().chain([""]) {
            let mut name = self.file.as_os_str().to_owned();
            name.push(beside);
            match fs::remove_file(PathBuf::from(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }

    /// Opens the existing index.
    fn connect(&self, busy_timeout: Duration) -> Result<Connection, IndexError> {
        let connection = sqlite_file::open(&self.file, busy_timeout)?;
        connection.pragma_update(None, "cache_size", -4096)?;
        check_schema(&connection)?;
        Ok(connection)
    }
}

/// Whether a file of the directory exists. Fails, with the path, if another user can access the file.
fn has_file(dir: &PrivateDir, name: &str) -> Result<bool, IndexError> {
    dir.has_file(name).map_err(|error| in_file(dir, name, error))
}

/// Adds the path to the error of a file.
fn in_file(dir: &PrivateDir, name: &str, error: PrivateError) -> IndexError {
    match error {
        PrivateError::Io(error) => error.into(),
        error => IndexError::Failed(format!("{}: {error}", dir.path().join(name).display())),
    }
}

/// Limits the write-ahead log to its part of the index's space.
pub(super) fn limit_log(connection: &Connection, space: Space) -> Result<(), IndexError> {
    let page_size: u64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
    let pages = space.checkpoint_size().checked_div(page_size).unwrap_or_default().max(1);
    connection.pragma_update(None, "wal_autocheckpoint", pages)?;
    // The limit truncates a log that a large write has extended.
    connection.pragma_update(None, "journal_size_limit", space.log_limit())?;
    Ok(())
}

/// Writes the log back to the database, except for pages that a reader's snapshot needs. This neither blocks other
/// connections nor waits for them.
pub(super) fn write_back_log(connection: &Connection) -> Result<(), IndexError> {
    Ok(connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?)
}

/// Checks the version of the tables.
fn check_schema(connection: &Connection) -> Result<(), IndexError> {
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i32>(0));
    match (number("application_id")?, number("user_version")?) {
        (APPLICATION_ID, SCHEMA_VERSION) => Ok(()),
        (APPLICATION_ID, found) if found > SCHEMA_VERSION => Err(IndexError::Newer { found, expected: SCHEMA_VERSION }),
        (id, version) => {
            Err(IndexError::Damaged(format!("it has the application id {id:#x} and the version {version}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_that_another_process_has_just_created_is_opened_while_that_writes() {
        let dir = tempfile::tempdir().unwrap();
        let path = DatabasePath::new(dir.path());
        let private_dir = PrivateDir::open(dir.path()).unwrap().subdirectory(DIRECTORY).unwrap();
        sqlite_file::create::<IndexError>(&private_dir, FILE_NAME, &FORMAT).unwrap();
        let other = Connection::open(&path.file).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        path.open_writer().unwrap();
    }

    #[test]
    fn an_index_of_a_newer_version_is_refused_and_one_of_an_older_is_damaged() {
        let dir = tempfile::tempdir().unwrap();
        let path = DatabasePath::new(dir.path());
        path.open_writer().unwrap().pragma_update(None, "user_version", SCHEMA_VERSION + 1).unwrap();
        for refused in [path.open_writer(), path.open_reader()] {
            let error = refused.unwrap_err();
            assert!(matches!(&error, IndexError::Newer { found, .. } if *found == SCHEMA_VERSION + 1), "{error:?}");
        }
        Connection::open(&path.file).unwrap().pragma_update(None, "user_version", SCHEMA_VERSION - 1).unwrap();
        assert!(matches!(path.open_writer(), Err(IndexError::Damaged(_))));
    }

    #[test]
    fn a_writer_waits_for_another_of_low_priority_and_a_lookup_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = DatabasePath::new(dir.path());
        let (writer, reader) = (path.open_writer().unwrap(), path.open_reader().unwrap());
        let timeouts = [writer, reader].map(|connection| {
            let millis = connection.pragma_query_value(None, "busy_timeout", |row| row.get::<_, u64>(0));
            Duration::from_millis(millis.unwrap())
        });
        assert_eq!(timeouts, [WRITER_BUSY_TIMEOUT, READER_BUSY_TIMEOUT]);
    }
}
