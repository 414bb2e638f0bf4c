//! Pending and permitted updates of one subscriber.

use std::collections::BTreeMap;

use mcp_resource_host::Update;

use super::fixture::{Denied, PLUGINS, file_of};

/// Pending and permitted updates of one subscriber.
pub(super) struct Expectations {
    principal: &'static str,
    /// The subscribed resources, and whether each changed since the last update.
    pub(super) subscribed: BTreeMap<String, bool>,
    /// Whether its listing changed since the last update.
    is_listing_pending: bool,
    /// The number of changes of its listing since it connected, and the number of updates about them.
    listing_counts: (usize, usize),
    /// Rules that may have been in effect since the subscriber last read everything.
    rules: Vec<Denied>,
    /// Whether the subscriber currently does not read its updates.
    pub(super) is_slow: bool,
}

impl Expectations {
    /// Creates a subscriber that connects while these rules may be in effect, and may get `in_doubt` updates about
    /// earlier changes of listings.
    pub(super) fn new(principal: &'static str, rules: &[Denied], in_doubt: usize) -> Self {
        let listings = (in_doubt, 0);
        let (subscribed, rules) = (BTreeMap::new(), rules.to_vec());
        Self { principal, subscribed, is_listing_pending: false, listing_counts: listings, rules, is_slow: false }
    }

    /// Returns whether the subscriber may see the file under one of the rules.
    fn may_see(&self, rules: &[Denied], file: &str) -> bool {
        rules.iter().any(|denied| !denied.iter().any(|(principal, what)| (*principal, *what) == (self.principal, file)))
    }

    /// Records a subscription while these rules may have been in effect.
    pub(super) fn record_subscribed(&mut self, uri: String, rules: &[Denied]) -> Result<(), String> {
        if !self.may_see(rules, file_of(&uri)) {
            return Err(format!("it subscribed to {uri}, which it may not read"));
        }
        self.subscribed.entry(uri).or_insert(false);
        Ok(())
    }

    /// Records that a file changed, and the listing of each plugin `times` times.
    pub(super) fn record_change(&mut self, file: &str, times: usize, rules: &[Denied]) {
        self.subscribed.iter_mut().filter(|(uri, _)| file_of(uri) == file).for_each(|(_, owed)| *owed = true);
        if self.may_see(rules, file) {
            self.listing_counts.0 += times * PLUGINS.len();
        }
        // An update is pending only if the change was visible under all rules.
        self.is_listing_pending |= rules.iter().all(|denied| self.may_see(std::slice::from_ref(denied), file));
    }

    /// Records that plugins or rules are replaced. The effect on the listing may be notified, or reverted before.
    pub(super) fn record_reload(&mut self, next: &Denied) {
        self.listing_counts.0 += PLUGINS.len();
        self.rules.push(next.clone());
    }

    /// Records that updates may be repeated; for the listing, one.
    pub(super) fn record_disturbance(&mut self) {
        self.listing_counts.0 += 1;
    }

    /// Records an update. It must be about a subscribed resource that may be read, which is then no longer pending.
    pub(super) fn record_update(&mut self, update: &Update) -> Result<(), String> {
        let Update::Resource(uri) = update else {
            self.is_listing_pending = false;
            self.listing_counts.1 += 1;
            return Ok(());
        };
        if !self.may_see(&self.rules, file_of(uri)) {
            return Err(format!("it is told of {uri}, which it may not read"));
        }
        match self.subscribed.get_mut(uri) {
            Some(owed) => *owed = false,
            None => return Err(format!("it is told of {uri}, which it is not subscribed to")),
        }
        Ok(())
    }

    /// Checks the number of updates about the listing, in a run without faults.
    pub(super) fn check_listings(&self) -> Result<(), String> {
        let (changed, told) = self.listing_counts;
        if told > changed {
            return Err(format!(
                "it is told {told} times that the listing changed, which can have changed {changed} times"
            ));
        }
        Ok(())
    }

    /// Records that everything sent was read. From now on, only these rules may be in effect.
    pub(super) fn record_read(&mut self, rules: &[Denied]) {
        self.rules = rules.to_vec();
    }

    /// Returns whether an update is pending.
    pub(super) fn is_pending(&self, with_listing: bool) -> bool {
        (with_listing && self.is_listing_pending) || self.subscribed.values().any(|owed| *owed)
    }
}

impl std::fmt::Display for Expectations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "owed {:?}, the listing {}", self.subscribed, self.is_listing_pending)
    }
}
