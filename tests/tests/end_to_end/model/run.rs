//! One run: steps by chance, and the model that goes along with them.

use std::collections::BTreeSet;

use mcp_host_tests::PATIENCE;
use mcp_resource_host::Update;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::SUBSCRIBERS;
use super::account::Account;
use super::chance::Chance;
use super::face::{Face, Heard};
use super::world::{FILES, MOODS, PLUGINS, World, file_of, uri};

/// One who listens. What was acknowledged is owed, whatever is in the way of it at that moment.
struct Listener {
    heard: mpsc::UnboundedReceiver<Heard>,
    /// None before it is acknowledged.
    accepted: Option<Vec<String>>,
    owed: BTreeSet<String>,
}

impl Listener {
    fn asked_for(&self, uri: &String) -> bool {
        self.accepted.as_ref().is_some_and(|accepted| accepted.contains(uri))
    }

    fn takes(&mut self, heard: Heard) -> Result<(), String> {
        match heard {
            Heard::Accepted(uris) => {
                self.owed.extend(uris.iter().cloned());
                self.accepted = Some(uris);
                Ok(())
            }
            Heard::Told(Update::Resource(uri)) if self.asked_for(&uri) => {
                self.owed.remove(&uri);
                Ok(())
            }
            Heard::Told(update) => Err(format!("a listener is told of {update:?}, which it did not ask for")),
        }
    }
}

/// Listeners that one run has at most.
const MAX_LISTENERS: usize = 60;

/// One run of one seed.
pub(super) struct Run {
    seed: u64,
    chance: Chance,
    pub(super) world: World,
    accounts: Vec<Account>,
    listeners: Vec<Listener>,
    /// Whether providers fail in it. What is listed cannot be accounted for then, as it may not be known.
    is_moody: bool,
    steps: Vec<String>,
}

impl Run {
    /// The run of that seed. In every other, nothing fails.
    pub(super) fn new(seed: u64) -> Self {
        let is_moody = seed.is_multiple_of(2);
        let (chance, world) = (Chance::of_seed(seed), World::new(is_moody));
        Self { seed, chance, world, accounts: Vec::new(), listeners: Vec::new(), is_moody, steps: Vec::new() }
    }

    /// Does steps by chance, then pays what is owed, and once more after everything changed.
    pub(super) async fn run<F: Face>(mut self, face: &mut F, steps: usize) {
        // A session's listing begins to count while it goes on, and what changes then is told in doubt, of each plugin.
        let in_doubt = if F::LISTING_COUNTS { 0 } else { PLUGINS.len() };
        let account = |who| Account::new(F::principal(who), self.world.rules(), in_doubt);
        self.accounts = (0..SUBSCRIBERS).map(account).collect();
        for _ in 0..steps {
            self.step(face).await;
        }
        self.log("calm".to_owned());
        self.world.calm();
        self.settle(face).await;
        self.world.serve_n(true);
        self.reload(face).await;
        self.settle(face).await;
        self.world.rule([].into());
        self.reload(face).await;
        self.settle(face).await;
        self.accounts.iter_mut().for_each(|account| account.is_slow = false);
        self.pay(face).await;
        for file in FILES {
            self.edit(file);
        }
        self.pay(face).await;
    }

    async fn step<F: Face>(&mut self, face: &mut F) {
        let who = self.chance.below(SUBSCRIBERS);
        let file = self.chance.of(&FILES);
        let uri = uri(self.chance.of(&PLUGINS), file);
        match self.chance.below(26) {
            0..=5 => {
                // What is read before is not taken for what is owed by this; what is not may have come together with it.
                if self.chance.once_in(2) {
                    self.read(face).await;
                }
                self.edit(file);
            }
            6..=10 => {
                let granted = face.subscribe(who, &uri).await;
                self.log(format!("{who} subscribes to {uri}: {granted}"));
                if granted {
                    let subscribed = self.accounts[who].subscribes(uri, self.world.rules());
                    self.check(who, subscribed);
                }
            }
            11..=13 => {
                self.log(format!("{who} unsubscribes from {uri}"));
                let told = face.unsubscribe(who, &uri).await;
                self.take(who, &told);
                self.accounts[who].subscribed.remove(&uri);
            }
            14 => {
                self.log(format!("{who} leaves"));
                face.leave(who).await;
                // A walk that is under way, the one behind it, and that nobody knows what came first.
                let in_doubt = 3 * PLUGINS.len();
                self.accounts[who] = Account::new(F::principal(who), self.world.rules(), in_doubt);
            }
            15 => {
                self.accounts[who].is_slow = !self.accounts[who].is_slow;
                self.log(format!("{who} is slow: {}", self.accounts[who].is_slow));
            }
            16..=17 if self.is_moody => {
                let mood = self.chance.of(&MOODS);
                let is_on = self.world.turn(mood);
                self.log(format!("{mood}: {is_on}"));
            }
            16..=18 => {
                self.settle(face).await;
                let serves_n = !self.chance.once_in(3);
                self.log(format!("reload, with n: {serves_n}"));
                self.world.serve_n(serves_n);
                self.reload(face).await;
            }
            19..=20 => {
                self.settle(face).await;
                let mut denied = self.world.denied().clone();
                let rule = (F::principal(who), file);
                if !denied.remove(&rule) {
                    denied.insert(rule);
                }
                self.log(format!("reload, with denied: {denied:?}"));
                self.world.rule(denied);
                self.reload(face).await;
            }
            21 => self.settle(face).await,
            24..=25 => self.herd(face).await,
            _ => self.read(face).await,
        }
    }

