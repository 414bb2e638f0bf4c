//! Checks without serving: [`HostBuilder::check`] and [`HostBuilder::inspect`].
//!
//! A check loads every plugin of the config exactly as a start would (read, compile, link, `describe`). Then it tries
//! each plugin with its grants and limits:
//!
//! - It opens the database of the plugin's key-value buckets, if it exists.
//! - It connects to granted databases and looks up their schemas, requests a token from each source of access tokens,
//!   and connects once to each granted origin.
//! - It prepares saved queries, or reads them once.
//! - It requests the first page of the listing, and reads the skills. It prepares no data: a listing that is not
//!   prepared yet is a note.
//! - For an upstream, it tries each token of a principal or a group, and whether the upstream serves anything.
//! - It compares the globs of rules with the listed resources (module `unlisted_globs`).
//! - Below a mount without a host, such as `web://`, it looks up listed resources by their URIs.
//!
//! Nothing is served. A check writes only compiled components; providers may write to their grants.

mod unlisted_globs;

use std::collections::BTreeMap;

use futures::future::join_all;
use mcp_host_config::{self as config, PluginName, Warning};
use mcp_host_engine::CallOrigin;
use mcp_host_engine::plugin::{
    Fault, FaultKind, Inspection, LoadError, Needs, NeedsError, Plugin, PluginRuntime, PreparationStatus, Requirements,
    preparation_note,
};
use mcp_host_model::digest::Digest;
use mcp_host_model::provider::ProviderInfo;
use mcp_host_model::uri::Uri;
use parking_lot::Mutex;

use self::unlisted_globs::UnlistedGlobs;
use super::builder::{HostBuilder, describe_native};
use super::generation::check_conflicts;
use super::saved_queries::SavedQueries;
use super::start_error::StartError;
use crate::catalog::CursorKey;
use crate::skills;

/// The result of [`HostBuilder::check`].
#[derive(Debug)]
#[non_exhaustive]
pub struct CheckReport {
    /// One report per plugin, ordered by name.
    pub plugins: Vec<PluginCheck>,
    /// Warnings about the config as a whole.
    pub warnings: Vec<Warning>,
    /// Notes that may need no action: globs of rules that match no listed resource.
    pub notes: Vec<String>,
}

/// The result for one plugin.
#[derive(Debug)]
pub struct PluginCheck {
    /// The plugin, as the config declares it.
    pub plugin: config::Plugin,
    /// The facts about the provider; none if it did not load.
    pub provider: Option<CheckedProvider>,
    /// What was tried, or the first failure.
    pub outcome: Result<Tried, CheckError>,
    /// Warnings about its grants, found by trying them.
    pub grant_warnings: Vec<String>,
}

/// What was tried of a plugin without a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tried {
    /// The first page of its listing, which has this number of items.
    Listed(usize),
    /// Nothing: an upstream, offline.
    Nothing,
    /// Its listing, which is unavailable for this reason until its data are prepared. A server does that after its
    /// start, a check does not.
    Unprepared(String),
}

/// A provider that loaded.
#[derive(Debug)]
#[non_exhaustive]
pub struct CheckedProvider {
    /// The digest of the component.
    pub digest: Option<Digest>,
    /// The provider's description of itself.
    pub info: ProviderInfo,
    /// The provider's declared needs; none if it declares none.
    pub needs: Result<Option<Needs>, NeedsError>,
    /// The progress of its preparation, which a check does not begin; none if the component does not export `prepare`.
    pub preparation: Option<PreparationStatus>,
    /// The imports of the component and the buckets that it opened, compared with the plugin's grants.
    pub requirements: Requirements,
    /// Faults during the check, by kind.
    pub faults: BTreeMap<FaultKind, u64>,
}

/// Why a plugin does not work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// It does not load.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A grant cannot be used: the database of its buckets, a database of `grants.sql`, or a source of access tokens.
    #[error("{0}")]
    Grant(String),
    /// The provider reports that it does not work with this config: an upstream rejects the token of a principal.
    #[error("{0}")]
    Provider(String),
    /// The first page of its listing fails.
    #[error("its listing fails: {0}")]
    Listing(Fault),
}

/// Why a component cannot be inspected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InspectError {
    /// The engine does not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The file is not a component, or does not compile.
    #[error(transparent)]
    Load(#[from] LoadError),
}

/// The maximum number of listed resources that are looked up by their URIs.
const MAX_LOOKED_UP: usize = 16;

