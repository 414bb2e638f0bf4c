//! SQLite databases of this host, in a [`PrivateDir`]: creation and opening. Several processes may open one at the same
//! time.
//!
//! A database is created under a temporary name, and renamed when it is complete, so a file with its name never comes
//! from an interrupted creation. It has a write-ahead log from then on, because switching to one briefly needs the
//! whole database, and SQLite does not always wait for that.

use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags, ffi};

use crate::private_dir::PrivateDir;
use crate::private_file::PrivateError;

/// The suffixes of the files that SQLite creates next to a database.
pub const AUXILIARY: [&str; 3] = ["-wal", "-shm", "-journal"];
const OPEN_FLAGS: OpenFlags = OpenFlags::SQLITE_OPEN_READ_WRITE.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);
/// The maximum number of cached prepared statements: more than any database of this host uses.
const STATEMENT_CACHE_SIZE: usize = 32;
/// The delay between retries of an operation for which SQLite itself does not wait.
const BUSY_RETRY_DELAY: Duration = Duration::from_millis(5);

/// The format of a new database.
#[derive(Debug)]
pub struct Format {
    /// SQLite's application id, which marks the file as this host's.
    pub application_id: i32,
    /// The version of the schema.
    pub version: i32,
    /// The statements that create the tables.
    pub schema: &'static [&'static str],
}

/// Fails unless the existing auxiliary files of a database belong to this user only.
pub fn check_auxiliary(dir: &PrivateDir, name: &str) -> Result<(), PrivateError> {
    AUXILIARY.iter().try_for_each(|suffix| dir.has_file(&format!("{name}{suffix}")).map(drop))
}

/// Creates a database with its tables, accessible to this user only. SQLite gives the auxiliary files the same mode. If
/// another process creates the database first, that one is kept.
pub fn create<E: From<rusqlite::Error> + From<PrivateError>>(
    dir: &PrivateDir,
    name: &str,
    format: &Format,
) -> Result<(), E> {
    let new = dir.new_file().map_err(PrivateError::from)?;
    let connection = Connection::open_with_flags(new.path(), OPEN_FLAGS)?;
    // No journal is needed: the file is synchronized as a whole before it is visible under its name.
    connection.pragma_update(None, "journal_mode", "OFF")?;
    for statements in format.schema {
        connection.execute_batch(statements)?;
    }
    connection.pragma_update(None, "application_id", format.application_id)?;
    connection.pragma_update(None, "user_version", format.version)?;
    enable_wal(&connection, Duration::ZERO)?;
    connection.close().map_err(|(_, error)| error)?;
    new.as_file().sync_all().map_err(PrivateError::from)?;
    match new.persist_noclobber(dir.path().join(name)) {
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        persisted => persisted.map(drop).map_err(|error| PrivateError::from(error.error).into()),
    }
}

/// Opens an existing database. An operation waits at most `busy_timeout` for another process that has locked it.
pub fn open(file: &Path, busy_timeout: Duration) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(file, OPEN_FLAGS)?;
    connection.busy_timeout(busy_timeout)?;
    connection.set_prepared_statement_cache_capacity(STATEMENT_CACHE_SIZE);
    // Code in the file's schema is not executed, and its pages are validated.
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    Ok(connection)
}

/// Switches a database to a write-ahead log, unless it has one. Only a copy that another program made, such as a
/// recovered one, has none. Waits at most `timeout` for other processes that use the database.
pub fn enable_wal(connection: &Connection, timeout: Duration) -> rusqlite::Result<()> {
    let began = Instant::now();
    enable_wal_with(connection, || {
        let has_time = began.elapsed() < timeout;
        if has_time {
            thread::sleep(BUSY_RETRY_DELAY);
        }
        has_time
    })
}

/// Retries while `wait` returns true.
fn enable_wal_with(connection: &Connection, mut wait: impl FnMut() -> bool) -> rusqlite::Result<()> {
    loop {
        let mode = connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0));
        match mode {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(mode) => {
                let reason = format!("the file system does not support a write-ahead log (journal mode `{mode}`)");
                return Err(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_CANTOPEN), Some(reason)));
            }
            // SQLite does not wait for another process that writes or also switches.
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && wait() => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: Format = Format { application_id: 1, version: 1, schema: &["CREATE TABLE a (b)"] };

    #[test]
    fn a_new_database_has_a_write_ahead_log_and_nothing_is_left_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        create::<Box<dyn std::error::Error>>(&PrivateDir::open(dir.path()).unwrap(), "a", &FORMAT).unwrap();
        let names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["a"]);
        let connection = open(&dir.path().join("a"), Duration::ZERO).unwrap();
        let mode: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
        assert_eq!(mode, "wal");
    }

    #[test]
    fn a_switch_to_a_write_ahead_log_waits_for_a_process_that_writes() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("copy");
        let writer = Connection::open(&file).unwrap();
        writer.execute_batch("CREATE TABLE a (b); BEGIN IMMEDIATE").unwrap();
        let connection = open(&file, Duration::ZERO).unwrap();
        let busy = enable_wal(&connection, Duration::ZERO).unwrap_err();
        assert_eq!(busy.sqlite_error_code(), Some(ErrorCode::DatabaseBusy));
        let mut waits = 0;
        let switched = enable_wal_with(&connection, || {
            waits += 1;
            writer.execute_batch("COMMIT").is_ok()
        });
        assert_eq!((switched, waits), (Ok(()), 1));
    }
}
