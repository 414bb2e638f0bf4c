//! The built-in providers of this build. It is the only place that names them, beside the methods of [`Host`](super::Host) for one of
//! them.

use std::path::PathBuf;
use std::sync::Arc;

use super::generation_store::GenerationStore;
use crate::plugin::NativePlugin;
#[cfg(feature = "search")]
use crate::search::SearchService;

/// The built-in providers.
pub(super) struct BuiltIns {
    #[cfg(feature = "search")]
    pub(super) search: Arc<SearchService>,
}

impl BuiltIns {
    /// Providers that keep their lasting state in that directory. They do nothing before a generation is there.
    #[cfg_attr(not(feature = "search"), allow(unused_variables, reason = "search is the only one"))]
    pub(super) fn new(state_dir: Option<PathBuf>) -> Self {
        Self {
            #[cfg(feature = "search")]
            search: SearchService::new(state_dir),
        }
    }

    /// The plugins that mount them.
    pub(super) fn plugins(&self) -> Vec<NativePlugin> {
        #[cfg(feature = "search")]
        let plugins = self.search.plugins().into();
        #[cfg(not(feature = "search"))]
        let plugins = Vec::new();
        plugins
    }

    /// Gives them access to what the host serves.
    #[cfg_attr(not(feature = "search"), allow(unused_variables, reason = "search is the only one"))]
    pub(super) fn connect(&self, store: &Arc<GenerationStore>) {
        #[cfg(feature = "search")]
        self.search.connect(Arc::<GenerationStore>::downgrade(store));
    }
}
