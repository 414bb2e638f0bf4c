//! Records the host calls of an instance, and answers them from a record.
//!
//! Everything that a guest gets from outside (time, random numbers, files, HTTP, buckets, rows, its config) is the result of an imported
//! function. So a record of a call has its arguments, each host call with its arguments and its result, and its answer, and the call
//! can be repeated without any grant.
//!
//! **Where.** Imports are intercepted as values of the component model ([`linker`]), after lifting and before lowering, by one function
//! for all interfaces, those of WASI and those of this project. wasmtime 48 has a feature `rr` of which there are only settings yet.
//! It would record what a host call writes to the memory of the guest; such a record does not fit another build of the same
//! provider, whose memory is laid out differently. Values do.
//!
//! **Recording.** Each import of the guest is a dynamically typed function of the host that calls the real one. The real ones are
//! typed Rust functions in the [linker of all instances](crate::state::linker), which cannot be called with values. A small component
//! between them can: [`Passthrough`]. It has one export for each import, calls it, and is instantiated in the same store. So the grants, limits,
//! errors and accounting of a recorded call are those of any other; the passthrough's memory is charged to the plugin.
//!
//! **Replaying.** The same functions take the results from the record, in its order. A host call that is not the next one of the record, or has
//! other arguments, is a [`Difference`], and ends the call. Nothing else is linked.
//!
//! **Resources.** Streams, descriptors, pollables, fields, buckets and all other handles are numbered in the order in which the guest gets
//! them, from 1 in each instance. Where a value has a handle, the record has its number. So a replay needs no resource of the host: reading a
//! stream is one more host call whose result is in the record, and a pollable is ready when the record says that it was. Dropping a handle is not
//! recorded: it returns nothing, and two builds may drop in another order.
//!
//! **Logging.** Calls of `wasi:logging` are neither recorded nor compared: a line of the log more is no difference.
//!
//! **Bounded.** Host calls of a call are kept until it ends, at most [`MAX_CALL_BYTES`], and are charged to the plugin's memory. When there is no
//! more room, the rest of the call is not recorded, and the record says so.

mod linker;
mod redaction;
mod value;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use wasmtime::component::{Instance, ResourceAny};

use crate::memory::Reservation;

pub use self::linker::{ImportedFunction, LinkedPassthrough, linker};
pub use self::redaction::Redaction;

/// The bytes of the host calls that are kept of one call.
pub const MAX_CALL_BYTES: usize = 32 << 20;

/// A host call in a record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedHostCall {
    /// The interface and the function, such as `wasi:filesystem/types descriptor.open-at`.
    pub function: String,
    /// The arguments.
    pub arguments: Vec<Value>,
    /// What it returned.
    #[serde(flatten)]
    pub outcome: HostCallOutcome,
}

/// The end of a host call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostCallOutcome {
    /// It returned this; null if it returns nothing.
    Result(Value),
    /// It ended the call: the guest exited, or a limit was used up.
    Trap(String),
}

/// The first host call of a replay that is not as in the record.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// How many host calls were as in the record.
    pub position: usize,
    /// What the record has there; none after its end.
    pub expected: Option<RecordedHostCall>,
    /// The function and the arguments of the replay; none if it ended before.
    pub actual: Option<(String, Vec<Value>)>,
}

/// A component that exports each function of the host that another component imports.
#[derive(Clone, Debug)]
pub struct Passthrough {
    /// The component. Its exports are functions `f0`, `f1` and so on.
    pub component: Vec<u8>,
    /// What each of them calls: the import and the function as they are written in the component.
    pub functions: Vec<(String, String)>,
}

/// The host calls of one call that is recorded, as JSON.
pub struct HostCallRecord(Mutex<Kept>);

struct Kept {
    calls: Vec<Box<RawValue>>,
    bytes: usize,
    /// Their memory.
    charge: Option<Reservation>,
    /// Whether there was no room for a host call.
    is_cut: bool,
}

impl HostCallRecord {
    /// A record whose memory is charged there.
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

    /// Takes the host calls, and whether all of them are there.
    pub fn take(&self) -> (Vec<Box<RawValue>>, bool) {
        let mut kept = self.0.lock();
        kept.charge = None;
        (std::mem::take(&mut kept.calls), !kept.is_cut)
    }
}

/// What stands between an instance and the functions of the host.
pub struct InstanceRecording {
    handles: Handles,
    mode: Mode,
}

enum Mode {
    Record { passthrough: Option<Instance>, record: Arc<HostCallRecord>, redaction: Arc<Redaction> },
    Replay(Replay),
}

/// The state of a replay.
struct Replay {
    expected: VecDeque<RecordedHostCall>,
    /// How many were as in the record.
    position: usize,
    difference: Option<Difference>,
}

impl InstanceRecording {
    /// Records host calls. The memory of the record is charged there.
    pub fn recorder(redaction: Arc<Redaction>, charge: Reservation) -> (Self, Arc<HostCallRecord>) {
        let record = HostCallRecord::new(charge);
        let mode = Mode::Record { passthrough: None, record: record.clone(), redaction };
        (Self { handles: Handles::default(), mode }, record)
    }

    /// Answers host calls from a record.
    pub fn replay(expected: Vec<RecordedHostCall>) -> Self {
        let replay = Replay { expected: expected.into(), position: 0, difference: None };
        Self { handles: Handles::default(), mode: Mode::Replay(replay) }
    }

    /// The first difference of a replay that has ended.
    pub fn difference(&self) -> Option<Difference> {
        let Mode::Replay(replay) = &self.mode else { return None };
        let missing = || {
            let expected = replay.expected.front().cloned()?;
            Some(Difference { position: replay.position, expected: Some(expected), actual: None })
        };
        replay.difference.clone().or_else(missing)
    }

    /// Keeps a host call, if this records.
    fn record(&self, function: &str, arguments: Vec<Value>, outcome: HostCallOutcome) {
        if let Mode::Record { record, redaction, .. } = &self.mode {
            let mut call = RecordedHostCall { function: function.to_owned(), arguments, outcome };
            redaction.apply_to_call(&mut call);
            record.push(&call);
        }
    }

    /// The outcome of the next host call of the record, if it is that one.
    fn next(&mut self, function: &str, arguments: Vec<Value>) -> Option<HostCallOutcome> {
        let Mode::Replay(replay) = &mut self.mode else { return None };
        if replay.difference.is_some() {
            return None;
        }
        let is_expected =
            |next: &mut RecordedHostCall| next.function == function && redaction::are_same(&next.arguments, &arguments);
        if let Some(next) = replay.expected.pop_front_if(is_expected) {
            replay.position = replay.position.saturating_add(1);
            return Some(next.outcome);
        }
        replay.difference = Some(Difference {
            position: replay.position,
            expected: replay.expected.front().cloned(),
            actual: Some((function.to_owned(), arguments)),
        });
        None
    }
}

/// The handles that a guest has: their numbers, and the resources of the host if it is recorded.
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
