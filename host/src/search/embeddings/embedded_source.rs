//! A plugin whose text is sent to the endpoint.

use std::sync::Arc;

use crate::plugin::SearchSource;
use crate::search::status::SourceState;
use crate::uri::Mount;

/// A plugin whose text is sent.
#[derive(Clone)]
pub(in crate::search) struct EmbeddedSource {
    pub(in crate::search) mount: Mount,
    pub(in crate::search) source: Arc<SearchSource>,
    pub(in crate::search) state: Arc<SourceState>,
}

impl EmbeddedSource {
    /// Whether a document is sent, by its path: the index may have others of the source, if it is older than the config, or another
    /// host shares it.
    pub(super) fn includes(&self, path: &str) -> bool {
        self.source.uri(&self.mount, path).is_some()
    }
}
