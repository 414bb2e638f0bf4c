//! The protocol's operations on the stopped guest: its modules and memories, its stack, breakpoints.
//!
//! The traits of `gdbstub` are synchronous, and the store of a stopped guest belongs to its call. So each operation is
//! a function that is sent to the call, and this thread blocks until the call has run it. A call may end meanwhile,
//! because its client is gone. Then there is nothing to read, and the next guest that stops is shown.

use std::convert::Infallible;
use std::sync::Arc;

use gdbstub::arch::lldb::{Encoding, Format, Generic, Register};
use gdbstub::common::{Endianness, Pid, Signal, Tid};
use gdbstub::stub::MultiThreadStopReason;
use gdbstub::target::ext::base::BaseOps;
use gdbstub::target::ext::base::multithread::{
    MultiThreadBase, MultiThreadResume, MultiThreadResumeOps, MultiThreadSchedulerLocking,
    MultiThreadSchedulerLockingOps, MultiThreadSingleStep, MultiThreadSingleStepOps,
};
use gdbstub::target::ext::base::single_register_access::{SingleRegisterAccess, SingleRegisterAccessOps};
use gdbstub::target::ext::breakpoints::{Breakpoints, BreakpointsOps, SwBreakpoint, SwBreakpointOps};
use gdbstub::target::ext::host_info::{HostInfo, HostInfoOps, HostInfoResponse};
use gdbstub::target::ext::libraries::{Libraries, LibrariesOps};
use gdbstub::target::ext::lldb_register_info_override::{
    Callback, CallbackToken, LldbRegisterInfoOverride, LldbRegisterInfoOverrideOps,
};
use gdbstub::target::ext::memory_map::{MemoryMap, MemoryMapOps};
use gdbstub::target::ext::process_info::{ProcessInfo, ProcessInfoOps, ProcessInfoResponse};
use gdbstub::target::ext::wasm::{Wasm, WasmOps};
use gdbstub::target::{Target, TargetError, TargetResult};
use gdbstub_arch::wasm::reg::WasmRegisters;
use gdbstub_arch::wasm::reg::id::WasmRegId;
use mcp_host_sandbox::state::GuestState;
use tokio::sync::mpsc::UnboundedSender;
use wasmtime::{AsContextMut, FrameHandle, Memory, Module, ModulePC, StoreContextMut, Trap, Val};

use super::address_space::{AddressSpace, Place};
use super::{Breakpoint, Command, Shared, Stop, StopReason};

/// The only thread.
const THREAD: Tid = Tid::MIN;
/// The only process.
const PROCESS: Pid = Pid::MIN;
const TRIPLE: &str = "wasm32-unknown-unknown-wasm";
const POINTER_BYTES: usize = 4;
/// The maximum number of frames that are shown.
const MAX_FRAMES: usize = 1000;
/// The maximum number of memories of one instance that are shown.
const MAX_MEMORIES: u32 = 16;

/// The guest that is stopped.
pub(super) struct GuestTarget {
    shared: Arc<Shared>,
    /// The commands to the guest that is stopped; none while none is.
    commands: Option<UnboundedSender<Command>>,
    space: AddressSpace,
    /// The addresses of the frames, from the innermost one.
    frames: Vec<u64>,
    /// The number of innermost frames that cannot be read.
    skipped_frames: usize,
    /// Whether the next resumption is for one instruction.
    is_step: bool,
}

/// The state of a guest that has just stopped.
struct Stopped {
    modules: Vec<Module>,
    memories: Vec<Memory>,
    frames: Vec<(Module, u32)>,
}

