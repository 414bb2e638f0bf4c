//! `replay`: repeats recorded calls without any grant, and compares the results.
//!
//! A recording may be from others. A line is decoded only if it has at most [`MAX_LINE`] bytes and its values take about [`MAX_DECODED`]
//! at most, and one line is in memory at a time. The report has [`MAX_DIFFERING`] calls, each with the beginnings of its values;
//! further ones are counted.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mcp_host_base::regular_file;
use mcp_host_config::limits::Limits;
use mcp_host_config::{self as config, Config};
use mcp_host_engine::plugin::{Plugin, PluginRuntime};
use mcp_host_engine::recording::{
    Difference, Line, MAX_LINE, Outcome, RecordedCall, RecordedPlugin, Replayed, VERSION,
};
use serde::Serialize;
use serde_json::Value;

use super::context::Context;
use super::error::{CliError, CommandError};
use super::escape;
use super::output::Output;

const EXAMPLES: &str = "\
The component gets only recorded data: no directory, no network, no clock. Its calls and its answers are compared with \
the recording.

Exit codes: 0 all calls are as recorded, 1 a call differs, 2 the command line is invalid.

Examples:
  mcp-host read notes:///a.md --record a.jsonl      record what a command does
  mcp-host replay a.jsonl                           does it do the same again?
  mcp-host replay a.jsonl --component new.wasm      does a new version?
  mcp-host test new.wasm --replay recordings/       all recordings of a directory";

/// The maximum number of characters of a value in a difference.
const MAX_SHOWN: usize = 300;
/// The maximum size of the values of a decoded line, in bytes, as [`decoded_size`] estimates it. It is more than 32 MiB of host calls take.
const MAX_DECODED: usize = 2 << 30;
/// The maximum size of the arguments in a report, as JSON.
const MAX_ARGUMENTS: usize = 4096;
/// The maximum number of differing calls in a report.
const MAX_DIFFERING: usize = 1000;

/// Repeat recorded calls of a provider without grants, and compare its behavior with the recording
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The recording
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Replay with this component instead of the recorded one
    #[arg(long, value_name = "FILE.wasm")]
    component: Option<PathBuf>,

    /// Replay the calls of this plugin only
    #[arg(long, value_name = "NAME")]
    plugin: Option<String>,

    /// Replay each call N times
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    times: u32,

    /// Print a JSON object for programs
    #[arg(long)]
    json: bool,
}

/// Why a recording cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReplayFileError {
    /// The file cannot be read.
    #[error("{}: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The directory has no recordings.
    #[error("{} has no recordings: no file ends in `.jsonl`", dir.display())]
    NoRecordings {
        /// The directory.
        dir: PathBuf,
    },
    /// The file is not a recording in this version's format.
    #[error("{} is no recording that this version reads: line {line}: {reason}", file.display())]
    Format {
        /// The file.
        file: PathBuf,
        /// The line.
        line: usize,
        /// The reason.
        reason: String,
    },
    /// The component of a recording no longer exists.
    #[error("the component of plugin `{plugin}`, {component}, is not the recorded one (`{digest}`)")]
    OtherComponent {
        /// The plugin.
        plugin: String,
        /// The component's file.
        component: String,
        /// The recorded digest.
        digest: String,
    },
    /// The recording has calls of several plugins.
    #[error("the recording has calls of {}", plugins.join(", "))]
    SeveralPlugins {
        /// The names of the plugins.
        plugins: Vec<String>,
    },
    /// A recorded call cannot be repeated.
    #[error("call {call} of {}: {reason}", file.display())]
    Call {
        /// The file.
        file: PathBuf,
        /// The number of the call.
        call: usize,
        /// The reason.
        reason: String,
    },
}

impl CommandError for ReplayFileError {
    fn help(&self) -> Option<String> {
        let help = match self {
            Self::OtherComponent { .. } => "name the component to compare with `--component FILE.wasm`",
            Self::SeveralPlugins { .. } => "name the one that the component is of with `--plugin NAME`",
            Self::Read { .. } | Self::NoRecordings { .. } | Self::Format { .. } | Self::Call { .. } => return None,
        };
        Some(help.to_owned())
    }
}

impl Args {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let runtime = context.builder(Config::new()).runtime()?;
        let options = ReplayOptions { component: self.component, plugin: self.plugin, times: self.times };
        let report = replay_file(&runtime, &self.file, &options).await?;
        let mut output = context.output();
        if self.json {
            output.json(&report)?;
        } else {
            report.print(&self.file, &mut output)?;
        }
        output.flush()?;
        match report.differing_count() {
            0 => Ok(()),
            differing => Err(CliError::Differs { differing, total: report.calls }),
        }
    }
}

