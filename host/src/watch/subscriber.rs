//! One subscriber: a session, a stream, a command that waits.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Hub;
use super::mailbox::{Item, Mailbox};
use crate::access::Principal;
use crate::config::Operation;
use crate::plugin::Fault;
use crate::uri::{Path, Uri};

/// Something that a subscriber asked to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// The content or metadata of a resource changed, or it appeared or went away. The URI is spelled as it was when it was
    /// subscribed to.
    Resource(String),
    /// What is listed changed.
    Listing,
}

/// Someone who is told of changes. Dropped, it is told of nothing more and leaves nothing behind.
pub struct Subscriber {
    who: Principal,
    mailbox: Arc<Mailbox>,
    hub: Arc<Hub>,
    subscribed: Mutex<BTreeMap<Uri, Subscription>>,
}

struct Subscription {
    /// The URI as it was asked for.
    asked: String,
    slot: usize,
    path: Path,
}

impl Subscriber {
    /// Resources that one subscriber may subscribe to.
    pub const MAX_RESOURCES: usize = 1024;

    pub(super) fn new(id: u64, who: Principal, hub: Arc<Hub>) -> Self {
        Self { who, mailbox: Arc::new(Mailbox::new(id)), hub, subscribed: Mutex::default() }
    }

    /// Who is told.
    pub fn principal(&self) -> &Principal {
        &self.who
    }

    /// Waits for the next update. Safe to drop: what waits goes on waiting.
    pub async fn next(&self) -> Update {
        loop {
            self.filled().await;
            if let Some(update) = self.take() {
                return update;
            }
        }
    }

    /// Waits until it is worth trying to [`take`](Self::take).
    pub async fn filled(&self) {
        self.mailbox.filled().await;
    }

    /// The next update, if one waits. What the principal may not read at this moment is not told.
    pub fn take(&self) -> Option<Update> {
        loop {
            match self.mailbox.take()? {
                Item::Listing => return Some(Update::Listing),
                Item::Resource(uri) if self.hub.access.allows(&self.who, Operation::Read, &uri) => {
                    let asked = self.subscribed().get(&uri).map(|subscription| subscription.asked.clone());
                    if let Some(asked) = asked {
                        return Some(Update::Resource(asked));
                    }
                }
                Item::Resource(_) => {}
            }
        }
    }

    /// Asks to be told when what is listed changes, from now on.
    pub fn watch_listing(&self) {
        for watcher in self.hub.watchers.iter().flatten() {
            watcher.interests().watch_listing(&self.mailbox);
            watcher.wake();
        }
    }

    /// Takes a subscription back. Nothing is told of that resource any more, not even what waits. Whether there was such a
    /// subscription does not matter.
    pub fn unsubscribe(&self, uri: &Uri) {
        let Some(subscription) = self.subscribed().remove(uri) else { return };
        if let Some(watcher) = self.hub.watchers.get(subscription.slot).and_then(Option::as_ref) {
            watcher.interests().unwatch(&subscription.path, self.mailbox.id);
        }
        self.mailbox.forget(uri);
    }

    pub(super) fn mailbox(&self) -> &Arc<Mailbox> {
        &self.mailbox
    }

    pub(super) fn remember(&self, asked: &str, slot: usize, uri: &Uri, path: &Path) -> Result<(), Fault> {
        let mut subscribed = self.subscribed();
        if subscribed.len() >= Self::MAX_RESOURCES && !subscribed.contains_key(uri) {
            return Err(Fault::InvalidRequest(format!(
                "one subscriber may subscribe to {} resources; unsubscribe from some first",
                Self::MAX_RESOURCES
            )));
        }
        subscribed.insert(uri.clone(), Subscription { asked: asked.to_owned(), slot, path: path.clone() });
        Ok(())
    }

    fn subscribed(&self) -> MutexGuard<'_, BTreeMap<Uri, Subscription>> {
        self.subscribed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        for watcher in self.hub.watchers.iter().flatten() {
            watcher.interests().forget(self.mailbox.id);
        }
    }
}

impl fmt::Debug for Subscriber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscriber").field("who", &self.who).field("mailbox", &self.mailbox).finish_non_exhaustive()
    }
}