/// Returns a warning if a resource that is listed below a mount without a host is not found by its URI: the first
/// segment of its path is parsed as a host, which the normal form converts to lower case.
async fn unfound_uri(plugin: &Plugin, listed: impl Iterator<Item = &Uri>) -> Option<String> {
    let mount = plugin.mount();
    for uri in listed.take(MAX_LOOKED_UP) {
        let Some(Ok(named)) = uri.as_str().strip_prefix(mount.as_str()).map(|path| mount.compose(path)) else {
            continue;
        };
        if matches!(plugin.stat(&named.path).await, Err(Fault::NotFound)) {
            return Some(format!(
                "`{uri}` is listed, and not found by this URI: below the mount `{mount}` paths begin with a host, which is in lower \
                 case; if the paths of this provider do not, mount it at `{mount}/`"
            ));
        }
    }
    None
}

/// How plugins are tried.
struct Trial {
    page_size: u32,
    /// Whether no connections to servers are made.
    offline: bool,
    /// The sandbox features that programs lack, and the grants that they cannot use, by the name of the upstream.
    of_programs: BTreeMap<PluginName, Vec<String>>,
    /// The URIs of listed resources.
    uris: Mutex<Vec<String>>,
    /// The globs of the rules.
    globs: UnlistedGlobs,
}

impl PluginCheck {
    /// Returns the warnings about a plugin that loads: missing or unused grants, origins that do not accept
    /// connections, ways around the schemas of a database, settings of another type than the provider declares, and an
    /// invalid declaration of needs.
    pub fn warnings(&self) -> Vec<String> {
        let of_provider = |provider: &CheckedProvider| -> Vec<String> {
            let of_needs = match &provider.needs {
                Ok(needs) => needs.as_ref().map(|needs| needs.warnings(&self.plugin)).unwrap_or_default(),
                Err(error) => vec![error.warning()],
            };
            provider.requirements.warnings().chain(of_needs).collect()
        };
        let of_provider = self.provider.as_ref().map(of_provider).unwrap_or_default();
        of_provider.into_iter().chain(self.grant_warnings.iter().cloned()).collect()
    }

    /// Returns the notes about a plugin: needs of the provider that are not granted, limits below the provider's needs,
    /// a preparation that is not permitted or has nothing to prepare, and settings that the provider does not read.
    /// These are the admin's choices and therefore not warnings.
    pub fn notes(&self) -> Vec<String> {
        let needs = self.provider.as_ref().and_then(|provider| provider.needs.as_ref().ok()?.as_ref());
        let of_needs = needs.map(|needs| needs.notes(&self.plugin)).unwrap_or_default();
        let of_identities = self.plugin.has_views().then(|| {
            "each principal sees its own content of this upstream, so its responses are not cached, and it is not indexed \
             and has no skills. Each identity has its own subscriptions, and is notified of changes of its own listing"
                .to_owned()
        });
        let prepares = self.provider.as_ref().map(|provider| provider.preparation.is_some());
        let of_preparation = prepares.and_then(|prepares| preparation_note(prepares, &self.plugin, needs));
        let of_listing = match &self.outcome {
            Ok(Tried::Unprepared(reason)) => Some(format!(
                "its listing was not tried: {reason}. Its data are prepared by a server after the start, within `limits.prepare`, and not \
                 by this check"
            )),
            _ => None,
        };
        of_needs.into_iter().chain(of_identities).chain(of_preparation).chain(of_listing).collect()
    }

    /// Tries a plugin that loads, and returns what was tried. Adds the URIs of the first page of its listing to `uris`,
    /// and warnings about its grants to `warnings`.
    async fn try_plugin(
        plugin: &Plugin,
        config: &config::Plugin,
        trial: &Trial,
        warnings: &mut Vec<String>,
    ) -> Result<Tried, CheckError> {
        let Trial { page_size, offline, uris, .. } = trial;
        // Grants go first: a provider may work around an unusable grant, or describe the failure less well.
        *warnings = plugin.check_grants(*offline).await.map_err(CheckError::Grant)?;
        let may_prepare = plugin.preparation().is_some_and(|preparation| preparation.cpu_limit.is_some());
        let page = match plugin.list(CallOrigin::Client, None, None, *page_size, Some).await {
            Err(Fault::Unavailable { reason, .. }) if may_prepare => return Ok(Tried::Unprepared(reason)),
            answer => answer.map_err(CheckError::Listing)?,
        };
        uris.lock().extend(page.items.iter().map(|entry| entry.uri.to_string()));
        warnings.extend(plugin.check_provider().await.map_err(CheckError::Provider)?);
        if !config.skills.is_empty() {
            warnings.extend(skills::problems(plugin).await);
        }
        if !offline {
            warnings.extend(SavedQueries::of(plugin, config).check(plugin).await);
            if plugin.mount().owns_all_hosts() {
                warnings.extend(unfound_uri(plugin, page.items.iter().map(|entry| &entry.uri)).await);
            }
        }
        Ok(Tried::Listed(page.size))
    }

