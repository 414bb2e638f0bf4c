//! The budget for answers that wait to be sent: the maximum number of their bytes on one connection, for one client,
//! and overall.
//!
//! A client that does not read its answers keeps them in memory. They are charged to the client: the contents of the
//! answer as the provider returned them, and the chunks of JSON that are in flight ([`super::json`]). The plugin is no
//! longer charged for them.
//!
//! Reserve, call, resize. The size of an answer is not known before the call, so [`EXPECTED_RESPONSE_SIZE`] bytes are
//! reserved first; a client without room waits for it before its call is made (backpressure). Then the reservation is
//! resized to the actual cost. If there is no room for that, the answer is dropped, the request waits for room for the
//! actual cost, and the call is made a second time. A wait is bounded; after that the request is rejected. The waiting
//! answers therefore never exceed the budget. Answers that have just arrived may exceed it for a moment: each plugin
//! produces at most `limits.concurrency` of them at the same time.
//!
//! Errors and the answers of the protocol itself are charged in the same way: a client can choose their ids and
//! repeated URIs, and a batch has many of them. The first notification of `subscriptions/listen` over HTTP is charged,
//! too, as it repeats up to 256 KiB of URIs. The only uncharged messages are at most one for each HTTP request, or for
//! each request in flight over stdio: rejections, and answers that open a session.
//!
//! A batch over HTTP has one event stream for all of its answers, and a lost answer cannot be distinguished from one
//! that is still to come. So before any of its requests is executed, each of them reserves the bytes of the longest
//! error about missing room for its answer. Such a request never has fewer bytes, and is always answered. A batch
//! without room for these errors is rejected as a whole.
//!
//! A fast client is not delayed: bytes are released as soon as they have been sent.
//!
//! A client may have tens of thousands of requests that wait, so a release does not wake all of them (no thundering
//! herd). For each limit, of the connection, of the client and overall, it wakes the request that has waited longest. A
//! request that finds room wakes the next. A request that finds no room, because it needs more, wakes the next, too,
//! but only [`MAX_PASSES`] do so after a release.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcp_host_base::share_limiter::{LimitReached, ShareLimiter, ShareLimits, SharePermit};
use mcp_host_base::weak_map::WeakMap;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::client_id::ClientId;
use super::json::MAX_CHUNK;

/// The bytes reserved for an answer of unknown size. Most answers are smaller.
pub(super) const EXPECTED_RESPONSE_SIZE: usize = 64 << 10;

/// The bytes reserved for an answer of the protocol itself, or to a malformed request.
pub(super) const EXPECTED_PROTOCOL_RESPONSE_SIZE: usize = 8 << 10;

/// The overhead of an answer: its task and buffers.
const RESPONSE_OVERHEAD: usize = 2 << 10;
/// The maximum growth of a string by JSON escapes.
const MAX_ESCAPE_FACTOR: usize = 6;
/// The number of chunks of one answer that are in flight at the same time.
const CHUNKS_IN_FLIGHT: usize = 2;
/// The maximum number of waiting requests without room that wake another one after a release.
const MAX_PASSES: usize = 32;

/// The limits of a budget, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// For one client on one connection.
    pub(super) connection: usize,
    /// For one address, over all its connections.
    pub(super) client: usize,
    /// For one authenticated principal, over all its connections.
    pub(super) principal: usize,
    /// Overall.
    pub(super) overall: usize,
    /// The maximum wait for room.
    pub(super) wait: Duration,
}

/// The budget of a server.
pub(super) struct Budget {
    limits: Box<dyn Fn() -> Limits + Send + Sync>,
    shares: ShareLimiter<ClientId>,
    /// The number of waiting requests without room that may still wake another one.
    passes: AtomicUsize,
}

/// The account of one client on one connection.
pub(super) struct Account {
    budget: Arc<Budget>,
    client: ClientId,
    /// The bytes on this connection. Locked while a share is changed.
    used: Mutex<usize>,
    /// Notified of a release on this connection.
    released: Notify,
    /// The accounts of other clients on the connection: a proxy may multiplex the requests of several clients.
    others: WeakMap<ClientId, Account>,
}

/// Charged bytes, which are released when this is dropped.
pub(super) struct Charge {
    account: Arc<Account>,
    share: SharePermit<ClientId>,
}