impl GuestTarget {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let (space, frames) = (AddressSpace::default(), Vec::new());
        Self { shared, commands: None, space, frames, skipped_frames: 0, is_step: false }
    }

    /// Runs a function on the store of the guest that is stopped, and waits for its result; none if the call has ended.
    fn query<R: Send + 'static>(
        &self,
        query: impl FnOnce(StoreContextMut<'_, GuestState>) -> R + Send + 'static,
    ) -> Option<R> {
        let (answer, answered) = std::sync::mpsc::sync_channel(1);
        let query = Command::Query(Box::new(move |store| {
            let _ = answer.send(query(store));
        }));
        self.commands.as_ref()?.send(query).ok()?;
        answered.recv().ok()
    }

    /// Shows a guest that has just stopped, and returns why in the words of the protocol.
    pub(super) fn stop(&mut self, stop: &Stop) -> MultiThreadStopReason<u64> {
        self.commands = Some(stop.commands.clone());
        self.frames.clear();
        // A function checks at its entry whether there is room on the stack, before its frame is valid.
        let skipped = usize::from(stop.reason == StopReason::Trap(Trap::StackOverflow));
        self.skipped_frames = skipped;
        if let Some(Stopped { modules, memories, frames }) = self.query(move |store| stopped(store, skipped)) {
            self.space.update(modules, memories);
            let address = |(module, pc): (Module, u32)| Some(self.space.address(&module, pc)?.as_raw());
            self.frames = frames.into_iter().filter_map(address).collect();
        }
        let signal = match stop.reason {
            StopReason::Breakpoint if !self.is_step => return MultiThreadStopReason::SwBreak(THREAD),
            StopReason::Breakpoint => Signal::SIGTRAP,
            StopReason::Trap(_) => Signal::SIGSEGV,
            StopReason::Interrupt => Signal::SIGINT,
        };
        MultiThreadStopReason::SignalWithThread { tid: THREAD, signal }
    }

    /// The program counter; 0 before the first instruction.
    pub(super) fn pc(&self) -> u64 {
        self.frames.first().copied().unwrap_or_default()
    }

    /// Sets or removes a breakpoint, in the guest that is stopped and for later instances. Returns false if no module
    /// has the address, or the code of the guest cannot be written.
    fn edit_breakpoint(&self, address: u64, is_set: bool) -> bool {
        let Some(Place::Code { module, offset: pc }) = self.space.place(address) else { return false };
        let module = module.clone();
        let mut breakpoints = self.shared.breakpoints.lock();
        let is_same =
            |one: &Breakpoint| one.pc == pc && one.module.debug_index_in_engine() == module.debug_index_in_engine();
        // A debugger may repeat a request, and wasmtime counts them.
        match breakpoints.iter().position(is_same) {
            None if is_set => breakpoints.push(Breakpoint { module: module.clone(), pc }),
            Some(position) if !is_set => drop(breakpoints.swap_remove(position)),
            None | Some(_) => return true,
        }
        drop(breakpoints);
        let edited = self.query(move |store| {
            let mut edit = store.edit_breakpoints()?;
            let edited = match is_set {
                true => edit.add_breakpoint(&module, ModulePC::new(pc)),
                false => edit.remove_breakpoint(&module, ModulePC::new(pc)),
            };
            edited.ok()
        });
        // If the call has ended, the next instance has it.
        edited.is_none_or(|edited| edited.is_some())
    }

    /// Writes the bytes of a value of a frame to `buf`, and returns their number; 0 if there is no such value.
    fn read_value(
        &self,
        depth: usize,
        buf: &mut [u8],
        value: impl FnOnce(&mut StoreContextMut<'_, GuestState>, &FrameHandle) -> Option<Val> + Send + 'static,
    ) -> usize {
        let skipped = self.skipped_frames;
        let bytes = self.query(move |mut store| {
            let frame = frames(&mut store, skipped).into_iter().nth(depth)?;
            Some(value_bytes(&value(&mut store, &frame)?))
        });
        bytes.flatten().map_or(0, |bytes| copy(&bytes, buf))
    }
}

/// Reads the modules, memories and frames of a guest.
fn stopped(mut store: StoreContextMut<'_, GuestState>, skipped_frames: usize) -> Stopped {
    let modules = store.as_context_mut().debug_all_modules();
    let mut memories: Vec<Memory> = Vec::new();
    for instance in store.as_context_mut().debug_all_instances() {
        let of_instance = (0..MAX_MEMORIES).map_while(|index| instance.debug_memory(&mut store, index));
        for memory in of_instance.collect::<Vec<_>>() {
            if memories.iter().all(|known| known.debug_index_in_store() != memory.debug_index_in_store()) {
                memories.push(memory);
            }
        }
    }
    let mut places = Vec::new();
    for frame in frames(&mut store, skipped_frames) {
        let pc = frame.wasm_function_index_and_pc(&mut store).ok().flatten();
        let module = frame.module(&mut store).ok().flatten().cloned();
        // A frame without a module is one of wasmtime's trampolines.
        places.extend(module.zip(pc).map(|(module, (_, pc))| (module, pc.raw())));
    }
    Stopped { modules, memories, frames: places }
}