    /// Checks a plugin.
    async fn run(plugin: &config::Plugin, runtime: &PluginRuntime, trial: &Trial) -> Self {
        let mut grant_warnings = Vec::new();
        let mut of_program = trial.of_programs.get(&plugin.name).cloned().unwrap_or_default();
        if plugin.upstream.is_some() && trial.offline {
            trial.globs.skip(&plugin.mount);
            let outcome = Ok(Tried::Nothing);
            return Self { plugin: plugin.clone(), provider: None, outcome, grant_warnings: of_program };
        }
        let loaded = match runtime.load(plugin).await {
            Ok(loaded) => loaded,
            Err(error) => {
                trial.globs.skip(&plugin.mount);
                let outcome = Err(error.into());
                return Self { plugin: plugin.clone(), provider: None, outcome, grant_warnings: of_program };
            }
        };
        let outcome = Self::try_plugin(&loaded, plugin, trial, &mut grant_warnings).await;
        match outcome {
            Ok(Tried::Listed(_)) => trial.globs.compare(&loaded, plugin, trial.page_size).await,
            _ => trial.globs.skip(&plugin.mount),
        }
        grant_warnings.append(&mut of_program);
        let mut requirements = loaded.requirements().clone();
        requirements.record_denied_buckets(loaded.denied_buckets());
        let needs = match &plugin.upstream {
            Some(_) => Ok(None),
            None => runtime.needs(&plugin.component).await,
        };
        if let Ok(Some(needs)) = &needs {
            requirements.apply_needs(needs);
        }
        let provider = CheckedProvider {
            needs,
            digest: loaded.digest(),
            preparation: loaded.preparation(),
            info: loaded.info().clone(),
            requirements,
            faults: loaded.faults(),
        };
        Self { plugin: plugin.clone(), provider: Some(provider), outcome, grant_warnings }
    }
}

impl HostBuilder {
    /// Loads and tries every plugin of the config, without serving anything. Connects to granted servers. Validates the
    /// cursor key, if there is one. Native providers are only called for `describe`; their names and mounts take part
    /// in conflict checks.
    ///
    /// # Errors
    ///
    /// A host with this config would not start. The failure of a plugin is not an error, but part of the report.
    pub async fn check(self) -> Result<CheckReport, StartError> {
        self.try_plugins(false).await
    }

    /// Like [`check`](Self::check), without connections to granted servers: origins, databases, sources of access
    /// tokens. A provider may still connect to one while it is loaded or listed.
    ///
    /// # Errors
    ///
    /// The errors of [`check`](Self::check).
    pub async fn check_offline(self) -> Result<CheckReport, StartError> {
        self.try_plugins(true).await
    }

    async fn try_plugins(mut self, offline: bool) -> Result<CheckReport, StartError> {
        let dirs = self.data_dirs();
        if self.cursor_key.is_none() && self.config.server.cursor_key.is_empty() {
            CursorKey::check(&dirs.state()?)?;
        }
        let state = dirs.state_for(&self.config)?;
        let page_size = u32::try_from(self.config.server.page_size.get()).unwrap_or(u32::MAX);
        let native = std::mem::take(&mut self.native);
        let mut of_programs = self.unusable_grants_of_programs();
        for (name, lacks) in self.lacks_of_programs() {
            let lacks = lacks.iter().map(|lack| format!("the sandbox is incomplete on this machine: {lack}"));
            of_programs.entry(name).or_default().extend(lacks);
        }
        let (runtime, config) = self.start_runtime(state)?;
        let native = describe_native(&runtime, &native)?;
        check_conflicts(&config, &native)?;
        let globs = UnlistedGlobs::new(&config);
        let trial = Trial { page_size, offline, of_programs, uris: Mutex::default(), globs };
        let checks = config.plugins.iter().map(|plugin| PluginCheck::run(plugin, &runtime, &trial));
        let mut plugins = join_all(checks).await;
        plugins.sort_by(|one, other| one.plugin.name.cmp(&other.plugin.name));
        let mounts: Vec<_> = native.iter().map(|plugin| plugin.mount()).collect();
        let mut warnings = config.warnings_beside(&mounts);
        warnings.extend(config.encoded_slash_warnings(&trial.uris.into_inner()));
        let notes = trial.globs.into_notes(&warnings);
        Ok(CheckReport { plugins, warnings, notes })
    }

    /// Compiles the component of a plugin and requests its description, in a sandbox without grants. The plugin need
    /// not be in the config: its grants are only compared with the component's imports.
    ///
    /// # Errors
    ///
    /// The engine does not start; the file is not a component that this host can compile, or not the component that the
    /// plugin is pinned to. A component that is not a provider is no error, but part of the result.
    pub async fn inspect(self, plugin: &config::Plugin) -> Result<Inspection, InspectError> {
        Ok(self.runtime()?.inspect(plugin).await?)
    }
}
