//! The stack of a guest: its functions by name, innermost first.
//!
//! Bounded: `MAX_FRAMES` frames; names have at most [`MAX_NAME`] bytes, and a component with much longer
//! names does not compile (module `static_content`).

use std::fmt;

use mcp_host_base::escape;
use mcp_host_base::text::truncate;
use wasmtime::{AsContext, WasmBacktrace};

use crate::config::MAX_FRAMES;

/// The maximum length of a name in bytes.
const MAX_NAME: usize = 256;

/// The stack of a guest, innermost frame first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backtrace {
    /// The frames.
    pub frames: Vec<StackFrame>,
}

/// A frame of a stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct StackFrame {
    /// The name of the frame's core module, if it has one.
    pub module: Option<String>,
    /// The name of the frame's function, demangled; `function[7]` for a function without a name.
    pub function: String,
    /// The offset of the instruction in the component file.
    pub offset: Option<u64>,
}

impl Backtrace {
    /// Returns the stack that the engine attached to an error.
    pub(crate) fn of_error(error: &wasmtime::Error) -> Option<Self> {
        error.downcast_ref::<WasmBacktrace>().map(Self::new).filter(|stack| !stack.frames.is_empty())
    }

    /// Captures the stack of a guest that is on this thread's stack.
    pub(crate) fn capture(store: impl AsContext) -> Self {
        Self::new(&WasmBacktrace::capture(store))
    }

    fn new(stack: &WasmBacktrace) -> Self {
        let frame = |frame: &wasmtime::FrameInfo| StackFrame {
            module: frame.module().name().map(short),
            function: match frame.func_name() {
                Some(name) => short(&demangle(name)),
                None => format!("function[{}]", frame.func_index()),
            },
            offset: frame.module_offset().map(|offset| offset as u64),
        };
        Self { frames: stack.frames().iter().take(MAX_FRAMES.get()).map(frame).collect() }
    }
}

/// Displayed on one line: `a < b < c`. Each function is called by the next.
impl fmt::Display for Backtrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, frame) in self.frames.iter().enumerate() {
            if index > 0 {
                f.write_str(" < ")?;
            }
            f.write_str(&escape::line(&frame.function))?;
        }
        Ok(())
    }
}

fn short(text: &str) -> String {
    truncate(text.to_owned(), MAX_NAME)
}

/// Returns a name as in the source, for Rust and C++. Names from Go and C need no demangling.
fn demangle(name: &str) -> String {
    if let Ok(name) = rustc_demangle::try_demangle(name) {
        // Without the hash at its end.
        return format!("{name:#}");
    }
    let of_cpp = name.starts_with("_Z").then(|| cpp_demangle::Symbol::new(name).ok()).flatten();
    of_cpp.and_then(|symbol| symbol.demangle().ok()).unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_in_the_source() {
        assert_eq!(demangle("_ZN5hello4read17h0123456789abcdefE"), "hello::read");
        assert_eq!(demangle("_RNvCs15kBYyAo9fc_7mycrate7example"), "mycrate::example");
        assert_eq!(demangle("_ZN3foo3barEv"), "foo::bar()");
        assert_eq!(demangle("main.read"), "main.read");
        assert_eq!(demangle("_Zx"), "_Zx");
    }

    #[test]
    fn a_stack_on_one_line_drives_no_terminal() {
        let frame = |function: &str| StackFrame { module: None, function: function.to_owned(), offset: None };
        let stack = Backtrace { frames: vec![frame("a\u{1b}[2J"), frame("b")] };
        assert_eq!(stack.to_string(), r"a\u{1b}[2J < b");
    }
}
