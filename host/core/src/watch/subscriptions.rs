//! The index of all subscriptions, for all plugins.
//!
//! Subscriptions refer to URIs, not to plugins: a reload that replaces, removes or restores a plugin does not affect
//! them. A plugin's subscriptions are the subscriptions below its mount.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;

use mcp_host_model::requester::Requester;
use mcp_host_model::uri::{Mount, Path, Uri};

use super::listing_subscribers::{ListingChange, ListingSubscribers};
use super::mailbox::Mailbox;
use crate::access::Principal;
use crate::catalog::ListingFingerprint;

/// The subscribers of each resource and of the listing.
#[derive(Debug, Default)]
pub(super) struct SubscriptionIndex {
    resources: BTreeMap<Uri, WatchedResource>,
    listing_subscribers: ListingSubscribers,
}

#[derive(Debug)]
struct WatchedResource {
    /// The path of the resource in the provider that polled it last.
    path: Path,
    subscribers: BTreeMap<u64, Arc<Mailbox>>,
    /// The number of subscribers that are views of the console.
    views: usize,
    /// For a listable resource: the view of each principal that may not see everything ([`super::directories`]).
    directory: Option<HashMap<Principal, ListingFingerprint>>,
    /// The watcher that has polled the resource while it was watched, and so reports every later change.
    polled_by: Option<u64>,
}

/// A resource with subscriptions, and its subscribers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Watched {
    /// The resource.
    pub uri: Uri,
    /// The number of subscribers, except views.
    pub subscribers: usize,
    /// The number of subscribers, among the first [`MAX_LOOKED_AT`](Self::MAX_LOOKED_AT), whose client has no open
    /// stream. They are notified when it opens one.
    pub unheard: usize,
    /// The number of views of the console that show it.
    pub views: usize,
    /// The names of the principals of the first [`MAX_LOOKED_AT`](Self::MAX_LOOKED_AT) subscribers, except views, in
    /// order.
    pub principals: Vec<String>,
}

impl Watched {
    /// The maximum number of subscribers of a resource whose principals are examined, because the index is locked
    /// meanwhile.
    pub const MAX_LOOKED_AT: usize = 64;
}

impl WatchedResource {
    fn described(&self, uri: &Uri) -> Watched {
        let mailboxes = || self.subscribers.values().take(Watched::MAX_LOOKED_AT).filter(|mailbox| !mailbox.is_view());
        let names: BTreeSet<_> = mailboxes().map(|mailbox| mailbox.principal().name().to_owned()).collect();
        Watched {
            uri: uri.clone(),
            subscribers: self.subscribers.len().saturating_sub(self.views),
            unheard: mailboxes().filter(|mailbox| mailbox.is_unheard()).count(),
            views: self.views,
            principals: names.into_iter().collect(),
        }
    }
}

impl SubscriptionIndex {
    /// Returns whether there are subscriptions to resources below `mount`.
    pub(super) fn has_resources_under(&self, mount: &Mount) -> bool {
        self.under(mount, None).next().is_some()
    }

    /// Returns the number of resources with subscriptions.
    pub(super) fn resource_count(&self) -> usize {
        self.resources.len()
    }

    /// Returns the watched resources below `mount` with their paths, in order: the first `limit` after `after`.
    pub(super) fn paths(&self, mount: &Mount, after: Option<&Uri>, limit: usize) -> Vec<(Uri, Path)> {
        let watched = self.under(mount, after).take(limit);
        watched.map(|(uri, watched)| (uri.clone(), watched.path.clone())).collect()
    }

