//! The subscribers of the listing, by principal.
//!
//! What a subscriber may see of the listing depends on its principal only, and a client may have hundreds of idle
//! sessions. So the rules are evaluated once for each principal, on a copy of the set of principals, and never while
//! the index of subscriptions is locked. Adding and removing a subscriber takes logarithmic time.
//!
//! The groups of a principal expire. The expiries are in a queue in order of time: each operation that depends on
//! principals first moves the subscribers whose groups have expired to the principal without groups, once each.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use tokio::time::Instant;

use super::mailbox::Mailbox;
use crate::access::Principal;

/// The subscribers of the listing.
#[derive(Debug, Default)]
pub(super) struct ListingSubscribers {
    by_principal: HashMap<Principal, OfPrincipal>,
    /// Under which principal each subscriber is stored.
    members: BTreeMap<u64, Member>,
    /// The expiries of groups, with the subscriber.
    expiries: BTreeSet<(Instant, u64)>,
}

/// The subscribers with one principal; at least one.
#[derive(Debug, Default)]
struct OfPrincipal {
    mailboxes: BTreeMap<u64, Arc<Mailbox>>,
    /// Whether a subscriber has had the watchers track the principal's listing.
    is_tracked: bool,
}

#[derive(Debug)]
struct Member {
    principal: Principal,
    /// The time at which its groups expire.
    until: Option<Instant>,
}

/// What a new subscriber, or a new principal of a subscriber, changes for the watchers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ListingChange {
    /// The watchers do not track the principal's listing yet.
    pub(super) is_new: bool,
    /// No subscriber has the former principal any more.
    pub(super) has_left: bool,
}

impl ListingSubscribers {
    /// Adds a subscriber, or stores it under its current principal. The caller must have the watchers track a new
    /// principal.
    pub(super) fn insert(&mut self, mailbox: &Arc<Mailbox>) -> ListingChange {
        self.expire();
        let has_left = self.place(mailbox);
        let of_principal =
            self.members.get(&mailbox.id).and_then(|member| self.by_principal.get_mut(&member.principal));
        let is_new = of_principal.is_some_and(|of| !std::mem::replace(&mut of.is_tracked, true));
        ListingChange { is_new, has_left }
    }

    /// Removes a subscriber. Returns whether it was the last one with its principal.
    pub(super) fn remove(&mut self, id: u64) -> bool {
        let Some(Member { principal, until }) = self.members.remove(&id) else { return false };
        if let Some(until) = until {
            self.expiries.remove(&(until, id));
        }
        let Entry::Occupied(mut place) = self.by_principal.entry(principal) else { return false };
        place.get_mut().mailboxes.remove(&id);
        let is_last = place.get().mailboxes.is_empty();
        if is_last {
            place.remove();
        }
        is_last
    }

    /// Returns whether the subscriber with this id is one of the listing.
    pub(super) fn contains(&self, id: u64) -> bool {
        self.members.contains_key(&id)
    }

    /// Visits the subscribers, at most `limit`, from an id on. Returns the id at which to continue, if there are more.
    pub(super) fn visit(&self, from: u64, limit: usize, mut visitor: impl FnMut(&Arc<Mailbox>)) -> Option<u64> {
        let mut members = self.members.range(from..);
        for (id, member) in members.by_ref().take(limit) {
            let of_principal = self.by_principal.get(&member.principal);
            if let Some(mailbox) = of_principal.and_then(|of| of.mailboxes.get(id)) {
                visitor(mailbox);
            }
        }
        members.next().map(|(id, _)| *id)
    }

    /// Returns the principals of all subscribers.
    pub(super) fn principals(&mut self) -> HashSet<Principal> {
        self.expire();
        self.by_principal.keys().cloned().collect()
    }

    /// Notifies the subscribers with this principal, starting at id `from`, until `budget` is exhausted. Returns the id
    /// at which to continue, if there are more.
    pub(super) fn notify(&mut self, principal: &Principal, from: u64, budget: &mut usize) -> Option<u64> {
        self.expire();
        for (id, mailbox) in self.by_principal.get(principal)?.mailboxes.range(from..) {
            let Some(rest) = budget.checked_sub(1) else { return Some(*id) };
            *budget = rest;
            // If its principal is being replaced, it is notified anyway.
            if mailbox.principal() == *principal {
                mailbox.put_listing();
            }
        }
        None
    }

    /// Notifies the subscribers of the listing among these subscribers.
    pub(super) fn notify_each(&self, mailboxes: &[Arc<Mailbox>]) {
        let subscribed = mailboxes.iter().filter(|mailbox| self.contains(mailbox.id));
        subscribed.for_each(|mailbox| mailbox.put_listing());
    }

    /// Stores the subscribers whose groups have expired under their principal without groups.
    fn expire(&mut self) {
        let now = Instant::now();
        while let Some((_, id)) = self.expiries.first().copied().filter(|(until, _)| *until <= now) {
            self.expiries.pop_first();
            let principal = self.members.get(&id).map(|member| &member.principal);
            let of_principal = principal.and_then(|principal| self.by_principal.get(principal));
            if let Some(mailbox) = of_principal.and_then(|of| of.mailboxes.get(&id)).cloned() {
                // The expiry may have been extended meanwhile. Then this adds the new one.
                self.place(&mailbox);
            }
        }
    }