/// Returns the frames of the modules of a guest, from the innermost one, without the first `skipped`. If a host
/// function has called the guest to allocate memory, only the frames of that call are returned, as by wasmtime's own
/// debugger: the outer ones begin in a trampoline, for which wasmtime has no record.
fn frames(store: &mut StoreContextMut<'_, GuestState>, mut skipped: usize) -> Vec<FrameHandle> {
    let mut frames = Vec::new();
    let mut next = store.debug_exit_frames().next();
    while let Some(frame) = next.filter(|_| frames.len() < MAX_FRAMES) {
        next = frame.parent(&mut *store).ok().flatten();
        if let Some(less) = skipped.checked_sub(1) {
            skipped = less;
        } else if matches!(frame.wasm_function_index_and_pc(&mut *store), Ok(Some(_))) {
            frames.push(frame);
        }
    }
    frames
}

/// Returns the bytes of a value, in little-endian order. References have none.
fn value_bytes(value: &Val) -> Vec<u8> {
    match value {
        Val::I32(value) => value.to_le_bytes().to_vec(),
        Val::I64(value) => value.to_le_bytes().to_vec(),
        Val::F32(bits) => bits.to_le_bytes().to_vec(),
        Val::F64(bits) => bits.to_le_bytes().to_vec(),
        Val::V128(value) => value.as_u128().to_le_bytes().to_vec(),
        _ => Vec::new(),
    }
}

/// Copies as many bytes as there is room for, and returns their number.
fn copy(bytes: &[u8], into: &mut [u8]) -> usize {
    into.iter_mut().zip(bytes).map(|(into, byte)| *into = *byte).count()
}

/// Copies the part of a document at this offset.
fn copy_part(document: &str, offset: u64, length: usize, buf: &mut [u8]) -> usize {
    let from = usize::try_from(offset).unwrap_or(usize::MAX);
    let part = document.as_bytes().get(from..).unwrap_or_default();
    copy(part.get(..length).unwrap_or(part), buf)
}

impl Target for GuestTarget {
    type Arch = gdbstub_arch::wasm::Wasm;
    type Error = Infallible;

