//! One run: random steps, checked against the model.

use std::collections::BTreeSet;

use fastrand::Rng;
use mcp_host_tests::TIMEOUT;
use mcp_resource_host::Update;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::SUBSCRIBERS;
use super::expectations::Expectations;
use super::fixture::{FAULTS, FILES, Fixture, PLUGINS, file_of, uri};
use super::transport::{StreamEvent, Transport};

/// A listener. Acknowledged resources are pending, whatever their state at that moment.
struct Listener {
    events: mpsc::UnboundedReceiver<StreamEvent>,
    /// `None` before the acknowledgement.
    accepted: Option<Vec<String>>,
    pending: BTreeSet<String>,
}

impl Listener {
    fn is_subscribed_to(&self, uri: &String) -> bool {
        self.accepted.as_ref().is_some_and(|accepted| accepted.contains(uri))
    }

    fn record(&mut self, heard: StreamEvent) -> Result<(), String> {
        match heard {
            StreamEvent::Acknowledged(uris) => {
                self.pending.extend(uris.iter().cloned());
                self.accepted = Some(uris);
                Ok(())
            }
            StreamEvent::Update(Update::Resource(uri)) if self.is_subscribed_to(&uri) => {
                self.pending.remove(&uri);
                Ok(())
            }
            StreamEvent::Update(update) => Err(format!("a listener is told of {update:?}, which it did not ask for")),
        }
    }
}

/// The maximum number of listeners in a run.
const MAX_LISTENERS: usize = 60;

/// The run of one seed.
pub(super) struct Run {
    seed: u64,
    rng: Rng,
    pub(super) fixture: Fixture,
    expectations: Vec<Expectations>,
    listeners: Vec<Listener>,
    /// Whether providers fail. If so, updates about listings cannot be counted, because a listing may be unknown.
    has_faults: bool,
    steps: Vec<String>,
}

impl Run {
    /// Creates the run of a seed. In every second run, nothing fails.
    pub(super) fn new(seed: u64) -> Self {
        let is_faulty = seed.is_multiple_of(2);
        Self {
            seed,
            rng: Rng::with_seed(seed),
            fixture: Fixture::new(is_faulty),
            expectations: Vec::new(),
            listeners: Vec::new(),
            has_faults: is_faulty,
            steps: Vec::new(),
        }
    }

    /// Takes random steps, then waits until no update is pending, and does so again after everything changed.
    pub(super) async fn run<F: Transport>(mut self, transport: &mut F, steps: usize) {
        // A session's listing is watched from the handshake on, so changes during the handshake may be notified, for
        // each plugin.
        let in_doubt = if F::IS_LISTING_EFFECTIVE_AT_ONCE { 0 } else { PLUGINS.len() };
        let expected = |principal| Expectations::new(F::principal(principal), self.fixture.rules(), in_doubt);
        self.expectations = (0..SUBSCRIBERS).map(expected).collect();
        for _ in 0..steps {
            self.step(transport).await;
        }
        self.log("calm".to_owned());
        self.fixture.clear_faults();
        self.wait_until_reloaded(transport).await;
        self.fixture.serve_n(true);
        self.reload(transport).await;
        self.wait_until_reloaded(transport).await;
        self.fixture.set_denied([].into());
        self.reload(transport).await;
        self.wait_until_reloaded(transport).await;
        self.expectations.iter_mut().for_each(|expected| expected.is_slow = false);
        self.wait_until_nothing_pending(transport).await;
        for file in FILES {
            self.edit(file);
        }
        self.wait_until_nothing_pending(transport).await;
    }

