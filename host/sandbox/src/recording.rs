//! Record and replay of the host calls of an instance.
//!
//! All outside data of a guest (time, random numbers, files, HTTP, buckets, rows, its config) are results of imported
//! functions. So a record of a call consists of its arguments, each host call with its arguments and result, and its
//! answer, and the call can be replayed without any grant.
//!
//! **Where.** Imports are intercepted as values of the component model ([`linker`]), after lifting and before lowering,
//! by one function for all interfaces of WASI and of this project. The feature `rr` of wasmtime 48 has only settings
//! yet. It would record the bytes that a host call writes to the guest's memory; such a record does not fit another
//! build of the same provider, whose memory layout differs. A record of values does.
//!
//! **Recording.** Each import of the guest is a dynamically typed function of the host that calls the real one. The
//! real ones are typed Rust functions in the [linker of all instances](crate::state::linker), which cannot be called
//! with dynamic values. A small component in between can call them: the [`Passthrough`]. It has one export for each
//! import, which calls the import, and is instantiated in the same store. So grants, limits, errors and accounting are
//! the same for recorded and other calls; the passthrough's memory is charged to the plugin.
//!
//! **Replaying.** The same functions return the results in the record, in order. A host call that is not the next one
//! in the record, or has other arguments, is a [`Difference`], and ends the call. No other function is linked.
//!
//! **Resources.** Streams, descriptors, pollables, fields, buckets and all other handles are numbered in the order in
//! which the guest gets them, from 1 in each instance. A record has numbers in place of handles. So a replay needs no
//! resource of the host: reading a stream is another host call whose result is in the record, and a pollable is ready
//! when it was ready in the record. Dropping a handle is not recorded, because it returns nothing, and two builds may
//! drop handles in a different order.
//!
//! **Logging.** Calls of `wasi:logging` are neither recorded nor compared: an additional log line is not a difference.
//!
//! **Bounded.** The host calls of a call are kept until it ends, at most [`MAX_CALL_BYTES`] bytes, and are charged to
//! the plugin's memory. When there is no more room, the rest of the call is not recorded, and the record is marked as
//! truncated.

mod linker;
mod redaction;
mod value;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use wasmtime::component::{Instance, ResourceAny};

use crate::memory::Reservation;

pub use self::linker::{ImportedFunction, LinkedPassthrough, linker};
pub use self::redaction::Redaction;

/// The maximum size of the recorded host calls of one call, in bytes.
pub const MAX_CALL_BYTES: usize = 32 << 20;

/// A host call in a record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedHostCall {
    /// The interface and the function, such as `wasi:filesystem/types descriptor.open-at`.
    pub function: String,
    /// The arguments.
    pub arguments: Vec<Value>,
    /// The result.
    #[serde(flatten)]
    pub outcome: HostCallOutcome,
}

/// The end of a host call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostCallOutcome {
    /// The call returned this value; null if it returns nothing.
    Result(Value),
    /// The call ended the guest's call: the guest exited, or a limit was exhausted.
    Trap(String),
}

/// The first host call of a replay that differs from the record.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The number of host calls that matched the record.
    pub position: usize,
    /// The host call in the record. None after the end of the record.
    pub expected: Option<RecordedHostCall>,
    /// The function and the arguments in the replay. None if the replay ended before.
    pub actual: Option<(String, Vec<Value>)>,
}

/// A component that exports a function for each host function that another component imports.
#[derive(Clone, Debug)]
pub struct Passthrough {
    /// The component. Its exports are functions `f0`, `f1` and so on.
    pub component: Vec<u8>,
    /// The import and the function that each export calls, as they are written in the component.
    pub functions: Vec<(String, String)>,
}

/// The host calls of one recorded call, as JSON.
pub struct HostCallRecord(Mutex<Kept>);

struct Kept {
    calls: Vec<Box<RawValue>>,
    bytes: usize,
    /// The memory of the record.
    charge: Option<Reservation>,
    /// Whether there was no room for a host call.
    is_cut: bool,
}

