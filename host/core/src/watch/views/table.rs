//! The table of one plugin's views: the views with their charges, and the subscribers at the last check.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use mcp_host_base::share_limiter::{LimitReached, ShareLimiter, ShareLimits, SharePermit};
use mcp_host_engine::plugin::Fault;
use mcp_host_model::caller::Identity;
use mcp_host_model::requester::Requester;
use tokio_util::task::AbortOnDropHandle;

use super::super::context::{LimitScope, SubscribeError, subscription_memory_full};
use super::super::lookup::Lookups;
use super::super::mailbox::Mailbox;
use super::super::state::WatcherState;

/// The maximum number of views of one plugin that one principal causes, of either kind.
pub(super) const MAX_VIEWS_OF_PRINCIPAL: usize = 16;
/// The maximum number of views of one plugin for the listing only.
pub(super) const MAX_LISTING_VIEWS: usize = 256;
/// The approximate memory of a view besides its subscriptions: its tasks, and its client at the upstream with the
/// credentials.
pub(super) const VIEW_MEMORY: usize = 64 << 10;
/// The time after which a client may retry when there are too many views.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// What a view is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Purpose {
    /// The listing only.
    Listing,
    /// Resources, and the listing.
    Resources,
}

/// The views of a plugin, and its subscribers at the last check.
pub(super) struct Table {
    pub(super) views: HashMap<Identity, View>,
    /// The identity of each subscriber of a resource at the last check.
    pub(super) subscribers: HashMap<u64, Seen>,
    /// The subscribers of the listing at the last check.
    pub(super) listeners: HashMap<u64, Listener>,
    /// The number of checks.
    pub(super) checks: u64,
    pub(super) counts: Counts,
    /// The memory limits of the last subscription.
    pub(super) limits: ShareLimits,
    /// Whether the plugin was replaced.
    pub(super) is_closed: bool,
}

/// The numbers of views for each purpose, in total and by the principal that is charged.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) listing: ShareLimiter<Requester>,
    pub(super) resources: ShareLimiter<Requester>,
}

impl Counts {
    /// Counts a view of a principal, within the limits. `max` is the limit for all principals.
    pub(super) fn add(
        &self,
        purpose: Purpose,
        principal: &Requester,
        max: usize,
    ) -> Result<SharePermit<Requester>, Refused> {
        let limits = ShareLimits { client: MAX_VIEWS_OF_PRINCIPAL, overall: max };
        self.of(purpose).acquire(principal, limits).map_err(|reached| match reached {
            LimitReached::ClientShare => Refused::Share,
            LimitReached::Overall => Refused::Full(max),
        })
    }

    fn of(&self, purpose: Purpose) -> &ShareLimiter<Requester> {
        match purpose {
            Purpose::Listing => &self.listing,
            Purpose::Resources => &self.resources,
        }
    }
}

/// The charge for a view, to the principal that caused it, or to another one that uses it now.
pub(super) struct ViewCharge {
    /// One of the views for its purpose.
    pub(super) count: SharePermit<Requester>,
    pub(super) memory: SharePermit<Requester>,
}

/// The view of an identity.
pub(super) struct View {
    pub(super) state: Arc<WatcherState>,
    pub(super) lookups: Arc<Lookups>,
    pub(super) purpose: Purpose,
    /// The number of leases.
    pub(super) leases: usize,
    /// The number of leases and of new subscribers of the listing since the beginning.
    pub(super) entered: u64,
    /// The value of `entered` at the beginning of the last check; none if there were leases.
    pub(super) settled: Option<u64>,
    pub(super) charge: ViewCharge,
    pub(super) _polling: AbortOnDropHandle<Option<()>>,
    pub(super) _notifying: AbortOnDropHandle<Option<()>>,
}

/// A subscriber of resources at the last check.
pub(super) struct Seen {
    /// None if it saw nothing.
    pub(super) identity: Option<Identity>,
    /// The number of changes of its credentials at that time: it may have had another identity between two checks.
    pub(super) credential_changes: u64,
    /// The check that saw it, or the last one before it subscribed.
    pub(super) check: u64,
}

/// A subscriber, as a check has found it.
pub(super) struct Found {
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) credential_changes: u64,
    pub(super) identity: Option<Identity>,
}

