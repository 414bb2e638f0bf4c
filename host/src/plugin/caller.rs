//! One call: leave, a place, an instance, the guest's code under its limits, what the host makes of its answer, and what became
//! of it.
//!
//! A call ends when its answer is lifted, checked and filtered: all of that runs where the guest does, within the call's
//! `limits.cpu` and `limits.deadline`, and its memory is charged to the plugin ([`Work`]).

use std::sync::Arc;
use std::time::Instant;

use tokio::time::timeout;
use wasmtime::component::ResourceTableError;
use wasmtime::{Store, Trap};

use super::Plugin;
use super::admission::{Admission, Place, Turn};
use super::bindings::ProviderPre;
use super::bindings::contract::Guest;
use super::convert::{AnswerRules, Checker};
use super::cpu::{CpuClock, OutOfCpu};
use super::engine::Engine;
use super::excerpt;
use super::fault::Fault;
use super::health::{Change, Leave, PATIENCE, Sign};
use super::instance::{Instance, Running};
use super::limits::OutOfMemory;
use super::pool::Pool;
use super::sandbox::Sandbox;
use super::seats::Seat;
use super::shares::{InUse, Share};
use super::state::State;
use super::threads::Lane;
use super::work::Work;
use crate::config::Limits;

/// Bytes of what the engine says of a trap that are kept.
const MAX_TRAP_MESSAGE: usize = 2048;

/// All that a call needs, shared by the calls of one plugin.
pub(super) struct Caller {
    pub(super) engine: Arc<Engine>,
    pub(super) provider: ProviderPre<State>,
    pub(super) sandbox: Sandbox,
    pub(super) limits: Limits,
    /// What answers are checked against.
    pub(super) rules: Arc<AnswerRules>,
    pub(super) admission: Admission,
    pub(super) lane: Arc<Lane>,
    /// What the plugin may use of the instance slots.
    pub(super) share: Arc<Share>,
    /// Where instances go that may serve another call, if the plugin wants that.
    pub(super) pool: Option<Arc<Pool>>,
}

/// Where a call runs.
enum Room {
    /// In an instance that has served others.
    Kept(Instance),
    /// In a fresh one, on this seat.
    Fresh(Option<Seat>),
}

/// What a call holds until its instance is idle or gone.
struct Permits {
    _place: Place,
    _in_use: Option<InUse>,
}

/// What became of a call.
struct Outcome<T> {
    answer: Result<T, Fault>,
    /// The instance, if it may serve another call.
    instance: Option<Instance>,
    permits: Permits,
}

impl Plugin {
    /// Calls the provider, and has `check` make of its answer what is answered, as a part of the call. Dropping the future ends
    /// the call, and its instance with it.
    pub(super) async fn call<T, U, F, C, W>(
        &self,
        function: &'static str,
        turn: Turn,
        run: F,
        check: C,
    ) -> Result<U, Fault>
    where
        T: Send + 'static,
        F: for<'a> FnOnce(&'a Guest, &'a mut Store<State>) -> Running<'a, T> + Send + 'static,
        U: Send + 'static,
        C: FnOnce(Checker, T) -> W + Send + 'static,
        W: Future<Output = Result<U, Fault>> + Send + 'static,
    {
        self.leave().await.inspect_err(|fault| self.faults.note(function, fault))?;
        let answer = self.make_call(function, turn, run, check).await;
        if let Some(change) = self.health.note(Sign::from(&answer)) {
            self.tell(change);
        }
        answer
    }

    /// Waits for the plugin's health to be known, if it is in doubt.
    async fn leave(&self) -> Result<(), Fault> {
        let trial = match self.health.leave(Instant::now()) {
            Leave::Granted => return Ok(()),
            Leave::Refused(left) => return Err(Fault::SetAside(left)),
            Leave::AfterTrial(trial) => trial,
        };
        let answer = self
            .make_call(
                "list-entries",
                Turn::Host,
                |guest, store| Box::pin(guest.call_list_entries(store, None, None, 1)),
                |check, page| check.page(page, None, |_| false),
            )
            .await;
        let (leave, change) = trial.ended(Sign::from(&answer), Instant::now());
        change.into_iter().for_each(|change| self.tell(change));
        leave.map_err(Fault::SetAside)
    }

    async fn make_call<T, U, F, C, W>(&self, function: &'static str, turn: Turn, run: F, check: C) -> Result<U, Fault>
    where
        T: Send + 'static,
        F: for<'a> FnOnce(&'a Guest, &'a mut Store<State>) -> Running<'a, T> + Send + 'static,
        U: Send + 'static,
        C: FnOnce(Checker, T) -> W + Send + 'static,
        W: Future<Output = Result<U, Fault>> + Send + 'static,
    {
        let watches = self.info.watches;
        let called = self.caller.clone().call(turn, watches, run, check).await;
        let answer = called.and_then(|outcome| {
            if let Some((pool, instance)) = self.caller.pool.as_ref().zip(outcome.instance) {
                pool.keep(instance);
            }
            drop(outcome.permits);
            outcome.answer
        });
        answer.inspect_err(|fault| self.faults.note(function, fault))
    }

    fn tell(&self, change: Change) {
        let plugin = self.name();
        match change {
            Change::SetAside(pause) => tracing::warn!(
                target: "mcp_host::plugin", plugin, retry_in_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX),
                "circuit opened: {PATIENCE} consecutive failures and the probe failed"
            ),
            Change::Back => tracing::info!(target: "mcp_host::plugin", plugin, "circuit closed: plugin recovered"),
        }
    }
}

