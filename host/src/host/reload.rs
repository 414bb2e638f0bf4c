//! Reloading: from one generation to the next, without a request that notices.
//!
//! 1. What did not change is kept: a plugin whose part of the config and whose component are the same is the very same
//!    plugin in the next generation, with its instances, its counts and its watcher.
//! 2. Everything else is loaded and describes itself, beside the old generation, which goes on serving. A fault here ends the
//!    reload, and the old generation stays as it is.
//! 3. The generations are swapped, in one step. Requests under way finish with the old one.
//! 4. Those who watch are told what is another now (module `watch`).
//!
//! A component file is read only once it has been quiet: it must be the same for [`QUIET`], and what was loaded must still be
//! what was there. So one that is being written is not loaded half; should a writer pause for longer in its middle, half a
//! component is none (its exports are at its end) and does not load.
//!
//! What a running host cannot change stays as it was, and the outcome names it: where it listens, where it keeps things, what
//! cursors are sealed with, what a compiler may use up, whether there is TLS.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;

use super::Host;
use super::generation::{Generation, by_name};
use crate::access::Access;
use crate::config::{self, Config, Digest};
use crate::plugin::{LoadError, Plugin, digest_of};
use crate::uri::Overlap;

/// For how long a component file that changed must be the same before it is loaded.
const QUIET: Duration = Duration::from_millis(50);
/// How often is looked whether it is.
const TRIES: usize = 20;

/// Why a reload changed nothing.
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
    /// Two mounts overlap. A configuration from a file has been checked for that already.
    #[error(transparent)]
    Overlap(#[from] Overlap),
}

/// What a reload changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reloaded {
    /// The number of the generation that serves now; the first is 1.
    pub generation: u64,
    /// Plugins that there were not before.
    pub added: Vec<String>,
    /// Plugins that are configured otherwise, have another component, or could not be loaded before.
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
        let is_as_it_was = !self.rules && !self.server && !self.http;
        is_as_it_was && self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }
}

/// What becomes of a plugin of the new config.
enum Fate {
    /// It stays the plugin that it is.
    Kept(Arc<Plugin>),
    /// It is loaded; a fault ends the reload.
    Loaded,
    /// It is tried again; that it still does not load changes nothing.
    TriedAgain,
}

impl Host {
    /// Goes over to another configuration, or to component files that changed below the same one.
    ///
    /// Requests under way are finished as they began; later ones see the new generation. Subscriptions stay. One reload is
    /// made at a time. When the future is dropped before its end, nothing has changed.
    ///
    /// # Errors
    ///
    /// What is new or changed cannot be used. Nothing has changed then.
    pub async fn reload(&self, config: Config) -> Result<Reloaded, ReloadError> {
        let _one_at_a_time = self.reloading.lock().await;
        let began = Instant::now();
        let old = self.generation.load_full();
        let (config, after_restart) = keep_what_stays(config, &old.config);
        let config = Arc::new(config);
        let declared = by_name(&config);

        let digests = digests(declared.iter().map(|plugin| plugin.component.clone())).await;
        let fates: Vec<_> = declared.iter().map(|plugin| old.fate(plugin, &digests)).collect();
        let moving = declared.iter().zip(&fates).filter(|(_, fate)| !matches!(fate, Fate::Kept(_)));
        let files: BTreeSet<_> = moving.map(|(plugin, _)| plugin.component.clone()).collect();
        let settled = settled(files, digests).await;
        let loading = declared.iter().zip(&fates).map(|(plugin, fate)| self.next(plugin, fate, &settled));
        let mut loaded = Vec::with_capacity(declared.len());
        let mut faults = Vec::new();
        let mut outcome = Reloaded { after_restart, generation: old.number, ..Reloaded::default() };
        for ((plugin, fate), next) in declared.iter().zip(&fates).zip(join_all(loading).await) {
            let name = plugin.name.as_str().to_owned();
            let next = next?;
            match (fate, &next) {
                (Fate::Kept(_), _) | (_, Err(_)) => {}
                (_, Ok(_)) if old.names().any(|old| old == name) => outcome.changed.push(name.clone()),
                (_, Ok(_)) => outcome.added.push(name.clone()),
            }
            match next {
                Err(error) if matches!(fate, Fate::Loaded) => faults.push((name, error)),
                next => loaded.push((*plugin, next)),
            }
        }
        if !faults.is_empty() {
            return Err(ReloadError::Plugins(faults));
        }
        let is_gone = |name: &&str| !declared.iter().any(|plugin| plugin.name.as_str() == *name);
        outcome.removed = old.names().filter(is_gone).map(str::to_owned).collect();
        outcome.rules = config.rules != old.config.rules;
        outcome.server = config.server != old.config.server;
        outcome.http = config.http != old.config.http;
        if outcome.is_nothing() {
            return Ok(Reloaded { took: began.elapsed(), ..outcome });
        }

        let access = if outcome.rules { Arc::new(Access::new(&config.rules)) } else { old.access.clone() };
        outcome.generation = old.number.saturating_add(1);
        let next = Arc::new(Generation::new(outcome.generation, config.clone(), loaded, access.clone())?);
        let stays = |plugin: &Arc<Plugin>| next.plugins().any(|next| Arc::ptr_eq(next, plugin));
        let before = self.watches.before(|plugin| outcome.rules || !stays(plugin)).await;
        // Nothing waits between these two, so that nobody can drop it halfway.
        self.generation.store(next.clone());
        self.watches.replace(next.plugins(), access, before);
        drop(old);
        let used = next.plugins().map(|plugin| plugin.digest()).collect();
        self.plugins.forget_all_but(&used).await;
        Ok(Reloaded { took: began.elapsed(), ..outcome })
    }

