//! What is owed to one subscriber, and what it may be told.

use std::collections::BTreeMap;

use mcp_resource_host::Update;

use super::fixture::{Denied, PLUGINS, file_of};

/// What is owed to one subscriber, and what it may be told.
pub(super) struct Expectations {
    principal: &'static str,
    /// What it subscribed to, and whether it changed since it was last told.
    pub(super) subscribed: BTreeMap<String, bool>,
    /// Whether what it would list changed since it was last told.
    is_listing_pending: bool,
    /// How often that may have been another one since it came, and how often it was told so.
    listing_counts: (usize, usize),
    /// Rules that may have been in force since all that was sent to it was read.
    rules: Vec<Denied>,
    /// It does not read what it is told for now.
    pub(super) is_slow: bool,
}

impl Expectations {
    /// One who comes when those rules may be in force, and may be told so often of listings that changed shortly before.
    pub(super) fn new(principal: &'static str, rules: &[Denied], in_doubt: usize) -> Self {
        let listings = (in_doubt, 0);
        let (subscribed, rules) = (BTreeMap::new(), rules.to_vec());
        Self { principal, subscribed, is_listing_pending: false, listing_counts: listings, rules, is_slow: false }
    }

    /// It may see the file by one of those rules.
    fn may_see(&self, rules: &[Denied], file: &str) -> bool {
        rules.iter().any(|denied| !denied.iter().any(|(principal, what)| (*principal, *what) == (self.principal, file)))
    }

    /// It subscribed, while those rules may have been in force.
    pub(super) fn record_subscribed(&mut self, uri: String, rules: &[Denied]) -> Result<(), String> {
        if !self.may_see(rules, file_of(&uri)) {
            return Err(format!("it subscribed to {uri}, which it may not read"));
        }
        self.subscribed.entry(uri).or_insert(false);
        Ok(())
    }

    /// A file changed, and so did, so many times of each plugin, what is listed.
    pub(super) fn record_change(&mut self, file: &str, times: usize, rules: &[Denied]) {
        self.subscribed.iter_mut().filter(|(uri, _)| file_of(uri) == file).for_each(|(_, owed)| *owed = true);
        if self.may_see(rules, file) {
            self.listing_counts.0 += times * PLUGINS.len();
        }
        // It is owed only if it cannot have been changed behind rules.
        self.is_listing_pending |= rules.iter().all(|denied| self.may_see(std::slice::from_ref(denied), file));
    }

    /// Plugins or rules go over to others. What that changes of the listing may be told, but may be changed back in time.
    pub(super) fn record_reload(&mut self, next: &Denied) {
        self.listing_counts.0 += PLUGINS.len();
        self.rules.push(next.clone());
    }

    /// What it is told is of something that is subscribed to and may be read, and is not owed any more.
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

    /// How often it was told of the listing is accounted for, where nothing fails.
    pub(super) fn check_listings(&self) -> Result<(), String> {
        let (changed, told) = self.listing_counts;
        if told > changed {
            return Err(format!(
                "it is told {told} times that the listing changed, which can have changed {changed} times"
            ));
        }
        Ok(())
    }

    /// It has read all that was sent; from now on only those rules may be in force.
    pub(super) fn record_read(&mut self, rules: &[Denied]) {
        self.rules = rules.to_vec();
    }

    /// Whether it has to be told something yet.
    pub(super) fn is_pending(&self, with_listing: bool) -> bool {
        (with_listing && self.is_listing_pending) || self.subscribed.values().any(|owed| *owed)
    }
}

impl std::fmt::Display for Expectations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "owed {:?}, the listing {}", self.subscribed, self.is_listing_pending)
    }
}
