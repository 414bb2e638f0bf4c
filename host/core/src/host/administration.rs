//! Actions of administrators on a running host. Each action has a line in the audit log with the administrator's name.
//!
//! A plugin that is *disabled* is unloaded: calls in progress end, requests for it fail as for a plugin that could not
//! be loaded, merged listings name it as missing, and subscriptions to its resources are dormant. It stays disabled
//! across reloads, even if they change its config, until it is enabled or the host ends.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use mcp_host_base::task;
use mcp_host_base::{log_target, text};
use mcp_host_config::audit::{Audit, AuditDestination, OnFull};
use mcp_host_config::{Operation, Warning};
use mcp_host_engine::diagnostics::CallObserver;
use mcp_host_engine::plugin::{ProfilingGuard, RecordingGuard};
use mcp_host_engine::recording::Recorder;
use mcp_host_model::resource::Error;

use super::audit::{RequestKind, RequestRecord};
use super::builder::first_warnings;
use super::generation::Generation;
use super::{Host, PluginStatus};
use crate::access::Principal;
use crate::audit::{AuditState, AuditUsage, Facts, Follower, Subject};
use crate::catalog::{Disabled, NotLoaded, PluginSlot};
use crate::counters::ReloadFailure;
use crate::response_cache::CachedPlugin;
use crate::watch::{ListingSnapshot, SentUpdate};

/// The maximum length of the name of a nonexistent plugin in a line of the audit log, in bytes.
const MAX_PLUGIN: usize = 256;

/// An action of an administrator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminAction {
    /// Reads the config and all files that it names again.
    Reload,
    /// Explains an access decision.
    Explain,
    /// Makes a request as another principal.
    View,
    /// Changes the filter of the log.
    Log,
    /// Disables a plugin.
    Disable,
    /// Enables a plugin that is disabled.
    Enable,
    /// Closes a plugin's circuit breaker, and drops its cached responses.
    Reset,
    /// Records the calls of a plugin.
    Record,
    /// Profiles the calls of a plugin.
    Profile,
    /// Issues a code that logs in to the console.
    Open,
}

/// The subject of an administrator's action, for its line in the audit log.
#[derive(Clone, Copy, Debug)]
pub enum AdminSubject<'a> {
    /// The server as a whole.
    Nothing,
    /// The filter of the log.
    Log {
        /// The filter; none for the configured one.
        filter: Option<&'a str>,
        /// The time for which the filter applies.
        seconds: Option<u64>,
    },
    /// An access decision.
    Decision {
        /// The URI.
        uri: &'a str,
        /// The name of the principal.
        principal: &'a str,
        /// The operation.
        operation: Operation,
    },
    /// A request as another principal, which has its own line.
    View {
        /// The URI, the template or the query.
        uri: &'a str,
    },
}

/// Why an action on a plugin is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// The config has no plugin of that name.
    #[error("the config has no plugin `{0}`")]
    NoPlugin(String),
    /// The plugin is not loaded now.
    #[error("plugin `{0}` is not loaded")]
    NotLoaded(String),
    /// The plugin cannot be recorded or profiled now.
    #[error("{0}")]
    NotPossible(String),
    /// The host is shutting down; or the audit log has no space for the action, and its config refuses such requests.
    #[error(transparent)]
    Refused(#[from] Error),
}

impl AdminAction {
    /// Its name in the audit log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reload => "admin-reload",
            Self::Explain => "admin-explain",
            Self::View => "admin-view",
            Self::Log => "admin-log",
            Self::Disable => "admin-disable",
            Self::Enable => "admin-enable",
            Self::Reset => "admin-reset",
            Self::Record => "admin-record",
            Self::Profile => "admin-profile",
            Self::Open => "admin-open",
        }
    }
}

impl fmt::Display for AdminAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl From<AdminAction> for RequestKind {
    fn from(action: AdminAction) -> Self {
        Self { name: action.name(), returns_uris: false }
    }
}

impl Host {
    /// Returns why the last reload failed, so that the config file is not fully applied; none if it succeeded.
    pub fn reload_failure(&self) -> Option<ReloadFailure> {
        self.counters().reload_failure()
    }

    /// Returns the plugins of one generation with `required = true` that are not served, or cannot reach their data.
    pub fn missing_plugins(&self) -> Vec<PluginStatus> {
        let now = self.generation.load();
        let required = now.config.plugins.iter().filter(|plugin| plugin.required);
        let slots = required.filter_map(|plugin| now.slot(plugin.name.as_str()));
        let is_missing = |slot: &&PluginSlot| slot.plugin.as_ref().map_or(true, |plugin| plugin.outage().is_some());
        slots.filter(is_missing).map(|slot| PluginStatus::new(slot, &self.hub, &now.config)).collect()
    }

