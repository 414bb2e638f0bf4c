//! The cost of calls: as a table, on one line, and as JSON.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use bytesize::ByteSize;
use mcp_host_engine::diagnostics::{CallReport, HostCallTotal};
use serde::Serialize;

use super::Calls;
use crate::error::CliError;
use crate::escape;
use crate::messages::Messages;
use crate::output::{Destination, Output};
use crate::table::{Cell, Table};

/// The maximum length of a shown path, in bytes.
const MAX_PATH: usize = 256;

/// The time and the size of encoding a result for a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Encoding {
    pub(crate) time: Duration,
    pub(crate) bytes: usize,
}

impl Encoding {
    /// Measures an encoder, which returns the number of bytes.
    pub(crate) fn measure(encode: impl FnOnce() -> usize) -> Self {
        let began = Instant::now();
        let bytes = encode();
        Self { time: began.elapsed(), bytes }
    }
}

/// `1.25 ms`, `1.2 s`.
pub(super) fn milliseconds(time: Duration) -> String {
    match time.as_millis() {
        0..100 => format!("{:.2} ms", in_ms(time)),
        100..1000 => format!("{:.0} ms", in_ms(time)),
        _ => format!("{:.2} s", time.as_secs_f64()),
    }
}

/// In milliseconds, to a microsecond.
pub(super) fn in_ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1_000_000.0).round() / 1000.0
}

/// `read `a.md` of plugin `notes``, escaped.
pub(super) fn subject(call: &CallReport) -> String {
    let plugin = escape::line(&call.plugin);
    match call.path.as_deref().filter(|path| !path.is_empty()) {
        Some(path) => {
            let path = mcp_host_base::text::truncate(path.to_owned(), MAX_PATH);
            format!("{} `{}` of plugin `{plugin}`", call.function, escape::line(&path))
        }
        None => format!("{} of plugin `{plugin}`", call.function),
    }
}

/// A call on one line.
pub(super) fn line(call: &CallReport) -> String {
    let instantiation = call.instantiation.map_or("reused".to_owned(), milliseconds);
    let mut line = format!(
        "call: {}: {} (wait {}, instance {instantiation}, guest {}, validation {}), CPU {}",
        subject(call),
        milliseconds(call.total),
        milliseconds(call.wait),
        milliseconds(call.guest),
        milliseconds(call.validation),
        milliseconds(call.cpu.0),
    );
    let calls = call.host_calls.iter().fold(0_u64, |sum, total| sum.saturating_add(total.count));
    let time = call.host_calls.iter().fold(Duration::ZERO, |sum, total| sum.saturating_add(total.time));
    // Writing to a string cannot fail.
    let _ = write!(line, ", {calls} host calls {}", milliseconds(time));
    if let Some((peak, limit)) = call.memory {
        let _ = write!(line, ", memory {} of {}", ByteSize(peak), ByteSize(limit));
    }
    if let Some(fault) = &call.fault {
        let _ = write!(line, ": {}", escape::line(&fault.to_string()));
    }
    line
}

fn row(part: &str, count: &str, time: &str, more: &str) -> [Cell; 4] {
    [format!("  {part}").as_str(), count, time, more].map(Cell::verbatim)
}

fn host_call_row(total: &HostCallTotal) -> [Cell; 4] {
    let bytes = if total.bytes > 0 { ByteSize(total.bytes).to_string() } else { String::new() };
    row(&format!("  {}", total.function), &format!("{}×", total.count), &milliseconds(total.time), &bytes)
}

fn rows(call: &CallReport) -> Vec<[Cell; 4]> {
    let (cpu, cpu_limit) = call.cpu;
    let of_cpu = format!("CPU {} of {}", milliseconds(cpu), humantime::format_duration(cpu_limit));
    let instantiation = call.instantiation.map_or("reused".to_owned(), milliseconds);
    let mut rows = vec![
        row("wait", "", &milliseconds(call.wait), ""),
        row("instance", "", &instantiation, ""),
        row("guest", "", &milliseconds(call.guest), &of_cpu),
    ];
    rows.extend(call.host_calls.iter().map(host_call_row));
    rows.push(row("validation", "", &milliseconds(call.validation), ""));
    if let Some((peak, limit)) = call.memory {
        rows.push(row("memory, at most", "", "", &format!("{} of {}", ByteSize(peak), ByteSize(limit))));
    }
    rows
}

