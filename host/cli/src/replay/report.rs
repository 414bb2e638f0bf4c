//! The report of a replay: the calls that differ, and where.
//!
//! It has [`MAX_DIFFERING`] calls, each with the beginnings of its values; further ones are counted.

use std::path::Path;

use mcp_host_engine::recording::{Difference, Outcome, RecordedCall, Replayed};
use serde::Serialize;
use serde_json::Value;

use crate::error::CliError;
use crate::escape;
use crate::output::Output;

/// The maximum number of characters of a value in a difference.
const MAX_SHOWN: usize = 300;
/// The maximum size of the arguments in a report, as JSON.
const MAX_ARGUMENTS: usize = 4096;
/// The maximum number of differing calls in a report.
const MAX_DIFFERING: usize = 1000;

/// The result of a replay.
#[derive(Debug, Default, Serialize)]
pub(crate) struct ReplayReport {
    /// The number of replayed calls.
    pub(crate) calls: usize,
    /// The number of replays of each call.
    times: u32,
    /// The number of calls whose record ends early, or that ended by a limit: their host calls are compared as far as
    /// they were recorded.
    pub(super) partial: usize,
    /// The first calls that differ, [`MAX_DIFFERING`] at most.
    pub(super) differing: Vec<DifferingCall>,
    /// The number of further calls that differ.
    pub(super) further_differing: usize,
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

impl DifferingCall {
    pub(super) fn new(number: usize, call: RecordedCall, replayed: Replayed) -> Self {
        let RecordedCall { plugin, function, arguments, outcome, host_calls, .. } = call;
        let (same_host_calls, recorded, now, at) = match replayed.difference {
            Some(Difference { position, expected, actual }) => {
                let recorded = expected.map_or_else(
                    || format!("the end: {}", describe(&outcome)),
                    |call| host_call(&call.function, &call.arguments),
                );
                let now = actual.map_or_else(
                    || end_before(&outcome, &replayed.outcome),
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

/// The end of a replay that came before a recorded host call. If the outcome is the recorded one, only the host calls
/// differ: for example, Go's garbage collector reads the clock.
fn end_before(recorded: &Outcome, now: &Outcome) -> String {
    if now == recorded {
        "the end, with the recorded outcome".to_owned()
    } else {
        format!("the end: {}", describe(now))
    }
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
    /// A report without calls yet. Each is replayed this number of times.
    pub(super) fn new(times: u32) -> Self {
        Self { times, ..Self::default() }
    }

    /// Adds a call that differs.
    pub(super) fn add(&mut self, differing: DifferingCall) {
        if self.differing.len() < MAX_DIFFERING {
            self.differing.push(differing);
        } else {
            self.further_differing = self.further_differing.saturating_add(1);
        }
    }

    /// The number of calls that differ.
    pub(crate) fn differing_count(&self) -> usize {
        self.differing.len().saturating_add(self.further_differing)
    }

    /// Prints the report for people.
    pub(crate) fn print(&self, file: &Path, output: &mut Output<'_>) -> Result<(), CliError> {
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
            output.line(
                "the recording has no last line: Ctrl-C ended it, or it was cut off, so later calls may be missing",
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use mcp_host_engine::recording::{HostCallOutcome, RecordedHostCall};
    use serde_json::json;

    use super::*;

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
    fn a_replay_that_ends_before_a_recorded_host_call_says_whether_its_outcome_is_the_recorded_one() {
        let call = |answer: &str| RecordedCall {
            plugin: "a".to_owned(),
            began_ms: 0,
            function: "read".to_owned(),
            arguments: json!({}),
            host_calls: [].into(),
            complete: true,
            outcome: Outcome::Answer(json!(answer)),
        };
        let clock = RecordedHostCall {
            function: "wasi:clocks/monotonic-clock now".to_owned(),
            arguments: Vec::new(),
            outcome: HostCallOutcome::Result(json!(1)),
        };
        let difference = Some(Difference { position: 0, expected: Some(clock), actual: None });
        let replayed = Replayed { outcome: call("old").outcome, difference };
        let differing = DifferingCall::new(1, call("old"), replayed.clone());
        assert_eq!(differing.recorded, "wasi:clocks/monotonic-clock now()");
        assert_eq!(differing.replayed, "the end, with the recorded outcome");
        assert_eq!(DifferingCall::new(1, call("new"), replayed).replayed, "the end: answers \"old\"");
    }

    #[test]
    fn an_item_that_is_missing_is_a_difference() {
        let (one, two) = (json!({ "entries": [1] }), json!({ "entries": [1, 2] }));
        let (at, recorded, now) = differing_part(&Outcome::Answer(one), &Outcome::Answer(two));
        assert_eq!((at.as_deref(), recorded.as_str(), now.as_str()), (Some("/entries/1"), "nothing", "2"));
    }
}