    /// Returns the state of the audit log; none if the config has no `[audit]`.
    pub fn audit_state(&self) -> Option<AuditState> {
        let config = self.config();
        let Audit { destination, on_full, .. } = config.audit.as_ref()?;
        let file = match destination {
            AuditDestination::File(file) => Some(file.path.clone()),
            AuditDestination::Stderr => None,
        };
        let AuditUsage { failure, dropped_lines, refused_requests, .. } = self.audit.usage();
        Some(AuditState { file, failure, refuses: *on_full == OnFull::Refuse, dropped_lines, refused_requests })
    }

    /// Returns a follower of the audit log from now on; none if the config has no `[audit]`.
    pub fn follow_audit(&self) -> Option<Follower<str>> {
        self.audit.follow()
    }

    /// Returns a follower of the updates that are sent to subscribers from now on.
    pub fn follow_updates(&self) -> Follower<SentUpdate> {
        self.hub.follow_updates()
    }

    /// Returns the first `limit` warnings about the current config, and the number of others. This inspects files, so
    /// it may wait for a disk.
    pub async fn config_warnings(&self, limit: usize) -> (Vec<Warning>, usize) {
        let now = self.generation.load();
        let (config, native) = (now.config.clone(), now.native.clone());
        let warnings = task::spawn_blocking(move || first_warnings(&config, &native, limit)).await;
        // This fails when the runtime shuts down.
        warnings.unwrap_or_default()
    }

    /// Runs and records an action of an administrator that another part of the program carries out. `kind_of_error`
    /// returns the outcome of a failed action, in a word or two.
    ///
    /// # Errors
    ///
    /// The audit log has no space, and its config refuses requests then. The action did not begin.
    pub async fn administer<T, E>(
        &self,
        administrator: &Principal,
        action: AdminAction,
        about: AdminSubject<'_>,
        run: impl Future<Output = Result<T, E>>,
        kind_of_error: impl FnOnce(&E) -> &'static str,
    ) -> Result<Result<T, E>, Error> {
        let facts = Facts::default();
        facts.set_generation(self.generation());
        let (uri, subject) = match about {
            AdminSubject::Nothing => ("", None),
            AdminSubject::Log { filter, seconds } => ("", Some(Subject::log(filter, seconds))),
            AdminSubject::Decision { uri, principal, operation } => {
                (uri, Some(Subject::explain(principal, operation.name())))
            }
            AdminSubject::View { uri } => (uri, None),
        };
        let text_len = subject.as_ref().map_or(0, Subject::text_len);
        let mut record = self.begin_record_about(administrator, action, uri, &facts, text_len)?;
        if let Some(subject) = subject {
            facts.set_subject(subject);
        }
        let result = run.await;
        record.set_outcome(result.as_ref().map_or_else(kind_of_error, |_| "ok"));
        drop(record);
        Ok(result)
    }

    /// Disables a plugin of the config, until it is enabled or the host ends. Does nothing if the plugin is disabled.
    ///
    /// # Errors
    ///
    /// There is no such plugin, or the action cannot be recorded.
    pub async fn disable_plugin(&self, administrator: &Principal, name: &str) -> Result<(), AdminError> {
        let facts = Facts::default();
        let record = self.begin_action(administrator, AdminAction::Disable, name, &facts)?;
        let is_this = |plugin: &str| plugin == name;
        let snapshot = self.hub.snapshot(|plugin| is_this(plugin.name())).await;
        let disabled = Arc::new(Disabled { since: SystemTime::now(), by: administrator.name().to_owned() });
        let changed = self.replace_generation(snapshot, |now| {
            let next = now.with_disabled(name, disabled)?;
            self.background_loader.cancel(name);
            Some(next)
        });
        if changed {
            tracing::warn!(target: log_target::PLUGIN, plugin = name, by = administrator.name(), "plugin disabled");
        }
        record.end(&Ok(()));
        Ok(())
    }

    /// Enables a plugin, which is then loaded in the background. Does nothing if the plugin is not disabled.
    ///
    /// # Errors
    ///
    /// There is no such plugin, or the action cannot be recorded.
    pub fn enable_plugin(&self, administrator: &Principal, name: &str) -> Result<(), AdminError> {
        let facts = Facts::default();
        let record = self.begin_action(administrator, AdminAction::Enable, name, &facts)?;
        let changed = self.replace_generation(ListingSnapshot::default(), |now| {
            let next = now.with_enabled(name)?;
            self.load_in_background(&next, name);
            Some(next)
        });
        if changed {
            tracing::info!(target: log_target::PLUGIN, plugin = name, by = administrator.name(), "plugin enabled: it is being loaded");
        }
        record.end(&Ok(()));
        Ok(())
    }