    /// Returns the watched resources below `mount`, or all, in order: the first `limit` after `after`.
    pub(super) fn uris(&self, mount: Option<&Mount>, after: Option<&Uri>, limit: usize) -> Vec<Uri> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        match mount {
            Some(mount) => self.under(mount, after).take(limit).map(|(uri, _)| uri.clone()).collect(),
            None => {
                let watched = self.resources.range::<Uri, _>((from, Bound::Unbounded));
                watched.take(limit).map(|(uri, _)| uri.clone()).collect()
            }
        }
    }

    /// Returns the watched resources in order, with their subscribers: the first `limit` after `after`.
    pub(super) fn resources(&self, after: Option<&str>, limit: usize) -> Vec<Watched> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let watched = self.resources.range::<str, _>((from, Bound::Unbounded));
        watched.take(limit).map(|(uri, watched)| watched.described(uri)).collect()
    }

    /// Returns the number of watched resources below `mount`.
    pub(super) fn count_under(&self, mount: &Mount) -> usize {
        self.under(mount, None).count()
    }

    pub(super) fn watch(&mut self, uri: &Uri, path: &Path, mailbox: &Arc<Mailbox>, is_listable: bool) {
        let watched = match self.resources.get_mut(uri) {
            Some(watched) => watched,
            None => {
                let (subscribers, path) = (BTreeMap::new(), path.clone());
                let watched = WatchedResource { path, subscribers, views: 0, directory: None, polled_by: None };
                self.resources.entry(uri.clone()).or_insert(watched)
            }
        };
        if is_listable {
            watched.directory.get_or_insert_default();
        }
        let known = watched.subscribers.insert(mailbox.id, mailbox.clone());
        if known.is_none() && mailbox.is_view() {
            watched.views = watched.views.saturating_add(1);
        }
    }

    /// Adds a subscriber of the listing. The caller must have the watchers track a new principal.
    pub(super) fn watch_listing(&mut self, mailbox: &Arc<Mailbox>) -> ListingChange {
        self.listing_subscribers.insert(mailbox)
    }

    /// Updates the principal of a subscriber. Returns what this changes if it is a subscriber of the listing. The
    /// caller must have the watchers track a new principal.
    pub(super) fn update_principal(&mut self, mailbox: &Arc<Mailbox>) -> Option<ListingChange> {
        self.is_watching_listing(mailbox.id).then(|| self.listing_subscribers.insert(mailbox))
    }

    pub(super) fn is_watching_listing(&self, id: u64) -> bool {
        self.listing_subscribers.contains(id)
    }

    /// Removes a subscriber of a resource. Returns whether it was one.
    pub(super) fn unwatch(&mut self, uri: &Uri, id: u64) -> bool {
        let Some(watched) = self.resources.get_mut(uri) else { return false };
        let left = watched.subscribers.remove(&id);
        if left.as_ref().is_some_and(|mailbox| mailbox.is_view()) {
            watched.views = watched.views.saturating_sub(1);
        }
        if watched.subscribers.is_empty() {
            self.resources.remove(uri);
        }
        left.is_some()
    }

    /// Removes a subscriber of the listing. Returns whether it was the last one with its principal.
    pub(super) fn unwatch_listing(&mut self, id: u64) -> bool {
        self.listing_subscribers.remove(id)
    }

    /// Recomputes the paths of resources below `mount`, which may have belonged to another mount before.
    pub(super) fn remount(&mut self, mount: &Mount) {
        for (uri, watched) in self.resources.range_mut::<str, _>(range_under(mount)) {
            let Some(path) = uri.as_str().strip_prefix(mount.as_str()) else { break };
            if let Ok(located) = mount.compose(path) {
                watched.path = located.path;
            }
        }
    }

    /// Visits the subscriptions of resources below `mount`, in the order of resources and subscribers, at most `limit`,
    /// from a subscriber of a resource on. Returns the subscription at which to continue, if there are more.
    pub(super) fn visit(
        &self,
        mount: &Mount,
        from: Option<&(Uri, u64)>,
        limit: usize,
        mut visitor: impl FnMut(&Uri, &Path, &Arc<Mailbox>),
    ) -> Option<(Uri, u64)> {
        let text = mount.as_str();
        let start = Bound::Included(from.map_or(text, |(uri, _)| uri.as_str()));
        let below = self.resources.range::<str, _>((start, Bound::Unbounded));
        let mut left = limit;
        for (uri, watched) in below.take_while(|(uri, _)| uri.as_str().starts_with(text)) {
            let first = from.filter(|(at, _)| at == uri).map_or(0, |(_, id)| *id);
            for (id, mailbox) in watched.subscribers.range(first..) {
                let Some(rest) = left.checked_sub(1) else { return Some((uri.clone(), *id)) };
                left = rest;
                visitor(uri, &watched.path, mailbox);
            }
        }
        None
    }

    /// Notifies the subscribers of a resource for which `concerns` returns true, starting at id `from`, until `budget`
    /// is exhausted. Returns the id at which to continue, if there are more.
    pub(super) fn notify(
        &self,
        uri: &Uri,
        from: u64,
        budget: &mut usize,
        concerns: impl Fn(&Mailbox) -> bool,
    ) -> Option<u64> {
        let (uri, watched) = self.resources.get_key_value(uri)?;
        for (id, mailbox) in watched.subscribers.range(from..) {
            if *budget == 0 {
                return Some(*id);
            }
            *budget = budget.saturating_sub(1);
            if concerns(mailbox) {
                mailbox.put_resource(uri);
            }
        }
        None
    }

    /// Returns the principals of at most `limit` subscribers of a resource from id `from` on, and the id at which to
    /// continue, if there are more.
    pub(super) fn principals(&self, uri: &Uri, from: u64, limit: usize) -> (Vec<Principal>, Option<u64>) {
        let Some(watched) = self.resources.get(uri) else { return (Vec::new(), None) };
        let mut subscribers = watched.subscribers.range(from..);
        let principals = subscribers.by_ref().take(limit).map(|(_, mailbox)| mailbox.principal()).collect();
        (principals, subscribers.next().map(|(id, _)| *id))
    }

    /// Returns the clients of those among the first `limit` subscribers of a resource that `is_counted` selects.
    pub(super) fn requesters(
        &self,
        uri: &Uri,
        limit: usize,
        is_counted: impl Fn(&Mailbox) -> bool,
    ) -> HashSet<Requester> {
        let subscribers = self.resources.get(uri).into_iter().flat_map(|watched| watched.subscribers.values());
        subscribers.take(limit).filter(|mailbox| is_counted(mailbox)).map(|mailbox| mailbox.requester()).collect()
    }

    /// Stores that a watcher has polled these resources. Ignores resources that are not watched.
    pub(super) fn set_polled(&mut self, resources: &[(Uri, Path)], watcher: u64) {
        for (uri, _) in resources {
            if let Some(watched) = self.resources.get_mut(uri) {
                watched.polled_by = Some(watcher);
            }
        }
    }

    /// Returns whether this watcher has polled a resource since it has been watched.
    pub(super) fn is_polled(&self, uri: &Uri, watcher: u64) -> bool {
        self.resources.get(uri).is_some_and(|watched| watched.polled_by == Some(watcher))
    }

    /// Returns the resources that are known to be listable.
    pub(super) fn directories(&self, uris: &[Uri]) -> HashSet<Uri> {
        let is_directory = |uri: &&Uri| self.resources.get(*uri).is_some_and(|watched| watched.directory.is_some());
        uris.iter().filter(is_directory).cloned().collect()
    }

    /// Returns whether the principal's view of a directory is known.
    pub(super) fn has_view(&self, uri: &Uri, principal: &Principal) -> bool {
        let views = self.resources.get(uri).and_then(|watched| watched.directory.as_ref());
        views.is_some_and(|views| views.contains_key(principal))
    }

    /// Stores the principal's view of a directory, unless a view is known or there are no subscribers any more.
    pub(super) fn add_view(&mut self, uri: &Uri, principal: &Principal, view: ListingFingerprint) {
        let Some(watched) = self.resources.get_mut(uri) else { return };
        let views = watched.directory.get_or_insert_default();
        // Evicts the entries of principals that have unsubscribed, so that there are at most as many entries as
        // subscribers.
        if views.len() > watched.subscribers.len() {
            let subscribed: HashSet<_> = watched.subscribers.values().map(|mailbox| mailbox.principal()).collect();
            views.retain(|principal, _| subscribed.contains(principal));
        }
        views.entry(principal.clone()).or_insert(view);
    }

    /// Drops the views of a directory of all other principals.
    pub(super) fn retain_views(&mut self, uri: &Uri, is_wanted: impl Fn(&Principal) -> bool) {
        let views = self.resources.get_mut(uri).and_then(|watched| watched.directory.as_mut());
        if let Some(views) = views {
            views.retain(|principal, _| is_wanted(principal));
        }
    }

    /// Replaces the principals' views of a directory; with `None` the resource is no longer a directory. Returns the
    /// former views.
    pub(super) fn replace_views(
        &mut self,
        uri: &Uri,
        views: Option<HashMap<Principal, ListingFingerprint>>,
    ) -> Option<HashMap<Principal, ListingFingerprint>> {
        let watched = self.resources.get_mut(uri)?;
        std::mem::replace(&mut watched.directory, views)
    }

    /// Returns the principals of all subscribers of the listing.
    pub(super) fn listing_principals(&mut self) -> HashSet<Principal> {
        self.listing_subscribers.principals()
    }

    /// Notifies this principal's subscribers of the listing, starting at id `from`, until `budget` is exhausted.
    /// Returns the id at which to continue, if there are more.
    pub(super) fn notify_listing(&mut self, principal: &Principal, from: u64, budget: &mut usize) -> Option<u64> {
        self.listing_subscribers.notify(principal, from, budget)
    }

    /// Visits the subscribers of the listing, at most `limit`, from an id on. Returns the id at which to continue, if
    /// there are more.
    pub(super) fn visit_listeners(&self, from: u64, limit: usize, visitor: impl FnMut(&Arc<Mailbox>)) -> Option<u64> {
        self.listing_subscribers.visit(from, limit, visitor)
    }

    /// Notifies the subscribers of the listing among these subscribers.
    pub(super) fn notify_listeners(&self, mailboxes: &[Arc<Mailbox>]) {
        self.listing_subscribers.notify_each(mailboxes);
    }

    fn under(&self, mount: &Mount, after: Option<&Uri>) -> impl Iterator<Item = (&Uri, &WatchedResource)> {
        let text = mount.as_str();
        let from = after.map_or(Bound::Included(text), |uri| Bound::Excluded(uri.as_str()));
        let watched = self.resources.range::<str, _>((from, Bound::Unbounded));
        watched.take_while(move |(uri, _)| uri.as_str().starts_with(text))
    }
}

