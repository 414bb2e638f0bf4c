//! The host's subscriptions at an upstream: one for each watched resource, however many clients watch it.
//!
//! With sessions, there is one `resources/subscribe` for each resource. Without sessions, one stream
//! (`subscriptions/listen`) covers all resources. When a resource is added, a new stream is opened before the old one
//! is closed. After a stream or a connection was opened again, all watched resources are reported as changed once,
//! because updates in between are lost.
//!
//! Subscriptions are independent: a refused resource does not affect others. Requests run in tasks ([`requests`]), each
//! with the timeout `limits.deadline`. A call waits for the first attempts of new resources, for at most
//! [`Subscriptions::wait`]. A failed request is repeated with exponential back-off, in [slots](crate::slots) for
//! retries. When it succeeds, its resource is reported as changed once. If the upstream refuses the stream, each
//! resource that no open stream covers is tried in a stream of its own, and the next stream covers the accepted ones.
//! The old stream stays open meanwhile.
//!
//! The host requests the changes of its watched resources in groups, in turn. So a resource is unsubscribed from when
//! it was not requested for [`Subscriptions::idle`].

mod requests;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures::future::{Either, select};
use mcp_host_base::backoff::Backoff;
use mcp_host_base::log_target;
use mcp_host_base::text::Excerpt;
use mcp_host_base::throttle::ThrottlePerReason;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use self::requests::{Ended, Requests, Stream, Trouble};
use crate::connection::Link;
use crate::mapping::Mapping;
use crate::updates::Updates;

/// The minimum and the maximum pause before another stream, if the upstream ends streams.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(30));
/// The lifetime of a stream from which on its end resets the back-off.
const LASTING: Duration = Duration::from_secs(30);
/// The maximum time for which a call waits for first attempts.
const MAX_WAIT: Duration = Duration::from_secs(1);
/// The time between two lines of the log with the same reason.
const LOG_PERIOD: Duration = Duration::from_secs(60);

/// The subscriptions of one client.
pub(crate) struct Subscriptions {
    name: Arc<str>,
    updates: Arc<Updates>,
    requests: Requests,
    idle: Duration,
    wait: Duration,
    held: HashMap<String, Held>,
    /// The paths with a pending request to unsubscribe.
    leaving: HashSet<String>,
    /// The numbers of the connection and of the session that have the subscriptions.
    link: Option<(u64, u64)>,
    tasks: JoinSet<Ended>,
    /// The first attempts that the current call waits for: paths; `None` is the stream.
    awaited: HashSet<Option<String>>,
    stream: Option<Stream>,
    /// Whether a stream is being opened.
    is_opening: bool,
    backoff: Backoff,
    /// The time before which no stream is opened.
    not_before: Option<Instant>,
    log: ThrottlePerReason,
}

struct Held {
    spelling: String,
    asked_at: Instant,
    state: State,
    /// The delays between attempts.
    backoff: Backoff,
    /// Whether an update may have been lost since it is watched.
    is_missed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// There was no request yet.
    New,
    /// A request for this resource only is pending.
    Asking,
    /// A stream for this and other resources was refused, possibly because of this one.
    Suspect,
    /// The upstream accepted a stream for this resource only, which was closed again.
    Accepted,
    /// The upstream notifies of its changes.
    Held,
    /// The request failed, and is repeated at this time.
    Failed(Instant),
}

impl Subscriptions {
    pub(crate) fn new(
        name: Arc<str>,
        mapping: Arc<Mapping>,
        updates: Arc<Updates>,
        runtime: Handle,
        idle: Duration,
        deadline: Duration,
    ) -> Self {
        Self {
            requests: Requests::new(name.clone(), mapping, updates.clone(), runtime, deadline),
            name,
            updates,
            idle,
            wait: deadline.div_f64(4.0).min(MAX_WAIT),
            held: HashMap::new(),
            leaving: HashSet::new(),
            link: None,
            tasks: JoinSet::new(),
            awaited: HashSet::new(),
            stream: None,
            is_opening: false,
            backoff: Backoff::new(BACKOFF.0, BACKOFF.1),
            not_before: None,
            log: ThrottlePerReason::new(LOG_PERIOD),
        }
    }