    fn base_ops(&mut self) -> BaseOps<'_, Self::Arch, Self::Error> {
        BaseOps::MultiThread(self)
    }

    fn use_lldb_register_info(&self) -> bool {
        true
    }

    fn support_breakpoints(&mut self) -> Option<BreakpointsOps<'_, Self>> {
        Some(self)
    }

    fn support_host_info(&mut self) -> Option<HostInfoOps<'_, Self>> {
        Some(self)
    }

    fn support_libraries(&mut self) -> Option<LibrariesOps<'_, Self>> {
        Some(self)
    }

    fn support_lldb_register_info_override(&mut self) -> Option<LldbRegisterInfoOverrideOps<'_, Self>> {
        Some(self)
    }

    fn support_memory_map(&mut self) -> Option<MemoryMapOps<'_, Self>> {
        Some(self)
    }

    fn support_process_info(&mut self) -> Option<ProcessInfoOps<'_, Self>> {
        Some(self)
    }

    fn support_wasm(&mut self) -> Option<WasmOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadBase for GuestTarget {
    fn read_registers(&mut self, registers: &mut WasmRegisters, _: Tid) -> TargetResult<(), Self> {
        registers.pc = self.pc();
        Ok(())
    }

    fn write_registers(&mut self, _: &WasmRegisters, _: Tid) -> TargetResult<(), Self> {
        // Control flow is structured: there are no jumps from outside.
        Err(TargetError::NonFatal)
    }

    fn read_addrs(&mut self, start: u64, data: &mut [u8], _: Tid) -> TargetResult<usize, Self> {
        match self.space.place(start).ok_or(TargetError::NonFatal)? {
            Place::Code { module, offset } => {
                let from = usize::try_from(offset).map_err(|_| TargetError::NonFatal)?;
                let code = module.debug_bytecode().and_then(|code| code.get(from..));
                Ok(copy(code.filter(|code| !code.is_empty()).ok_or(TargetError::NonFatal)?, data))
            }
            Place::Data { memory, offset } => {
                let length = data.len();
                let bytes = self.query(move |store| {
                    let from = usize::try_from(offset).ok()?;
                    // Nothing is an error: LLDB takes an empty reply for a server that cannot read memory.
                    let rest = memory.data(&store).get(from..).filter(|rest| !rest.is_empty())?;
                    Some(rest.get(..length).unwrap_or(rest).to_vec())
                });
                let bytes = bytes.flatten().ok_or(TargetError::NonFatal)?;
                Ok(copy(&bytes, data))
            }
        }
    }

    fn write_addrs(&mut self, start: u64, data: &[u8], _: Tid) -> TargetResult<(), Self> {
        let Some(Place::Data { memory, offset }) = self.space.place(start) else { return Err(TargetError::NonFatal) };
        let bytes = data.to_vec();
        let written = self.query(move |store| {
            let from = usize::try_from(offset).ok()?;
            memory.write(store, from, &bytes).ok()
        });
        written.flatten().ok_or(TargetError::NonFatal)
    }

    fn list_active_threads(&mut self, thread_is_active: &mut dyn FnMut(Tid)) -> Result<(), Self::Error> {
        thread_is_active(THREAD);
        Ok(())
    }

    fn support_single_register_access(&mut self) -> Option<SingleRegisterAccessOps<'_, Tid, Self>> {
        Some(self)
    }

    fn support_resume(&mut self) -> Option<MultiThreadResumeOps<'_, Self>> {
        Some(self)
    }
}

impl SingleRegisterAccess<Tid> for GuestTarget {
    fn read_register(&mut self, _: Tid, register: WasmRegId, buf: &mut [u8]) -> TargetResult<usize, Self> {
        match register {
            WasmRegId::Pc => Ok(copy(&self.pc().to_le_bytes(), buf)),
            _ => Err(TargetError::NonFatal),
        }
    }

    fn write_register(&mut self, _: Tid, _: WasmRegId, _: &[u8]) -> TargetResult<(), Self> {
        Err(TargetError::NonFatal)
    }
}

impl MultiThreadResume for GuestTarget {
    fn resume(&mut self) -> Result<(), Self::Error> {
        self.frames.clear();
        if let Some(commands) = self.commands.take() {
            // If the call has ended, the next guest that stops is shown.
            let _ = commands.send(Command::Resume { is_step: self.is_step });
        }
        Ok(())
    }

    fn clear_resume_actions(&mut self) -> Result<(), Self::Error> {
        self.is_step = false;
        Ok(())
    }

    fn set_resume_action_continue(&mut self, _: Tid, _: Option<Signal>) -> Result<(), Self::Error> {
        self.is_step = false;
        Ok(())
    }

    fn support_single_step(&mut self) -> Option<MultiThreadSingleStepOps<'_, Self>> {
        Some(self)
    }

    fn support_scheduler_locking(&mut self) -> Option<MultiThreadSchedulerLockingOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadSingleStep for GuestTarget {
    fn set_resume_action_step(&mut self, _: Tid, _: Option<Signal>) -> Result<(), Self::Error> {
        self.is_step = true;
        Ok(())
    }
}

impl MultiThreadSchedulerLocking for GuestTarget {
    fn set_resume_action_scheduler_lock(&mut self) -> Result<(), Self::Error> {
        // There are no other threads.
        Ok(())
    }
}

impl Breakpoints for GuestTarget {
    fn support_sw_breakpoint(&mut self) -> Option<SwBreakpointOps<'_, Self>> {
        Some(self)
    }
}

impl SwBreakpoint for GuestTarget {
    fn add_sw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.edit_breakpoint(address, true))
    }

    fn remove_sw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.edit_breakpoint(address, false))
    }
}