/// The options of a replay.
#[derive(Debug)]
pub(super) struct ReplayOptions {
    /// The component that replaces the recorded ones.
    pub(super) component: Option<PathBuf>,
    /// The only plugin to replay.
    pub(super) plugin: Option<String>,
    /// The number of replays of each call.
    pub(super) times: u32,
}

/// The result of a replay.
#[derive(Debug, Default, Serialize)]
pub(super) struct ReplayReport {
    /// The number of replayed calls.
    pub(super) calls: usize,
    /// The number of replays of each call.
    pub(super) times: u32,
    /// The number of calls whose record ends early, or that ended by a limit: their host calls are compared as far as they were
    /// recorded.
    pub(super) partial: usize,
    /// The first calls that differ, [`MAX_DIFFERING`] at most.
    differing: Vec<DifferingCall>,
    /// The number of further calls that differ.
    further_differing: usize,
    /// Whether the recording has its last line.
    pub(super) is_complete: bool,
}

/// A call that differs from its record.
#[derive(Debug, Serialize)]
pub(super) struct DifferingCall {
    /// The call's number in the recording, from 1.
    call: usize,
    plugin: String,
    function: String,
    /// The beginning of their JSON, as a text, if they have more than [`MAX_ARGUMENTS`] bytes.
    arguments: Value,
    /// The number of host calls before the difference.
    same_host_calls: usize,
    /// The recorded action, and the component's action.
    recorded: String,
    replayed: String,
    /// The JSON pointer to the difference of two answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
}

/// Replays the calls of a file.
pub(super) async fn replay_file(
    runtime: &PluginRuntime,
    file: &Path,
    options: &ReplayOptions,
) -> Result<ReplayReport, CliError> {
    let read = |source| ReplayFileError::Read { file: file.to_owned(), source };
    let mut file_reader = BufReader::new(regular_file::open(file).map_err(read)?);
    let mut text = Vec::new();
    let mut recorded = BTreeMap::new();
    let mut loaded: BTreeMap<String, Plugin> = BTreeMap::new();
    let mut report = ReplayReport { times: options.times, ..ReplayReport::default() };
    let mut number = 0_usize;
    for index in 0_usize.. {
        let invalid =
            |reason: String| ReplayFileError::Format { file: file.to_owned(), line: index.saturating_add(1), reason };
        if !read_line(&mut file_reader, &mut text, MAX_LINE).map_err(read)? {
            break;
        }
        if text.len() > MAX_LINE {
            return Err(invalid(format!("it has more than {} MiB", MAX_LINE.div_ceil(1 << 20))).into());
        }
        let line = decode(&text, MAX_DECODED).map_err(invalid)?;
        match (index, line) {
            (0, Line::McpHostRecording(VERSION)) => {}
            (0, Line::McpHostRecording(other)) => {
                return Err(invalid(format!("it has version {other} of the format, and {VERSION} is known")).into());
            }
            (0, _) => return Err(invalid("the first line has no version".to_owned()).into()),
            (_, Line::Plugin(plugin)) => {
                recorded.insert(plugin.name.clone(), plugin);
            }
            (_, Line::Call(call)) => {
                number = number.saturating_add(1);
                if options.plugin.as_ref().is_some_and(|only| *only != call.plugin) {
                    continue;
                }
                if !loaded.contains_key(&call.plugin) {
                    if options.component.is_some() && options.plugin.is_none() && !loaded.is_empty() {
                        let plugins = loaded.keys().chain([&call.plugin]).map(|name| format!("`{name}`")).collect();
                        return Err(ReplayFileError::SeveralPlugins { plugins }.into());
                    }
                    let described = recorded.get(&call.plugin);
                    let described = described.ok_or_else(|| invalid(format!("no line describes `{}`", call.plugin)))?;
                    let plugin = load(runtime, described, options.component.as_deref()).await?;
                    loaded.insert(call.plugin.clone(), plugin);
                }
                let Some(plugin) = loaded.get(&call.plugin) else { continue };
                report.calls = report.calls.saturating_add(1);
                if !call.complete || !call.outcome.is_comparable() {
                    report.partial = report.partial.saturating_add(1);
                }
                for _ in 0..options.times {
                    let failed = |reason: String| ReplayFileError::Call { file: file.to_owned(), call: number, reason };
                    let replayed = plugin.replay(&call).await.map_err(|error| failed(error.to_string()))?;
                    if !replayed.is_same(&call) {
                        report.add(DifferingCall::new(number, call, replayed));
                        break;
                    }
                }
            }
            (_, Line::End(_)) => report.is_complete = true,
            (_, Line::McpHostRecording(_)) => return Err(invalid("a second first line".to_owned()).into()),
        }
    }
    Ok(report)
}