    /// Returns whether there are neither subscriptions nor a stream.
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty() && self.stream.is_none()
    }

    /// Subscribes to these paths, each with the spelling of its URI. Unsubscribes from paths that were not requested
    /// for [`idle`](Self::idle).
    pub(crate) async fn hold(&mut self, link: &Arc<Link>, watched: Vec<(String, String)>) {
        let now = Instant::now();
        let has_gap = self.begin(link);
        self.updates.watch(watched.iter().map(|(path, _)| path.as_str()));
        for (path, spelling) in watched {
            let held = self.held.entry(path).or_insert_with(|| Held {
                spelling,
                asked_at: now,
                state: State::New,
                backoff: Backoff::default(),
                is_missed: false,
            });
            held.asked_at = now;
        }
        while let Some(ended) = self.tasks.try_join_next() {
            self.ended(ended.ok());
        }
        let given_up = self.give_up(now);
        if !link.is_stateless() {
            self.unsubscribe(link, given_up);
        }
        let until = now.checked_add(self.wait).unwrap_or(now);
        self.awaited.clear();
        self.start(link, until);
        let mut timer = std::pin::pin!(self.requests.timer(until));
        while !self.awaited.is_empty() {
            let ended = {
                let next = std::pin::pin!(self.tasks.join_next());
                match select(next, timer.as_mut()).await {
                    Either::Left((ended, _)) => ended.and_then(Result::ok),
                    Either::Right(_) => break,
                }
            };
            self.ended(ended);
            if link.is_stateless() {
                self.start(link, until);
            }
        }
        if link.is_stateless() && !self.awaited.is_empty() {
            // Accepted resources do not wait for the others.
            self.awaited.clear();
            self.open(link, until);
        }
        if has_gap && !link.is_stateless() {
            // A resource that is subscribed to later is reported as changed again.
            self.held.values_mut().for_each(|held| held.is_missed |= held.state != State::Held);
            self.updates.gap();
        }
    }

    /// Ends all subscriptions, because nothing is watched any more.
    pub(crate) fn release(&mut self, link: Option<&Arc<Link>>) {
        let given_up = self
            .held
            .drain()
            .map(|(path, held)| {
                self.updates.unwatch(&path);
                (path, held.spelling)
            })
            .collect();
        self.stream = None;
        if let Some(link) = link.filter(|link| !link.is_stateless() && self.link == Some(self.place(link))) {
            self.unsubscribe(link, given_up);
        }
    }

    fn place(&self, link: &Link) -> (u64, u64) {
        (link.id, self.updates.sessions())
    }

    /// Starts over if the connection or its session has changed. Returns whether updates may have been lost.
    fn begin(&mut self, link: &Link) -> bool {
        let place = self.place(link);
        if self.link == Some(place) {
            return false;
        }
        let has_gap = self.link.is_some() && !self.is_empty();
        if self.link.is_some() && !has_gap {
            // There were no subscriptions, but a session notifies of the listing without one.
            self.updates.listing_changed();
        }
        self.link = Some(place);
        (self.stream, self.is_opening) = (None, false);
        self.tasks = JoinSet::new();
        self.leaving.clear();
        self.held.values_mut().for_each(|held| held.state = State::New);
        if has_gap && link.is_stateless() {
            self.not_before = Some(Instant::now());
        }
        has_gap
    }

    /// Removes the paths that were not requested for [`idle`](Self::idle), and returns them with their spellings.
    fn give_up(&mut self, now: Instant) -> Vec<(String, String)> {
        let (idle, updates, mut given_up) = (self.idle, &self.updates, Vec::new());
        self.held.retain(|path, held| {
            let is_asked = now.saturating_duration_since(held.asked_at) < idle || held.state == State::Asking;
            if !is_asked {
                updates.unwatch(path);
                if held.state != State::New {
                    given_up.push((path.clone(), std::mem::take(&mut held.spelling)));
                }
            }
            is_asked
        });
        given_up
    }

    fn unsubscribe(&mut self, link: &Arc<Link>, given_up: Vec<(String, String)>) {
        for (path, spelling) in given_up {
            self.leaving.insert(path.clone());
            self.requests.unsubscribe(&mut self.tasks, link, path, spelling);
        }
    }

    /// Starts the requests that are due. The call waits for them until `until`.
    fn start(&mut self, link: &Arc<Link>, until: Instant) {
        if link.is_stateless() {
            self.open(link, until);
        }
        if !link.can_subscribe() {
            return;
        }
        let now = Instant::now();
        for (path, held) in &mut self.held {
            let is_again = match held.state {
                State::New if link.is_stateless() => continue,
                State::New | State::Suspect => false,
                State::Failed(at) if at <= now => true,
                _ => continue,
            };
            if self.leaving.contains(path) {
                held.is_missed = true;
                continue;
            }
            held.state = State::Asking;
            let until = if is_again { None } else { Some(until) };
            if !is_again {
                self.awaited.insert(Some(path.clone()));
            }
            self.requests.subscribe(&mut self.tasks, link, path.clone(), held.spelling.clone(), until);
        }
    }

    /// Opens a stream for all resources, unless the open stream covers them.
    fn open(&mut self, link: &Arc<Link>, until: Instant) {
        let now = Instant::now();
        let ended = self.stream.take_if(|stream| stream.has_ended.load(Ordering::Acquire));
        if let Some(ended) = &ended {
            if now.saturating_duration_since(ended.began) > LASTING {
                self.backoff = Backoff::new(BACKOFF.0, BACKOFF.1);
            }
            self.not_before = now.checked_add(self.backoff.next_delay());
        }
        let is_wanted = |held: &Held| matches!(held.state, State::New | State::Accepted | State::Held);
        let is_complete =
            self.stream.is_some() && self.held.values().all(|held| !is_wanted(held) || held.state == State::Held);
        let paths: Vec<_> = self.held.iter().filter(|(_, held)| link.can_subscribe() && is_wanted(held)).collect();
        let has_use = link.notifies_of_listing() || !paths.is_empty();
        // Resources that are tried separately join the stream once they are accepted.
        let is_trying = self.held.values().any(|held| matches!(held.state, State::Suspect));
        if is_complete || !has_use || self.is_opening || is_trying || !self.awaited.is_empty() {
            return;
        }
        if self.not_before.is_some_and(|at| at > now) {
            return;
        }
        let paths = paths.into_iter().map(|(path, held)| (path.clone(), held.spelling.clone())).collect();
        self.is_opening = true;
        self.awaited.insert(None);
        self.requests.open(&mut self.tasks, link, paths, until);
    }

    /// Records the result of a request; none if its task was cancelled.
    fn ended(&mut self, ended: Option<Ended>) {
        let now = Instant::now();
        let Some(ended) = ended else {
            self.awaited.clear();
            return;
        };
        self.awaited.remove(&ended.key());
        match ended {
            Ended::Subscribed { path, answer, is_stream } => {
                let Some(held) = self.held.get_mut(&path) else { return };
                match answer {
                    Ok(()) if is_stream => (held.state, held.backoff) = (State::Accepted, Backoff::default()),
                    Ok(()) => {
                        (held.state, held.backoff) = (State::Held, Backoff::default());
                        if std::mem::take(&mut held.is_missed) {
                            self.updates.changed(&path);
                        }
                    }
                    Err(trouble) => {
                        held.fail(now);
                        self.warn(&path, &trouble);
                    }
                }
            }
            Ended::Unsubscribed { path } => drop(self.leaving.remove(&path)),
            Ended::Opened { paths, answer: Ok(stream) } => {
                self.is_opening = false;
                // The old stream has been open until now, so no update was lost.
                let is_gap = self.stream.is_none() && self.not_before.is_some();
                self.stream = Some(stream);
                for path in paths {
                    let Some(held) = self.held.get_mut(&path) else { continue };
                    held.state = State::Held;
                    if std::mem::take(&mut held.is_missed) {
                        self.updates.changed(&path);
                    }
                }
                if is_gap {
                    self.updates.gap();
                }
            }
            Ended::Opened { paths, answer: Err(trouble) } => {
                self.is_opening = false;
                self.refused(&paths, &trouble, now);
            }
        }
    }

    /// Handles a refused stream.
    fn refused(&mut self, paths: &[String], trouble: &Trouble, now: Instant) {
        let is_covered = self.stream.as_ref().is_some_and(|stream| !stream.has_ended.load(Ordering::Acquire));
        let is_at_fault = |held: &Held| !(is_covered && held.state == State::Held);
        let at_fault: Vec<_> =
            paths.iter().filter(|path| self.held.get(path.as_str()).is_some_and(is_at_fault)).collect();
        // Resources that are accepted separately but not together must not cause another attempt immediately.
        let is_new = |path: &&String| self.held.get(path.as_str()).is_some_and(|held| held.state != State::Accepted);
        let delay = if at_fault.iter().any(is_new) { Duration::ZERO } else { self.backoff.next_delay() };
        self.not_before = now.checked_add(delay);
        let is_alone = at_fault.len() == 1 && paths.len() == 1;
        for path in at_fault {
            if let Some(held) = self.held.get_mut(path.as_str()) {
                if is_alone { held.fail(now) } else { held.state = State::Suspect }
            }
        }
        if is_alone || paths.is_empty() {
            self.warn(paths.first().map_or("", String::as_str), trouble);
        }
    }

    fn warn(&self, path: &str, trouble: &Trouble) {
        if let Some(more) = self.log.record(trouble.reason) {
            let path = Excerpt(path).to_string();
            tracing::warn!(
                target: log_target::WATCH, plugin = &*self.name, path, error = trouble.text, more,
                "a resource of the upstream cannot be subscribed to, which is tried again"
            );
        }
    }
}

impl Held {
    fn fail(&mut self, now: Instant) {
        let at = now.checked_add(self.backoff.next_delay()).unwrap_or(now);
        (self.state, self.is_missed) = (State::Failed(at), true);
    }
}