impl LldbRegisterInfoOverride for GuestTarget {
    fn lldb_register_info<'a>(&mut self, register: usize, info: Callback<'a>) -> Result<CallbackToken<'a>, Infallible> {
        if register > 0 {
            return Ok(info.done());
        }
        Ok(info.write(Register {
            name: "pc",
            alt_name: Some("pc"),
            bitsize: 64,
            offset: 0,
            encoding: Encoding::Uint,
            format: Format::Hex,
            set: "PC",
            gcc: Some(16),
            dwarf: Some(16),
            generic: Some(Generic::Pc),
            container_regs: None,
            invalidate_regs: None,
        }))
    }
}

impl Libraries for GuestTarget {
    fn get_libraries(&self, offset: u64, length: usize, buf: &mut [u8]) -> TargetResult<usize, Self> {
        Ok(copy_part(&self.space.library_list(), offset, length, buf))
    }
}

impl MemoryMap for GuestTarget {
    fn memory_map_xml(&self, offset: u64, length: usize, buf: &mut [u8]) -> TargetResult<usize, Self> {
        let memories = self.space.memories().to_vec();
        let sizes = self.query(move |store| memories.iter().map(|memory| memory.data_size(&store)).collect::<Vec<_>>());
        let map = self.space.memory_map(&sizes.unwrap_or_default());
        Ok(copy_part(&map, offset, length, buf))
    }
}

impl Wasm for GuestTarget {
    fn wasm_call_stack(&self, _: Tid, next_pc: &mut dyn FnMut(u64)) -> Result<(), Infallible> {
        self.frames.iter().for_each(|address| next_pc(*address));
        Ok(())
    }

    fn read_wasm_local(&self, _: Tid, frame: usize, local: usize, buf: &mut [u8]) -> Result<usize, Infallible> {
        Ok(self.read_value(frame, buf, move |store, frame| {
            let index = u32::try_from(local).ok()?;
            // An index beyond the number of locals would panic.
            let is_there = index < frame.num_locals(&mut *store).ok()?;
            is_there.then(|| frame.local(&mut *store, index).ok()).flatten()
        }))
    }

    fn read_wasm_stack(&self, _: Tid, frame: usize, index: usize, buf: &mut [u8]) -> Result<usize, Infallible> {
        // The index is the one of the debug information, which LLDB forwards: it counts from the bottom, although
        // `gdbstub` documents the opposite.
        Ok(self.read_value(frame, buf, move |store, frame| {
            let index = u32::try_from(index).ok()?;
            // An index beyond the depth would panic.
            let is_there = index < frame.num_stacks(&mut *store).ok()?;
            is_there.then(|| frame.stack(&mut *store, index).ok()).flatten()
        }))
    }

    fn read_wasm_global(&self, _: Tid, frame: usize, global: usize, buf: &mut [u8]) -> Result<usize, Infallible> {
        Ok(self.read_value(frame, buf, move |store, frame| {
            let instance = frame.instance(&mut *store).ok()?;
            let global = instance.debug_global(&mut *store, u32::try_from(global).ok()?)?;
            Some(global.get(&mut *store))
        }))
    }
}

impl HostInfo for GuestTarget {
    fn host_info(&self, write_item: &mut dyn FnMut(&HostInfoResponse<'_>)) -> Result<(), Infallible> {
        write_item(&HostInfoResponse::Triple(TRIPLE));
        write_item(&HostInfoResponse::Endianness(Endianness::Little));
        write_item(&HostInfoResponse::PointerSize(POINTER_BYTES));
        Ok(())
    }
}

impl ProcessInfo for GuestTarget {
    fn process_info(&self, write_item: &mut dyn FnMut(&ProcessInfoResponse<'_>)) -> Result<(), Infallible> {
        write_item(&ProcessInfoResponse::Pid(PROCESS));
        write_item(&ProcessInfoResponse::Triple(TRIPLE));
        write_item(&ProcessInfoResponse::Endianness(Endianness::Little));
        write_item(&ProcessInfoResponse::PointerSize(POINTER_BYTES));
        Ok(())
    }
}
