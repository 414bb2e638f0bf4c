//! Reloading: from one config to the next, without a request that notices.
//!
//! A reload is at once for rules, and all or nothing for plugins:
//!
//! 1. Rules and settings of the server are replaced in one step, before anything is read or loaded, for the plugins that are
//!    being served. Nothing that comes later takes them back. It is the only step for a config whose plugins cannot be used.
//! 2. What did not change is kept: a plugin whose part of the config and whose component are the same is the very same
//!    plugin in the next generation, with its instances, its counts and its watcher. One that is not loaded, and whose part of the
//!    config is the same, is loaded in the background (module `loading`) and keeps nobody waiting.
//! 3. Everything else is loaded and describes itself, beside the plugins of before, which go on serving. A fault here ends the
//!    reload, and the plugins stay as they are.
//! 4. The plugins are replaced, in one step. Requests under way finish with the old ones.
//! 5. Those who watch are told what is another now (module `watch`).
//!
//! The newest config wins: a reload that has not replaced plugins when another one begins never does, and a compiler that
//! only it needed is ended.
//!
//! A component file is read only once it has been quiet: it must be the same for [`QUIET`], and what was loaded must still be
//! what was there. So one that is being written is not loaded half; should a writer pause for longer in its middle, half a
//! component is none (its exports are at its end) and does not load.
//!
//! What a running host cannot change stays as it was, and the outcome names it: where it listens, where it keeps things, what
//! cursors are sealed with, what a compiler may use up, whether there is TLS.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;

use super::Host;
use super::builder::warn;
use super::generation::{Generation, by_name, router};
use crate::access::Access;
use crate::catalog::Absent;
use crate::config::{self, Config, Digest};
use crate::plugin::{LoadError, Plugin};
use crate::uri::Overlap;
use crate::watch::Before;

/// For how long a component file that changed must be the same before it is loaded.
const QUIET: Duration = Duration::from_millis(50);
/// How often is looked whether it is.
const TRIES: usize = 20;

/// Why a reload did not replace plugins. Its rules and settings count all the same, unless mounts overlap.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// Plugins that are new, or changed, cannot be loaded.
    #[error("{}", told(.0))]
    Plugins(Vec<(String, LoadError)>),
    /// A component file is being written.
    #[error("the component {} of plugin `{plugin}` is being written", file.display())]
    Unsettled {
        /// The plugin.
        plugin: String,
        /// The file.
        file: PathBuf,
    },
    /// Two mounts overlap. A configuration from a file has been checked for that already. Nothing has changed.
    #[error(transparent)]
    Overlap(#[from] Overlap),
    /// Another reload began before this one had replaced plugins.
    #[error("a newer configuration has taken its place")]
    Superseded,
}

impl ReloadError {
    /// Whether it may pass by itself, so that another try makes sense though nothing changed.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Plugins(faults) => faults.iter().any(|(_, error)| error.is_transient()),
            Self::Unsettled { .. } => true,
            Self::Overlap(_) | Self::Superseded => false,
        }
    }
}

/// What a reload changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reloaded {
    /// The number of the generation that serves now; the first is 1.
    pub generation: u64,
    /// Plugins that there were not before.
    pub added: Vec<String>,
    /// Plugins that are configured otherwise, or have another component.
    pub changed: Vec<String>,
    /// Plugins that are no more.
    pub removed: Vec<String>,
    /// Whether who may do what is another.
    pub rules: bool,
    /// Whether what the server says of itself, or the size of its pages, is another.
    pub server: bool,
    /// Whether how HTTP is spoken is another: a new certificate, for example.
    pub http: bool,
    /// Keys whose new values count after a restart only.
    pub after_restart: Vec<&'static str>,
    /// How long it took.
    pub took: Duration,
}

impl Reloaded {
    /// Whether everything is as it was.
    pub fn is_nothing(&self) -> bool {
        !self.replaces_settings() && !self.replaces_plugins()
    }

    fn replaces_settings(&self) -> bool {
        self.rules || self.server || self.http
    }

    fn replaces_plugins(&self) -> bool {
        !(self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty())
    }
}

/// A reload whose rules and settings count already.
struct Begun {
    config: Arc<Config>,
    access: Arc<Access>,
    /// Which of all reloads it is.
    ticket: u64,
    /// Whether its plugins are configured otherwise than those that are being served.
    has_other_plugins: bool,
    outcome: Reloaded,
}

/// What becomes of a plugin of the new config.
enum Fate {
    /// It stays the plugin that it is.
    Kept(Arc<Plugin>),
    /// It is loaded; a fault ends the reload.
    Loaded,
    /// It was not loaded before, and is loaded in the background.
    InBackground,
}