    async fn step<F: Transport>(&mut self, transport: &mut F) {
        let principal = self.rng.usize(..SUBSCRIBERS);
        let file = pick(&mut self.rng, &FILES);
        let uri = uri(pick(&mut self.rng, &PLUGINS), file);
        match self.rng.usize(..30) {
            0..=5 => {
                // Reading first separates earlier updates from this edit's update; without it, they may be coalesced.
                if self.rng.bool() {
                    self.read_updates(transport).await;
                }
                self.edit(file);
            }
            6..=10 => {
                let granted = transport.subscribe(principal, &uri).await;
                self.log(format!("{principal} subscribes to {uri}: {granted}"));
                if granted {
                    let subscribed = self.expectations[principal].record_subscribed(uri, self.fixture.rules());
                    self.check(principal, subscribed);
                }
            }
            11..=13 => {
                self.log(format!("{principal} unsubscribes from {uri}"));
                let told = transport.unsubscribe(principal, &uri).await;
                self.record_updates(principal, &told);
                self.expectations[principal].subscribed.remove(&uri);
            }
            14 => {
                self.log(format!("{principal} leaves"));
                transport.reconnect(principal).await;
                // A walk in progress, the one after it, and the unknown order of the two.
                let in_doubt = 3 * PLUGINS.len();
                self.expectations[principal] =
                    Expectations::new(F::principal(principal), self.fixture.rules(), in_doubt);
            }
            15 => {
                self.expectations[principal].is_slow = !self.expectations[principal].is_slow;
                self.log(format!("{principal} is slow: {}", self.expectations[principal].is_slow));
            }
            16..=17 if self.has_faults => {
                let fault = pick(&mut self.rng, &FAULTS);
                let is_on = self.fixture.toggle_fault(fault);
                self.log(format!("{fault}: {is_on}"));
            }
            16..=18 => {
                self.wait_until_reloaded(transport).await;
                let serves_n = self.rng.usize(..3) > 0;
                self.log(format!("reload, with n: {serves_n}"));
                self.fixture.serve_n(serves_n);
                self.reload(transport).await;
            }
            19..=20 => {
                self.wait_until_reloaded(transport).await;
                let mut denied = self.fixture.denied().clone();
                let rule = (F::principal(principal), file);
                if !denied.remove(&rule) {
                    denied.insert(rule);
                }
                self.log(format!("reload, with denied: {denied:?}"));
                self.fixture.set_denied(denied);
                self.reload(transport).await;
            }
            21 => self.wait_until_reloaded(transport).await,
            24..=25 => self.add_listeners(transport).await,
            26..=28 => {
                let how = self.rng.usize(..usize::MAX);
                let may_repeat = transport.disturb(principal, how).await;
                self.log(format!("{principal} is disturbed ({how}): {may_repeat}"));
                if may_repeat {
                    self.expectations[principal].record_disturbance();
                }
            }
            29 if self.rng.usize(..4) == 0 => self.restart(transport).await,
            _ => self.read_updates(transport).await,
        }
    }

    /// Restarts the server. Its sessions and streams end.
    async fn restart<F: Transport>(&mut self, transport: &mut F) {
        self.wait_until_reloaded(transport).await;
        if !transport.restart(&self.fixture.config).await {
            return;
        }
        self.log("restart".to_owned());
        self.listeners.clear();
        let in_doubt = 3 * PLUGINS.len();
        for (principal, expected) in self.expectations.iter_mut().enumerate() {
            *expected = Expectations::new(F::principal(principal), self.fixture.rules(), in_doubt);
        }
    }

    /// Starts many concurrent listeners of the same resources.
    async fn add_listeners(&mut self, transport: &mut impl Transport) {
        let count = self.rng.usize(..20).min(MAX_LISTENERS - self.listeners.len());
        let all = PLUGINS.iter().flat_map(|plugin| FILES.map(|file| uri(plugin, file)));
        let uris: Vec<_> = all.filter(|_| self.rng.bool()).collect();
        self.log(format!("{count} listen to {uris:?}"));
        for heard in transport.listen(count, &uris).await {
            self.listeners.push(Listener { events: heard, accepted: None, pending: BTreeSet::new() });
        }
    }

