//! A debugger for guests: the [GDB remote serial protocol] over TCP, with the extensions of LLDB for WebAssembly. For
//! authors; a server that has clients has no debugger.
//!
//! An [`Engine`](crate::Engine) with a [`Debugger`] compiles components with instrumentation, which costs time and
//! memory: each instance has its own copy of the code, so that breakpoints can be written into it. A guest that stops
//! keeps its stack, and executes commands of the debugger until it is resumed ([`Hook`]). The debugger sees one process
//! with one thread: guests that stop while another one is stopped wait for their turn.
//!
//! The protocol begins with a stopped process, and a provider runs only while it is called. So after a new connection,
//! [`Debugger::serve`] calls the provider, and the call stops before its first instruction; after an interrupt, too. A
//! breakpoint is kept for later instances of the same component. Instances are not reused, so that each of them begins
//! with all breakpoints.
//!
//! | module | subject |
//! |---|---|
//! | `session` | one connection: packets, and the events of guests |
//! | `target` | the protocol's operations on a stopped guest |
//! | `address_space` | addresses for modules and memories |
//!
//! Calls have no deadline and a long CPU limit, and run one at a time ([`debuggable_limits`]). The circuit breaker is
//! off, and inputs that have failed are not refused. The listener has no authentication: any client that connects can
//! read and write the memory of guests. So it must be on loopback, as in `mcp-host dev`.
//!
//! [GDB remote serial protocol]: https://sourceware.org/gdb/current/onlinedocs/gdb.html/Remote-Protocol.html

mod address_space;
mod session;
mod target;

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mcp_host_base::log_target;
use mcp_host_base::task;
use mcp_host_config::limits::Limits;
use mcp_host_sandbox::state::GuestState;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use wasmtime::component::Component;
use wasmtime::{AsContextMut, DebugEvent, DebugHandler, Module, ModulePC, Store, StoreContextMut, Trap};

use self::session::Session;

/// The CPU limit of a debugged call: the maximum of `limits.cpu`. A stopped guest uses none.
const DEBUGGED_CPU: Duration = Duration::from_mins(10);
/// The queue timeout of a debugged call: the maximum of `limits.queue-timeout`.
const DEBUGGED_QUEUE_TIMEOUT: Duration = Duration::from_mins(1);
/// The time after which a call that has not stopped a guest is repeated.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// A debugger of the guests of one engine. Clones are the same debugger.
#[derive(Clone, Debug, Default)]
pub struct Debugger {
    shared: Arc<Shared>,
}

/// The state that the connection and the guests share.
#[derive(Debug, Default)]
struct Shared {
    /// Where guests report that they have stopped; none if no debugger is attached.
    attached: Mutex<Option<mpsc::Sender<Stop>>>,
    /// Whether the next guest that runs is to stop.
    is_interrupted: AtomicBool,
    /// Notified when a guest is to stop, whether or not one runs.
    call_wanted: Notify,
    /// The breakpoints, as they were requested.
    breakpoints: Mutex<Vec<Breakpoint>>,
}

/// A guest has stopped, and takes commands until it is resumed. It is gone if its call ends first.
struct Stop {
    reason: StopReason,
    commands: mpsc::UnboundedSender<Command>,
}

/// A function on the store of a guest.
type Query = Box<dyn FnOnce(StoreContextMut<'_, GuestState>) + Send>;

/// A command to a guest that is stopped.
enum Command {
    /// Run a function on its store.
    Query(Query),
    /// Continue; with `is_step`, until the next instruction.
    Resume { is_step: bool },
}

/// Why a guest has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StopReason {
    /// At a breakpoint, or after one instruction.
    Breakpoint,
    /// It traps, and ends when it is resumed.
    Trap(Trap),
    /// By an interrupt, or because a debugger has connected.
    Interrupt,
}

/// A breakpoint in any instance of a module.
#[derive(Clone)]
struct Breakpoint {
    module: Module,
    pc: u32,
}

impl std::fmt::Debug for Breakpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Breakpoint").field("module", &self.module.name()).field("pc", &self.pc).finish()
    }
}