/// Reads the next line without its end: at most `max` bytes, and one more if it is longer. Returns false at the end of the file.
fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>, max: usize) -> io::Result<bool> {
    line.clear();
    let max = u64::try_from(max).unwrap_or(u64::MAX).saturating_add(1);
    let read = reader.by_ref().take(max).read_until(b'\n', line)?;
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    Ok(read > 0)
}

/// Decodes a line, unless its values would take more than `max` bytes.
fn decode(line: &[u8], max: usize) -> Result<Line, String> {
    if decoded_size(line) > max {
        return Err(format!("its values would take more than {} GiB of memory", max.div_ceil(1 << 30)));
    }
    serde_json::from_slice(line).map_err(|error| error.to_string())
}

/// Returns about how many bytes the values of JSON take in memory: with few members, an object takes much more than its text.
fn decoded_size(json: &[u8]) -> usize {
    /// A value in an array.
    const VALUE: usize = size_of::<Value>();
    /// The smallest array that is not empty.
    const ARRAY: usize = VALUE.saturating_mul(4);
    /// The smallest object that is not empty: a node of a tree with room for eleven members.
    const OBJECT: usize = VALUE.saturating_add(size_of::<String>()).saturating_mul(11);
    let (mut size, mut is_in_text, mut is_escaped) = (json.len(), false, false);
    for byte in json {
        let added = match byte {
            _ if is_escaped => {
                is_escaped = false;
                0
            }
            b'\\' => {
                is_escaped = is_in_text;
                0
            }
            b'"' => {
                is_in_text = !is_in_text;
                0
            }
            _ if is_in_text => 0,
            b',' => VALUE,
            b'[' => ARRAY,
            b'{' => OBJECT,
            _ => 0,
        };
        size = size.saturating_add(added);
    }
    size
}

/// Loads a component for replays. The time limits are long enough for a busy machine.
async fn load(
    runtime: &PluginRuntime,
    recorded: &RecordedPlugin,
    component: Option<&Path>,
) -> Result<Plugin, CliError> {
    let parse = |error: anyhow::Error| CliError::from(error);
    let name = recorded.name.parse().map_err(|error| parse(anyhow::Error::from(error)))?;
    let mount = "replay:///".parse().map_err(|error| parse(anyhow::Error::from(error)))?;
    let file = match component {
        Some(component) => Context::component(component, None)?,
        None => PathBuf::from(&recorded.component),
    };
    let mut plugin = config::Plugin::new(name, &file, mount);
    plugin.limits = replay_limits(recorded.memory);
    if component.is_none() {
        let digest = runtime.digest_of(&file).await.map(|digest| digest.to_string());
        if digest.as_deref() != Some(recorded.digest.as_str()) {
            let RecordedPlugin { name, component, digest, .. } = recorded.clone();
            return Err(ReplayFileError::OtherComponent { plugin: name, component, digest }.into());
        }
    }
    Ok(runtime.load_for_replay(&plugin).await?)
}

/// The memory limit of the recorded calls; limits that depend on the machine's speed are at their maximum.
fn replay_limits(memory: u64) -> Limits {
    const LONGEST: Duration = Duration::from_secs(600);
    let mut limits = Limits::default();
    limits.memory = memory.try_into().unwrap_or(limits.memory);
    limits.cpu = LONGEST.try_into().unwrap_or(limits.cpu);
    limits.deadline = LONGEST.try_into().unwrap_or(limits.deadline);
    limits.rate = "1000000/s".parse().unwrap_or(limits.rate);
    limits
}

impl DifferingCall {
    fn new(number: usize, call: RecordedCall, replayed: Replayed) -> Self {
        let RecordedCall { plugin, function, arguments, outcome, host_calls, .. } = call;
        let (same_host_calls, recorded, now, at) = match replayed.difference {
            Some(Difference { position, expected, actual }) => {
                let recorded = expected.map_or_else(
                    || format!("the end: {}", describe(&outcome)),
                    |call| host_call(&call.function, &call.arguments),
                );
                let now = actual.map_or_else(
                    || format!("the end: {}", describe(&replayed.outcome)),
                    |(function, arguments)| host_call(&function, &arguments),
                );
                (position, recorded, now, None)
            }
            None => {
                let (at, recorded, now) = differing_part(&outcome, &replayed.outcome);
                (host_calls.len(), recorded, now, at)
            }
        };
        let (arguments, at) = (shortened(arguments), at.as_deref().map(shown));
        Self { call: number, plugin, function, arguments, same_host_calls, recorded, replayed: now, at }
    }
}

