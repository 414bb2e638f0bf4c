//! Hot reload: replaces the config without affecting requests in flight.
//!
//! Rules are replaced immediately, plugins all or nothing:
//!
//! 1. Rules are compiled on a blocking thread: 0.1 ms of processor time for each glob. Then the rules and the settings
//!    of the server are replaced atomically, for the plugins that are being served, before anything is read or loaded.
//!    Nothing later reverts them. A config with unusable plugins ends with this step.
//! 2. Unchanged plugins are kept: a plugin with the same config and component stays the same in the next generation,
//!    with its instances, counters and watcher. A plugin with the same config that is not loaded is loaded in the
//!    background (module `background_loader`), and delays nothing.
//! 3. All other plugins are loaded and described, while the old plugins continue to serve. A fault here ends the
//!    reload, and the plugins stay as they are.
//! 4. The plugins are replaced atomically. Requests in flight complete with the old plugins.
//! 5. Subscribers are notified of what has changed (module `watch`).
//!
//! The newest config wins: if another reload begins before this one has replaced plugins, this one is superseded, and
//! compilations that only it needs are cancelled.
//!
//! The first step is in [`settings`], the others are in [`plugins`].

mod plugins;
mod settings;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use mcp_host_config::{Config, ExposureError, MissingFeature};
use mcp_host_engine::plugin::LoadError;

use self::settings::PendingReload;
use super::Host;
use super::builder::log_warnings;
use super::generation::NativePluginConflict;

/// Why a reload did not replace plugins. Its rules and settings apply nevertheless, except where noted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// New or changed plugins cannot be loaded.
    #[error("{}", format_load_errors(.0))]
    Plugins(Vec<(String, LoadError)>),
    /// A component file is being written.
    #[error("the component {} of plugin `{plugin}` is being written", file.display())]
    ComponentChanging {
        /// The plugin.
        plugin: String,
        /// The file.
        file: PathBuf,
    },
    /// Two plugins conflict. Nothing has changed.
    #[error(transparent)]
    Conflict(#[from] NativePluginConflict),
    /// The new config requires a cargo feature that this build lacks. Nothing has changed.
    #[error(transparent)]
    Feature(#[from] MissingFeature),
    /// The server listens beyond loopback, and the new config lacks settings that this requires. Nothing has changed.
    #[error(transparent)]
    Exposure(#[from] ExposureError),
    /// A newer reload began before this one had replaced plugins.
    #[error("superseded by a newer configuration")]
    Superseded,
    /// The host is shutting down. Nothing has changed.
    #[error("the host is shutting down")]
    ShuttingDown,
}

impl ReloadError {
    /// Returns whether a retry may succeed without a change.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Plugins(faults) => faults.iter().any(|(_, error)| error.is_transient()),
            Self::ComponentChanging { .. } => true,
            Self::Conflict(_) | Self::Feature(_) | Self::Exposure(_) | Self::Superseded | Self::ShuttingDown => false,
        }
    }
}

impl ReloadError {
    /// Returns whether the rules and settings of the new config apply nevertheless.
    pub(super) fn applies_settings(&self) -> bool {
        match self {
            Self::Plugins(_) | Self::ComponentChanging { .. } | Self::Superseded => true,
            Self::Conflict(_) | Self::Feature(_) | Self::Exposure(_) | Self::ShuttingDown => false,
        }
    }
}

/// The changes of a reload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReloadReport {
    /// The number of the generation that is served now; the first is 1.
    pub generation: u64,
    /// Plugins that were added.
    pub added: Vec<String>,
    /// Plugins with another config or another component.
    pub changed: Vec<String>,
    /// For plugins with another config, the keys that differ; for plugins with another component file,
    /// `component file`. Only a comparison ([`ReloadTrigger::compare`](super::ReloadTrigger::compare)) sets this.
    pub changed_keys: BTreeMap<String, Vec<&'static str>>,
    /// The failing plugins of the new config, with the reason; only a comparison sets this. New or changed plugins that
    /// cannot be loaded, as far as that is known without compiling, would make the reload [fail](Self::would_fail).
    /// Unchanged plugins fail if they could not be loaded, cannot reach their data, or fail most of their calls.
    pub failing: BTreeMap<String, String>,
    /// Plugins that were removed.
    pub removed: Vec<String>,
    /// Whether the rules, or the groups that they name, have changed.
    pub rules: bool,
    /// Whether the principals, their tokens, or the issuers of access tokens have changed.
    pub principals: bool,
    /// Whether the server's description, the page size, or `[search]` has changed.
    pub server: bool,
    /// Whether HTTP settings have changed: a new certificate, for example.
    pub http: bool,
    /// Whether `[admin]` has changed: its token or its certificate.
    pub admin: bool,
    /// Whether the audit log has changed: its presence, its file or its rotation.
    pub audit: bool,
    /// Keys whose new values apply only after a restart.
    pub requires_restart: Vec<&'static str>,
    /// The duration of the reload.
    pub elapsed: Duration,
}

