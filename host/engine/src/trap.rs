//! The end of a guest's call: a limit, or a trap.

use std::fmt;

use wasmtime::component::ResourceTableError;
use wasmtime::{Trap, WasmBacktrace};

use mcp_host_base::text::{formatted_prefix, truncate};
use mcp_host_sandbox::cpu::OutOfCpu;
use mcp_host_sandbox::memory::OutOfMemory;

/// The maximum length of wasmtime's message about a trap, in bytes.
const MAX_TRAP_MESSAGE: usize = 2048;

/// wasmtime's message when lifting exceeds the fuel of `Store::set_hostcall_fuel`.
const HOSTCALL_FUEL: &str = "fuel allocated for hostcalls has been exhausted";
/// wasmtime's message when the handles exceed `Store::set_max_component_handles`.
const HANDLE_LIMIT: &str = "store handle limit exceeded";
/// wasmtime-wasi's message when a guest requests more than `WasiCtxBuilder::max_random_size`.
const RANDOM_SIZE: &str = "requested len";

/// The cause that ended a guest's call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallEnd {
    /// `limits.cpu`.
    Cpu,
    /// `limits.memory`.
    Memory,
    /// `limits.handles`.
    Handles,
    /// `limits.response-size`.
    ResponseSize,
    /// `limits.random-bytes`.
    RandomBytes,
    /// Any other cause, in wasmtime's words: truncated and escaped.
    Trap(String),
}

impl CallEnd {
    /// Classifies the error of a call. `memory_refused` is whether the guest was refused memory during the
    /// call.
    pub(crate) fn from_error(error: &wasmtime::Error, memory_refused: bool) -> Self {
        if error.downcast_ref::<OutOfCpu>().is_some() {
            return Self::Cpu;
        }
        if memory_refused || error.downcast_ref::<OutOfMemory>().is_some() {
            return Self::Memory;
        }
        if matches!(error.downcast_ref(), Some(ResourceTableError::Full)) {
            return Self::Handles;
        }
        if error.downcast_ref::<Trap>().is_none() {
            // wasmtime has no types for these errors. Only the root cause is compared, because outer contexts
            // may contain the guest's text.
            let cause = error.root_cause().to_string();
            let known =
                [(HOSTCALL_FUEL, Self::ResponseSize), (HANDLE_LIMIT, Self::Handles), (RANDOM_SIZE, Self::RandomBytes)];
            if let Some((_, end)) = known.into_iter().find(|(message, _)| cause.contains(message)) {
                return end;
            }
        }
        Self::Trap(truncate(message(error), MAX_TRAP_MESSAGE).escape_debug().to_string())
    }
}

