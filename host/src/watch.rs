//! Watching: who wants to know of which changes, and telling them.
//!
//! No instance of a provider has to stay alive for a subscription to work. Each plugin that somebody is interested in has a
//! task that asks it, round by round, `changes(watched, since)`: which of the watched paths changed since the token of the
//! round before. The token is kept here, so what changed while a provider was broken is told when it is back. A round is
//! made when the interval is over, at once when a granted directory changes, and whenever a subscription is added; a plugin
//! that nobody watches is not asked at all.
//!
//! # What is promised
//!
//! - A subscription counts from before its [`Hub::subscribe`] returns: a change after that is told at least once.
//! - Nothing is told of what the principal may not read at that moment.
//! - Updates that wait are a set: however often a resource changes, and however slow its subscriber is, it waits once. So a
//!   subscriber costs memory for what it subscribed to and no more, and delays nobody.
//! - A [`Subscriber`] that is dropped leaves nothing behind.

mod directories;
mod interests;
mod mailbox;
mod subscriber;
mod watcher;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use self::watcher::Watcher;
use crate::access::{Access, Principal};
use crate::plugin::{Fault, Plugin};
use crate::uri::{Path, Uri};

pub use self::subscriber::{Subscriber, Update};

/// All plugins' watchers.
pub(crate) struct Hub {
    /// In the order of the catalog's slots; none for a plugin that did not load or watches nothing.
    watchers: Vec<Option<Arc<Watcher>>>,
    access: Arc<Access>,
    subscribers: AtomicU64,
}

impl Hub {
    /// Watchers for those plugins. Their tasks run on the current runtime until the hub is dropped.
    pub(crate) fn new<'a>(plugins: impl Iterator<Item = Option<&'a Arc<Plugin>>>, access: Arc<Access>) -> Arc<Self> {
        let watchers = plugins.map(|plugin| plugin.filter(|plugin| plugin.info().watches).map(Watcher::start));
        Arc::new(Self { watchers: watchers.collect(), access, subscribers: AtomicU64::new(0) })
    }

    /// A subscriber that has subscribed to nothing yet.
    pub(crate) fn subscriber(self: &Arc<Self>, who: &Principal) -> Subscriber {
        let id = self.subscribers.fetch_add(1, Ordering::Relaxed);
        Subscriber::new(id, who.clone(), self.clone())
    }

    /// Whether anything can be watched at all.
    pub(crate) fn is_watching(&self) -> bool {
        self.watchers.iter().any(Option::is_some)
    }

    /// Subscribes to a resource of the plugin in that slot, and returns once the subscription counts.
    pub(crate) async fn subscribe(
        &self,
        subscriber: &Subscriber,
        asked: &str,
        slot: usize,
        uri: &Uri,
        path: &Path,
    ) -> Result<(), Fault> {
        let Some(watcher) = self.watchers.get(slot).and_then(Option::as_ref) else {
            return Err(Fault::InvalidRequest(format!(
                "{uri} cannot be watched: its provider does not tell what changes"
            )));
        };
        subscriber.remember(asked, slot, uri, path)?;
        watcher.interests().watch(path, uri, subscriber.mailbox());
        let counted = watcher.next_round().await;
        if counted.is_err() {
            subscriber.unsubscribe(uri);
        }
        counted
    }
}
