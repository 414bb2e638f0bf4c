//! Change detection.
//!
//! A saved query has changed when its series or their values at the latest step differ from the previous step. Alerts,
//! rules and targets have changed when one of them appears, disappears or changes its state. The token contains a hash
//! of each watched path's state and the time of its next check, so a path is checked once per step. One call sends at
//! most [`MAX_REQUESTS`] requests, for the paths that are overdue longest. A failure of the server is not a change.

use crate::api::Client;
use crate::query::Query;
use crate::route::Route;
use crate::state::State;
use crate::window::{align, millis};
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

/// The state of a path that was not checked yet.
const UNKNOWN: u64 = 0;
/// The state of a path that the server rejects.
const REFUSED: u64 = 1;

/// The state of a path in the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Watch {
    /// The hash of the state.
    state: u64,
    /// The time of the next check, in milliseconds since 1970.
    next: i64,
}

/// The token: the states of paths, by the hash of the path.
type Token = BTreeMap<u64, Watch>;

/// Returns what changed since a token.
pub(crate) fn changes(client: &Client<'_>, watched: &[String], since: Option<&str>, now: SystemTime) -> Changes {
    let then: Option<Token> = since.and_then(|since| serde_json::from_str(since).ok());
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
    let now_token = serde_json::to_string(&token).unwrap_or_default();
    let changes = match &then {
        Some(_) => {
            let is_changed = |path: &&String| {
                let state = token.get(&hash(*path)).map(|watch| watch.state);
                of_then(path).map(|watch| watch.state) != state
            };
            let mut changes = Changes::none(now_token);
            changes.changed.extend(watched.iter().filter(is_changed).cloned());
            changes
        }
        None if since.is_some() => Changes::all(now_token, watched),
        None => Changes::none(now_token),
    };
    changes.poll_after((if is_over { wait } else { wait.min(NEXT_ROUND) }).max(MIN_DELAY))
}

/// The target of a watched path.
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
        let refresh = client.settings.refresh;
        let (state, step) = match self {
            Self::State(state) => (state.summary(client), refresh),
            Self::Query(query) => {
                let step = query.freshness(client, now).unwrap_or(refresh);
                (query.values_at(client, align(now, step)), step)
            }
        };
        let next = align(now, step).saturating_add(i64::try_from(step.as_millis()).unwrap_or(i64::MAX));
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

fn hash(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = SipHasher::new();
    value.hash(&mut hasher);
    // The result must differ from the states with a special meaning.
    hasher.finish().max(REFUSED.saturating_add(1))
}
