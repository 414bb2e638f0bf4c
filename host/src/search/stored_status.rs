//! What an index has of the plugins of a config, for `mcp-host index status`: it is read from the file, and no plugin is started.

use std::path::Path;

use super::database::{DatabasePath, IndexError};
use super::source::SearchSource;
use super::status::SearchStatus;
use super::store;
use crate::config::Config;

/// Returns what the index in a state directory has of the plugins of a config that are searched, ordered by name. Nothing is
/// created.
pub(crate) async fn index_status(state_dir: &Path, config: &Config) -> Vec<SearchStatus> {
    let searched = config
        .plugins
        .iter()
        .filter_map(|plugin| Some((plugin.name.as_str().to_owned(), SearchSource::of_component(plugin)?)));
    let mut searched: Vec<_> = searched.collect();
    searched.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    let path = DatabasePath::new(state_dir);
    let names: Vec<_> = searched.iter().map(|(name, _)| name.clone()).collect();
    let reading = tokio::task::spawn_blocking(move || {
        if !path.exists() {
            return Ok(Vec::new());
        }
        let (secret, connection) = (path.source_secret()?, path.open_reader()?);
        let find = |(_, source): &(_, SearchSource)| store::find_source(&connection, &source.key(&secret));
        searched.iter().map(find).collect::<Result<Vec<_>, IndexError>>()
    });
    let (stored, error) = match reading.await.unwrap_or(Err(IndexError::Closed)) {
        Ok(stored) => (stored, None),
        Err(error) => (Vec::new(), Some(format!("the index cannot be read: {error}"))),
    };
    let stored = stored.into_iter().chain(std::iter::repeat(None)).map(Option::unwrap_or_default);
    let status = |(plugin, (size, report))| {
        let status = SearchStatus::stored(plugin, size, report);
        SearchStatus { error: error.clone().or(status.error), ..status }
    };
    names.into_iter().zip(stored).map(status).collect()
}