/// Returns arguments as they are, or the beginning of their JSON if they are long.
fn shortened(arguments: Value) -> Value {
    let text = arguments.to_string();
    if text.len() > MAX_ARGUMENTS { Value::String(shown(&text)) } else { arguments }
}

fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(MAX_SHOWN).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

fn host_call(function: &str, arguments: &[Value]) -> String {
    let arguments = arguments.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    shown(&format!("{function}({arguments})"))
}

fn describe(outcome: &Outcome) -> String {
    shown(&match outcome {
        Outcome::Answer(answer) => format!("answers {answer}"),
        Outcome::Failure(failure) => format!("fails with {failure}"),
        Outcome::Trap(message) => format!("traps: {message}"),
        Outcome::Limit(kind) => format!("is ended by a limit: {kind}"),
        Outcome::Cancelled => "is cancelled".to_owned(),
    })
}

/// The place where two outcomes differ, and both values there.
fn differing_part(recorded: &Outcome, now: &Outcome) -> (Option<String>, String, String) {
    match (recorded, now) {
        (Outcome::Answer(recorded), Outcome::Answer(now)) | (Outcome::Failure(recorded), Outcome::Failure(now)) => {
            let mut at = String::new();
            let (recorded, now) = first_difference(recorded, now, &mut at);
            let text =
                |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), |value| shown(&value.to_string()));
            match (recorded, now) {
                (Some(Value::String(a)), Some(Value::String(b))) => {
                    let same = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
                    (Some(at), excerpt(a, same), excerpt(b, same))
                }
                (recorded, now) => (Some(at), text(recorded), text(now)),
            }
        }
        (recorded, now) => (None, describe(recorded), describe(now)),
    }
}

/// An excerpt of a text, from shortly before the differing character.
fn excerpt(text: &str, differs_at: usize) -> String {
    const BEFORE: usize = 40;
    let skipped = differs_at.saturating_sub(BEFORE);
    let part: String = text.chars().skip(skipped).take(MAX_SHOWN / 2).collect();
    let is_cut = text.chars().count() > skipped.saturating_add(part.chars().count());
    let (before, after) = (if skipped > 0 { "…" } else { "" }, if is_cut { "…" } else { "" });
    format!("{before}{}{after}", Value::String(part))
}

fn first_difference<'a>(a: &'a Value, b: &'a Value, at: &mut String) -> (Option<&'a Value>, Option<&'a Value>) {
    match (a, b) {
        (Value::Array(one), Value::Array(other)) => {
            for index in 0..one.len().max(other.len()) {
                match (one.get(index), other.get(index)) {
                    (Some(a), Some(b)) if a == b => {}
                    (Some(a), Some(b)) => {
                        at.push_str(&format!("/{index}"));
                        return first_difference(a, b, at);
                    }
                    (a, b) => {
                        at.push_str(&format!("/{index}"));
                        return (a, b);
                    }
                }
            }
            (Some(a), Some(b))
        }
        (Value::Object(one), Value::Object(other)) => {
            for key in one.keys().chain(other.keys()) {
                match (one.get(key), other.get(key)) {
                    (Some(a), Some(b)) if a == b => {}
                    (a, b) => {
                        at.push_str(&format!("/{key}"));
                        return match (a, b) {
                            (Some(a), Some(b)) => first_difference(a, b, at),
                            both => both,
                        };
                    }
                }
            }
            (Some(a), Some(b))
        }
        _ => (Some(a), Some(b)),
    }
}

impl ReplayReport {
    /// Adds a call that differs.
    fn add(&mut self, differing: DifferingCall) {
        if self.differing.len() < MAX_DIFFERING {
            self.differing.push(differing);
        } else {
            self.further_differing = self.further_differing.saturating_add(1);
        }
    }

    /// The number of calls that differ.
    pub(super) fn differing_count(&self) -> usize {
        self.differing.len().saturating_add(self.further_differing)
    }

