//! What changed: watched pages are fetched again, each when its freshness is over and no sooner.
//!
//! The token knows of each page the state that it was in and when it makes sense to ask again, so a round between two such
//! times asks nobody, and nothing is lost with an instance. A page has changed when its content is not what it was, or when it
//! is no longer to be had; an origin that fails changes nothing. A round sends at most [`MAX_REQUESTS`] requests, those
//! first that are due for longest; the rest follows in the next.

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

/// How many requests one round sends, about.
const MAX_REQUESTS: usize = 8;
/// When the next round begins where this one left something over.
const NEXT_ROUND_DELAY: Duration = Duration::from_secs(10);
/// How often the listing is looked at.
const LISTING_INTERVAL: Duration = Duration::from_secs(5);
const MIN_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The state of a page of which nothing is known yet.
const UNKNOWN: u64 = 0;
/// The state of a page that is not there.
const GONE: u64 = 1;
/// The state of a page that is refused.
const DENIED: u64 = 2;

/// Tells what changed since a token.
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

/// One round over what is watched.
struct ValidationRound<'a> {
    provider: &'a HttpCache,
    started: SystemTime,
    deadline: SystemTime,
}

impl<'a> ValidationRound<'a> {
    fn new(provider: &'a HttpCache) -> Self {
        Self { provider, started: provider.cache.now(), deadline: provider.cache.deadline() }
    }

    /// The state of each page, and how long it is until one of them is due.
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

    /// The state of all pages together, of those that are kept.
    fn validate_together(&self, paths: &BTreeSet<&str>, then: Option<Watch>) -> (Watch, Duration) {
        let HttpCache { cache, settings } = self.provider;
        let now = seconds(self.started);
        let addresses: Vec<Address> =
            paths.iter().filter_map(|path| Address::from_resource_path(path, &settings.plain).ok()).collect();
        if then.is_none_or(|then| then.next_check <= now) {
            let mut kept: Vec<_> =
                addresses.iter().filter_map(|address| Some((cache.cached_head(address)?, address))).collect();
            kept.retain(|(head, _)| head.response.ttl(self.started).is_zero());
            kept.sort_by_key(|(head, _)| head.received());
            for (_, address) in kept {
                if self.has_budget() {
                    // What comes of it is in the store.
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

    /// The state of a page that is due; none if this round does no more.
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
            next_check: seconds(self.started).saturating_add(wait.max(settings.check_interval).as_secs()),
        })
    }

    fn has_budget(&self) -> bool {
        self.provider.cache.requests() < MAX_REQUESTS && self.provider.cache.now() < self.deadline
    }
}

/// The state of the listing: what is on it, and what is kept of the sitemaps.
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