    fn edit(&mut self, file: &'static str) {
        let is_renamed = self.rng.bool();
        self.log(format!("edit {file}, renamed: {is_renamed}"));
        let states = self.fixture.edit(file, is_renamed);
        for expected in &mut self.expectations {
            expected.record_change(file, states, self.fixture.rules());
        }
        for listener in &mut self.listeners {
            let changed = listener.accepted.iter().flatten().filter(|uri| file_of(uri) == file).cloned();
            listener.pending.extend(changed);
        }
    }

    /// Makes the hosts apply the written config. The previous one must have been applied.
    async fn reload(&mut self, transport: &mut impl Transport) {
        for expected in &mut self.expectations {
            expected.record_reload(self.fixture.denied());
        }
        transport.reload(&self.fixture.config);
        if self.rng.bool() {
            self.wait_until_reloaded(transport).await;
        }
    }

    async fn wait_until_reloaded(&mut self, transport: &mut impl Transport) {
        transport.wait_until_reloaded().await;
        self.log("settled".to_owned());
        self.fixture.drop_previous_rules();
    }

    /// Reads the updates of all subscribers that are not slow.
    async fn read_updates(&mut self, transport: &mut impl Transport) {
        let readers: Vec<_> = (0..SUBSCRIBERS).filter(|principal| !self.expectations[*principal].is_slow).collect();
        for (principal, told) in readers.iter().zip(transport.drain_updates(&readers).await) {
            self.record_updates(*principal, &told);
            self.expectations[*principal].record_read(self.fixture.rules());
        }
        let mut listeners = std::mem::take(&mut self.listeners);
        for listener in &mut listeners {
            while let Ok(heard) = listener.events.try_recv() {
                let taken = listener.record(heard);
                self.check(0, taken);
            }
        }
        self.listeners = listeners;
    }

    /// Waits until no update is pending, then reads the remaining ones.
    async fn wait_until_nothing_pending<F: Transport>(&mut self, transport: &mut F) {
        let end = Instant::now() + TIMEOUT;
        for principal in 0..SUBSCRIBERS {
            while self.expectations[principal].is_pending(F::IS_LISTING_EFFECTIVE_AT_ONCE) {
                match timeout_at(end, transport.wait_for_update(principal)).await {
                    Ok(told) => self.record_updates(principal, &told),
                    Err(_) => self.check(principal, Err("it is not told".to_owned())),
                }
            }
        }
        let mut listeners = std::mem::take(&mut self.listeners);
        for (number, listener) in listeners.iter_mut().enumerate() {
            while listener.accepted.is_none() || !listener.pending.is_empty() {
                let taken = match timeout_at(end, listener.events.recv()).await {
                    Ok(Some(heard)) => listener.record(heard),
                    Ok(None) => Err(format!("the stream of listener {number} has ended")),
                    Err(_) => Err(format!("listener {number} is owed {:?}", listener.pending)),
                };
                self.check(0, taken);
            }
        }
        self.listeners = listeners;
        self.read_updates(transport).await;
    }

    fn record_updates(&mut self, principal: usize, told: &[Update]) {
        for update in told {
            self.log(format!("{principal} is told of {update:?}"));
            let taken = self.expectations[principal].record_update(update);
            self.check(principal, taken);
            if !self.has_faults {
                let checked = self.expectations[principal].check_listings();
                self.check(principal, checked);
            }
        }
    }

    fn log(&mut self, step: String) {
        self.steps.push(step);
    }

    /// Fails if the rule of subscriptions is violated.
    fn check(&self, principal: usize, outcome: Result<(), String>) {
        if let Err(error) = outcome {
            panic!("subscriber {principal}: {error}. It is {}", self.expectations[principal]);
        }
    }
}

/// Prints the steps after every kind of failure, including a timeout or a panic of a transport.
impl Drop for Run {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}: {} steps led to this failure:\n{}", self.seed, self.steps.len(), self.steps.join("\n"));
        }
    }
}

fn pick<T: Copy>(rng: &mut Rng, all: &[T]) -> T {
    all[rng.usize(..all.len())]
}