    /// Prints the report for people.
    pub(super) fn print(&self, file: &Path, output: &mut Output<'_>) -> Result<(), CliError> {
        for differing in &self.differing {
            let DifferingCall { call, plugin, function, arguments, same_host_calls, recorded, replayed, at } =
                differing;
            let what = format!("call {call} of plugin `{plugin}`, {function} {arguments}, differs");
            output.line(&escape::line(&shown(&what)))?;
            let place = match at {
                Some(at) => format!("in its answer at {at}"),
                None => format!("after {same_host_calls} host calls that are the same"),
            };
            output.line(&escape::line(&format!("  {place}")))?;
            output.line(&escape::line(&format!("  recorded: {recorded}")))?;
            output.line(&escape::line(&format!("  now:      {replayed}")))?;
        }
        if self.further_differing > 0 {
            output.line(&format!("{} further calls differ", self.further_differing))?;
        }
        let same = self.calls.saturating_sub(self.differing_count());
        let times = if self.times > 1 { format!(", {} times each", self.times) } else { String::new() };
        output.line(&format!("{}: {same} of {} calls are the same{times}", file.display(), self.calls))?;
        if self.partial > 0 {
            let partial = self.partial;
            output.line(&format!(
                "of {partial} only host calls are compared: a limit ended them, or the record is cut"
            ))?;
        }
        if !self.is_complete {
            output.line("the recording has no last line: it was interrupted, as by Ctrl-C")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_more_of_a_line_is_read_than_shows_that_it_is_too_long() {
        let mut reader = &b"abc\n\nabcd\nab"[..];
        let mut next = |max| {
            let mut line = Vec::new();
            read_line(&mut reader, &mut line, max).unwrap().then(|| String::from_utf8(line).unwrap())
        };
        assert_eq!([next(3), next(3)].map(Option::unwrap), ["abc", ""]);
        assert_eq!(next(2).unwrap(), "abc", "one byte more than allowed");
        assert_eq!([next(2), next(2)].map(Option::unwrap), ["d", "ab"]);
        assert_eq!(next(2), None);
    }

    #[test]
    fn a_line_is_not_decoded_if_its_values_take_too_much_memory() {
        let end = br#"{"end":{"calls":1,"skipped":0}}"#;
        assert!(matches!(decode(end, 10_000), Ok(Line::End(_))));
        assert!(decode(end, 1000).unwrap_err().contains("would take more than 1 GiB"));
        // 8 bytes of JSON are a node of a tree each.
        let objects = format!("[{}]", vec![r#"{"":0}"#; 1000].join(","));
        assert!(decoded_size(objects.as_bytes()) > 500 * 1000);
        assert!(decoded_size(&[b"[0".as_slice(), &b",0".repeat(1000)].concat()) > 20 * 1000);
        // A text takes its own size, whatever is in it.
        let text = serde_json::to_vec(&"{[,\"\\".repeat(1000)).unwrap();
        assert_eq!(decoded_size(&text), text.len());
    }

    #[test]
    fn a_report_has_a_bounded_number_of_calls_and_the_beginnings_of_their_values() {
        // A call whose arguments, and the name of the member that differs, have this text.
        let differing = |text: &str| {
            let answer =
                |value: &str| Outcome::Answer(Value::Object([(text.to_owned(), json!(value))].into_iter().collect()));
            let call = RecordedCall {
                plugin: "a".to_owned(),
                began_ms: 0,
                function: "read".to_owned(),
                arguments: json!({ "path": text }),
                host_calls: [].into(),
                complete: true,
                outcome: answer("old"),
            };
            DifferingCall::new(1, call, Replayed { outcome: answer("new"), difference: None })
        };
        let mut report = ReplayReport::default();
        report.add(differing(&"x".repeat(1 << 20)));
        let json = serde_json::to_string(&report).unwrap();
        assert!(json.len() < 10_000, "{} bytes", json.len());
        assert_eq!(differing("a.md").arguments, json!({ "path": "a.md" }), "short arguments are as they are");
        for _ in 0..MAX_DIFFERING {
            report.add(differing("a.md"));
        }
        assert_eq!((report.differing.len(), report.further_differing, report.differing_count()), (1000, 1, 1001));
    }

    #[test]
    fn the_first_difference_of_two_answers_is_shown_with_its_place() {
        let recorded = json!([{ "entry": { "path": "a" }, "body": { "text": "x".repeat(100) + "old" } }]);
        let now = json!([{ "entry": { "path": "a" }, "body": { "text": "x".repeat(100) + "new" } }]);
        let (at, recorded, now) = differing_part(&Outcome::Answer(recorded), &Outcome::Answer(now));
        assert_eq!(at.as_deref(), Some("/0/body/text"));
        let same = "x".repeat(40);
        assert_eq!((recorded, now), (format!("…\"{same}old\""), format!("…\"{same}new\"")));
    }

    #[test]
    fn an_item_that_is_missing_is_a_difference() {
        let (one, two) = (json!({ "entries": [1] }), json!({ "entries": [1, 2] }));
        let (at, recorded, now) = differing_part(&Outcome::Answer(one), &Outcome::Answer(two));
        assert_eq!((at.as_deref(), recorded.as_str(), now.as_str()), (Some("/entries/1"), "nothing", "2"));
    }
}