fn range_under(mount: &Mount) -> (Bound<&str>, Bound<&str>) {
    (Bound::Included(mount.as_str()), Bound::Unbounded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugins_part_is_what_lies_below_its_mount() {
        let mount = |text: &str| text.parse::<Mount>().unwrap();
        let mailbox = Arc::new(Mailbox::new(1, Principal::LOCAL));
        let mut index = SubscriptionIndex::default();
        for (of, path) in [("a://x/", "1"), ("a://x/", "2?q"), ("a://y/", "1"), ("b:///", "")] {
            let located = mount(of).compose(path).unwrap();
            index.watch(&located.uri, &located.path, &mailbox, false);
        }
        let paths = |index: &SubscriptionIndex, of| {
            let paths = index.paths(&mount(of), None, 10);
            paths.iter().map(|(_, path)| path.as_str().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(paths(&index, "a://x/"), ["1", "2?q"]);
        assert_eq!(paths(&index, "b:///"), [""]);
        assert_eq!(paths(&index, "a://x/1/"), [""; 0]);
        assert!(!index.has_resources_under(&mount("c:///")));
        index.remount(&mount("a://"));
        assert_eq!(paths(&index, "a://"), ["x/1", "x/2?q", "y/1"]);
        index.unwatch(&mount("b:///").compose("").unwrap().uri, 1);
        assert!(!index.has_resources_under(&mount("b:///")));
    }

    #[test]
    fn a_visit_in_parts_sees_each_subscription_below_a_mount_once() {
        let mount: Mount = "a://x/".parse().unwrap();
        let mut index = SubscriptionIndex::default();
        for (of, path, ids) in [("a://x/", "1", 0..5), ("a://x/", "2", 3..4), ("a://y/", "1", 0..9)] {
            let located = of.parse::<Mount>().unwrap().compose(path).unwrap();
            ids.for_each(|id| index.watch(&located.uri, &located.path, &mailbox(id), false));
        }
        for limit in 1..8 {
            let (mut seen, mut from) = (Vec::new(), None);
            loop {
                let visit = |_: &Uri, path: &Path, one: &Arc<Mailbox>| seen.push((path.as_str().to_owned(), one.id));
                from = index.visit(&mount, from.as_ref(), limit, visit);
                if from.is_none() {
                    break;
                }
            }
            let expected = [("1", 0), ("1", 1), ("1", 2), ("1", 3), ("1", 4), ("2", 3)];
            assert_eq!(seen, expected.map(|(path, id)| (path.to_owned(), id)), "{limit}");
        }
    }

    fn mailbox(id: u64) -> Arc<Mailbox> {
        Arc::new(Mailbox::new(id, Principal::LOCAL))
    }

    #[test]
    fn views_are_no_subscribers() {
        let located = "a:///".parse::<Mount>().unwrap().compose("x").unwrap();
        let mailbox = |id, name| Arc::new(Mailbox::new(id, Principal::new(name)));
        let (view, one, other) = (mailbox(1, "viewed"), mailbox(2, "bob"), mailbox(3, "alice"));
        view.mark_as_view();
        let mut index = SubscriptionIndex::default();
        for mailbox in [&view, &one, &view, &other] {
            index.watch(&located.uri, &located.path, mailbox, false);
        }
        let watched = |index: &SubscriptionIndex| index.resources(None, 9).remove(0);
        let found = watched(&index);
        assert_eq!((found.subscribers, found.views, found.principals), (2, 1, vec!["alice".into(), "bob".into()]));
        index.unwatch(&located.uri, 1);
        index.unwatch(&located.uri, 2);
        let found = watched(&index);
        assert_eq!((found.subscribers, found.views, found.principals), (1, 0, vec!["alice".into()]));
    }
}