/// The reason why bytes cannot be charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BudgetExceeded {
    /// There is no room for now.
    Full,
    /// The answer exceeds this limit by itself, so waiting does not help.
    TooLarge(Limit),
}

/// The reason why bytes cannot be charged now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    /// There is no room on the connection.
    Connection,
    /// There is no room in the share of the client, or overall.
    Share(LimitReached),
    /// The answer exceeds this limit by itself.
    TooLarge(Limit),
}

impl From<Refusal> for BudgetExceeded {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Connection | Refusal::Share(_) => Self::Full,
            Refusal::TooLarge(limit) => Self::TooLarge(limit),
        }
    }
}

/// One of the [`Limits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// The limit of a connection.
    Connection,
    /// The limit of an address.
    Client,
    /// The limit of an authenticated principal.
    Principal,
    /// The overall limit.
    Overall,
}

impl Limit {
    /// All limits.
    pub(super) const ALL: [Self; 4] = [Self::Connection, Self::Client, Self::Principal, Self::Overall];
}

impl Limits {
    /// Returns the limit that this number of bytes exceeds by itself: the smallest one if there are several, and the
    /// overall limit rather than the client's share of it.
    fn limit_exceeded_by(&self, bytes: usize, client: &ClientId) -> Option<Limit> {
        let (of_client, limit) = self.of(client);
        if bytes > self.connection && self.connection <= of_client.min(self.overall) {
            return Some(Limit::Connection);
        }
        if bytes > self.overall {
            return Some(Limit::Overall);
        }
        if bytes > of_client {
            return Some(limit);
        }
        (bytes > self.connection).then_some(Limit::Connection)
    }

    /// Returns the limit of a client.
    fn of(&self, client: &ClientId) -> (usize, Limit) {
        if client.is_authenticated() {
            return (self.principal, Limit::Principal);
        }
        (self.client, Limit::Client)
    }
}

/// Returns the cost of an answer whose values take `footprint` bytes: the values, and the chunks in flight.
pub(super) fn response_cost(footprint: usize) -> usize {
    let pieces = footprint.saturating_mul(MAX_ESCAPE_FACTOR).min(MAX_CHUNK.saturating_mul(CHUNKS_IN_FLIGHT));
    footprint.saturating_add(pieces).saturating_add(RESPONSE_OVERHEAD)
}

/// Returns the cost of `len` bytes of JSON that is encoded already: the JSON, and the chunks in flight.
pub(super) fn encoded_cost(len: usize) -> usize {
    let pieces = len.min(MAX_CHUNK.saturating_mul(CHUNKS_IN_FLIGHT));
    len.saturating_add(pieces).saturating_add(RESPONSE_OVERHEAD)
}

