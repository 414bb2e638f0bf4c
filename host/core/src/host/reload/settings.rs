//! The first step of a reload: rules and settings, for the plugins that are being served.
//!
//! Settings that a running host cannot change keep their values, and the report names them: listen address,
//! directories, cursor key, compiler limits, and whether TLS is on; for the administration listener its presence, its
//! address, and whether TLS is on.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use mcp_host_base::task;
use mcp_host_config::{self as config, Config};
use mcp_host_engine::plugin::{FailingCause, LoadError};
use tokio::sync::watch;

use super::super::Host;
use super::super::builder::FEATURES;
use super::super::generation::{Generation, check_conflicts};
use super::super::generation_store::GenerationStore;
use super::super::status::PluginState;
use super::{ReloadError, ReloadReport};
use crate::access::Access;
use crate::audit::AuditLog;
use crate::catalog::PluginSlot;
use crate::watch::ListingSnapshot;

/// A reload whose rules and settings are applied.
pub(super) struct PendingReload {
    pub(super) config: Arc<Config>,
    pub(super) access: Arc<Access>,
    /// The number of the reload.
    pub(super) reload_id: u64,
    /// Whether the config of its plugins differs from the current one.
    pub(super) plugins_changed: bool,
    pub(super) report: ReloadReport,
}

/// The first step of a reload that has superseded all others.
struct SettingsStep {
    generation_store: Arc<GenerationStore>,
    audit: Arc<AuditLog>,
    latest_reload: watch::Sender<u64>,
    reload_id: u64,
}

impl Host {
    /// The first step of a reload: rules and settings, for the plugins that are being served. It runs to its end even
    /// if the future is dropped: if it stopped half-way, neither its own rules nor the superseded reload's would apply.
    pub(super) async fn replace_settings(&self, config: Config) -> Result<PendingReload, ReloadError> {
        if self.requests.is_closed() {
            return Err(ReloadError::ShuttingDown);
        }
        // An invalid config changes nothing.
        config.check_features(FEATURES)?;
        check_conflicts(&config, &self.generation.load().native)?;
        let step = SettingsStep::begin(self);
        match task::spawn_blocking(move || step.run(config)).await {
            Ok(replaced) => replaced,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime is shutting down.
                Err(_) => Err(ReloadError::ShuttingDown),
            },
        }
    }
}

impl Host {
    /// Returns the changes that a reload to this config would make, whose [nested grants](Config::find_nested_grants)
    /// are known. Component files are read, but not compiled. The report's generation is the current one.
    ///
    /// # Errors
    ///
    /// The config cannot be used, even with valid components.
    pub(in super::super) async fn compare(&self, config: Config) -> Result<ReloadReport, ReloadError> {
        let old = self.generation.load_full();
        let (config, mut report) = compare_settings(config, &old)?;
        let names =
            |config: &Config| config.plugins.iter().map(|plugin| plugin.name.to_string()).collect::<HashSet<_>>();
        let (before, after) = (names(&old.config), names(&config));
        for plugin in config.plugins.iter().filter(|plugin| !old.config.plugins.contains(plugin)) {
            match old.config.plugins.iter().find(|before| before.name == plugin.name) {
                Some(before) => {
                    report.changed_keys.insert(plugin.name.to_string(), plugin.changed_keys(before));
                    report.changed.push(plugin.name.to_string());
                }
                None => report.added.push(plugin.name.to_string()),
            }
        }
        let as_before = || config.plugins.iter().filter(|plugin| old.config.plugins.contains(plugin));
        let digests = self.read_digests(as_before().map(|plugin| plugin.component.clone())).await;
        for plugin in as_before() {
            let loaded = old.slot(plugin.name.as_str()).and_then(|slot| slot.plugin.as_ref().ok());
            let digest = digests.get(&plugin.component).copied().flatten();
            if loaded.is_some_and(|loaded| loaded.digest() != digest) {
                report.changed_keys.insert(plugin.name.to_string(), vec!["component file"]);
                report.changed.push(plugin.name.to_string());
            }
        }
        report.removed = before.difference(&after).cloned().collect();
        report.removed.sort_unstable();
        report.changed.sort_unstable();
        for plugin in config.plugins.iter().filter(|plugin| !old.disabled.contains_key(plugin.name.as_str())) {
            let name = plugin.name.to_string();
            let stays = !report.changed.contains(&name) && !report.added.contains(&name);
            if let Some(reason) = self.why_failing(plugin, old.slot(&name).filter(|_| stays)).await {
                report.failing.insert(name, reason);
            }
        }
        Ok(report)
    }

    /// Returns the changes that [`reload_settings`](Self::reload_settings) with this config would make.
    ///
    /// # Errors
    ///
    /// Nothing of the config would apply.
    pub(in super::super) fn compare_settings(&self, config: Config) -> Result<ReloadReport, ReloadError> {
        compare_settings(config, &self.generation.load_full()).map(|(_, report)| report)
    }

