//! Change detection.
//!
//! A saved query has changed when its series or their values at its latest step differ from those at the step before;
//! alerts, rules and targets when one appears, disappears or changes its state. The token has for each watched path a
//! hash of that and the time of the next check, so that a path is looked at once a step. One call sends at most
//! [`MAX_REQUESTS`] requests, for those that are overdue longest. A server that fails changes nothing.

use crate::api::Client;
use crate::query::Query;
use crate::route::Route;
use crate::state::State;
use crate::window::millis;
use mcp_provider::{Changes, Failure, Result};
use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::time::{Duration, SystemTime};

/// The maximum number of requests of one call.
const MAX_REQUESTS: usize = 8;
/// The delay before the next call if some paths are still overdue.
const NEXT_ROUND: Duration = Duration::from_secs(5);
const MIN_DELAY: Duration = Duration::from_secs(1);

/// The state of a path that was not looked at yet.
const UNKNOWN: u64 = 0;
/// The state of a path that the server refuses.
const REFUSED: u64 = 1;

/// What the token says of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Watch {
    /// The hash of its state.
    state: u64,
    /// The time of the next check, in milliseconds since 1970.
    next: i64,
}

/// The token: by the hash of each path.
type Token = BTreeMap<u64, Watch>;

/// Returns what changed since a token.
pub(crate) fn changes(client: &Client<'_>, watched: &[String], since: Option<&str>, now: SystemTime) -> Changes {
    let then: Option<Token> = since.map(|since| serde_json::from_str(since).unwrap_or_default());
    let of_then = |path: &str| then.as_ref().and_then(|then| then.get(&hash(path)).copied());
    let mut token: Token = BTreeMap::new();
    let mut due = Vec::new();
    for path in watched {
        let Some(target) = Target::parse(client, path) else { continue };
        let watch = of_then(path).unwrap_or(Watch { state: UNKNOWN, next: 0 });
        if watch.next <= millis(now) {
            due.push((watch.next, path, target));
        }
        token.insert(hash(path), watch);
    }
    due.sort_by_key(|(next, ..)| *next);
    let is_over = due.len() <= MAX_REQUESTS;
    for (_, path, target) in due.into_iter().take(MAX_REQUESTS) {
        if let Some(watch) = token.get_mut(&hash(path)) {
            *watch = target.check(client, *watch, now);
        }
    }
    let next = token.values().map(|watch| watch.next.saturating_sub(millis(now))).filter(|wait| *wait > 0).min();
    let wait = next.map_or(client.settings.refresh, |wait| Duration::from_millis(wait.unsigned_abs()));
    let changed = watched.iter().filter(|path| {
        let state = token.get(&hash(*path)).map(|watch| watch.state);
        then.is_some() && of_then(path).map(|watch| watch.state) != state
    });
    let mut changes = Changes::none(serde_json::to_string(&token).unwrap_or_default());
    changes.changed.extend(changed.cloned());
    changes.poll_after((if is_over { wait } else { wait.min(NEXT_ROUND) }).max(MIN_DELAY))
}

/// What is watched.
enum Target<'a> {
    State(State),
    Query(Query<'a>),
}

impl<'a> Target<'a> {
    fn parse(client: &Client<'a>, path: &str) -> Option<Self> {
        match Route::parse(path).ok()? {
            Route::Alerts => Some(Self::State(State::Alerts)),
            Route::Rules => Some(Self::State(State::Rules)),
            Route::Targets => Some(Self::State(State::Targets)),
            Route::Saved(name) => client.settings.queries.get(&name).map(|saved| Self::Query(Query::saved(saved))),
            _ => None,
        }
    }

    fn check(&self, client: &Client<'_>, before: Watch, now: SystemTime) -> Watch {
        let (state, freshness) = match self {
            Self::State(state) => (state.summary(client), Ok(client.settings.refresh)),
            Self::Query(query) => {
                let freshness = query.freshness(client, now);
                let step = freshness.as_ref().map_or(client.settings.refresh, |step| *step);
                // The latest step of a range query, so that each is compared with the one before.
                let since_step = millis(now).checked_rem(duration_millis(step)).unwrap_or_default();
                (query.values_at(client, millis(now).saturating_sub(since_step)), freshness)
            }
        };
        let step = duration_millis(freshness.unwrap_or(client.settings.refresh)).max(1);
        let since_step = millis(now).checked_rem(step).unwrap_or_default();
        let next = millis(now).saturating_sub(since_step).saturating_add(step);
        Watch { state: hash_of(state).unwrap_or(before.state), next }
    }
}

/// Returns the hash of a state; `None` if the server fails.
fn hash_of(state: Result<impl Hash>) -> Option<u64> {
    match state {
        Ok(state) => Some(hash(&state)),
        Err(Failure::InvalidRequest(_) | Failure::Denied(_) | Failure::NotFound) => Some(REFUSED),
        Err(_) => None,
    }
}

fn duration_millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn hash(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = SipHasher::new();
    value.hash(&mut hasher);
    // Not one of the states with a meaning of their own.
    hasher.finish().max(REFUSED.saturating_add(1))
}