impl Caller {
    async fn call<T, U, F, C, W>(
        self: Arc<Self>,
        turn: Turn,
        watches: bool,
        run: F,
        check: C,
    ) -> Result<Outcome<U>, Fault>
    where
        T: Send + 'static,
        F: for<'a> FnOnce(&'a Guest, &'a mut Store<State>) -> Running<'a, T> + Send + 'static,
        U: Send + 'static,
        C: FnOnce(Checker, T) -> W + Send + 'static,
        W: Future<Output = Result<U, Fault>> + Send + 'static,
    {
        let (place, (in_use, room)) = self.admission.enter(turn, self.room(turn)).await?;
        let permits = Permits { _place: place, _in_use: in_use };
        let caller = self.clone();
        let clock = Arc::new(CpuClock::default());
        let call = self.engine.threads.call(&self.lane, turn, clock.clone(), async move {
            let (answer, instance) = caller.run(room, watches, clock, run, check).await;
            // An instance that serves no other call ends here, where the call ended, and before its place is free.
            let is_good = answer.as_ref().map_or_else(Fault::is_answer, |_| true);
            Outcome { answer, instance: instance.filter(|_| is_good), permits }
        });
        call.await.map_err(|error| Fault::Host(error.to_string()))
    }

    /// The plugin's share allows it: an instance that is idle, or a seat for a fresh one.
    async fn room(&self, turn: Turn) -> (Option<InUse>, Room) {
        let in_use = self.share.acquire(turn).await;
        let room = match self.pool.as_ref().and_then(|pool| pool.take()) {
            Some(instance) => Room::Kept(instance),
            None => Room::Fresh(self.engine.seats.take().await),
        };
        (in_use, room)
    }

    /// Makes the call, and makes of the provider's answer what is answered: both within the call's limits. The instance comes
    /// back only if the provider had the last word and it may serve another call. `limits.deadline` counts from here: this
    /// runs with all permits, when it is the call's turn.
    async fn run<T, U, F, C, W>(
        &self,
        room: Room,
        watches: bool,
        clock: Arc<CpuClock>,
        run: F,
        check: C,
    ) -> (Result<U, Fault>, Option<Instance>)
    where
        F: for<'a> FnOnce(&'a Guest, &'a mut Store<State>) -> Running<'a, T>,
        C: FnOnce(Checker, T) -> W,
        W: Future<Output = Result<U, Fault>>,
    {
        let deadline = self.limits.deadline.duration();
        let call = async {
            let mut instance = match room {
                Room::Kept(instance) => instance,
                Room::Fresh(seat) => match self.sandbox.state().await {
                    Ok(state) => Instance::new(self.engine.wasmtime(), state, seat),
                    Err(fault) => return (Err(fault), None),
                },
            };
            let _epoch_moves = self.engine.ticker.run();
            let given = match instance.call(&self.provider, &self.limits, &clock, run).await {
                Ok(given) => given.map_err(Fault::from),
                Err(error) => return (Err(self.classify(&error, instance.state())), None),
            };
            // The guest's memory is free before that of its answer is charged.
            let instance = Some(instance).filter(|_| self.pool.is_some());
            let answer = match given {
                Ok(given) => check(self.checker(watches, clock.clone()), given).await,
                Err(fault) => Err(fault),
            };
            (answer, instance)
        };
        timeout(deadline, call).await.unwrap_or((Err(Fault::Deadline(deadline)), None))
    }

    /// What checks the answer to the call of that clock.
    fn checker(&self, watches: bool, clock: Arc<CpuClock>) -> Checker {
        let work = Work::new(clock, self.limits.cpu.duration(), self.sandbox.memory().clone());
        Checker::new(self.rules.clone(), watches, work)
    }

    /// What ended the guest.
    fn classify(&self, error: &wasmtime::Error, state: &State) -> Fault {
        if error.downcast_ref::<OutOfCpu>().is_some() {
            return Fault::Cpu(self.limits.cpu.duration());
        }
        if state.memory.refused() || error.downcast_ref::<OutOfMemory>().is_some() {
            return Fault::Memory(self.limits.memory.bytes());
        }
        if matches!(error.downcast_ref(), Some(ResourceTableError::Full)) {
            return Fault::Handles(self.limits.handles.get());
        }
        let trap = || Fault::Trap(excerpt::cut(format!("{error:#}"), MAX_TRAP_MESSAGE).escape_debug().to_string());
        if error.downcast_ref::<Trap>().is_some() {
            return trap();
        }
        // wasmtime has no types for these errors. What is around the cause may be the guest's.
        let cause = error.root_cause().to_string();
        if cause.contains("fuel allocated for hostcalls has been exhausted") {
            return Fault::Reply(self.limits.response_size.bytes());
        }
        if cause.contains("store handle limit exceeded") {
            return Fault::Handles(self.limits.handles.get());
        }
        if cause.contains("requested len") {
            return Fault::Random(self.limits.random_bytes.bytes());
        }
        trap()
    }
}
