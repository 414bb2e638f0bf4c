//! The environment of the [polls](mcp_host_cluster::poll) of one plugin: calls of its provider, and notifications of
//! its subscribers.
//!
//! The changed resources are processed in [batches](super::context), independent of the number of paths and
//! subscribers. If all paths of a group that fails belong to one client, the client loses [`FAILURE_COST`] of the polls
//! that it may force.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroU32;
use std::sync::Arc;

use mcp_host_cluster::poll::{Caller, Polled};
use mcp_host_engine::plugin::Fault;
use mcp_host_model::caller;
use mcp_host_model::requester::Requester;
use mcp_host_model::resource::WatchedChanges;
use mcp_host_model::uri::{Path, Uri};
use tokio::time::Instant;

use super::context::BATCH_SIZE;
use super::state::WatcherState;
use crate::access::Principal;
use crate::response_cache::DroppedFor;

/// The maximum number of a resource's subscribers that are examined to determine the client of its path.
const MAX_LOOKED_AT: usize = 64;
/// The number of forced polls that a client loses if its paths make a provider fail.
const FAILURE_COST: NonZeroU32 = NonZeroU32::new(8).unwrap();

/// The calls of one plugin's provider, and the plugin's subscribers.
pub(super) struct ProviderCalls {
    state: Arc<WatcherState>,
    /// In a view, a subscriber with its identity, on whose behalf the provider is called.
    pub(super) caller: Option<caller::Caller>,
    /// Whether changes of the listing belong to the paths that are polled now: in a cluster, to one shard.
    pub(super) has_listing: bool,
}

impl ProviderCalls {
    pub(super) fn new(state: Arc<WatcherState>) -> Self {
        Self { state, caller: None, has_listing: true }
    }

    /// Charges the failure of a group to its client, if all paths of the group have the same client.
    fn charge(&self, clients: &[Requester]) {
        let Some(client) = clients.first().filter(|first| clients.iter().all(|client| client == *first)) else {
            return;
        };
        if !client.is_local() {
            // If fewer tokens are left, none are taken.
            let _ = self.state.forced_polls.take(client, FAILURE_COST);
        }
    }
}

impl Caller for ProviderCalls {
    type Fault = Fault;
    type Client = Requester;

    fn now(&self) -> Instant {
        Instant::now()
    }

    async fn call(&mut self, paths: &[Path], token: Option<&str>) -> Result<WatchedChanges, Fault> {
        caller::Caller::scope_view(self.caller.clone(), self.state.plugin.changes(paths, token)).await
    }

    async fn answered(&mut self, polled: &Polled<'_>, changes: &WatchedChanges) {
        for batch in polled.new.chunks(BATCH_SIZE) {
            // Newly watched paths are compared with the state of this answer from now on.
            batch.iter().for_each(|(_, path)| self.state.plugin.drop_cached(path, DroppedFor::All));
            tokio::task::yield_now().await;
        }
        if (!polled.new.is_empty() || changes.listing_changed || !changes.changed.is_empty())
            && let Some(replicas) = &self.state.context.replicas
        {
            replicas.invalidate(&self.state.plugin);
        }
        if !changes.changed.is_empty() {
            self.state.plugin.data_changed();
        }
    }

    /// Drops cached pages of the listing if it has changed, or if no state of it was known before.
    fn answered_listing(&mut self, is_first: bool, has_changed: bool) {
        if !self.has_listing {
            return;
        }
        if is_first || has_changed {
            self.state.plugin.drop_cached_pages(DroppedFor::Whole);
        }
        if has_changed {
            self.state.listing.mark_dirty();
            self.state.plugin.data_changed();
        }
    }

    async fn notify(&mut self, changed: Vec<(Uri, Path)>) {
        self.state.notify_of_change(changed).await;
    }

    async fn notify_all(&mut self) {
        self.state.notify_all().await;
    }

    async fn polled(&mut self, watched: &[(Uri, Path)]) {
        // In a cluster, another replica may make the next poll, with another token. In a view, a resource that another
        // view watches may have been left out since.
        if self.state.shared.is_none() && self.state.view.is_none() {
            for batch in watched.chunks(BATCH_SIZE) {
                self.state.context.subscription_index().set_polled(batch, self.state.id);
                tokio::task::yield_now().await;
            }
        }
    }

    /// Returns the client of each path: among its subscribers, the client with the fewest of these paths.
    async fn failed(&mut self, watched: &[(Uri, Path)]) -> Vec<Requester> {
        let mut subscribers = Vec::with_capacity(watched.len());
        // The number of each client's paths, and the place of its first path.
        let mut orders: HashMap<Requester, (usize, usize)> = HashMap::new();
        for batch in watched.chunks(MAX_LOOKED_AT) {
            {
                let index = self.state.context.subscription_index();
                let of_path = |(uri, _): &(Uri, Path)| {
                    index.requesters(uri, MAX_LOOKED_AT, |mailbox| self.state.concerns(mailbox))
                };
                subscribers.extend(batch.iter().map(of_path));
            }
            tokio::task::yield_now().await;
        }
        for requester in subscribers.iter().flatten() {
            let place = orders.len();
            let (count, _) = orders.entry(requester.clone()).or_insert((0, place));
            *count = count.saturating_add(1);
        }
        let order = |one: &Requester| orders.get(one).copied().unwrap_or_default();
        let owner = |requesters: HashSet<Requester>| requesters.into_iter().min_by_key(order);
        // A path without subscribers is attributed to the local client.
        let anyone = Requester::Principal(Principal::LOCAL);
        let clients: Vec<_> =
            subscribers.into_iter().map(|requesters| owner(requesters).unwrap_or_else(|| anyone.clone())).collect();
        self.charge(&clients);
        clients
    }
}