/// Returns the message of an error, without the backtrace that the engine attaches as a context.
///
/// Of each context at most [`MAX_TRAP_MESSAGE`] bytes are formatted, and one character more, by which the message is
/// known to be longer. The backtrace has the names of up to `MAX_FRAMES` functions, which have tens of kilobytes each
/// if the guest wants.
fn message(error: &wasmtime::Error) -> String {
    let max = MAX_TRAP_MESSAGE.saturating_add(char::MAX.len_utf8());
    let shown = |part: &dyn fmt::Display| formatted_prefix(part, max);
    let backtrace = error.downcast_ref::<WasmBacktrace>().map(|backtrace| shown(backtrace));
    let parts = error.chain().map(|part| shown(&part)).filter(|part| backtrace.as_ref() != Some(part));
    parts.collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use wasmtime::component::{Component, Linker, ResourceTable};
    use wasmtime::{Engine, Store};
    use wasmtime_wasi::p2::bindings::random::random::Host as _;
    use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

    use super::*;

    fn end(error: &wasmtime::Error) -> CallEnd {
        CallEnd::from_error(error, false)
    }

    /// Returns the error of calling `run` of a component in a store that `limit` has limited.
    fn run(component: &str, limit: impl FnOnce(&mut Store<()>)) -> wasmtime::Error {
        let engine = Engine::default();
        let component = Component::new(&engine, wat::parse_str(component).unwrap()).unwrap();
        let mut linker = Linker::new(&engine);
        linker.root().func_wrap("log", |_, (_,): (String,)| Ok(())).unwrap();
        let mut store = Store::new(&engine, ());
        limit(&mut store);
        let instance = linker.instantiate(&mut store, &component).unwrap();
        let run = instance.get_typed_func::<(), ()>(&mut store, "run").unwrap();
        run.call(&mut store, ()).unwrap_err()
    }

    #[test]
    fn a_text_beyond_the_fuel_for_lifting_is_an_answer_that_is_too_large() {
        let component = r#"(component
            (import "log" (func $log (param "text" string)))
            (core module $libc
                (memory (export "memory") 1))
            (core instance $libc (instantiate $libc))
            (core func $log (canon lower (func $log) (memory (core memory $libc "memory"))))
            (core module $m
                (import "" "log" (func $log (param i32 i32)))
                (func (export "run") (call $log (i32.const 0) (i32.const 10000))))
            (core instance $m (instantiate $m (with "" (instance (export "log" (func $log))))))
            (func (export "run") (canon lift (core func $m "run"))))"#;
        let error = run(component, |store| store.set_hostcall_fuel(1000));
        assert_eq!(end(&error), CallEnd::ResponseSize, "{error:#}");
    }

    #[test]
    fn more_handles_than_allowed_are_recognized() {
        let component = r#"(component
            (type $thing (resource (rep i32)))
            (core func $new (canon resource.new $thing))
            (core module $m
                (import "" "new" (func $new (param i32) (result i32)))
                (func (export "run") (loop $again (drop (call $new (i32.const 1))) (br $again))))
            (core instance $m (instantiate $m (with "" (instance (export "new" (func $new))))))
            (func (export "run") (canon lift (core func $m "run"))))"#;
        let error = run(component, |store| store.set_max_component_handles(10));
        assert_eq!(end(&error), CallEnd::Handles, "{error:#}");
        let table_is_full = wasmtime::Error::from(ResourceTableError::Full);
        assert_eq!(end(&table_is_full), CallEnd::Handles);
    }

    struct State {
        wasi: WasiCtx,
        table: ResourceTable,
    }

    impl WasiView for State {
        fn ctx(&mut self) -> WasiCtxView<'_> {
            WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
        }
    }

    #[test]
    fn more_random_bytes_than_allowed_are_recognized() {
        let wasi = WasiCtx::builder().max_random_size(10).build();
        let mut state = State { wasi, table: ResourceTable::new() };
        let error = state.ctx().ctx.random().get_random_bytes(11).unwrap_err();
        assert_eq!(end(&error), CallEnd::RandomBytes, "{error:#}");
    }

    /// A context that must not be formatted to its end.
    #[derive(Debug)]
    struct Long;

    impl fmt::Display for Long {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            for part in 0..1000 {
                assert!(part < 10, "{part} parts of it are formatted");
                f.write_str(&"x".repeat(1000))?;
            }
            Ok(())
        }
    }

    #[test]
    fn of_a_long_context_only_the_part_that_is_kept_is_formatted() {
        let error = wasmtime::Error::from(Trap::UnreachableCodeReached).context(Long);
        let CallEnd::Trap(message) = end(&error) else { panic!("it is a trap") };
        assert_eq!(message, "x".repeat(MAX_TRAP_MESSAGE) + "…");
    }

    #[test]
    fn a_message_has_no_stack_whatever_the_names_of_its_functions() {
        let name = "f".repeat(60_000);
        let component = format!(
            r#"(component
            (core module $m (func ${name} (export "run") unreachable))
            (core instance $m (instantiate $m))
            (func (export "run") (canon lift (core func $m "run"))))"#
        );
        let error = run(&component, |_| {});
        assert!(error.downcast_ref::<WasmBacktrace>().is_some_and(|stack| stack.to_string().contains(&name)));
        let CallEnd::Trap(message) = end(&error) else { panic!("it is a trap") };
        assert!(message.contains("unreachable") && !message.contains("ff"), "{message}");
    }

    #[test]
    fn an_error_with_a_type_is_recognized_by_it_whatever_its_text_says() {
        assert_eq!(end(&OutOfCpu.into()), CallEnd::Cpu);
        assert_eq!(end(&OutOfMemory(1).into()), CallEnd::Memory);
        assert_eq!(CallEnd::from_error(&Trap::UnreachableCodeReached.into(), true), CallEnd::Memory);
        let posing = wasmtime::Error::from(Trap::UnreachableCodeReached).context(HOSTCALL_FUEL);
        assert!(matches!(end(&posing), CallEnd::Trap(_)), "{posing:#}");
    }
}
