//! Details of a failed call.
//!
//! ```text
//! failed call: read `boom` of plugin `notes`: trapped: wasm trap: wasm `unreachable` instruction executed
//!   stack:  notes::read                        src/lib.rs:60:13
//!           <notes::Notes as Provider>::read   src/lib.rs:41:9
//!   used:   3.1 ms of 2s, CPU 2.4 ms of 1s, memory 1.2 MiB of 64.0 MiB
//!   calls:  wasi:filesystem/types descriptor.open-at  0.03 ms
//!   wrote:  thread '<unnamed>' panicked at src/lib.rs:60:13:
//! ```

use std::fmt::Write as _;

use bytesize::ByteSize;
use mcp_host_base::text::truncate;
use mcp_host_devkit::symbols::{self, Place};
use mcp_host_engine::diagnostics::{CallReport, HostCall, StackFrame};
use mcp_host_engine::plugin::Fault;
use serde::Serialize;

use super::Failures;
use super::timing::{milliseconds, subject};
use crate::escape;

/// The maximum number of frames that are shown.
const MAX_FRAMES: usize = 24;
/// The line below a stack without names.
const NO_NAMES: &str = "(the component has no names of functions: build it without `strip`, with line tables)";
/// The maximum length of a function name, in bytes: names of generic functions are long.
const MAX_FUNCTION: usize = 57;
/// The prefix of a function without a name.
const NO_NAME: &str = "function[";
/// The width of the labels.
const INDENT: usize = 10;
/// The number of innermost frames that identify the place of a failure.
const MAX_COMPARED: usize = 8;

/// Whether two calls failed at the same place, in the same way.
pub(super) fn is_same(one: &CallReport, other: &CallReport) -> bool {
    let kind = |call: &CallReport| call.fault.as_ref().and_then(Fault::kind);
    let message = |call: &CallReport| call.stack.is_none().then(|| call.fault.as_ref().map(ToString::to_string));
    one.plugin == other.plugin
        && one.function == other.function
        && kind(one) == kind(other)
        && message(one) == message(other)
        && functions(one).eq(functions(other))
}

/// The innermost functions of the stack.
fn functions(call: &CallReport) -> impl Iterator<Item = (&str, Option<u64>)> {
    let frames = call.stack.iter().flat_map(|stack| &stack.frames).take(MAX_COMPARED);
    // The offset within a calling function identifies the call.
    frames.map(|frame| (frame.function.as_str(), frame.offset))
}

/// One line of a stack.
struct Line {
    function: String,
    place: Option<String>,
    /// The number of consecutive repetitions: recursion.
    count: usize,
}

impl Line {
    fn new(function: String, place: Option<String>) -> Self {
        Self { function, place, count: 1 }
    }
}

/// The stack with source lines, where these are known.
fn stack(call: &CallReport) -> Vec<Line> {
    let frames: &[StackFrame] = call.stack.as_ref().map_or(&[], |stack| &stack.frames);
    let offsets: Vec<_> = frames.iter().map(|frame| frame.offset).collect();
    let found = call.component.as_ref().map(|(file, digest)| symbols::places(file, *digest, &offsets));
    let places = found.and_then(Result::ok).unwrap_or_default();
    let mut lines = Vec::new();
    for (index, frame) in frames.iter().enumerate() {
        match places.get(index).map(Vec::as_slice) {
            None | Some([]) => lines.push(Line::new(truncate(frame.function.clone(), MAX_FUNCTION), None)),
            Some(places) => {
                let outermost = places.len().saturating_sub(1);
                lines.extend(places.iter().enumerate().map(|(at, place)| {
                    // Line tables have only the last part of a name; only the function into which others were inlined
                    // has its full name.
                    let inlined =
                        place.function.clone().filter(|_| at < outermost || frame.function.starts_with(NO_NAME));
                    let function = inlined.unwrap_or_else(|| frame.function.clone());
                    Line::new(truncate(function, MAX_FUNCTION), Some(format_place(place)))
                }));
            }
        }
    }
    lines.dedup_by(|next, before| {
        let is_repeated = next.function == before.function && next.place == before.place;
        before.count = before.count.saturating_add(usize::from(is_repeated));
        is_repeated
    });
    lines.truncate(MAX_FRAMES);
    lines
}

/// `src/lib.rs:60:13`. A file below the current directory is shown relative to it; a file of the standard library or of
/// a registry relative to its root.
fn format_place(place: &Place) -> String {
    let current = std::env::current_dir().ok();
    let file = shortened(&place.file, current.as_deref().and_then(|dir| dir.to_str()));
    match place.column {
        Some(column) => format!("{file}:{}:{column}", place.line),
        None => format!("{file}:{}", place.line),
    }
}

/// The shortened path of a source file, for a project in this directory.
fn shortened<'f>(file: &'f str, project: Option<&str>) -> &'f str {
    let of_project = project.and_then(|dir| file.strip_prefix(dir)?.strip_prefix('/'));
    let of_rust = file.strip_prefix("/rustc/").and_then(|file| Some(file.split_once("/library/")?.1));
    let of_registry = file.split_once("/registry/src/").and_then(|(_, file)| Some(file.split_once('/')?.1));
    of_project.or(of_rust).or(of_registry).unwrap_or(file)
}