    /// Closes a plugin's circuit breaker, forgets which client inputs made it fail, and drops its cached responses. A
    /// plugin that could not be loaded is loaded again, and compiled again if compilation had failed.
    ///
    /// # Errors
    ///
    /// There is no such plugin, or the action cannot be recorded.
    pub fn reset_plugin(&self, administrator: &Principal, name: &str) -> Result<(), AdminError> {
        let facts = Facts::default();
        let record = self.begin_action(administrator, AdminAction::Reset, name, &facts)?;
        let now = self.generation.load();
        match now.slot(name).map(|slot| &slot.plugin) {
            Some(Ok(plugin)) => {
                plugin.reset();
                plugin.clear_cached_responses();
            }
            Some(Err(NotLoaded::Failed { .. })) => {
                self.clear_failures();
                self.load_in_background(&now, name);
            }
            _ => {}
        }
        tracing::info!(target: log_target::PLUGIN, plugin = name, by = administrator.name(), "plugin reset");
        record.end(&Ok(()));
        Ok(())
    }

    /// Records a plugin's calls until the guard is dropped: arguments, host calls with results, and answers.
    ///
    /// # Errors
    ///
    /// There is no such plugin, it is not loaded, it is not a component, it is being recorded, or the action cannot be
    /// recorded.
    pub async fn record_plugin(
        &self,
        administrator: &Principal,
        name: &str,
        recorder: Recorder,
    ) -> Result<RecordingGuard, AdminError> {
        let facts = Facts::default();
        let mut record = self.begin_action(administrator, AdminAction::Record, name, &facts)?;
        record.set_outcome("failed");
        let plugin = self.loaded_plugin(name)?;
        let guard = plugin.record(recorder).await.map_err(|error| AdminError::NotPossible(error.to_string()))?;
        tracing::warn!(target: log_target::PLUGIN, plugin = name, by = administrator.name(), "its calls are being recorded");
        record.end(&Ok(()));
        Ok(guard)
    }

    /// Reports a plugin's calls, and stack samples of its guests, to an observer until the guard is dropped.
    ///
    /// # Errors
    ///
    /// There is no such plugin, it is not loaded, it is being profiled, or the action cannot be recorded.
    pub fn profile_plugin(
        &self,
        administrator: &Principal,
        name: &str,
        observer: Arc<dyn CallObserver>,
    ) -> Result<ProfilingGuard, AdminError> {
        let facts = Facts::default();
        let mut record = self.begin_action(administrator, AdminAction::Profile, name, &facts)?;
        record.set_outcome("failed");
        let guard = self.loaded_plugin(name)?.profile(observer);
        let busy = || AdminError::NotPossible(format!("plugin `{name}` is being profiled"));
        let guard = guard.ok_or_else(busy)?;
        record.end(&Ok(()));
        Ok(guard)
    }

    fn loaded_plugin(&self, name: &str) -> Result<Arc<CachedPlugin>, AdminError> {
        let now = self.generation.load();
        let plugin = now.slot(name).and_then(|slot| slot.plugin.as_ref().ok()).cloned();
        plugin.ok_or_else(|| AdminError::NotLoaded(name.to_owned()))
    }

    /// Waits until the plugin is not being loaded.
    pub async fn wait_until_plugin_loaded(&self, name: &str) {
        self.generation_store.wait_until_plugin_loaded(name).await;
    }

    /// Loads a plugin of a generation in the background.
    fn load_in_background(&self, generation: &Generation, name: &str) {
        if let Some(plugin) = generation.config.plugins.iter().find(|plugin| plugin.name.as_str() == name) {
            self.background_loader.start(plugin);
        }
    }

    /// Replaces the generation if `next` returns a new one. Returns whether it did.
    fn replace_generation(
        &self,
        snapshot: ListingSnapshot,
        next: impl FnOnce(&Generation) -> Option<Generation>,
    ) -> bool {
        let replaced = self.generation_store.replace(snapshot, |now| {
            let next = next(now);
            let is_changed = next.is_some();
            Ok::<_, Infallible>((next, is_changed))
        });
        match replaced {
            Ok(is_changed) => is_changed,
            Err(never) => match never {},
        }
    }

    /// Begins the record of an action on a plugin of the config.
    fn begin_action<'a>(
        &'a self,
        administrator: &'a Principal,
        action: AdminAction,
        plugin: &str,
        facts: &'a Facts,
    ) -> Result<RequestRecord<'a>, AdminError> {
        let now = self.generation.load();
        facts.set_generation(now.number);
        // An administrator gave this name. If the config has no such plugin, the name has any length.
        facts.set_plugin(text::prefix(plugin, MAX_PLUGIN));
        let mut record = self.begin_record(administrator, action, "", facts)?;
        if self.requests.is_closed() {
            record.end::<()>(&Err(Error::ShuttingDown));
            return Err(Error::ShuttingDown.into());
        }
        if !now.config.plugins.iter().any(|declared| declared.name.as_str() == plugin) {
            record.set_outcome("not found");
            return Err(AdminError::NoPlugin(plugin.to_owned()));
        }
        Ok(record)
    }
}