    /// The plugin of the next generation.
    async fn next(
        &self,
        plugin: &config::Plugin,
        fate: &Fate,
        settled: &HashMap<PathBuf, Option<Digest>>,
    ) -> Result<Result<Arc<Plugin>, LoadError>, ReloadError> {
        if let Fate::Kept(plugin) = fate {
            return Ok(Ok(plugin.clone()));
        }
        let file = &plugin.component;
        let unsettled =
            || ReloadError::Unsettled { plugin: plugin.name.as_str().to_owned(), file: plugin.component.clone() };
        let digest = settled.get(file).ok_or_else(unsettled)?;
        let loaded = self.plugins.load(plugin).await;
        // What was loaded is what was quiet, or it was not quiet.
        let is_settled = match &loaded {
            Ok(loaded) => Some(loaded.digest()) == *digest,
            Err(_) => digest_of(file).await == *digest,
        };
        if is_settled { Ok(loaded.map(Arc::new)) } else { Err(unsettled()) }
    }
}

impl Generation {
    fn names(&self) -> impl Iterator<Item = &str> {
        self.slots.iter().map(|slot| slot.name.as_str())
    }

    fn fate(&self, plugin: &config::Plugin, digests: &HashMap<PathBuf, Option<Digest>>) -> Fate {
        let is_as_it_was = self.config.plugins.iter().any(|old| old == plugin);
        let slot = self.slots.iter().find(|slot| slot.name == plugin.name.as_str()).filter(|_| is_as_it_was);
        let digest = digests.get(&plugin.component).copied().flatten();
        match slot.map(|slot| &slot.plugin) {
            Some(Ok(loaded)) if Some(loaded.digest()) == digest => Fate::Kept(loaded.clone()),
            Some(Err(_)) => Fate::TriedAgain,
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

/// What those files are, each read once; none for one that cannot be a component.
async fn digests(files: impl Iterator<Item = PathBuf>) -> HashMap<PathBuf, Option<Digest>> {
    let files: BTreeSet<_> = files.collect();
    let digests = join_all(files.iter().map(|file| digest_of(file))).await;
    files.into_iter().zip(digests).collect()
}

/// What those files are once they are quiet. One that does not come to rest is left out.
async fn settled(
    files: BTreeSet<PathBuf>,
    mut digests: HashMap<PathBuf, Option<Digest>>,
) -> HashMap<PathBuf, Option<Digest>> {
    let mut settled = HashMap::new();
    let mut moving = files;
    for _ in 0..TRIES {
        if moving.is_empty() {
            break;
        }
        tokio::time::sleep(QUIET).await;
        for (file, digest) in self::digests(moving.iter().cloned()).await {
            if digests.insert(file.clone(), digest) == Some(digest) {
                moving.remove(&file);
                settled.insert(file, digest);
            }
        }
    }
    settled
}

fn told(faults: &[(String, LoadError)]) -> String {
    let told: Vec<_> = faults.iter().map(|(plugin, error)| format!("plugin `{plugin}`: {error}")).collect();
    told.join("; ")
}
