//! Reload: replaces the config without affecting requests in flight.
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
//! A component file is read only after it has settled: it must be unchanged for [`SETTLE_INTERVAL`], and still be the
//! same after loading. So a file that is being written is not loaded in part; if a writer pauses for longer, a partial
//! component is invalid (its exports are at its end) and does not load.
//!
//! Settings that a running host cannot change keep their values, and the report names them: listen address,
//! directories, cursor key, compiler limits, and whether TLS is on.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use tokio::sync::watch;

use super::Host;
use super::builder::log_warnings;
use super::generation::{Generation, NativePluginConflict, check_conflicts, sorted_by_name};
use super::generation_store::GenerationStore;
use crate::access::Access;
use crate::audit::AuditLog;
use crate::config::{self, Config, ExposureError};
use crate::digest::Digest;
use crate::plugin::{LoadError, NotLoaded, Plugin};
use crate::watch::ListingSnapshot;

/// A changed component file must be unchanged for this long before it is loaded.
const SETTLE_INTERVAL: Duration = Duration::from_millis(50);
/// The maximum number of checks for that.
const MAX_SETTLE_ATTEMPTS: usize = 20;

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
            Self::Conflict(_) | Self::Exposure(_) | Self::Superseded | Self::ShuttingDown => false,
        }
    }
}

impl ReloadError {
    /// Returns whether the rules and settings of the new config apply all the same.
    pub(super) fn applies_settings(&self) -> bool {
        match self {
            Self::Plugins(_) | Self::ComponentChanging { .. } | Self::Superseded => true,
            Self::Conflict(_) | Self::Exposure(_) | Self::ShuttingDown => false,
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
    /// Plugins that were removed.
    pub removed: Vec<String>,
    /// Whether the rules have changed, or the groups that they name.
    pub rules: bool,
    /// Whether the principals have changed, with their tokens, or the issuers of access tokens.
    pub principals: bool,
    /// Whether the server's description or page size have changed.
    pub server: bool,
    /// Whether HTTP settings have changed: a new certificate, for example.
    pub http: bool,
    /// Whether the audit log has changed: whether there is one, its file or its rotation.
    pub audit: bool,
    /// Keys whose new values apply only after a restart.
    pub requires_restart: Vec<&'static str>,
    /// The duration of the reload.
    pub elapsed: Duration,
}

impl ReloadReport {
    /// Returns whether nothing has changed.
    pub fn is_unchanged(&self) -> bool {
        !self.replaces_settings() && !self.replaces_plugins()
    }

    fn replaces_settings(&self) -> bool {
        self.rules || self.principals || self.server || self.http || self.audit
    }

    fn replaces_plugins(&self) -> bool {
        !(self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty())
    }
}

/// A reload whose rules and settings are applied.
struct PendingReload {
    config: Arc<Config>,
    access: Arc<Access>,
    /// The number of the reload.
    reload_id: u64,
    /// Whether the config of its plugins differs from that of the served ones.
    plugins_changed: bool,
    report: ReloadReport,
}

/// The first step of a reload, which has superseded all others.
struct SettingsStep {
    generation_store: Arc<GenerationStore>,
    audit: Arc<AuditLog>,
    latest_reload: watch::Sender<u64>,
    reload_id: u64,
}

/// The change of a plugin from the old config to the new one.
enum PluginChange {
    /// It is kept.
    Unchanged(Arc<Plugin>),
    /// It is loaded; a fault ends the reload.
    Load,
    /// It was not loaded before; it is loaded in the background.
    LoadInBackground,
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
    /// [valid part](crate::config::ConfigError::partial_config) of a config. Supersedes a reload in flight.
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
    }

    /// The first step of a reload: rules and settings, for the plugins that are being served. It runs to its end even if
    /// the future is dropped: otherwise it would have superseded an older reload, and left its rules undone with its own.
    async fn replace_settings(&self, config: Config) -> Result<PendingReload, ReloadError> {
        if self.requests.is_closed() {
            return Err(ReloadError::ShuttingDown);
        }
        // An invalid config changes nothing.
        check_conflicts(&config, &self.generation.load().native)?;
        let step = SettingsStep::begin(self);
        match tokio::task::spawn_blocking(move || step.run(config)).await {
            Ok(replaced) => replaced,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime is shutting down.
                Err(_) => Err(ReloadError::ShuttingDown),
            },
        }
    }

