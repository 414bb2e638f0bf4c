//! Operations on a bucket, each in one transaction.

use std::ops::RangeInclusive;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::database::Database;
use super::error::StoreError;
use super::{Bucket, Cas, KeyVersion, MAX_KEY, MAX_KEYS, MAX_VALUE, OptionalEntry};
use super::{Page, PageStart, add, check_count, check_key};

type Result<T> = std::result::Result<T, StoreError>;

/// Returns the value of a key.
pub(super) fn get(database: &Database, bucket: &Bucket, key: &str) -> Result<Option<Vec<u8>>> {
    Ok(entry(&database.connection, bucket, key)?.map(|(_, value)| value))
}

/// Returns whether a key exists.
pub(super) fn exists(database: &Database, bucket: &Bucket, key: &str) -> Result<bool> {
    Ok(version_of(database, bucket, key)?.is_some())
}

/// Returns the state of a key.
pub(super) fn version_of(database: &Database, bucket: &Bucket, key: &str) -> Result<KeyVersion> {
    version(&database.connection, bucket, key)
}

/// Returns the values of the keys, read from one snapshot.
pub(super) fn get_many(database: &mut Database, bucket: &Bucket, keys: Vec<String>) -> Result<Vec<OptionalEntry>> {
    check_count(keys.len())?;
    let snapshot = database.connection.transaction_with_behavior(TransactionBehavior::Deferred)?;
    let mut remaining = MAX_VALUE;
    let mut found = Vec::with_capacity(keys.len());
    for key in keys {
        let entry = entry(&snapshot, bucket, &key)?;
        let length = entry.as_ref().map_or(0, |(_, value)| value.len());
        remaining = remaining.checked_sub(length).ok_or(StoreError::ValuesTooLarge)?;
        found.push(entry.map(|(_, value)| (key, value)));
    }
    Ok(found)
}

/// Writes all entries or none.
pub(super) fn set_many(database: &mut Database, bucket: &Bucket, entries: &[(String, Vec<u8>)]) -> Result<()> {
    check_count(entries.len())?;
    let values = entries.iter().try_fold(0_usize, |sum, (_, value)| sum.checked_add(value.len()));
    values.filter(|values| *values <= MAX_VALUE).ok_or(StoreError::ValuesTooLarge)?;
    let mut tx = WriteTransaction::begin(database, bucket)?;
    for (key, value) in entries {
        tx.upsert(key, value)?;
    }
    tx.commit()
}

/// Deletes all keys or none.
pub(super) fn delete_many(database: &mut Database, bucket: &Bucket, keys: &[String]) -> Result<()> {
    check_count(keys.len())?;
    let mut tx = WriteTransaction::begin(database, bucket)?;
    for key in keys {
        tx.remove(key)?;
    }
    tx.commit()
}

/// Adds `delta` to the value of a key, a number in decimal digits. Fails if the sum is outside of `range`.
pub(super) fn increment(
    database: &mut Database,
    bucket: &Bucket,
    key: &str,
    delta: i128,
    range: &RangeInclusive<i128>,
) -> Result<i128> {
    let mut tx = WriteTransaction::begin(database, bucket)?;
    let value = entry(&tx.transaction, bucket, key)?.map(|(_, value)| value);
    let sum = add(value.as_deref(), delta, range)?;
    tx.upsert(key, sum.to_string().as_bytes())?;
    tx.commit()?;
    Ok(sum)
}

/// Returns the value of the key of `cas`, and whether its state is unchanged since `cas` was created.
pub(super) fn current(database: &Database, cas: &Cas) -> Result<(Option<Vec<u8>>, bool)> {
    let entry = entry(&database.connection, &cas.bucket, &cas.key)?;
    let is_same = entry.as_ref().map(|(version, _)| *version) == cas.version;
    Ok((entry.map(|(_, value)| value), is_same))
}