impl HostCallRecord {
    /// A record whose memory is charged to `charge`.
    fn new(charge: Reservation) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Kept { calls: Vec::new(), bytes: 0, charge: Some(charge), is_cut: false })))
    }

    fn push(&self, call: &RecordedHostCall) {
        let mut kept = self.0.lock();
        if kept.is_cut {
            return;
        }
        let Ok(call) = serde_json::value::to_raw_value(call) else {
            kept.is_cut = true;
            return;
        };
        let bytes = kept.bytes.saturating_add(call.get().len()).saturating_add(size_of::<Box<RawValue>>());
        let has_room =
            bytes <= MAX_CALL_BYTES && kept.charge.as_mut().is_some_and(|charge| charge.try_resize(bytes).is_ok());
        if has_room {
            kept.bytes = bytes;
            kept.calls.push(call);
        } else {
            kept.is_cut = true;
        }
    }

    /// Takes the host calls, and returns whether they are complete.
    pub fn take(&self) -> (Vec<Box<RawValue>>, bool) {
        let mut kept = self.0.lock();
        kept.charge = None;
        (std::mem::take(&mut kept.calls), !kept.is_cut)
    }
}

/// The recorder or the replay between an instance and the functions of the host.
pub struct InstanceRecording {
    handles: Handles,
    mode: Mode,
    /// Whether a host call may have changed something outside of the instance.
    has_effects: bool,
}

enum Mode {
    Record { passthrough: Option<Instance>, record: Arc<HostCallRecord>, redaction: Arc<Redaction> },
    Replay(Replay),
}

/// The state of a replay.
struct Replay {
    /// The host calls of the record, which all replays of a call share.
    expected: Arc<[RecordedHostCall]>,
    /// The number of host calls that matched the record.
    position: usize,
    difference: Option<Difference>,
}

impl InstanceRecording {
    /// Creates a recorder of host calls. The memory of the record is charged to `charge`.
    pub fn recorder(redaction: Arc<Redaction>, charge: Reservation) -> (Self, Arc<HostCallRecord>) {
        let record = HostCallRecord::new(charge);
        let mode = Mode::Record { passthrough: None, record: record.clone(), redaction };
        (Self { handles: Handles::default(), mode, has_effects: false }, record)
    }

    /// Creates a replay that answers host calls from a record.
    pub fn replay(expected: Arc<[RecordedHostCall]>) -> Self {
        let replay = Replay { expected, position: 0, difference: None };
        Self { handles: Handles::default(), mode: Mode::Replay(replay), has_effects: false }
    }

    /// Returns whether a recorded host call may have changed something outside of the instance, so that the call must
    /// not be made again.
    pub fn has_effects(&self) -> bool {
        self.has_effects
    }

    /// The first difference of a replay after its end.
    pub fn difference(&self) -> Option<Difference> {
        let Mode::Replay(replay) = &self.mode else { return None };
        let missing = || {
            let expected = replay.expected.get(replay.position).cloned()?;
            Some(Difference { position: replay.position, expected: Some(expected), actual: None })
        };
        replay.difference.clone().or_else(missing)
    }

    /// Keeps a host call, if this is a recorder.
    fn record(&self, function: &str, arguments: Vec<Value>, outcome: HostCallOutcome) {
        if let Mode::Record { record, redaction, .. } = &self.mode {
            let mut call = RecordedHostCall { function: function.to_owned(), arguments, outcome };
            redaction.apply_to_call(&mut call);
            record.push(&call);
        }
    }

    /// Returns the outcome of the record's next host call, if it matches this one.
    fn next(&mut self, function: &str, arguments: Vec<Value>) -> Option<HostCallOutcome> {
        let Mode::Replay(replay) = &mut self.mode else { return None };
        if replay.difference.is_some() {
            return None;
        }
        let next = replay.expected.get(replay.position);
        let is_expected =
            |next: &&RecordedHostCall| next.function == function && redaction::are_same(&next.arguments, &arguments);
        if let Some(outcome) = next.filter(is_expected).map(|next| next.outcome.clone()) {
            replay.position = replay.position.saturating_add(1);
            return Some(outcome);
        }
        replay.difference = Some(Difference {
            position: replay.position,
            expected: next.cloned(),
            actual: Some((function.to_owned(), arguments)),
        });
        None
    }
}