    /// The other steps of a reload: its plugins.
    async fn replace_plugins(&self, pending: PendingReload) -> Result<ReloadReport, ReloadError> {
        let PendingReload { config, access, reload_id, mut report, .. } = pending;
        let old = self.generation.load_full();
        let declared = sorted_by_name(&config);
        let digests = self.read_digests(declared.iter().map(|plugin| plugin.component.clone())).await;
        let changes: Vec<_> = declared.iter().map(|plugin| old.change_of(plugin, &digests)).collect();
        let with_change = |wanted: fn(&PluginChange) -> bool| {
            declared.iter().zip(&changes).filter(move |(_, fate)| wanted(fate)).map(|(plugin, _)| *plugin)
        };
        // Cancel compilations that this config does not need.
        let used = old.plugins().filter_map(|plugin| plugin.digest());
        self.plugin_runtime.retain(&digests.values().copied().flatten().chain(used).collect());
        with_change(|fate| matches!(fate, PluginChange::LoadInBackground))
            .for_each(|plugin| self.background_loader.start(plugin));

        let files: BTreeSet<_> =
            with_change(|fate| matches!(fate, PluginChange::Load)).map(|plugin| plugin.component.clone()).collect();
        let stable_digests = self.wait_until_stable(files, digests).await;
        let loading = with_change(|fate| matches!(fate, PluginChange::Load)).map(|plugin| async {
            let loaded = self.load(plugin, &stable_digests).await;
            (plugin.name.as_str(), loaded)
        });
        let (mut loaded, mut faults) = (HashMap::new(), Vec::new());
        for (name, next) in join_all(loading).await {
            match next? {
                Ok(plugin) => {
                    let is_known = old.slot(name).is_some();
                    let list = if is_known { &mut report.changed } else { &mut report.added };
                    list.push(name.to_owned());
                    loaded.insert(name, plugin);
                }
                Err(error) => faults.push((name.to_owned(), error)),
            }
        }
        if !faults.is_empty() {
            return Err(ReloadError::Plugins(faults));
        }
        let names: HashSet<_> = declared
            .iter()
            .map(|plugin| plugin.name.as_str())
            .chain(old.native.iter().map(|plugin| plugin.name()))
            .collect();
        report.removed = old.names().filter(|name| !names.contains(name)).map(str::to_owned).collect();
        if !report.replaces_plugins() {
            return Ok(report);
        }
        if !report.replaces_settings() {
            report.generation = old.number.saturating_add(1);
        }

        let unchanged: Vec<_> = changes
            .iter()
            .filter_map(|fate| if let PluginChange::Unchanged(plugin) = fate { Some(plugin) } else { None })
            .chain(old.native.iter())
            .collect();
        let snapshot = self.hub.snapshot(|plugin| !unchanged.iter().any(|kept| Arc::ptr_eq(kept, plugin))).await;
        self.generation_store.replace(snapshot, |now| {
            if *self.latest_reload.borrow() != reload_id {
                return Err(ReloadError::Superseded);
            }
            let next = Generation::new(report.generation, config.clone(), old.native.clone(), access, |plugin| {
                let name = plugin.name.as_str();
                // It may have been loaded in the background meanwhile.
                let there = || now.slot(name).map_or(Err(NotLoaded::Loading), |slot| slot.plugin.clone());
                loaded.remove(name).map_or_else(there, Ok)
            })?;
            Ok((Some(next), ()))
        })?;
        drop(old);
        self.background_loader.retain(
            &with_change(|fate| matches!(fate, PluginChange::LoadInBackground))
                .map(|plugin| plugin.name.as_str())
                .collect(),
        );
        let used = self.generation.load().plugins().filter_map(|plugin| plugin.digest()).collect::<Vec<_>>();
        self.plugin_runtime.retain(&stable_digests.values().copied().flatten().chain(used).collect());
        Ok(report)
    }

    /// Loads a new or changed plugin.
    async fn load(
        &self,
        plugin: &config::Plugin,
        stable_digests: &HashMap<PathBuf, Option<Digest>>,
    ) -> Result<Result<Arc<Plugin>, LoadError>, ReloadError> {
        let file = &plugin.component;
        let component_changing = || ReloadError::ComponentChanging {
            plugin: plugin.name.as_str().to_owned(),
            file: plugin.component.clone(),
        };
        let digest = stable_digests.get(file).ok_or_else(component_changing)?;
        let loaded = self.plugin_runtime.load(plugin).await;
        // The file had settled only if it is the one that was loaded.
        let is_stable = match &loaded {
            Ok(loaded) => loaded.digest() == *digest,
            Err(_) => self.plugin_runtime.digest_of(file).await == *digest,
        };
        if is_stable { Ok(loaded.map(Arc::new)) } else { Err(component_changing()) }
    }

    /// The digests of those files, each read once; none for a file that cannot be a component.
    async fn read_digests(&self, files: impl Iterator<Item = PathBuf>) -> HashMap<PathBuf, Option<Digest>> {
        let files: BTreeSet<_> = files.collect();
        let digests = join_all(files.iter().map(|file| self.plugin_runtime.digest_of(file))).await;
        files.into_iter().zip(digests).collect()
    }

    /// The digests of all files once those have settled. A file that does not settle is left out.
    async fn wait_until_stable(
        &self,
        moving: BTreeSet<PathBuf>,
        mut digests: HashMap<PathBuf, Option<Digest>>,
    ) -> HashMap<PathBuf, Option<Digest>> {
        let mut moving = moving;
        for _ in 0..MAX_SETTLE_ATTEMPTS {
            if moving.is_empty() {
                return digests;
            }
            tokio::time::sleep(SETTLE_INTERVAL).await;
            for (file, digest) in self.read_digests(moving.iter().cloned()).await {
                if digests.insert(file.clone(), digest) == Some(digest) {
                    moving.remove(&file);
                }
            }
        }
        digests.retain(|file, _| !moving.contains(file));
        digests
    }
}