/// Writes the key of `cas` if its state is unchanged, else returns its current state.
pub(super) fn swap(database: &mut Database, cas: Cas, value: Vec<u8>) -> Result<std::result::Result<(), Cas>> {
    if value.len() > MAX_VALUE {
        return Err(StoreError::ValuesTooLarge);
    }
    let mut tx = WriteTransaction::begin(database, &cas.bucket)?;
    let version = version(&tx.transaction, &cas.bucket, &cas.key)?;
    if version != cas.version {
        return Ok(Err(Cas { version, ..cas.clone() }));
    }
    tx.upsert(&cas.key, &value)?;
    tx.commit().map(Ok)
}

/// Returns the number of keys of a bucket, and the bytes of its keys and values.
pub(super) fn usage(database: &Database, bucket: &Bucket) -> Result<(u64, u64)> {
    let unsigned = |number: i64| u64::try_from(number).unwrap_or_default();
    Ok(totals(&database.connection, bucket)?.map_or((0, 0), |totals| (unsigned(totals.keys), unsigned(totals.bytes))))
}

/// Returns one page of the keys.
pub(super) fn keys(database: &Database, bucket: &Bucket, start: &PageStart) -> Result<Page> {
    let (after, skipped) = match start {
        PageStart::After(None) => (Vec::new(), 0),
        PageStart::After(Some(cursor)) => (URL_SAFE_NO_PAD.decode(cursor).map_err(|_| StoreError::InvalidCursor)?, 0),
        PageStart::Offset(count) => (Vec::new(), i64::try_from(*count).map_err(|_| StoreError::InvalidCursor)?),
    };
    if after.len() > MAX_KEY {
        return Err(StoreError::InvalidCursor);
    }
    // No key is empty, so the empty key precedes all keys.
    let mut statement = database.connection.prepare_cached(
        "SELECT key FROM entries WHERE bucket = (SELECT id FROM buckets WHERE name = ?1) AND key > ?2
         ORDER BY key LIMIT ?3 OFFSET ?4",
    )?;
    // One more row than a page has shows that there are more keys.
    let rows =
        statement.query_map(params![&*bucket.name, after, limit_plus_one(MAX_KEYS), skipped], |row| row.get(0))?;
    let mut keys = Vec::new();
    for key in rows {
        keys.push(String::from_utf8(key?).map_err(|_| StoreError::Damaged("a key is not valid UTF-8".to_owned()))?);
    }
    let has_more = keys.len() > MAX_KEYS;
    keys.truncate(MAX_KEYS);
    Ok(Page { keys, has_more, revision: None })
}

fn limit_plus_one(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX).saturating_add(1)
}

fn entry(connection: &Connection, bucket: &Bucket, key: &str) -> Result<Option<(i64, Vec<u8>)>> {
    check_key(key)?;
    let mut statement = connection.prepare_cached(
        "SELECT version, value FROM entries WHERE bucket = (SELECT id FROM buckets WHERE name = ?1) AND key = ?2",
    )?;
    let found = statement.query_row(params![&*bucket.name, key.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?)));
    Ok(found.optional()?)
}

fn version(connection: &Connection, bucket: &Bucket, key: &str) -> Result<KeyVersion> {
    check_key(key)?;
    let mut statement = connection.prepare_cached(
        "SELECT version FROM entries WHERE bucket = (SELECT id FROM buckets WHERE name = ?1) AND key = ?2",
    )?;
    Ok(statement.query_row(params![&*bucket.name, key.as_bytes()], |row| row.get(0)).optional()?)
}

/// A write transaction. It holds the write lock from its start, so its reads stay valid until its end. Dropping it
/// without a commit rolls it back.
struct WriteTransaction<'a> {
    transaction: Transaction<'a>,
    bucket: &'a Bucket,
    before: Totals,
    totals: Totals,
}

/// A bucket's row of totals.
#[derive(Clone, Copy)]
struct Totals {
    id: i64,
    bytes: i64,
    keys: i64,
    writes: i64,
}