    /// Many listen at the same moment, all to the same resources.
    async fn herd(&mut self, face: &mut impl Face) {
        let count = self.chance.below(20).min(MAX_LISTENERS - self.listeners.len());
        let all = PLUGINS.iter().flat_map(|plugin| FILES.map(|file| uri(plugin, file)));
        let uris: Vec<_> = all.filter(|_| self.chance.once_in(2)).collect();
        self.log(format!("{count} listen to {uris:?}"));
        for heard in face.listen(count, &uris).await {
            self.listeners.push(Listener { heard, accepted: None, owed: BTreeSet::new() });
        }
    }

    fn edit(&mut self, file: &'static str) {
        let is_renamed = self.chance.once_in(2);
        self.log(format!("edit {file}, renamed: {is_renamed}"));
        let states = self.world.edit(file, is_renamed);
        for account in &mut self.accounts {
            account.changed(file, states, self.world.rules());
        }
        for listener in &mut self.listeners {
            let changed = listener.accepted.iter().flatten().filter(|uri| file_of(uri) == file).cloned();
            listener.owed.extend(changed);
        }
    }

    /// Has hosts go over to the config that was written. That they did so with the one before must be known.
    async fn reload(&mut self, face: &mut impl Face) {
        for account in &mut self.accounts {
            account.reloaded(self.world.denied());
        }
        face.reload(&self.world.config);
        if self.chance.once_in(2) {
            self.settle(face).await;
        }
    }

    async fn settle(&mut self, face: &mut impl Face) {
        face.settle().await;
        self.log("settled".to_owned());
        self.world.settled();
    }

    /// Those who are not slow read what they have been told.
    async fn read(&mut self, face: &mut impl Face) {
        let readers: Vec<_> = (0..SUBSCRIBERS).filter(|who| !self.accounts[*who].is_slow).collect();
        for (who, told) in readers.iter().zip(face.told(&readers).await) {
            self.take(*who, &told);
            self.accounts[*who].has_read(self.world.rules());
        }
        let mut listeners = std::mem::take(&mut self.listeners);
        for listener in &mut listeners {
            while let Ok(heard) = listener.heard.try_recv() {
                let taken = listener.takes(heard);
                self.check(0, taken);
            }
        }
        self.listeners = listeners;
    }

    /// Waits until everyone has been told what is owed to it, then reads the rest.
    async fn pay<F: Face>(&mut self, face: &mut F) {
        let end = Instant::now() + PATIENCE;
        for who in 0..SUBSCRIBERS {
            while self.accounts[who].is_owed(F::LISTING_COUNTS) {
                match timeout_at(end, face.wait(who)).await {
                    Ok(told) => self.take(who, &told),
                    Err(_) => self.check(who, Err("it is not told".to_owned())),
                }
            }
        }
        let mut listeners = std::mem::take(&mut self.listeners);
        for (number, listener) in listeners.iter_mut().enumerate() {
            while listener.accepted.is_none() || !listener.owed.is_empty() {
                let taken = match timeout_at(end, listener.heard.recv()).await {
                    Ok(Some(heard)) => listener.takes(heard),
                    Ok(None) => Err(format!("the stream of listener {number} has ended")),
                    Err(_) => Err(format!("listener {number} is owed {:?}", listener.owed)),
                };
                self.check(0, taken);
            }
        }
        self.listeners = listeners;
        self.read(face).await;
    }

    fn take(&mut self, who: usize, told: &[Update]) {
        for update in told {
            self.log(format!("{who} is told of {update:?}"));
            let taken = self.accounts[who].is_told(update);
            self.check(who, taken);
            if !self.is_moody {
                let accounted = self.accounts[who].check_listings();
                self.check(who, accounted);
            }
        }
    }

    fn log(&mut self, step: String) {
        self.steps.push(step);
    }

    /// Fails with all that led to it.
    fn check(&self, who: usize, outcome: Result<(), String>) {
        if let Err(error) = outcome {
            let (seed, account, steps) = (self.seed, &self.accounts[who], self.steps.join("\n"));
            panic!("seed {seed}: subscriber {who}: {error}. It is {account} after\n{steps}");
        }
    }
}
