//! The calls of a poll in the simulation: the poll is a future that the scheduler resumes when the provider has
//! answered.

use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use mcp_host_model::resource::WatchedChanges;
use mcp_host_model::uri::{Mount, Path, Uri};
use tokio::time::Instant;

use super::provider::Answer;
use crate::member::{Found, SharedPoll, Time};
use crate::poll::{Caller, Polled, Polls};

/// The moment of time 0 on all clocks.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);
pub(super) static MOUNT: LazyLock<Mount> = LazyLock::new(|| "a://x/".parse().unwrap());

/// Returns the moment of a time on a clock.
pub(super) fn moment(time: Time) -> Instant {
    *START + time
}

/// The state of the polls of one replica, for one shard.
pub(super) type SimulatedPolls = Box<Polls<u8, ()>>;

/// A call of the provider.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) paths: Vec<u32>,
    pub(super) token: Option<String>,
}

/// What a poll does to subscribers.
#[derive(Debug)]
pub(super) enum Effect {
    Told(Vec<u32>),
    Everything,
    Listing,
}

/// The end of a poll.
pub(super) enum Done {
    /// Of a replica's own paths: those that were not served; none if the provider has failed.
    Own(Option<BTreeSet<u32>>),
    /// For all replicas: what was found, and whether the provider has answered.
    Shared(Found, bool),
}

/// What the scheduler and the future exchange.
#[derive(Debug, Default)]
struct Exchange {
    now: Time,
    call: Option<Call>,
    answer: Option<Option<Answer>>,
    effects: Vec<Effect>,
}

/// A poll under way.
pub(super) struct RunningPoll {
    exchange: Arc<Mutex<Exchange>>,
    future: Pin<Box<dyn Future<Output = (SimulatedPolls, Done)>>>,
}

/// The state of a poll after it was resumed.
pub(super) enum Step {
    Calls(Call),
    Ends(SimulatedPolls, Done),
}

impl RunningPoll {
    /// A poll of a replica's own paths.
    pub(super) fn own(mut polls: SimulatedPolls, watched: Vec<(Uri, Path)>, is_failing: bool) -> Self {
        let exchange = Arc::<Mutex<Exchange>>::default();
        let mut calls = Calls { exchange: exchange.clone() };
        let future = async move {
            let unserved = match polls.poll_own(&mut calls, watched, is_failing).await {
                Ok(round) => {
                    let unserved = polls.unserved(&round, calls.now());
                    Some(unserved.iter().map(|(path, _)| number(path.as_str())).collect())
                }
                Err(()) => None,
            };
            (polls, Done::Own(unserved))
        };
        Self { exchange, future: Box::pin(future) }
    }

    /// A poll for all replicas.
    pub(super) fn shared(mut polls: SimulatedPolls, poll: SharedPoll) -> Self {
        let exchange = Arc::<Mutex<Exchange>>::default();
        let mut calls = Calls { exchange: exchange.clone() };
        let future = async move {
            let (found, result) = polls.poll_shared(&mut calls, poll, &MOUNT).await;
            (polls, Done::Shared(found, result.is_ok()))
        };
        Self { exchange, future: Box::pin(future) }
    }

    /// Continues the poll, until it calls the provider or ends. Returns what it did to subscribers, in order.
    pub(super) fn resume(&mut self, now: Time, answer: Option<Option<Answer>>) -> (Vec<Effect>, Step) {
        {
            let mut exchange = self.exchange.lock().unwrap();
            (exchange.now, exchange.answer) = (now, answer);
        }
        let step = loop {
            match self.future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready((polls, done)) => break Step::Ends(polls, done),
                // Without a call it has only yielded.
                Poll::Pending => {
                    if let Some(call) = self.exchange.lock().unwrap().call.take() {
                        break Step::Calls(call);
                    }
                }
            }
        };
        (std::mem::take(&mut self.exchange.lock().unwrap().effects), step)
    }
}

/// Returns the number of a path.
pub(super) fn number(path: &str) -> u32 {
    path.strip_prefix('p').unwrap().parse().unwrap()
}

struct Calls {
    exchange: Arc<Mutex<Exchange>>,
}

impl Calls {
    fn exchange(&self) -> MutexGuard<'_, Exchange> {
        self.exchange.lock().unwrap()
    }

    fn effect(&self, effect: Effect) {
        self.exchange().effects.push(effect);
    }
}

impl Caller for Calls {
    type Fault = ();
    type Client = u8;

    fn now(&self) -> Instant {
        moment(self.exchange().now)
    }

    async fn call(&mut self, paths: &[Path], token: Option<&str>) -> Result<WatchedChanges, ()> {
        let numbers = paths.iter().map(|path| number(path.as_str())).collect();
        self.exchange().call = Some(Call { paths: numbers, token: token.map(str::to_owned) });
        let answer = poll_fn(|_| match self.exchange().answer.take() {
            Some(answer) => Poll::Ready(answer),
            None => Poll::Pending,
        });
        let (changed, listing_changed, token) = answer.await.ok_or(())?;
        let changed = changed.into_iter().map(|place| paths[place].clone()).collect();
        Ok(WatchedChanges { token, changed, listing_changed, poll_after: None })
    }

    async fn answered(&mut self, _: &Polled<'_>, _: &WatchedChanges) {}

    fn answered_listing(&mut self, _: bool, has_changed: bool) {
        if has_changed {
            self.effect(Effect::Listing);
        }
    }

    async fn notify(&mut self, changed: Vec<(Uri, Path)>) {
        self.effect(Effect::Told(changed.iter().map(|(_, path)| number(path.as_str())).collect()));
    }

    async fn notify_all(&mut self) {
        self.effect(Effect::Everything);
    }

    async fn polled(&mut self, _: &[(Uri, Path)]) {}

    /// Each path has one of four clients.
    async fn failed(&mut self, watched: &[(Uri, Path)]) -> Vec<u8> {
        watched.iter().map(|(_, path)| u8::try_from(number(path.as_str()) % 4).unwrap()).collect()
    }
}
