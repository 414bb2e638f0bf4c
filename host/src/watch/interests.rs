//! Who is interested in what of one plugin.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::mailbox::Mailbox;
use crate::plugin::ChangeSet;
use crate::uri::{Path, Uri};

/// Who is interested in what of one plugin.
#[derive(Debug, Default)]
pub(super) struct Interests {
    resources: BTreeMap<Path, Watched>,
    listing: BTreeMap<u64, Arc<Mailbox>>,
    /// How many subscriptions have been asked for: those of a round are all up to the number at its beginning.
    pub(super) asked: u64,
}

#[derive(Debug)]
struct Watched {
    uri: Uri,
    by: BTreeMap<u64, Arc<Mailbox>>,
}

impl Interests {
    pub(super) fn is_empty(&self) -> bool {
        self.resources.is_empty() && self.listing.is_empty()
    }

    /// What the provider is asked about.
    pub(super) fn paths(&self) -> Vec<Path> {
        self.resources.keys().cloned().collect()
    }

    pub(super) fn watch(&mut self, path: &Path, uri: &Uri, mailbox: &Arc<Mailbox>) {
        let watched =
            self.resources.entry(path.clone()).or_insert_with(|| Watched { uri: uri.clone(), by: BTreeMap::new() });
        watched.by.insert(mailbox.id, mailbox.clone());
    }

    pub(super) fn watch_listing(&mut self, mailbox: &Arc<Mailbox>) {
        self.listing.insert(mailbox.id, mailbox.clone());
    }

    pub(super) fn unwatch(&mut self, path: &Path, id: u64) {
        if let Some(watched) = self.resources.get_mut(path) {
            watched.by.remove(&id);
            if watched.by.is_empty() {
                self.resources.remove(path);
            }
        }
    }

    /// Forgets a subscriber altogether.
    pub(super) fn forget(&mut self, id: u64) {
        self.listing.remove(&id);
        self.resources.retain(|_, watched| {
            watched.by.remove(&id);
            !watched.by.is_empty()
        });
    }

    /// Tells everyone whom it concerns.
    pub(super) fn tell(&self, changes: &ChangeSet) {
        for path in &changes.changed {
            let Some(watched) = self.resources.get(path) else { continue };
            for mailbox in watched.by.values() {
                mailbox.put_resource(&watched.uri);
            }
        }
        if changes.listing_changed {
            self.listing.values().for_each(|mailbox| mailbox.put_listing());
        }
    }
}
