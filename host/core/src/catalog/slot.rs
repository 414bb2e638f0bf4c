//! Slots: the plugins of one generation of the config, loaded or not.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use mcp_host_engine::plugin::{BuiltIn, LoadError};
use mcp_host_model::resource::Error;
use mcp_host_model::uri::Mount;

use crate::response_cache::CachedPlugin;

/// The retry delay that a client gets while a plugin is being loaded.
const LOADING_RETRY_AFTER: Duration = Duration::from_secs(1);

/// A plugin of the config: loaded, being loaded, or failed.
#[derive(Clone)]
pub(crate) struct PluginSlot {
    pub(crate) name: String,
    pub(crate) mount: Mount,
    /// A prefix for the titles of the plugin's items in merged listings.
    pub(crate) title: Option<String>,
    pub(crate) plugin: Result<Arc<CachedPlugin>, NotLoaded>,
}

/// Why a plugin of the config is not served.
#[derive(Clone, Debug)]
pub(crate) enum NotLoaded {
    /// It is being loaded; compilation can take a while.
    Loading,
    /// Loading failed.
    Failed {
        /// The cause.
        error: Arc<LoadError>,
        /// The time of the next automatic retry, if there is one.
        retry_at: Option<Instant>,
    },
    /// An administrator disabled it.
    Disabled(Arc<Disabled>),
}

/// The record of a disabled plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disabled {
    /// The time at which it was disabled.
    pub since: SystemTime,
    /// The name of the administrator who disabled it.
    pub by: String,
}

impl PluginSlot {
    /// Returns the plugin if it is loaded, else the error for requests to it.
    pub(crate) fn loaded(&self) -> Result<&CachedPlugin, Error> {
        self.plugin.as_deref().map_err(|_| self.unavailable_error())
    }

    /// Whether it is being loaded.
    pub(crate) fn is_loading(&self) -> bool {
        matches!(self.plugin, Err(NotLoaded::Loading))
    }

    /// Whether it is being loaded, or may still be loaded later.
    pub(crate) fn awaits_loading(&self) -> bool {
        matches!(self.plugin, Err(NotLoaded::Loading | NotLoaded::Failed { .. }))
    }

    /// The provider, if it is a built-in one.
    pub(crate) fn built_in(&self) -> Option<&Arc<dyn BuiltIn>> {
        self.plugin.as_ref().ok()?.built_in()
    }

    /// Returns the error for requests to a plugin that is not loaded.
    pub(crate) fn unavailable_error(&self) -> Error {
        let (reason, retry_after) = match &self.plugin {
            Err(NotLoaded::Failed { retry_at, .. }) => (
                "it could not be loaded; the server's log says why",
                retry_at.map(|at| at.saturating_duration_since(Instant::now())),
            ),
            Err(NotLoaded::Disabled(_)) => ("an administrator disabled it", None),
            _ => ("it is still being loaded; try again shortly", Some(LOADING_RETRY_AFTER)),
        };
        Error::Unavailable { plugin: self.name.clone(), reason: reason.to_owned(), retry_after }
    }
}