/// The call's use of its limits.
fn used(call: &CallReport) -> String {
    let (cpu, cpu_limit) = call.cpu;
    let mut text = format!(
        "{} of {}, CPU {} of {}",
        milliseconds(call.total.saturating_sub(call.wait)),
        humantime::format_duration(call.deadline),
        milliseconds(cpu),
        humantime::format_duration(cpu_limit),
    );
    if let Some((peak, limit)) = call.memory {
        // Writing to a string cannot fail.
        let _ = write!(text, ", memory {} of {}", ByteSize(peak), ByteSize(limit));
    }
    text
}

fn host_call(call: &HostCall) -> String {
    let bytes = if call.bytes > 0 { format!(", {}", ByteSize(call.bytes)) } else { String::new() };
    let end = if call.has_returned { "" } else { ", had not returned" };
    let count = if call.count > 1 { format!("{}× ", call.count) } else { String::new() };
    format!("{}  {count}{}{bytes}{end}", call.function, milliseconds(call.time))
}

/// Details of a failed call, as escaped lines. `count` calls failed in this way. Reads the component file.
pub(crate) fn show(call: &CallReport, count: usize) -> String {
    let fault = call.fault.as_ref().map(ToString::to_string).unwrap_or_default();
    let mut shown = format!("failed call: {}: {}\n", subject(call), escape::line(&fault));
    let mut list = |label: &str, lines: Vec<String>| {
        for (index, line) in lines.iter().enumerate() {
            let label = if index == 0 { label } else { "" };
            let _ = writeln!(shown, "  {label:<width$}{}", escape_line(line), width = INDENT.saturating_sub(2));
        }
    };
    let stack = stack(call);
    let width = stack.iter().map(|line| line.function.chars().count()).max().unwrap_or_default().min(60);
    let stack = stack.into_iter().map(|Line { function, place, count }| {
        let repeated = if count > 1 { format!(" ({count} times)") } else { String::new() };
        match place {
            Some(place) => format!("{function:<width$}  {place}{repeated}"),
            None => format!("{function}{repeated}"),
        }
    });
    let is_waiting = call.last_host_calls.last().is_some_and(|last| !last.has_returned);
    let label = if is_waiting { "before:" } else { "stack:" };
    let has_names = call.stack.iter().flat_map(|stack| &stack.frames).any(|frame| !frame.function.starts_with(NO_NAME));
    list(label, stack.collect());
    if call.stack.is_some() && !has_names {
        list("", vec![NO_NAMES.to_owned()]);
    }
    list("used:", vec![used(call)]);
    list("calls:", call.last_host_calls.iter().map(host_call).collect());
    list("wrote:", call.error_lines.clone());
    if count > 1 {
        let more = count.saturating_sub(1);
        let _ = writeln!(shown, "  {more} more {} there", if more == 1 { "call failed" } else { "calls failed" });
    }
    shown
}

fn escape_line(line: &str) -> String {
    escape::lines(line).replace('\n', "\\n")
}

/// A failure, for programs.
#[derive(Serialize)]
pub(crate) struct JsonFailure {
    plugin: String,
    function: &'static str,
    path: Option<String>,
    message: String,
    /// The number of calls that failed in this way.
    count: usize,
    /// Innermost first.
    stack: Vec<JsonFrame>,
    cpu_ms: f64,
    memory_peak: Option<u64>,
    last_host_calls: Vec<JsonHostCall>,
    /// The last lines on standard error, and of errors in the log.
    wrote: Vec<String>,
}

#[derive(Serialize)]
struct JsonFrame {
    function: String,
    /// `FILE:LINE:COLUMN`, if the component has debug information.
    place: Option<String>,
    /// The number of consecutive repetitions.
    count: usize,
}

#[derive(Serialize)]
struct JsonHostCall {
    function: String,
    count: u64,
    ms: f64,
    bytes: u64,
    returned: bool,
}

impl From<&Failures> for JsonFailure {
    /// Reads the component file.
    fn from(Failures { first: call, count }: &Failures) -> Self {
        Self {
            plugin: call.plugin.to_string(),
            function: call.function,
            path: call.path.as_deref().map(str::to_owned),
            message: call.fault.as_ref().map(ToString::to_string).unwrap_or_default(),
            count: *count,
            stack: stack(call)
                .into_iter()
                .map(|Line { function, place, count }| JsonFrame { function, place, count })
                .collect(),
            cpu_ms: super::timing::in_ms(call.cpu.0),
            memory_peak: call.memory.map(|(peak, _)| peak),
            last_host_calls: call
                .last_host_calls
                .iter()
                .map(|call| JsonHostCall {
                    function: call.function.to_string(),
                    count: call.count,
                    ms: super::timing::in_ms(call.time),
                    bytes: call.bytes,
                    returned: call.has_returned,
                })
                .collect(),
            wrote: call.error_lines.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_libraries_are_relative_to_them() {
        let shown = |file: &str| shortened(file, Some("/home/ada/hello")).to_owned();
        assert_eq!(shown("/home/ada/hello/src/lib.rs"), "src/lib.rs");
        assert_eq!(shown("/rustc/59807616/library/std/src/process.rs"), "std/src/process.rs");
        assert_eq!(shown("/home/ada/.cargo/registry/src/index-1/serde-1.0/src/de.rs"), "serde-1.0/src/de.rs");
        assert_eq!(shown("provider.c"), "provider.c");
    }
}