impl Budget {
    /// Creates a budget. Its limits are looked up for each charge, so a reload takes effect immediately.
    pub(super) fn new(limits: impl Fn() -> Limits + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { limits: Box::new(limits), shares: ShareLimiter::default(), passes: AtomicUsize::new(0) })
    }

    /// Opens an account for a connection of this client.
    pub(super) fn account(self: &Arc<Self>, client: ClientId) -> Arc<Account> {
        let (used, released, others) = (Mutex::new(0), Notify::new(), WeakMap::default());
        Arc::new(Account { budget: self.clone(), client, used, released, others })
    }

    /// Returns whether one more waiting request without room may wake another one.
    fn takes_pass(&self) -> bool {
        let take = |passes: usize| passes.checked_sub(1);
        self.passes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

impl Account {
    /// The client that owns the account.
    pub(super) fn client(&self) -> &ClientId {
        &self.client
    }

    /// Returns the account of another client on the connection of this account.
    pub(super) fn of_client(self: &Arc<Self>, client: ClientId) -> Arc<Self> {
        if client == self.client {
            return self.clone();
        }
        self.others.get_or_insert_with(&client, || self.budget.account(client.clone()))
    }

    /// Charges bytes as soon as there is room for them. Fails if there is no room within the maximum wait, or if the
    /// bytes exceed a limit by themselves.
    pub(super) async fn charge(self: &Arc<Self>, bytes: usize) -> Result<Charge, BudgetExceeded> {
        let mut charge = self.empty_charge();
        charge.resize_when_free(bytes).await?;
        Ok(charge)
    }

    /// Returns a charge of no bytes, which can be resized.
    pub(super) fn empty_charge(self: &Arc<Self>) -> Charge {
        let share = self.budget.shares.empty_permit(self.client.clone());
        Charge { account: self.clone(), share }
    }
}

impl Charge {
    /// Changes the number of charged bytes as soon as there is room for them. Fails if there is no room within the
    /// maximum wait, or if the bytes exceed a limit by themselves; then the number is unchanged.
    pub(super) async fn resize_when_free(&mut self, bytes: usize) -> Result<(), BudgetExceeded> {
        match self.resize(bytes) {
            // Boxed, because few requests wait.
            Err(BudgetExceeded::Full) => Box::pin(self.resize_after_releases(bytes)).await,
            done => done,
        }
    }

    /// Makes an attempt now, and after each release that may make room.
    async fn resize_after_releases(&mut self, bytes: usize) -> Result<(), BudgetExceeded> {
        let account = self.account.clone();
        let releases = account.budget.shares.releases(account.client.clone());
        let resizing = async {
            // The refusal after which a release has caused this attempt. The first attempt comes after the registration
            // for releases.
            let mut woken = None;
            loop {
                let resized = self.try_resize(bytes);
                let has_refusal = matches!(resized, Err(Refusal::Connection | Refusal::Share(_)));
                match woken.filter(|_| !has_refusal || account.budget.takes_pass()) {
                    Some(Refusal::Share(reached)) => releases.pass_on(reached),
                    Some(_) => account.released.notify_one(),
                    None => {}
                }
                match resized {
                    Err(Refusal::Connection) => account.released.notified().await,
                    Err(Refusal::Share(reached)) => releases.next(reached).await,
                    done => return done.map_err(BudgetExceeded::from),
                }
                woken = resized.err();
            }
        };
        timeout((account.budget.limits)().wait, resizing).await.unwrap_or(Err(BudgetExceeded::Full))
    }

    /// Releases all bytes but these.
    pub(super) fn reduce_to(&mut self, bytes: usize) {
        // Shrinking never fails.
        let _ = self.resize(bytes.min(self.bytes()));
    }

    /// Splits bytes off into a second charge; at most all of them.
    pub(super) fn split(&mut self, bytes: usize) -> Self {
        Self { account: self.account.clone(), share: self.share.split(bytes) }
    }

    /// The number of charged bytes.
    pub(super) fn bytes(&self) -> usize {
        self.share.amount()
    }

    /// Changes the number of charged bytes if there is room for them; on failure, the number is unchanged. Fewer bytes
    /// than before always have room, even if a reload has lowered the limits.
    pub(super) fn resize(&mut self, bytes: usize) -> Result<(), BudgetExceeded> {
        self.try_resize(bytes).map_err(BudgetExceeded::from)
    }

    fn try_resize(&mut self, bytes: usize) -> Result<(), Refusal> {
        let Account { budget, client, released, .. } = &*self.account;
        let (before, limits) = (self.share.amount(), (budget.limits)());
        if let Some(limit) = limits.limit_exceeded_by(bytes, client).filter(|_| bytes > before) {
            return Err(Refusal::TooLarge(limit));
        }
        let mut used = self.account.used.lock();
        let on_connection = used.saturating_sub(before).saturating_add(bytes);
        if on_connection > limits.connection && bytes > before {
            return Err(Refusal::Connection);
        }
        if bytes < before {
            budget.passes.store(MAX_PASSES, Ordering::Relaxed);
        }
        let share = ShareLimits { client: limits.of(client).0, overall: limits.overall };
        self.share.resize(bytes, share).map_err(Refusal::Share)?;
        *used = on_connection;
        drop(used);
        if bytes < before {
            released.notify_one();
        }
        Ok(())
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.reduce_to(0);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::task::{Context, Poll, Wake, Waker};

    use super::*;

    fn budget() -> Arc<Budget> {
        let (connection, client, principal, overall) = (100, 150, 50, 200);
        Budget::new(move || Limits { connection, client, principal, overall, wait: Duration::from_millis(1) })
    }

    fn client(last: u8) -> ClientId {
        ClientId::from_address(Ipv4Addr::new(127, 0, 0, last).into())
    }

    #[tokio::test]
    async fn a_connection_a_client_and_all_together_have_limits() {
        let budget = budget();
        let [first, second] = [1, 1].map(|last| budget.account(client(last)));
        let other = budget.account(client(2));
        let _first = first.charge(100).await.unwrap();
        assert_eq!(first.charge(1).await.err(), Some(BudgetExceeded::Full), "the connection's");
        let second_charge = second.charge(50).await.unwrap();
        assert_eq!(second.charge(1).await.err(), Some(BudgetExceeded::Full), "the client's");
        let _other = other.charge(50).await.unwrap();
        assert_eq!(other.charge(1).await.err(), Some(BudgetExceeded::Full), "the server's");
        assert_eq!(other.charge(101).await.err(), Some(BudgetExceeded::TooLarge(Limit::Connection)));
        drop(second_charge);
        assert!(other.charge(50).await.is_ok());
    }

    #[tokio::test]
    async fn a_principal_has_one_limit_over_all_connections_and_others_on_its_connection_have_theirs() {
        let budget = budget();
        let connections = [1, 2].map(|last| budget.account(client(last)));
        let of = |connection: &Arc<Account>, name: &str| {
            connection.of_client(connection.client().of_principal(&mcp_resource_host::access::Principal::new(name)))
        };
        let of_first = |name: &str| of(&connections[0], name);
        let (first, second) = (of_first("corp/ada"), of(&connections[1], "corp/ada"));
        let first_charge = first.charge(30).await.unwrap();
        let second_charge = second.charge(20).await.unwrap();
        assert_eq!(second.charge(1).await.err(), Some(BudgetExceeded::Full), "the principal's");
        assert_eq!(second.charge(51).await.err(), Some(BudgetExceeded::TooLarge(Limit::Principal)));
        let _bob = of_first("corp/bob").charge(50).await.unwrap();
        assert!(Arc::ptr_eq(&first, &of_first("corp/ada")), "it has one account on a connection");
        drop((first_charge, second_charge));
        let _eve = of_first("corp/eve").charge(50).await.unwrap();
        let _kim = of_first("corp/kim").charge(50).await.unwrap();
        assert_eq!(of_first("corp/kim").charge(1).await.err(), Some(BudgetExceeded::Full));
    }

    #[test]
    fn the_limit_that_is_too_small_is_told() {
        let exceeded = |connection, client, overall| {
            let limits = Limits { connection, client, principal: 0, overall, wait: Duration::ZERO };
            limits.limit_exceeded_by(10, &self::client(1))
        };
        assert_eq!(exceeded(10, 10, 10), None);
        assert_eq!(exceeded(9, 15, 16), Some(Limit::Connection));
        assert_eq!(exceeded(9, 9, 9), Some(Limit::Connection));
        assert_eq!(exceeded(64, 9, 10), Some(Limit::Client));
        assert_eq!(exceeded(9, 4, 8), Some(Limit::Overall));
        assert_eq!(exceeded(9, 8, 10), Some(Limit::Client));
    }

    #[tokio::test]
    async fn who_waits_goes_on_when_there_is_room() {
        let wait = Duration::from_secs(3600);
        let budget = Budget::new(move || Limits { connection: 9, client: 9, principal: 9, overall: 9, wait });
        let account = budget.account(client(1));
        let first = account.charge(6).await.unwrap();
        let mut second = std::pin::pin!(account.charge(6));
        assert!(futures::poll!(second.as_mut()).is_pending());
        drop(first);
        assert_eq!(second.await.unwrap().bytes(), 6);
    }

    /// Counts wake-ups.
    #[derive(Default)]
    struct WakeUps(AtomicUsize);

    impl Wake for WakeUps {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Requests of 10 bytes wait for the first of these limits.
    async fn assert_few_wake(connection: usize, client: usize) {
        let wait = Duration::from_secs(3600);
        let limits = Limits { connection, client, principal: client, overall: 200, wait };
        let budget = Budget::new(move || limits);
        let (greedy, other) = (budget.account(self::client(1)), budget.account(self::client(2)));
        let mut filled = greedy.charge(150).await.unwrap();
        let wake_ups = Arc::new(WakeUps::default());
        let waker = Waker::from(wake_ups.clone());
        let mut waiting: Vec<_> = (0..100).map(|_| Box::pin(greedy.charge(10))).collect();
        let mut charged = Vec::new();
        let mut poll_all = || {
            waiting.retain_mut(|charging| {
                match charging.as_mut().poll(&mut Context::from_waker(&waker)) {
                    Poll::Ready(charge) => charged.push(charge.unwrap()),
                    Poll::Pending => return true,
                }
                false
            });
            (charged.len(), wake_ups.0.swap(0, Ordering::Relaxed))
        };
        assert_eq!(poll_all(), (0, 0));
        drop(other.charge(50).await.unwrap());
        assert_eq!(poll_all(), (0, 0), "that was another client's");
        filled.reduce_to(130);
        let (count, woken) = poll_all();
        assert_eq!(count, 2);
        assert!(woken <= 3 + MAX_PASSES, "{woken}");
        drop(filled);
        assert_eq!(poll_all().0, 15, "as many as there is room for");
    }

    #[tokio::test]
    async fn a_release_wakes_few_of_those_who_wait_and_all_who_find_room() {
        assert_few_wake(150, 200).await;
        assert_few_wake(200, 150).await;
    }

    #[tokio::test]
    async fn who_needs_less_does_not_wait_behind_who_needs_more() {
        let wait = Duration::from_secs(3600);
        let limits = Limits { connection: 200, client: 200, principal: 200, overall: 200, wait };
        let budget = Budget::new(move || limits);
        let [one, greedy, modest] = [1, 2, 3].map(|last| budget.account(client(last)));
        let _kept = one.charge(150).await.unwrap();
        let released = one.charge(40).await.unwrap();
        let (mut much, mut little) = (Box::pin(greedy.charge(100)), Box::pin(modest.charge(30)));
        assert!(futures::poll!(&mut much).is_pending() && futures::poll!(&mut little).is_pending());
        drop(released);
        assert!(futures::poll!(&mut much).is_pending() && futures::poll!(&mut little).is_ready());
    }

    #[tokio::test]
    async fn a_charge_that_cannot_grow_stays_as_it_is() {
        let account = budget().account(client(1));
        let mut charge = account.charge(60).await.unwrap();
        let _other = account.charge(40).await.unwrap();
        assert_eq!(charge.resize(61), Err(BudgetExceeded::Full));
        assert_eq!(charge.resize_when_free(61).await, Err(BudgetExceeded::Full));
        assert_eq!(charge.bytes(), 60);
        charge.resize(10).unwrap();
        assert!(account.charge(50).await.is_ok());
        charge.reduce_to(20);
        assert_eq!(charge.bytes(), 10, "it does not grow");
        charge.reduce_to(0);
        assert!(account.charge(60).await.is_ok());
    }

    #[tokio::test]
    async fn a_charge_shrinks_whatever_limits_a_reload_has_set() {
        let max = Arc::new(AtomicUsize::new(100));
        let limits = max.clone();
        let budget = Budget::new(move || {
            let max = limits.load(Ordering::Relaxed);
            Limits { connection: max, client: max, principal: max, overall: max, wait: Duration::ZERO }
        });
        let mut charge = budget.account(client(1)).charge(60).await.unwrap();
        max.store(10, Ordering::Relaxed);
        charge.resize(60).unwrap();
        assert_eq!(charge.resize(61), Err(BudgetExceeded::TooLarge(Limit::Connection)));
        charge.reduce_to(20);
        assert_eq!((charge.bytes(), budget.shares.overall()), (20, 20));
    }

    #[tokio::test]
    async fn parts_of_a_charge_are_released_one_by_one() {
        let account = budget().account(client(1));
        let mut charge = account.charge(100).await.unwrap();
        let mut part = charge.split(30);
        assert_eq!((charge.bytes(), part.bytes()), (70, 30));
        assert_eq!(part.resize(31), Err(BudgetExceeded::Full), "the connection's");
        drop(charge);
        part.resize(100).unwrap();
        drop(part);
        assert!(account.charge(100).await.is_ok());
    }

    #[tokio::test]
    async fn nothing_is_kept_of_those_who_have_nothing() {
        let budget = budget();
        drop(budget.account(client(1)).charge(10).await.unwrap());
        assert_eq!((budget.shares.overall(), budget.shares.clients()), (0, 0));
        assert_eq!(budget.shares.waiting_clients(), 0);
    }
}
