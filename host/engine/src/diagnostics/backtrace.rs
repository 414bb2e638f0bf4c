//! The stack of a guest: its functions by name, innermost first.
//!
//! Bounded: `MAX_FRAMES` frames; names have at most [`MAX_NAME`] bytes, and a component with much longer
//! names does not compile (module `static_content`). A name of a few hundred bytes can stand for terabytes, because
//! mangled names refer to their own parts. So demangling ends at [`MAX_NAME`] bytes, and is not charged to the call.

use std::fmt::{self, Write as _};

use cpp_demangle::DemangleOptions;
use mcp_host_base::escape;
use mcp_host_base::text::{prefix, truncate};
use wasmtime::{AsContext, WasmBacktrace};

use crate::config::MAX_FRAMES;

/// The maximum length of a name in bytes.
const MAX_NAME: usize = 256;
/// The maximum length of a name of C++ that is demangled, in bytes. It bounds the time to parse the name.
const MAX_CPP: usize = 2048;

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
                Some(name) => demangle(name),
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

/// Returns a name as in the source, for Rust and C++: at most 256 bytes of it, and an ellipsis. Names from Go and C
/// need no demangling.
pub fn demangle(name: &str) -> String {
    let demangled = if let Ok(name) = rustc_demangle::try_demangle(name) {
        // Without the hash at its end.
        BoundedName::written(|out| write!(out, "{name:#}"))
    } else {
        let is_cpp = name.starts_with("_Z") && name.len() <= MAX_CPP;
        let symbol = is_cpp.then(|| cpp_demangle::Symbol::new(name).ok()).flatten();
        symbol
            .and_then(|symbol| BoundedName::written(|out| symbol.structured_demangle(out, &DemangleOptions::default())))
    };
    demangled.unwrap_or_else(|| short(name))
}

/// A name that is being demangled. Writing more than [`MAX_NAME`] bytes fails, which ends the demangling.
#[derive(Default)]
struct BoundedName {
    text: String,
    is_cut: bool,
}

impl BoundedName {
    /// Returns the beginning of what `write` writes; none if `write` fails for another reason than the bound.
    fn written(write: impl FnOnce(&mut Self) -> fmt::Result) -> Option<String> {
        let mut name = Self::default();
        let written = write(&mut name);
        if name.is_cut {
            return Some(name.text + "…");
        }
        written.ok().map(|()| name.text)
    }
}

impl fmt::Write for BoundedName {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let part = prefix(text, MAX_NAME.saturating_sub(self.text.len()));
        self.text.push_str(part);
        if part.len() == text.len() {
            return Ok(());
        }
        self.is_cut = true;
        Err(fmt::Error)
    }
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

    /// A function of C++ with twelve parameters. Each is of a template with ten times the type of the previous one.
    fn explosive() -> String {
        let mut name = format!("_Z1f1AI{}E", "i".repeat(10));
        for (level, class) in ('B'..='L').enumerate() {
            // The type of the previous parameter: each class, and each of its types, has a number in base 36.
            let number = char::from_digit(u32::try_from(2 * level).unwrap(), 36).unwrap().to_ascii_uppercase();
            name += &format!("1{class}I{}E", format!("S{number}_").repeat(10));
        }
        name
    }

    #[test]
    fn a_short_name_that_stands_for_terabytes_is_cut_while_it_is_demangled() {
        let two = demangle("_Z1f1AIiE1BIS0_S0_E");
        assert!(two.starts_with("f(A<int>, B<A<int>, A<int>"), "it refers to its own part: {two}");
        let name = explosive();
        assert!(name.len() < MAX_CPP, "{}", name.len());
        let shown = demangle(&name);
        assert!(shown.starts_with("f(A<int, int") && shown.ends_with('…') && shown.len() < MAX_NAME + 4, "{shown}");
    }

    #[test]
    fn a_long_name_is_cut_in_any_language() {
        let part = "a".repeat(100);
        let rust = format!("_ZN100{part}100{part}100{part}17h0123456789abcdefE");
        let cpp = format!("_ZN100{part}100{part}100{part}3barEv");
        let undecoded = format!("_Z1f{}", "i".repeat(MAX_CPP));
        for (name, begins) in [(&rust, "aaa"), (&cpp, "aaa"), (&undecoded, "_Z1fii"), (&"m".repeat(1000), "mmm")] {
            let shown = demangle(name);
            assert!(shown.starts_with(begins) && shown.ends_with('…') && shown.len() < MAX_NAME + 4, "{shown}");
        }
    }

    #[test]
    fn a_stack_on_one_line_drives_no_terminal() {
        let frame = |function: &str| StackFrame { module: None, function: function.to_owned(), offset: None };
        let stack = Backtrace { frames: vec![frame("a\u{1b}[2J"), frame("b")] };
        assert_eq!(stack.to_string(), r"a\u{1b}[2J < b");
    }
}