    /// Stores a subscriber under its current principal. Returns whether no subscriber has its former principal any
    /// more.
    fn place(&mut self, mailbox: &Arc<Mailbox>) -> bool {
        let id = mailbox.id;
        let (principal, until) = mailbox.principal_until();
        if let Some(member) = self.members.get_mut(&id).filter(|member| member.principal == principal) {
            if let Some(before) = std::mem::replace(&mut member.until, until) {
                self.expiries.remove(&(before, id));
            }
            self.expiries.extend(until.map(|until| (until, id)));
            return false;
        }
        let has_left = self.remove(id);
        self.expiries.extend(until.map(|until| (until, id)));
        self.by_principal.entry(principal.clone()).or_default().mailboxes.insert(id, mailbox.clone());
        self.members.insert(id, Member { principal, until });
        has_left
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::mailbox::PendingUpdate;
    use super::*;

    fn mailbox(id: u64, principal: &Principal) -> Arc<Mailbox> {
        Arc::new(Mailbox::new(id, principal.clone()))
    }

    const NEW: ListingChange = ListingChange { is_new: true, has_left: false };
    const NOTHING: ListingChange = ListingChange { is_new: false, has_left: false };

    #[test]
    fn a_principal_is_there_from_its_first_subscriber_to_its_last() {
        let (ada, bob) = (Principal::new("ada"), Principal::new("bob"));
        let mut all = ListingSubscribers::default();
        for (id, principal, expected) in [(1, &ada, NEW), (2, &ada, NOTHING), (3, &bob, NEW), (2, &ada, NOTHING)] {
            assert_eq!(all.insert(&mailbox(id, principal)), expected, "{id}");
        }
        assert_eq!(all.principals(), HashSet::from([ada.clone(), bob.clone()]));
        assert_eq!([1, 1, 2, 3].map(|id| all.remove(id)), [false, false, true, true]);
        assert!(all.principals().is_empty() && !all.contains(3));
        assert_eq!(all.insert(&mailbox(4, &ada)), NEW);
    }

    #[test]
    fn a_visit_in_parts_sees_each_subscriber_once_and_one_that_has_left_is_not_notified() {
        let mut all = ListingSubscribers::default();
        let mailboxes: Vec<_> = (0..5_u64).map(|id| mailbox(id, &Principal::new(format!("user-{}", id % 2)))).collect();
        for mailbox in &mailboxes {
            all.insert(mailbox);
        }
        for limit in 1..7 {
            let (mut seen, mut from) = (Vec::new(), Some(0));
            while let Some(id) = from {
                from = all.visit(id, limit, |mailbox| seen.push(mailbox.id));
            }
            assert_eq!(seen, [0, 1, 2, 3, 4], "{limit}");
        }
        all.remove(1);
        all.notify_each(&mailboxes[..2]);
        let told: Vec<_> = mailboxes.iter().map(|mailbox| mailbox.pop()).collect();
        assert_eq!(told, [Some(PendingUpdate::Listing), None, None, None, None]);
    }

    #[test]
    fn only_subscribers_with_the_principal_are_notified() {
        let (ada, bob) = (Principal::new("ada"), Principal::new("bob"));
        let mailboxes = [mailbox(1, &ada), mailbox(2, &bob), mailbox(3, &ada)];
        let mut all = ListingSubscribers::default();
        for mailbox in &mailboxes {
            all.insert(mailbox);
        }
        assert_eq!(all.notify(&Principal::new("eve"), 0, &mut 9), None);
        let told = || mailboxes.each_ref().map(|mailbox| mailbox.pop());
        let mut budget = 1;
        assert_eq!(all.notify(&ada, 0, &mut budget), Some(3), "in parts");
        assert_eq!((told(), budget), ([Some(PendingUpdate::Listing), None, None], 0));
        assert_eq!(all.notify(&ada, 3, &mut 9), None);
        assert_eq!(told(), [None, None, Some(PendingUpdate::Listing)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_subscriber_moves_when_its_principal_is_replaced_and_when_its_groups_expire() {
        let ada = Principal::new("ada");
        let member = ada.clone().with_groups(["team"]);
        let after = |seconds| Some(Instant::now() + Duration::from_secs(seconds));
        let (one, other) = (mailbox(1, &ada), mailbox(2, &ada));
        let mut all = ListingSubscribers::default();
        all.insert(&one);
        all.insert(&other);
        one.set_principal(&member, after(10));
        assert_eq!(all.insert(&one), NEW);
        other.set_principal(&member, after(20));
        assert_eq!(all.insert(&other), ListingChange { is_new: false, has_left: true });
        // The set is not informed of this extension.
        one.set_principal(&member, after(15));
        tokio::time::advance(Duration::from_secs(11)).await;
        assert_eq!(all.principals(), HashSet::from([member.clone()]));
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(all.principals(), HashSet::from([ada.clone(), member.clone()]));
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(all.principals(), HashSet::from([ada.clone()]));
        assert!(all.expiries.is_empty());
        // No subscriber has made the watchers track it.
        assert_eq!(all.insert(&mailbox(3, &ada)), NEW);
        assert_eq!([1, 2, 3].map(|id| all.remove(id)), [false, false, true]);
    }
}