/// Prints the cost of the calls, and of the encoding of the result if there is one, to standard error: as tables, or as
/// a JSON object.
pub(crate) fn print(
    messages: &Messages,
    calls: &Calls,
    encoding: Option<Encoding>,
    is_json: bool,
) -> Result<(), CliError> {
    if is_json {
        let report = serde_json::to_string(&JsonTiming::new(calls, encoding)).map_err(anyhow::Error::from)?;
        messages.print_line(&escape::json(&report));
        return Ok(());
    }
    let mut written = Vec::new();
    let mut output = Output::to(&mut written, Destination::Pipe);
    if calls.earlier > 0 {
        output.line(&format!("timing: {} earlier calls are not shown", calls.earlier))?;
    }
    if calls.last.is_empty() {
        output.line("timing: no provider was called: a cache answered, or the host itself")?;
    }
    for call in &calls.last {
        output.line(&format!("timing: {}: {}", subject(call), milliseconds(call.total)))?;
        Table::without_headings().print(rows(call), &mut output)?;
    }
    if let Some(Encoding { time, bytes }) = encoding {
        output.line(&format!("timing: encoding {} of JSON: {}", ByteSize(bytes as u64), milliseconds(time)))?;
    }
    output.flush()?;
    drop(output);
    messages.print_lines(&String::from_utf8_lossy(&written));
    Ok(())
}

/// The calls, for programs.
#[derive(Serialize)]
struct JsonTiming<'a> {
    calls: Vec<JsonCall<'a>>,
    earlier_calls: usize,
    encoding_ms: Option<f64>,
    encoded_bytes: Option<usize>,
}

#[derive(Serialize)]
struct JsonCall<'a> {
    plugin: &'a str,
    function: &'static str,
    path: Option<&'a str>,
    /// Null if the call succeeded.
    error: Option<String>,
    total_ms: f64,
    wait_ms: f64,
    /// Null if the instance was reused.
    instance_ms: Option<f64>,
    guest_ms: f64,
    validation_ms: f64,
    cpu_ms: f64,
    cpu_limit_ms: f64,
    memory_peak: Option<u64>,
    memory_limit: Option<u64>,
    host_calls: Vec<JsonHostCall<'a>>,
}

#[derive(Serialize)]
struct JsonHostCall<'a> {
    function: &'a str,
    count: u64,
    ms: f64,
    bytes: u64,
}

impl<'a> JsonTiming<'a> {
    fn new(calls: &'a Calls, encoding: Option<Encoding>) -> Self {
        Self {
            calls: calls.last.iter().map(JsonCall::from).collect(),
            earlier_calls: calls.earlier,
            encoding_ms: encoding.map(|encoding| in_ms(encoding.time)),
            encoded_bytes: encoding.map(|encoding| encoding.bytes),
        }
    }
}

impl<'a> From<&'a CallReport> for JsonCall<'a> {
    fn from(call: &'a CallReport) -> Self {
        Self {
            plugin: &call.plugin,
            function: call.function,
            path: call.path.as_deref(),
            error: call.fault.as_ref().map(ToString::to_string),
            total_ms: in_ms(call.total),
            wait_ms: in_ms(call.wait),
            instance_ms: call.instantiation.map(in_ms),
            guest_ms: in_ms(call.guest),
            validation_ms: in_ms(call.validation),
            cpu_ms: in_ms(call.cpu.0),
            cpu_limit_ms: in_ms(call.cpu.1),
            memory_peak: call.memory.map(|(peak, _)| peak),
            memory_limit: call.memory.map(|(_, limit)| limit),
            host_calls: call
                .host_calls
                .iter()
                .map(|total| JsonHostCall {
                    function: &total.function,
                    count: total.count,
                    ms: in_ms(total.time),
                    bytes: total.bytes,
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        for (microseconds, shown) in [(0, "0.00 ms"), (1250, "1.25 ms"), (250_400, "250 ms"), (1_250_000, "1.25 s")] {
            assert_eq!(milliseconds(Duration::from_micros(microseconds)), shown);
        }
    }
}