impl SettingsStep {
    /// Begins a reload. From here on, older ones change nothing.
    fn begin(host: &Host) -> Self {
        let mut reload_id = 0;
        // No older one is in the middle of a replacement.
        host.generation_store.lock_with(|| {
            host.latest_reload.send_modify(|newest| {
                *newest = newest.wrapping_add(1);
                reload_id = *newest;
            });
        });
        Self {
            generation_store: host.generation_store.clone(),
            audit: host.audit.clone(),
            latest_reload: host.latest_reload.clone(),
            reload_id,
        }
    }

    /// Compiles the rules, if they have changed, and replaces rules and settings. Blocks.
    fn run(self, config: Config) -> Result<PendingReload, ReloadError> {
        // Only a newer reload changes the rules that are served.
        let old = self.generation_store.generation.load_full();
        let rules_changed = config.rules != old.config.rules || config.groups != old.config.groups;
        // The locations of rules are in the audit log.
        let access = match rules_changed || locations(&config) != locations(&old.config) {
            true => Arc::new(Access::new(&config)),
            false => old.access.clone(),
        };
        self.generation_store.replace(ListingSnapshot::default(), |old| {
            if *self.latest_reload.borrow() != self.reload_id {
                return Err(ReloadError::Superseded);
            }
            let (config, requires_restart) = pin_restart_only_settings(config, &old.config);
            config.check_exposure()?;
            let mut report = ReloadReport {
                rules: rules_changed,
                principals: config.principals != old.config.principals || config.issuers != old.config.issuers,
                server: config.server != old.config.server,
                http: config.http != old.config.http,
                audit: config.audit != old.config.audit,
                generation: old.number,
                requires_restart,
                ..ReloadReport::default()
            };
            let plugins_changed = config.plugins != old.config.plugins;
            if report.replaces_settings() {
                report.generation = old.number.saturating_add(1);
            }
            let next = (report.replaces_settings() || !Arc::ptr_eq(&access, &old.access)).then(|| {
                let config = Config { plugins: old.config.plugins.clone(), ..config.clone() };
                Generation {
                    number: report.generation,
                    config: Arc::new(config),
                    access: access.clone(),
                    ..old.clone()
                }
            });
            if report.audit {
                self.audit.reconfigure(config.audit.as_ref());
            }
            let pending =
                PendingReload { config: Arc::new(config), access, reload_id: self.reload_id, plugins_changed, report };
            Ok((next, pending))
        })
    }
}

/// The file of a config, and the line of each rule in it.
fn locations(config: &Config) -> (Option<&Path>, Vec<Option<usize>>) {
    (config.file.as_deref(), config.rules.iter().map(|rule| rule.line.get()).collect())
}

impl Generation {
    fn change_of(&self, plugin: &config::Plugin, digests: &HashMap<PathBuf, Option<Digest>>) -> PluginChange {
        let is_as_it_was = self.config.plugins.contains(plugin);
        let slot = self.slot(plugin.name.as_str()).filter(|_| is_as_it_was);
        let digest = digests.get(&plugin.component).copied().flatten();
        match slot.map(|slot| &slot.plugin) {
            Some(Ok(loaded)) if loaded.digest() == digest => PluginChange::Unchanged(loaded.clone()),
            Some(Err(_)) => PluginChange::LoadInBackground,
            _ => PluginChange::Load,
        }
    }
}

/// Returns the new config with the values of the old one that a running host cannot change, and the keys of these.
fn pin_restart_only_settings(mut config: Config, old: &Config) -> (Config, Vec<&'static str>) {
    let mut pinned = Vec::new();
    macro_rules! pin_setting {
        ($field:ident, $key:literal) => {
            if config.server.$field != old.server.$field {
                config.server.$field = old.server.$field.clone();
                pinned.push($key);
            }
        };
    }
    if config.http.tls.is_some() != old.http.tls.is_some() {
        config.http.tls.clone_from(&old.http.tls);
        pinned.push("http.tls");
    }
    if config.http.keep_alive != old.http.keep_alive {
        config.http.keep_alive = old.http.keep_alive;
        pinned.push("http.keep-alive");
    }
    pin_setting!(http, "server.http");
    pin_setting!(confine, "server.confine");
    pin_setting!(cache, "server.cache");
    pin_setting!(state, "server.state");
    pin_setting!(cursor_key, "server.cursor-key");
    pin_setting!(compile, "server.compile");
    (config, pinned)
}

fn format_load_errors(faults: &[(String, LoadError)]) -> String {
    let messages: Vec<_> = faults.iter().map(|(plugin, error)| format!("plugin `{plugin}`: {error}")).collect();
    messages.join("; ")
}
