//! Change detection: watched pages are revalidated when their freshness ends. A page without a freshness lifetime is
//! revalidated at the interval `check-seconds`.
//!
//! The token contains the state of each page and the time of its next check, so a round before that time sends no
//! request, and the end of an instance loses no state. A page has changed if its content differs or it no longer
//! exists; a failure of an origin is not a change. A round sends at most [`MAX_REQUESTS`] requests, for the pages that
//! are overdue longest; the other pages follow in the next round.

mod token;

use crate::HttpCache;
use crate::address::Address;
use crate::cache::{Want, entries};
use crate::clock::millis;
use crate::listing::stored_and_seed_paths;
use mcp_provider::{Changes, Failure, Retry};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};
use token::{MAX_WATCHED, Token, Watch, Watched, hash};

/// The approximate maximum number of requests per round.
const MAX_REQUESTS: usize = 8;
/// The delay before the next round if this one is incomplete.
const NEXT_ROUND_DELAY: Duration = Duration::from_secs(10);
/// The check interval of the listing.
const LISTING_INTERVAL: Duration = Duration::from_secs(5);
const MIN_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The state of a page that was not checked yet.
const UNKNOWN: u64 = 0;
/// The state of a page that does not exist.
const GONE: u64 = 1;
/// The state of a page to which access is denied.
const DENIED: u64 = 2;

/// Returns what changed since a token.
pub(crate) fn changes(provider: &HttpCache, watched: &[String], since: Option<&str>) -> Changes {
    let then = since.map(Token::parse);
    let paths: BTreeSet<&str> = watched.iter().map(String::as_str).collect();
    let round = ValidationRound::new(provider);
    let (watched_now, pause) = if paths.len() <= MAX_WATCHED {
        let then = match then.as_ref().and_then(Option::as_ref).map(|token| &token.watched) {
            Some(Watched::Each(then)) => then.clone(),
            _ => BTreeMap::new(),
        };
        let (each, pause) = round.validate_each(&paths, &then);
        (Watched::Each(each), pause)
    } else {
        let then = match then.as_ref().and_then(Option::as_ref).map(|token| &token.watched) {
            Some(Watched::Together(then)) => Some(*then),
            _ => None,
        };
        let (all, pause) = round.validate_together(&paths, then);
        (Watched::Together(all), pause)
    };
    let now = Token { listing: listing_state(provider), watched: watched_now };
    let mut changes = match then {
        None => Changes::none(now.to_string()),
        Some(None) => Changes::all(now.to_string(), watched),
        Some(Some(then)) => {
            let mut changes = Changes::none(now.to_string());
            changes.listing_changed = then.listing != now.listing;
            let same = |path: &String| match (&then.watched, &now.watched) {
                (Watched::Each(then), Watched::Each(now)) => {
                    let number = hash([path]);
                    then.get(&number).map(|watch| watch.state) == now.get(&number).map(|watch| watch.state)
                }
                (Watched::Together(then), Watched::Together(now)) => then.state == now.state,
                _ => false,
            };
            changes.changed.extend(watched.iter().filter(|path| !same(path)).cloned());
            changes
        }
    };
    changes.poll_after = Some(pause.min(LISTING_INTERVAL).max(MIN_POLL_INTERVAL));
    changes
}

/// One round over the watched pages.
struct ValidationRound<'a> {
    provider: &'a HttpCache,
    started: SystemTime,
    deadline: SystemTime,
}

impl<'a> ValidationRound<'a> {
    fn new(provider: &'a HttpCache) -> Self {
        Self { provider, started: provider.cache.now(), deadline: provider.cache.deadline() }
    }

    /// Returns the state of each page, and the delay until the next check is due.
    fn validate_each(&self, paths: &BTreeSet<&str>, then: &BTreeMap<u64, Watch>) -> (BTreeMap<u64, Watch>, Duration) {
        let now = seconds(self.started);
        let mut each: BTreeMap<u64, Watch> = BTreeMap::new();
        let mut due: Vec<(u64, &str)> = Vec::new();
        for path in paths {
            let number = hash([path]);
            let watch = then.get(&number).copied().unwrap_or(Watch { state: UNKNOWN, next_check: 0 });
            if watch.next_check <= now {
                due.push((watch.next_check, path));
            }
            each.insert(number, watch);
        }
        due.sort_unstable();
        let mut is_over = true;
        for (_, path) in due {
            let number = hash([path]);
            let before = each.get(&number).map_or(UNKNOWN, |watch| watch.state);
            match self.check_page(path, before) {
                Some(watch) => drop(each.insert(number, watch)),
                None => is_over = false,
            }
        }
        let waiting = each.values().map(|watch| watch.next_check).filter(|next| *next > now).min();
        let pause = waiting.map_or(LISTING_INTERVAL, |next| Duration::from_secs(next.saturating_sub(now)));
        (each, if is_over { pause } else { pause.min(NEXT_ROUND_DELAY) })
    }

