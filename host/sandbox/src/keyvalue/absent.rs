//! The database of a build without the feature `keyvalue`: it does not exist and cannot be opened.
//!
//! [`Database`] is an uninhabited type, so its operations need no implementation.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use mcp_host_config::PluginName;

use super::error::StoreError;
use super::{Bucket, Cas, KeyVersion, OptionalEntry};
use super::{Page, PageStart};

type Result<T> = std::result::Result<T, StoreError>;

/// The state directory, for messages.
#[derive(Clone, Debug)]
pub(super) struct DatabasePath {
    pub(super) file: PathBuf,
}

impl DatabasePath {
    pub(super) fn new(state_dir: &Path, _: &PluginName) -> Self {
        Self { file: state_dir.to_owned() }
    }

    pub(super) fn has_database(&self) -> Result<bool> {
        Err(unsupported())
    }
}

/// A database, which cannot exist.
pub(super) enum Database {}

impl Database {
    pub(super) fn open(_: &DatabasePath) -> Result<Self> {
        Err(unsupported())
    }

    pub(super) fn close(self) {
        match self {}
    }
}

fn unsupported() -> StoreError {
    StoreError::Failed("this build has no key-value store: it lacks the feature `keyvalue`".to_owned())
}

pub(super) fn get(database: &Database, _: &Bucket, _: &str) -> Result<Option<Vec<u8>>> {
    match *database {}
}

pub(super) fn exists(database: &Database, _: &Bucket, _: &str) -> Result<bool> {
    match *database {}
}

pub(super) fn version_of(database: &Database, _: &Bucket, _: &str) -> Result<KeyVersion> {
    match *database {}
}

pub(super) fn get_many(database: &mut Database, _: &Bucket, _: Vec<String>) -> Result<Vec<OptionalEntry>> {
    match *database {}
}

pub(super) fn set_many(database: &mut Database, _: &Bucket, _: &[(String, Vec<u8>)]) -> Result<()> {
    match *database {}
}

pub(super) fn delete_many(database: &mut Database, _: &Bucket, _: &[String]) -> Result<()> {
    match *database {}
}

pub(super) fn increment(
    database: &mut Database,
    _: &Bucket,
    _: &str,
    _: i128,
    _: &RangeInclusive<i128>,
) -> Result<i128> {
    match *database {}
}

pub(super) fn current(database: &Database, _: &Cas) -> Result<(Option<Vec<u8>>, bool)> {
    match *database {}
}

pub(super) fn swap(database: &mut Database, _: Cas, _: Vec<u8>) -> Result<std::result::Result<(), Cas>> {
    match *database {}
}

pub(super) fn usage(database: &Database, _: &Bucket) -> Result<(u64, u64)> {
    match *database {}
}

pub(super) fn keys(database: &Database, _: &Bucket, _: &PageStart) -> Result<Page> {
    match *database {}
}