/// Returns whether a host function may change something outside of the instance: a request, a bucket, a file. Functions
/// that are not known to be harmless may.
fn may_have_effects(function: &str) -> bool {
    let (interface, name) = function.split_once(' ').unwrap_or((function, ""));
    let name = name.rsplit_once('.').map_or(name, |(_, name)| name);
    let is_reading = |reading: &[&str]| reading.contains(&name);
    match interface {
        "wasi:keyvalue/store" => !is_reading(&["open", "get", "exists", "list-keys"]),
        "wasi:keyvalue/atomics" => !is_reading(&["new", "current"]),
        "wasi:keyvalue/batch" => !is_reading(&["get-many"]),
        "wasi:filesystem/types" => is_reading(&[
            "write",
            "write-via-stream",
            "append-via-stream",
            "create-directory-at",
            "rename-at",
            "unlink-file-at",
            "remove-directory-at",
            "symlink-at",
            "link-at",
            "set-size",
            "set-times",
            "set-times-at",
        ]),
        "wasi:filesystem/preopens" | "wasi:http/types" => false,
        _ => {
            let harmless = [
                "wasi:cli/",
                "wasi:clocks/",
                "wasi:config/",
                "wasi:io/",
                "wasi:logging/",
                "wasi:random/",
                "mcp-host:sql/",
            ];
            !harmless.iter().any(|package| interface.starts_with(package))
        }
    }
}

/// The handles of a guest: their numbers, and the resources of the host when recording.
#[derive(Default)]
struct Handles {
    last: u32,
    resources: HashMap<u32, ResourceAny>,
}

impl Handles {
    fn insert(&mut self, resource: ResourceAny) -> wasmtime::Result<u32> {
        self.last = self.last.checked_add(1).ok_or_else(|| wasmtime::Error::msg("more handles than have numbers"))?;
        self.resources.insert(self.last, resource);
        Ok(self.last)
    }
}

/// A handle in a record.
fn handle(number: u32) -> Value {
    json!({ "handle": number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replays_answer_from_one_record_in_its_order() {
        let call = |function: &str, result: u32| RecordedHostCall {
            function: function.to_owned(),
            arguments: vec![json!(function)],
            outcome: HostCallOutcome::Result(json!(result)),
        };
        let record: Arc<[RecordedHostCall]> = [call("a", 1), call("b", 2)].into();
        for _ in 0..2 {
            let mut replay = InstanceRecording::replay(record.clone());
            let mut next = |function: &str| replay.next(function, vec![json!(function)]);
            assert_eq!(next("a"), Some(HostCallOutcome::Result(json!(1))));
            assert_eq!(next("c"), None);
            let difference = replay.difference().unwrap();
            assert_eq!((difference.position, difference.expected), (1, Some(call("b", 2))));
            assert_eq!(difference.actual, Some(("c".to_owned(), vec![json!("c")])));
        }
        let mut replay = InstanceRecording::replay(record);
        assert!(["a", "b"].into_iter().all(|function| replay.next(function, vec![json!(function)]).is_some()));
        assert_eq!(replay.difference(), None, "the record is at its end");
    }

    #[test]
    fn reading_has_no_effects_and_unknown_functions_may_have_some() {
        for reading in [
            "wasi:keyvalue/store bucket.get",
            "wasi:keyvalue/store open",
            "wasi:keyvalue/atomics cas.current",
            "wasi:filesystem/types descriptor.open-at",
            "wasi:filesystem/types descriptor.read-via-stream",
            "wasi:http/types fields.constructor",
            "wasi:clocks/wall-clock now",
            "wasi:io/streams input-stream.blocking-read",
            "mcp-host:sql/databases query",
        ] {
            assert!(!may_have_effects(reading), "{reading}");
        }
        for writing in [
            "wasi:keyvalue/store bucket.set",
            "wasi:keyvalue/atomics increment",
            "wasi:keyvalue/atomics swap",
            "wasi:keyvalue/batch delete-many",
            "wasi:filesystem/types descriptor.append-via-stream",
            "wasi:filesystem/types descriptor.unlink-file-at",
            "wasi:http/outgoing-handler handle",
            "acme:mail/sender send",
        ] {
            assert!(may_have_effects(writing), "{writing}");
        }
    }
}