impl ReloadReport {
    /// Returns the names of the parts of the config that have changed, besides plugins.
    pub fn changed_settings(&self) -> impl Iterator<Item = &'static str> {
        let Self { rules, principals, server, http, admin, audit, .. } = *self;
        let settings = [
            ("rules", rules),
            ("principals", principals),
            ("server", server),
            ("http", http),
            ("admin", admin),
            ("audit", audit),
        ];
        settings.into_iter().filter_map(|(name, has_changed)| has_changed.then_some(name))
    }

    /// Returns whether the compared reload would fail, as far as this is known: a new or changed plugin cannot be
    /// loaded.
    pub fn would_fail(&self) -> bool {
        self.added.iter().chain(&self.changed).any(|plugin| self.failing.contains_key(plugin))
    }

    /// Returns whether nothing has changed.
    pub fn is_unchanged(&self) -> bool {
        !self.replaces_settings() && !self.replaces_plugins()
    }

    fn replaces_settings(&self) -> bool {
        self.rules || self.principals || self.server || self.http || self.admin || self.audit
    }

    fn replaces_plugins(&self) -> bool {
        !(self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty())
    }
}

impl Host {
    /// Replaces the config, or reloads changed component files under the same config.
    ///
    /// Rules and settings apply as soon as the rules are compiled, whether or not the plugins load, and even if the
    /// future is dropped after its first poll. Requests in flight complete with the old generation; later ones use the
    /// new one. Subscriptions are kept. If another reload begins before this one has ended, or the future is dropped,
    /// the new plugins are not used.
    ///
    /// # Errors
    ///
    /// A new or changed plugin cannot be used. The old plugins are still served.
    pub async fn reload(&self, config: Config) -> Result<ReloadReport, ReloadError> {
        let reloaded = self.reload_inner(config).await;
        match &reloaded {
            Ok(report) if report.is_unchanged() => {}
            // A newer reload has replaced this one.
            Err(ReloadError::Superseded) => {}
            reloaded => self.counters.record_reload(reloaded.is_ok()),
        }
        reloaded
    }

    async fn reload_inner(&self, config: Config) -> Result<ReloadReport, ReloadError> {
        let began = Instant::now();
        let pending = self.replace_settings(config).await?;
        if pending.report.replaces_settings() || pending.plugins_changed {
            log_warnings(pending.config.clone(), &self.generation.load().native);
        }
        let reload_id = pending.reload_id;
        let mut latest_reload = self.latest_reload.subscribe();
        let report = tokio::select! {
            biased;
            // This fails only without a sender, and the host owns it.
            _ = latest_reload.wait_for(|newest| *newest != reload_id) => Err(ReloadError::Superseded),
            outcome = self.replace_plugins(pending) => outcome,
        }?;
        Ok(ReloadReport { elapsed: began.elapsed(), ..report })
    }

    /// Replaces the rules and settings, but not the plugins: for a config whose plugins cannot be used, such as the
    /// [valid part](mcp_host_config::ConfigError::partial_config) of a config. Supersedes a reload in flight.
    ///
    /// # Errors
    ///
    /// Two mounts of the config overlap, the server would be exposed, the host is shutting down, or a newer reload has
    /// begun. Nothing has changed then.
    pub(crate) async fn reload_settings(&self, config: Config) -> Result<ReloadReport, ReloadError> {
        let began = Instant::now();
        let PendingReload { config, report, .. } = self.replace_settings(config).await?;
        if report.replaces_settings() {
            log_warnings(config, &self.generation.load().native);
        }
        Ok(ReloadReport { elapsed: began.elapsed(), ..report })
    }

    /// Clears the cache of compile failures, so that the next reload compiles these components again. Without this, a
    /// component that exceeded a limit of the compiler, or crashed it, is compiled again only after it changes or the
    /// host restarts.
    pub fn clear_failures(&self) {
        self.plugin_runtime.clear_failures();
        self.background_loader.clear_failures();
    }
}

fn format_load_errors(faults: &[(String, LoadError)]) -> String {
    let messages: Vec<_> =
        faults.iter().map(|(plugin, error)| format!("plugin `{plugin}`: {}", error.summary())).collect();
    messages.join("; ")
}
