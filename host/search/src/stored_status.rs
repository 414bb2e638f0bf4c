//! The status of the plugins of a config in an index, for `mcp-host index status`. The status is read from the file; no
//! plugin is started.

use std::path::Path;

use mcp_host_base::private_dir::SECRET_LEN;
use mcp_host_base::task;
use mcp_host_config::Config;
use mcp_host_config::search::Embeddings;
use mcp_host_engine::plugin::SearchSource;
use rusqlite::Connection;

use super::database::DatabasePath;
use super::embeddings::vector_store::{self, VectorSpace};
use super::error::IndexError;
use super::status::SearchStatus;
use super::store;

/// The state of a plugin in an index.
#[derive(Debug, Default)]
pub struct StoredStatus {
    /// The state of the index.
    pub status: SearchStatus,
    /// None if the plugin's text is not sent to an embedding endpoint.
    pub passages: Option<PassageCount>,
}

/// The number of passages with vectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassageCount {
    /// The number of passages that have a vector.
    pub embedded: u64,
    /// The number of passages that get a vector.
    pub total: u64,
}

/// Returns the state of a config's searched plugins in the index of a state directory, ordered by name. Creates no
/// files.
pub async fn index_status(state_dir: &Path, config: &Config) -> Vec<StoredStatus> {
    let searched = config
        .plugins
        .iter()
        .filter_map(|plugin| Some((plugin.name.as_str().to_owned(), SearchSource::of_component(plugin)?)));
    let mut searched: Vec<_> = searched.collect();
    searched.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    let names: Vec<_> = searched.iter().map(|(name, _)| name.clone()).collect();
    let path = DatabasePath::new(state_dir);
    let embeddings = config.search.as_ref().and_then(|search| search.embeddings.clone());
    let reading = task::spawn_blocking(move || {
        if !path.exists() {
            return Ok(Vec::new());
        }
        let (secret, connection) = (path.source_secret()?, path.open_reader()?);
        let read = |(name, source)| read(&connection, name, &source, &secret, embeddings.as_ref());
        searched.into_iter().map(read).collect::<Result<Vec<_>, IndexError>>()
    });
    let without = |error: Option<String>| {
        let status = |plugin| SearchStatus { plugin, error: error.clone(), ..SearchStatus::default() };
        names.into_iter().map(|name| StoredStatus { status: status(name), passages: None }).collect()
    };
    match reading.await.unwrap_or(Err(IndexError::Closed)) {
        Ok(stored) if stored.is_empty() => without(None),
        Ok(stored) => stored,
        Err(error) => without(Some(format!("the index cannot be read: {error}"))),
    }
}

fn read(
    connection: &Connection,
    plugin: String,
    source: &SearchSource,
    secret: &[u8; SECRET_LEN],
    embeddings: Option<&Embeddings>,
) -> Result<StoredStatus, IndexError> {
    let embeddings = embeddings.filter(|_| source.settings().embeddings);
    let Some((id, size, report)) = store::find_source(connection, &source.key(secret))? else {
        let passages = embeddings.map(|_| PassageCount::default());
        return Ok(StoredStatus { status: SearchStatus { plugin, ..SearchStatus::default() }, passages });
    };
    let mut stored = StoredStatus { status: SearchStatus::stored(plugin, size, report), passages: None };
    if let Some(settings) = embeddings {
        let space = VectorSpace::of(settings);
        stored.status.embedded = vector_store::count(connection, id, space)?;
        stored.passages = Some(PassageCount {
            embedded: vector_store::count_vectors_of_source(connection, id, space)?,
            total: vector_store::count_passages(connection, id, settings.passages.get())?,
        });
    }
    Ok(stored)
}