    /// Revalidates stored pages that are due, and returns the combined state of all pages, from the store.
    fn validate_together(&self, paths: &BTreeSet<&str>, then: Option<Watch>) -> (Watch, Duration) {
        let HttpCache { cache, settings } = self.provider;
        let now = seconds(self.started);
        let addresses: Vec<Address> =
            paths.iter().filter_map(|path| Address::from_resource_path(path, &settings.plain).ok()).collect();
        if then.is_none_or(|then| then.next_check <= now) {
            let mut stored: Vec<_> =
                addresses.iter().filter_map(|address| Some((cache.cached_head(address)?, address))).collect();
            stored.retain(|(head, _)| head.response.ttl(self.started).is_zero());
            stored.sort_by_key(|(head, _)| head.received());
            for (_, address) in stored {
                if self.has_budget() {
                    // The store contains the result.
                    drop(cache.fetch(address, Want::Body, self.deadline));
                }
            }
        }
        let states = addresses
            .iter()
            .map(|address| cache.cached_head(address).and_then(|head| head.content).map(|content| content.digest));
        let state = hash(states.map(Option::unwrap_or_default));
        let next = then.map(|then| then.next_check).filter(|next| *next > now);
        let next = next.unwrap_or_else(|| now.saturating_add(NEXT_ROUND_DELAY.as_secs()));
        (Watch { state, next_check: next }, NEXT_ROUND_DELAY)
    }

    /// Returns the state of a due page; `None` if this round's budget is used up.
    fn check_page(&self, path: &str, before: u64) -> Option<Watch> {
        let HttpCache { cache, settings } = self.provider;
        let Ok(address) = Address::from_resource_path(path, &settings.plain) else {
            return Some(Watch { state: GONE, next_check: u64::from(u32::MAX) });
        };
        if !self.has_budget() {
            return None;
        }
        let (state, wait) = match cache.fetch(&address, Want::Body, self.deadline) {
            Ok(page) => (hash([&page.content.digest]), page.ttl),
            Err(Failure::NotFound) => (GONE, Duration::ZERO),
            Err(Failure::Denied(_)) => (DENIED, Duration::ZERO),
            Err(Failure::Unavailable(Retry { after: Some(after), .. })) => (before, after),
            Err(_) => (before, Duration::ZERO),
        };
        Some(Watch {
            state,
            next_check: seconds(self.started).saturating_add(check_delay(wait, settings.check_interval)),
        })
    }

    fn has_budget(&self) -> bool {
        self.provider.cache.requests() < MAX_REQUESTS && self.provider.cache.now() < self.deadline
    }
}

/// Returns the delay until the next check, in seconds: `wait`, the remaining freshness or back-off of the page, or
/// `interval` if `wait` is zero.
fn check_delay(wait: Duration, interval: Duration) -> u64 {
    if wait.is_zero() { interval.as_secs() } else { wait.as_millis().div_ceil(1000).try_into().unwrap_or(u64::MAX) }
}

/// Returns the state of the listing: its paths, and the stored heads of the sitemaps.
fn listing_state(provider: &HttpCache) -> u64 {
    let HttpCache { cache, settings } = provider;
    let sitemaps: Vec<String> = settings.sitemaps.iter().map(Address::path).collect();
    let sitemaps: Vec<&str> = sitemaps.iter().map(String::as_str).collect();
    let sitemaps = entries::heads(cache.store(), &sitemaps).into_iter();
    let digests =
        sitemaps.map(|head| head.and_then(|head| head.content).map(|content| content.digest).unwrap_or_default());
    hash(stored_and_seed_paths(provider).into_iter().chain(digests))
}

fn seconds(time: SystemTime) -> u64 {
    millis(time) / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_for_pages_without_a_lifetime_of_their_own() {
        let delay = |millis| check_delay(Duration::from_millis(millis), Duration::from_secs(60));
        assert_eq!([0, 1, 1000, 10_500, 3_600_000].map(delay), [60, 1, 1, 11, 3600]);
    }
}