impl Host {
    /// Goes over to another configuration, or to component files that changed below the same one.
    ///
    /// Its rules and settings count from the first poll of the future on, whatever becomes of its plugins. Requests under way are
    /// finished as they began; later ones see the new generation. Subscriptions stay. When another reload begins before this one
    /// has ended, or the future is dropped, its plugins are not used.
    ///
    /// # Errors
    ///
    /// What is new or changed cannot be used. The plugins are those of before then.
    pub async fn reload(&self, config: Config) -> Result<Reloaded, ReloadError> {
        let began = Instant::now();
        let begun = self.replace_settings(config)?;
        if begun.outcome.rules || begun.has_other_plugins {
            warn(begun.config.clone());
        }
        let ticket = begun.ticket;
        let mut newest = self.newest.subscribe();
        let outcome = tokio::select! {
            biased;
            // It fails when there is no sender, and the host has it.
            _ = newest.wait_for(|newest| *newest != ticket) => Err(ReloadError::Superseded),
            outcome = self.replace_plugins(begun) => outcome,
        }?;
        Ok(Reloaded { took: began.elapsed(), ..outcome })
    }

    /// Goes over to the rules and settings of another configuration, and leaves the plugins as they are: for one whose plugins cannot
    /// be used, such as the [rest](crate::config::ConfigError::partial_config) of a config. The plugins of a reload that is under way are not
    /// used. Call it on a tokio runtime.
    ///
    /// # Errors
    ///
    /// Two mounts of the configuration overlap. Nothing has changed then.
    pub fn reload_settings(&self, config: Config) -> Result<Reloaded, ReloadError> {
        let began = Instant::now();
        let Begun { config, outcome, .. } = self.replace_settings(config)?;
        if outcome.rules {
            warn(config);
        }
        Ok(Reloaded { took: began.elapsed(), ..outcome })
    }

    /// Has components tried again with the next reload that did not compile before. Without it, one that reached a limit of the
    /// compiler, or crashed it, is not compiled again before it changes or the host is restarted.
    pub fn forget_failures(&self) {
        self.plugins.forget_failures();
    }

    /// The beginning of a reload: rules and settings, for the plugins that are being served.
    fn replace_settings(&self, config: Config) -> Result<Begun, ReloadError> {
        // A config that cannot be served changes nothing.
        router(&config)?;
        self.serving.replace(Before::default(), |old| {
            let (config, after_restart) = keep_what_stays(config, &old.config);
            let mut outcome = Reloaded {
                rules: config.rules != old.config.rules,
                server: config.server != old.config.server,
                http: config.http != old.config.http,
                generation: old.number,
                after_restart,
                ..Reloaded::default()
            };
            let has_other_plugins = config.plugins != old.config.plugins;
            let access = if outcome.rules { Arc::new(Access::new(&config.rules)) } else { old.access.clone() };
            let next = outcome.replaces_settings().then(|| {
                outcome.generation = old.number.saturating_add(1);
                let config = Config { plugins: old.config.plugins.clone(), ..config.clone() };
                Generation {
                    number: outcome.generation,
                    config: Arc::new(config),
                    access: access.clone(),
                    ..old.clone()
                }
            });
            self.newest.send_modify(|newest| *newest = newest.wrapping_add(1));
            let ticket = *self.newest.borrow();
            Ok((next, Begun { config: Arc::new(config), access, ticket, has_other_plugins, outcome }))
        })
    }

    /// The rest of a reload: its plugins.
    async fn replace_plugins(&self, begun: Begun) -> Result<Reloaded, ReloadError> {
        let Begun { config, access, ticket, mut outcome, .. } = begun;
        let old = self.generation.load_full();
        let declared = by_name(&config);
        let digests = self.digests(declared.iter().map(|plugin| plugin.component.clone())).await;
        let fates: Vec<_> = declared.iter().map(|plugin| old.fate(plugin, &digests)).collect();
        let of_fate = |wanted: fn(&Fate) -> bool| {
            declared.iter().zip(&fates).filter(move |(_, fate)| wanted(fate)).map(|(plugin, _)| *plugin)
        };
        // Compilers go on with what this config needs, and with nothing else.
        let used = old.plugins().map(|plugin| plugin.digest());
        self.plugins.retain(&digests.values().copied().flatten().chain(used).collect());
        of_fate(|fate| matches!(fate, Fate::InBackground)).for_each(|plugin| self.loading.start(plugin));

        let files: BTreeSet<_> =
            of_fate(|fate| matches!(fate, Fate::Loaded)).map(|plugin| plugin.component.clone()).collect();
        let settled = self.settled_digests(files, digests).await;
        let loading = of_fate(|fate| matches!(fate, Fate::Loaded)).map(|plugin| async {
            let loaded = self.load(plugin, &settled).await;
            (plugin.name.as_str(), loaded)
        });
        let (mut loaded, mut faults) = (HashMap::new(), Vec::new());
        for (name, next) in join_all(loading).await {
            match next? {
                Ok(plugin) => {
                    let is_known = old.slot(name).is_some();
                    let list = if is_known { &mut outcome.changed } else { &mut outcome.added };
                    list.push(name.to_owned());
                    loaded.insert(name, plugin);
                }
                Err(error) => faults.push((name.to_owned(), error)),
            }
        }
        if !faults.is_empty() {
            return Err(ReloadError::Plugins(faults));
        }
        let names: HashSet<_> = declared.iter().map(|plugin| plugin.name.as_str()).collect();
        outcome.removed = old.names().filter(|name| !names.contains(name)).map(str::to_owned).collect();
        if !outcome.replaces_plugins() {
            return Ok(outcome);
        }
        if !outcome.replaces_settings() {
            outcome.generation = old.number.saturating_add(1);
        }

        let kept: Vec<_> =
            fates.iter().filter_map(|fate| if let Fate::Kept(plugin) = fate { Some(plugin) } else { None }).collect();
        let before = self.watches.before(|plugin| !kept.iter().any(|kept| Arc::ptr_eq(kept, plugin))).await;
        self.serving.replace(before, |now| {
            if *self.newest.borrow() != ticket {
                return Err(ReloadError::Superseded);
            }
            let next = Generation::new(outcome.generation, config.clone(), access, |plugin| {
                let name = plugin.name.as_str();
                // What is loaded in the background may be there by now.
                let there = || now.slot(name).map_or(Err(Absent::Loading), |slot| slot.plugin.clone());
                loaded.remove(name).map_or_else(there, Ok)
            })?;
            Ok((Some(next), ()))
        })?;
        drop(old);
        self.loading
            .retain(&of_fate(|fate| matches!(fate, Fate::InBackground)).map(|plugin| plugin.name.as_str()).collect());
        let used = self.generation.load().plugins().map(|plugin| plugin.digest()).collect::<Vec<_>>();
        self.plugins.retain(&settled.values().copied().flatten().chain(used).collect());
        Ok(outcome)
    }