/// The reason why there is no view.
pub(super) enum Refused {
    /// The plugin was replaced.
    Closed,
    /// All views are in use.
    Full(usize),
    /// The principal has too many.
    Share,
    Memory(LimitReached),
}

impl From<Refused> for SubscribeError {
    fn from(refused: Refused) -> Self {
        let reason = match refused {
            Refused::Closed => return Self::PluginReplaced,
            Refused::Memory(reached) => return subscription_memory_full(reached, LimitScope::Plugin),
            Refused::Full(max) => {
                format!("its limit of {max} identities with subscriptions at a time is reached; try again later")
            }
            Refused::Share => format!(
                "you have subscriptions with {MAX_VIEWS_OF_PRINCIPAL} access tokens, which is the limit; cancel subscriptions of older access tokens"
            ),
        };
        Self::Limited(Fault::Unavailable { reason, retry_after: Some(RETRY_AFTER) }, LimitScope::Plugin)
    }
}

/// A subscriber of the listing at the last check.
#[derive(Clone, Copy)]
pub(super) struct Listener {
    /// None if it saw nothing.
    pub(super) identity: Option<Identity>,
    /// The number of changes of its credentials at that time.
    pub(super) credential_changes: u64,
    /// Whether it might see the whole listing.
    pub(super) sees_whole: bool,
    /// The watcher of the view that notifies it; none if there is no view for it.
    pub(super) view: Option<u64>,
    /// Whether it may have missed a change.
    pub(super) has_missed: bool,
    /// The check that saw it, or the last one before it began to listen.
    pub(super) check: u64,
}

impl Listener {
    /// Whether both see the same.
    pub(super) fn sees_as(&self, other: &Self) -> bool {
        (self.identity, self.credential_changes, self.sees_whole)
            == (other.identity, other.credential_changes, other.sees_whole)
    }

    /// Whether there has been no view for it yet, because the provider did not report the listing of its identity.
    pub(super) fn is_fresh(&self) -> bool {
        self.identity.is_some() && self.view.is_none() && !self.has_missed
    }
}

impl Table {
    /// Creates a table without views.
    pub(super) fn new() -> Self {
        Self {
            views: HashMap::new(),
            subscribers: HashMap::new(),
            listeners: HashMap::new(),
            checks: 0,
            counts: Counts::default(),
            // Until a limit is known, the subscribers of an earlier generation have been charged already.
            limits: ShareLimits { client: usize::MAX, overall: usize::MAX },
            is_closed: false,
        }
    }

    /// Returns the number of the check that begins now.
    pub(super) fn begin_check(&mut self) -> u64 {
        for view in self.views.values_mut() {
            view.settled = (view.leases == 0).then_some(view.entered);
        }
        self.checks = self.checks.saturating_add(1);
        self.checks
    }

    /// Moves the charge for each view whose charged principal has no subscriber in it, according to a check, to a
    /// principal that has one. If that principal has reached a limit, the charge stays until a later check.
    pub(super) fn charge_users<'f>(
        &mut self,
        found: impl Iterator<Item = &'f Found>,
        memory: &ShareLimiter<Requester>,
    ) {
        let (mut in_use, mut others) = (HashSet::new(), HashMap::new());
        for Found { mailbox, identity, .. } in found {
            let view = identity.and_then(|identity| Some((identity, self.views.get(&identity)?)));
            let Some((identity, view)) = view else { continue };
            let principal = charged_principal(mailbox);
            if *view.charge.count.client() == principal {
                in_use.insert(identity);
            } else {
                others.entry(identity).or_insert(principal);
            }
        }
        for (identity, principal) in others.into_iter().filter(|(identity, _)| !in_use.contains(identity)) {
            let Some(view) = self.views.get_mut(&identity) else { continue };
            // The number of all views stays the same.
            let Ok(count) = self.counts.add(view.purpose, &principal, usize::MAX) else { continue };
            if let Ok(memory) = memory.acquire_amount(&principal, VIEW_MEMORY, self.limits) {
                view.charge = ViewCharge { count, memory };
            }
        }
    }
}

/// Returns the principal that is charged with the view of a subscriber.
pub(super) fn charged_principal(mailbox: &Mailbox) -> Requester {
    Requester::Principal(mailbox.principal().identity())
}