impl<'a> WriteTransaction<'a> {
    fn begin(database: &'a mut Database, bucket: &'a Bucket) -> Result<Self> {
        let transaction = database.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let totals = match totals(&transaction, bucket)? {
            Some(totals) => totals,
            None => {
                transaction.prepare_cached("INSERT INTO buckets (name) VALUES (?1)")?.execute([&*bucket.name])?;
                Totals { id: transaction.last_insert_rowid(), bytes: 0, keys: 0, writes: 0 }
            }
        };
        Ok(Self { transaction, bucket, before: totals, totals })
    }

    fn upsert(&mut self, key: &str, value: &[u8]) -> Result<()> {
        let old = self.size(key)?;
        self.totals.writes = self.totals.writes.saturating_add(1);
        self.totals.keys = self.totals.keys.saturating_add(i64::from(old.is_none()));
        self.totals.bytes =
            self.totals.bytes.saturating_add(size(key.len(), value.len())).saturating_sub(old.unwrap_or(0));
        let mut statement = self.transaction.prepare_cached(
            "INSERT INTO entries (bucket, key, version, value) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (bucket, key) DO UPDATE SET version = excluded.version, value = excluded.value",
        )?;
        statement.execute(params![self.totals.id, key.as_bytes(), self.totals.writes, value])?;
        Ok(())
    }

    fn remove(&mut self, key: &str) -> Result<()> {
        let Some(old) = self.size(key)? else { return Ok(()) };
        self.totals.writes = self.totals.writes.saturating_add(1);
        self.totals.keys = self.totals.keys.saturating_sub(1);
        self.totals.bytes = self.totals.bytes.saturating_sub(old);
        let mut statement = self.transaction.prepare_cached("DELETE FROM entries WHERE bucket = ?1 AND key = ?2")?;
        statement.execute(params![self.totals.id, key.as_bytes()])?;
        Ok(())
    }

    /// Commits, unless a quota is exceeded and the bucket has grown. A bucket that exceeded a quota before may shrink.
    fn commit(self) -> Result<()> {
        let Self { transaction, bucket, before, totals } = self;
        let is_beyond =
            |quota: u64, before: i64, now: i64| now > before && u64::try_from(now).is_ok_and(|now| now > quota);
        if is_beyond(bucket.quota.bytes, before.bytes, totals.bytes) {
            return Err(StoreError::byte_quota_exceeded(bucket));
        }
        if is_beyond(bucket.quota.keys, before.keys, totals.keys) {
            return Err(StoreError::key_quota_exceeded(bucket));
        }
        transaction
            .prepare_cached("UPDATE buckets SET bytes = ?2, keys = ?3, writes = ?4 WHERE id = ?1")?
            .execute(params![totals.id, totals.bytes, totals.keys, totals.writes])?;
        Ok(transaction.commit()?)
    }

    /// Returns the size of an entry in bytes, key included.
    fn size(&self, key: &str) -> Result<Option<i64>> {
        check_key(key)?;
        let mut statement =
            self.transaction.prepare_cached("SELECT length(value) FROM entries WHERE bucket = ?1 AND key = ?2")?;
        let value =
            statement.query_row(params![self.totals.id, key.as_bytes()], |row| row.get::<_, i64>(0)).optional()?;
        Ok(value.map(|value| value.saturating_add(size(key.len(), 0))))
    }
}

fn totals(connection: &Connection, bucket: &Bucket) -> Result<Option<Totals>> {
    let mut statement = connection.prepare_cached("SELECT id, bytes, keys, writes FROM buckets WHERE name = ?1")?;
    let found = statement.query_row([&*bucket.name], |row| {
        Ok(Totals { id: row.get(0)?, bytes: row.get(1)?, keys: row.get(2)?, writes: row.get(3)? })
    });
    Ok(found.optional()?)
}

fn size(key: usize, value: usize) -> i64 {
    i64::try_from(key.saturating_add(value)).unwrap_or(i64::MAX)
}