    /// A plugin that is new, or changed.
    async fn load(
        &self,
        plugin: &config::Plugin,
        settled: &HashMap<PathBuf, Option<Digest>>,
    ) -> Result<Result<Arc<Plugin>, LoadError>, ReloadError> {
        let file = &plugin.component;
        let unsettled =
            || ReloadError::Unsettled { plugin: plugin.name.as_str().to_owned(), file: plugin.component.clone() };
        let digest = settled.get(file).ok_or_else(unsettled)?;
        let loaded = self.plugins.load(plugin).await;
        // What was loaded is what was quiet, or it was not quiet.
        let is_settled = match &loaded {
            Ok(loaded) => Some(loaded.digest()) == *digest,
            Err(_) => self.plugins.digest_of(file).await == *digest,
        };
        if is_settled { Ok(loaded.map(Arc::new)) } else { Err(unsettled()) }
    }

    /// What those files are, each read once; none for one that cannot be a component.
    async fn digests(&self, files: impl Iterator<Item = PathBuf>) -> HashMap<PathBuf, Option<Digest>> {
        let files: BTreeSet<_> = files.collect();
        let digests = join_all(files.iter().map(|file| self.plugins.digest_of(file))).await;
        files.into_iter().zip(digests).collect()
    }

    /// What all files are once those have been quiet. One that does not come to rest is left out.
    async fn settled_digests(
        &self,
        moving: BTreeSet<PathBuf>,
        mut digests: HashMap<PathBuf, Option<Digest>>,
    ) -> HashMap<PathBuf, Option<Digest>> {
        let mut moving = moving;
        for _ in 0..TRIES {
            if moving.is_empty() {
                return digests;
            }
            tokio::time::sleep(QUIET).await;
            for (file, digest) in self.digests(moving.iter().cloned()).await {
                if digests.insert(file.clone(), digest) == Some(digest) {
                    moving.remove(&file);
                }
            }
        }
        digests.retain(|file, _| !moving.contains(file));
        digests
    }
}

impl Generation {
    fn fate(&self, plugin: &config::Plugin, digests: &HashMap<PathBuf, Option<Digest>>) -> Fate {
        let is_as_it_was = self.config.plugins.contains(plugin);
        let slot = self.slot(plugin.name.as_str()).filter(|_| is_as_it_was);
        let digest = digests.get(&plugin.component).copied().flatten();
        match slot.map(|slot| &slot.plugin) {
            Some(Ok(loaded)) if Some(loaded.digest()) == digest => Fate::Kept(loaded.clone()),
            Some(Err(_)) => Fate::InBackground,
            _ => Fate::Loaded,
        }
    }
}

/// The new config with those values of the old one that a running host cannot change, and the keys of these.
fn keep_what_stays(mut config: Config, old: &Config) -> (Config, Vec<&'static str>) {
    let mut kept = Vec::new();
    macro_rules! keep {
        ($field:ident, $key:literal) => {
            if config.server.$field != old.server.$field {
                config.server.$field = old.server.$field.clone();
                kept.push($key);
            }
        };
    }
    if config.http.tls.is_some() != old.http.tls.is_some() {
        config.http.tls.clone_from(&old.http.tls);
        kept.push("http.tls");
    }
    if config.http.keep_alive != old.http.keep_alive {
        config.http.keep_alive = old.http.keep_alive;
        kept.push("http.keep-alive");
    }
    keep!(http, "server.http");
    keep!(cache, "server.cache");
    keep!(state, "server.state");
    keep!(cursor_key, "server.cursor-key");
    keep!(compile, "server.compile");
    (config, kept)
}

fn told(faults: &[(String, LoadError)]) -> String {
    let told: Vec<_> = faults.iter().map(|(plugin, error)| format!("plugin `{plugin}`: {error}")).collect();
    told.join("; ")
}
