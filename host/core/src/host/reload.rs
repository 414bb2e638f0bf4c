//! Hot reload: replaces the config without affecting requests in flight.
//!
//! Rules are replaced at once, plugins all or nothing:
//!
//! 1. Rules are compiled on a blocking thread: 0.1 ms of processor time for each glob. Then they and the settings of the
//!    server are replaced atomically, before anything is read or loaded, for the plugins that are being served. Nothing
//!    later reverts them. It is the only step for a config whose plugins cannot be used.
//! 2. Unchanged plugins are kept: one whose config and component are the same stays the same plugin in the next
//!    generation, with its instances, counters and watcher. One that is not loaded, with the same config, is loaded in
//!    the background (module `background_loader`) and delays nothing.
//! 3. All others are loaded and described, beside the old plugins, which continue to serve. A fault here ends the
//!    reload, and the plugins stay as they are.
//! 4. The plugins are replaced atomically. Requests in flight complete with the old ones.
//! 5. Subscribers are notified of what has changed (module `watch`).
//!
//! The newest config wins: a reload that has not replaced plugins when another one begins is superseded, and
//! compilations that only it needed are cancelled.
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

/// Why a reload did not replace plugins. Its rules and settings apply all the same, except where noted.
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
    /// Two plugins exclude each other. Nothing has changed.
    #[error(transparent)]
    Conflict(#[from] NativePluginConflict),
    /// The new config requires a cargo feature that this build lacks. Nothing has changed.
    #[error(transparent)]
    Feature(#[from] MissingFeature),
    /// The server listens beyond loopback, and the new config lacks what that needs. Nothing has changed.
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
    /// Returns whether it may resolve without a change, so that a retry makes sense.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Plugins(faults) => faults.iter().any(|(_, error)| error.is_transient()),
            Self::ComponentChanging { .. } => true,
            Self::Conflict(_) | Self::Feature(_) | Self::Exposure(_) | Self::Superseded | Self::ShuttingDown => false,
        }
    }
}

impl ReloadError {
    /// Returns whether the rules and settings of the new config apply all the same.
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
    /// Of plugins with another config the keys that differ, and of those with another component file `component file`: of a
    /// comparison ([`ReloadTrigger::compare`](super::ReloadTrigger::compare)) only.
    pub changed_keys: BTreeMap<String, Vec<&'static str>>,
    /// Of a comparison the plugins of the new config that fail, with the reason: those that are new or changed and cannot be loaded, as far as
    /// that is known without compiling, so that the reload would [fail](Self::would_fail); and those that stay as they are, and could not be
    /// loaded, cannot reach their data, or fail most of their calls.
    pub failing: BTreeMap<String, String>,
    /// Plugins that were removed.
    pub removed: Vec<String>,
    /// Whether the rules have changed, or the groups that they name.
    pub rules: bool,
    /// Whether the principals have changed, with their tokens, or the issuers of access tokens.
    pub principals: bool,
    /// Whether the server's description or page size have changed, or `[search]`.
    pub server: bool,
    /// Whether HTTP settings have changed: a new certificate, for example.
    pub http: bool,
    /// Whether `[admin]` has changed: its token, or its certificate.
    pub admin: bool,
    /// Whether the audit log has changed: whether there is one, its file or its rotation.
    pub audit: bool,
    /// Keys whose new values apply only after a restart.
    pub requires_restart: Vec<&'static str>,
    /// The duration of the reload.
    pub elapsed: Duration,
}

impl ReloadReport {
    /// Returns the names of the parts of the config that have changed, beside plugins.
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

    /// Returns whether the reload that a comparison is about would fail, as far as that is known: a new or changed plugin cannot be loaded.
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
    /// Replaces the config, or reloads component files that have changed under the same one.
    ///
    /// Rules and settings apply as soon as the rules are compiled, whether or not the plugins load, and also if the future
    /// is dropped after its first poll. Requests in flight complete with the old generation; later ones use the new one.
    /// Subscriptions stay. If another reload begins before this one has ended, or the future is dropped, its plugins are
    /// not used.
    ///
    /// # Errors
    ///
    /// A new or changed plugin cannot be used. The old plugins are still served.
    pub async fn reload(&self, config: Config) -> Result<ReloadReport, ReloadError> {
        let reloaded = self.reload_inner(config).await;
        match &reloaded {
            Ok(report) if report.is_unchanged() => {}
            // A newer one took its place.
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
            // It fails only without a sender, which the host owns.
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
    /// Two mounts of the config overlap, the server would be exposed, the host is shutting down, or a newer reload has begun. Nothing has changed then.
    pub(crate) async fn reload_settings(&self, config: Config) -> Result<ReloadReport, ReloadError> {
        let began = Instant::now();
        let PendingReload { config, report, .. } = self.replace_settings(config).await?;
        if report.replaces_settings() {
            log_warnings(config, &self.generation.load().native);
        }
        Ok(ReloadReport { elapsed: began.elapsed(), ..report })
    }

    /// Clears the cache of compile failures, so that the next reload compiles these components again. Otherwise a
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
