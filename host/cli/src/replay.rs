//! `replay`: repeats recorded calls without any grant, and compares the results.
//!
//! A recording may be from others. A line is decoded only if it has at most [`MAX_LINE`] bytes and its values take
//! about [`MAX_DECODED`] at most, and one line is in memory at a time. The [`report`] is bounded, too.

mod report;

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mcp_host_base::regular_file;
use mcp_host_config::limits::Limits;
use mcp_host_config::{self as config, Config};
use mcp_host_engine::plugin::{Plugin, PluginRuntime};
use mcp_host_engine::recording::{Line, MAX_LINE, RecordedPlugin, VERSION};
use serde_json::Value;

use self::report::{DifferingCall, ReplayReport};
use super::context::Context;
use super::error::{CliError, CommandError};

const EXAMPLES: &str = "\
The component gets only recorded data: no directory, no network, no clock. Its calls and its answers are compared with \
the recording.

Exit codes: 0 all calls are as recorded, 1 a call differs, 2 the command line is invalid.

Examples:
  mcp-host read notes:///a.md --record a.jsonl      record what a command does
  mcp-host replay a.jsonl                           does it do the same again?
  mcp-host replay a.jsonl --component new.wasm      does a new version?
  mcp-host test new.wasm --replay recordings/       all recordings of a directory";

/// The maximum size of the values of a decoded line, in bytes, as [`decoded_size`] estimates it. It is more than 32 MiB
/// of host calls take.
const MAX_DECODED: usize = 2 << 30;

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
    let mut report = ReplayReport::new(options.times);
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

/// Reads the next line without its end: at most `max` bytes, and one more if it is longer. Returns false at the end of
/// the file.
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

/// Returns about how many bytes the values of JSON take in memory: with few members, an object takes much more than its
/// text.
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

#[cfg(test)]
mod tests {
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
}