    /// Returns why a plugin would fail after a reload, as far as this is known. `slot` is the slot that an unchanged
    /// plugin keeps.
    async fn why_failing(&self, plugin: &config::Plugin, slot: Option<&PluginSlot>) -> Option<String> {
        let unloadable = match slot.map(|slot| &slot.plugin) {
            // Failures of a file are looked up again.
            None | Some(Err(_)) => self.plugin_runtime.known_failure(plugin).await,
            Some(Ok(_)) => None,
        };
        if let Some(error) = unloadable {
            return Some(error.summary());
        }
        match slot.map(PluginState::of)? {
            PluginState::LoadFailed(error) if !matches!(*error, LoadError::Component(_)) => Some(error.summary()),
            PluginState::Unreachable(outage) => Some(outage.reason),
            PluginState::Failing(failing) if failing.cause == FailingCause::Grant => Some(failing.reason),
            PluginState::Failing(failing) => Some(format!("most of its calls fail, last: {}", failing.reason)),
            _ => None,
        }
    }
}

impl SettingsStep {
    /// Begins a reload. From here on, older reloads change nothing.
    fn begin(host: &Host) -> Self {
        let mut reload_id = 0;
        // The lock ensures that no older reload is in the middle of a replacement.
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
    fn run(self, mut config: Config) -> Result<PendingReload, ReloadError> {
        config.find_nested_grants();
        // Only a newer reload can change the current rules.
        let old = self.generation_store.generation.load_full();
        let rules_changed = config.rules != old.config.rules || config.groups != old.config.groups;
        // The audit log has the locations of rules.
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
            let mut report = ReloadReport { requires_restart, ..changed_settings(&config, old) };
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

/// Returns the config with the settings that a running host keeps, and which settings would change.
fn compare_settings(config: Config, old: &Generation) -> Result<(Config, ReloadReport), ReloadError> {
    config.check_features(FEATURES)?;
    check_conflicts(&config, &old.native)?;
    let (config, requires_restart) = pin_restart_only_settings(config, &old.config);
    config.check_exposure()?;
    let report = ReloadReport { requires_restart, ..changed_settings(&config, old) };
    Ok((config, report))
}

/// Returns which settings differ between a config and a generation.
fn changed_settings(config: &Config, old: &Generation) -> ReloadReport {
    // The pattern names every field, so that a new one must be compared here or excluded as no setting.
    let Config {
        server,
        http,
        admin,
        log,
        audit,
        telemetry,
        search,
        principals,
        issuers,
        groups,
        rules,
        // Needs a restart.
        cluster: _,
        // Compared one by one, with their components and the sources of these.
        plugins: _,
        registry: _,
        trust: _,
        store: _,
        // Belongs to the file, or to other commands.
        dev: _,
        files: _,
        secret_files: _,
        file: _,
    } = config;
    let served = &*old.config;
    ReloadReport {
        rules: *rules != served.rules || *groups != served.groups,
        principals: *principals != served.principals || *issuers != served.issuers,
        server: *server != served.server
            || *search != served.search
            || *log != served.log
            || *telemetry != served.telemetry,
        http: *http != served.http,
        admin: *admin != served.admin,
        audit: *audit != served.audit,
        generation: old.number,
        ..ReloadReport::default()
    }
}

/// The file of a config, and the line of each rule in it.
fn locations(config: &Config) -> (Option<&Path>, Vec<Option<usize>>) {
    (config.file.as_deref(), config.rules.iter().map(|rule| rule.line.get()).collect())
}

/// Returns the new config with the old values of settings that a running host cannot change, and the keys of those that
/// differ.
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
    pin_admin_listener(&mut config, old, &mut pinned);
    if config.http.keep_alive != old.http.keep_alive {
        config.http.keep_alive = old.http.keep_alive;
        pinned.push("http.keep-alive");
    }
    if config.log.format != old.log.format {
        config.log.format = old.log.format;
        pinned.push("log.format");
    }
    // The layer of spans has one collector. The sampling may change, unless tracing is off.
    let mut telemetry = old.telemetry.clone();
    if let (Some(telemetry), Some(new)) = (&mut telemetry, &config.telemetry) {
        telemetry.sample = new.sample;
    }
    if config.telemetry != telemetry {
        config.telemetry = telemetry;
        pinned.push("telemetry");
    }
    if config.cluster != old.cluster {
        config.cluster.clone_from(&old.cluster);
        pinned.push("cluster");
    }
    pin_setting!(http, "server.http");
    pin_setting!(confine, "server.confine");
    pin_setting!(cache, "server.cache");
    pin_setting!(state, "server.state");
    pin_setting!(cursor_key, "server.cursor-key");
    pin_setting!(compile, "server.compile");
    (config, pinned)
}

/// Keeps the address of the administration listener. Its token and its certificate are taken from the new config.
fn pin_admin_listener(config: &mut Config, old: &Config, pinned: &mut Vec<&'static str>) {
    match (&mut config.admin, &old.admin) {
        (Some(admin), Some(old)) => {
            if admin.listen != old.listen {
                admin.listen = old.listen.clone();
                pinned.push("admin.listen");
            }
            if admin.tls.is_some() != old.tls.is_some() {
                admin.tls.clone_from(&old.tls);
                pinned.push("admin.tls");
            }
        }
        (None, None) => {}
        (admin, old) => {
            admin.clone_from(old);
            pinned.push("admin");
        }
    }
}