impl Debugger {
    /// Creates a debugger without a connection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Serves debuggers that connect to this listener, one after the other. Dropping the future ends the connection.
    ///
    /// When a debugger connects or interrupts, a guest must run: `call` must call the provider, and its result does not
    /// matter. If the host rejects that call, no guest runs, and `call` is called again a second later.
    ///
    /// # Errors
    ///
    /// The listener fails.
    pub async fn serve<F: Future<Output = ()>>(
        &self,
        listener: TcpListener,
        mut call: impl FnMut() -> F,
    ) -> io::Result<Infallible> {
        let calling = async {
            loop {
                self.call_wanted().await;
                call().await;
            }
        };
        tokio::select! {
            ended = self.accept(listener) => ended,
            never = calling => never,
        }
    }

    /// Accepts debuggers, one after the other.
    async fn accept(&self, listener: TcpListener) -> io::Result<Infallible> {
        let ended = CancellationToken::new();
        let _end = ended.clone().drop_guard();
        loop {
            let (connection, peer) = listener.accept().await?;
            let session = ended.clone().run_until_cancelled_owned(Session::run(self.shared.clone(), connection));
            // On a thread for blocking work: operations on a stopped guest block until they have run.
            let runtime = Handle::current();
            match task::spawn_blocking(move || runtime.block_on(session)).await {
                Ok(None | Some(Ok(()))) => {}
                Ok(Some(Err(error))) => {
                    tracing::warn!(target: log_target::PLUGIN, %peer, %error, "the debugger was disconnected")
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits until the debugger needs a running guest, to stop it. Unless a guest has stopped since, this completes
    /// again a second later.
    async fn call_wanted(&self) {
        let Shared { is_interrupted, call_wanted, .. } = &*self.shared;
        if is_interrupted.load(Ordering::SeqCst) {
            let _ = timeout(RETRY_DELAY, call_wanted.notified()).await;
        }
        while !is_interrupted.load(Ordering::SeqCst) {
            call_wanted.notified().await;
        }
    }

    /// Makes the guests of this new store stop at breakpoints.
    pub(crate) fn observe(&self, store: &mut Store<GuestState>) {
        store.set_debug_handler(Hook::new(self.shared.clone()));
    }

    /// Prepares a store for the instantiation of its component: sets the breakpoints, and stops if that was requested.
    pub(crate) async fn enter(&self, store: &mut Store<GuestState>, component: &Component) -> wasmtime::Result<()> {
        if self.shared.attached.lock().is_none() {
            return Ok(());
        }
        store.debug_register_component(component)?;
        let modules = store.debug_all_modules();
        let breakpoints = self.shared.breakpoints.lock().clone();
        if let Some(mut edit) = store.edit_breakpoints() {
            let is_registered = |one: &Breakpoint| {
                modules.iter().any(|module| module.debug_index_in_engine() == one.module.debug_index_in_engine())
            };
            for one in breakpoints.iter().filter(|one| is_registered(one)) {
                edit.add_breakpoint(&one.module, ModulePC::new(one.pc))?;
            }
        }
        if self.shared.is_interrupted.swap(false, Ordering::SeqCst) {
            Hook::new(self.shared.clone()).stop(store.as_context_mut(), StopReason::Interrupt).await;
        }
        Ok(())
    }
}

impl Shared {
    /// Makes the running guest stop, or else the next one.
    fn interrupt(&self) {
        self.is_interrupted.store(true, Ordering::SeqCst);
        self.call_wanted.notify_one();
    }
}

/// The limits of a plugin whose guests are debugged: its calls run one at a time, wait longer for their turn, and may
/// compute for long. They have no deadline, either.
pub(crate) fn debuggable_limits(limits: &Limits) -> Limits {
    let mut limits = limits.clone();
    limits.cpu = DEBUGGED_CPU.try_into().unwrap_or(limits.cpu);
    limits.concurrency = 1.try_into().unwrap_or(limits.concurrency);
    limits.queue_timeout = DEBUGGED_QUEUE_TIMEOUT.try_into().unwrap_or(limits.queue_timeout);
    limits
}

/// Called by wasmtime in the guest of one store, at each event that may stop it. Clones are for the same store.
#[derive(Clone)]
struct Hook {
    shared: Arc<Shared>,
    /// Whether the guest steps to its next instruction because of an interrupt.
    is_interrupting: Arc<AtomicBool>,
}

impl DebugHandler for Hook {
    type Data = GuestState;

    fn handle(
        &self,
        mut store: StoreContextMut<'_, GuestState>,
        event: DebugEvent<'_>,
    ) -> impl Future<Output = ()> + Send {
        let reason = match event {
            DebugEvent::Breakpoint if !self.is_interrupting.swap(false, Ordering::SeqCst) => {
                Some(StopReason::Breakpoint)
            }
            DebugEvent::Breakpoint if self.shared.is_interrupted.swap(false, Ordering::SeqCst) => {
                Some(StopReason::Interrupt)
            }
            // Another guest has answered the interrupt.
            DebugEvent::Breakpoint => {
                step(store.as_context_mut(), false);
                None
            }
            DebugEvent::Trap(trap) => Some(StopReason::Trap(trap)),
            // A guest may yield at the entry of a function. There, wasmtime has no record of its frame, and uses the
            // record of the function before it in the code. At the next instruction the frame is right.
            DebugEvent::EpochYield => {
                if self.shared.is_interrupted.load(Ordering::SeqCst)
                    && !self.is_interrupting.swap(true, Ordering::SeqCst)
                {
                    step(store.as_context_mut(), true);
                }
                None
            }
            // Exceptions may be caught; errors of host functions are limits, or results that the guest sees.
            DebugEvent::Exception(_) | DebugEvent::HostcallError(_) => None,
        };
        async move {
            if let Some(reason) = reason {
                self.stop(store, reason).await;
            }
        }
    }
}

/// Makes a guest stop after its next instruction, or only at breakpoints.
fn step(store: StoreContextMut<'_, GuestState>, is_step: bool) {
    let edit = store.edit_breakpoints();
    if let Some(Err(error)) = edit.map(|mut edit| edit.single_step(is_step)) {
        tracing::warn!(target: log_target::PLUGIN, %error, "the guest cannot be stepped");
    }
}

impl Hook {
    fn new(shared: Arc<Shared>) -> Self {
        Self { shared, is_interrupting: Arc::default() }
    }

    /// Stops the guest of this store until it is resumed. Without a debugger it runs to its end.
    async fn stop(&self, mut store: StoreContextMut<'_, GuestState>, reason: StopReason) {
        let is_step = self.answer(store.as_context_mut(), reason).await.unwrap_or(false);
        step(store, is_step);
    }

    /// Executes commands on the guest of this store. Returns whether it is resumed for one instruction; none if there
    /// is no debugger, or no longer one.
    async fn answer(&self, mut store: StoreContextMut<'_, GuestState>, reason: StopReason) -> Option<bool> {
        let attached = self.shared.attached.lock().clone()?;
        let (commands, mut received) = mpsc::unbounded_channel();
        attached.send(Stop { reason, commands }).await.ok()?;
        drop(attached);
        loop {
            match received.recv().await? {
                Command::Query(query) => query(store.as_context_mut()),
                Command::Resume { is_step } => return Some(is_step),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_call_that_was_rejected_is_wanted_again_until_a_guest_has_stopped() {
        let debugger = Debugger::new();
        let is_wanted = async |within| timeout(within, debugger.call_wanted()).await.is_ok();
        let (soon, late) = (Duration::from_millis(50), Duration::from_mins(1));
        assert!(!is_wanted(soon).await);
        debugger.shared.interrupt();
        assert!(is_wanted(late).await);
        assert!(is_wanted(late).await, "no guest has stopped");
        debugger.shared.is_interrupted.store(false, Ordering::SeqCst);
        assert!(!is_wanted(soon).await);
    }
}
