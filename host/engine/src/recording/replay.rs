//! Replays of recorded calls.

use std::sync::Arc;

use mcp_host_sandbox::recording::{Difference, InstanceRecording, RecordedHostCall, linker};
use mcp_host_sandbox::state::GuestState;
use parking_lot::Mutex;
use wasmtime::Store;
use wasmtime::component::Component;

use super::format::{Outcome, RecordedCall};
use crate::bindings::{Exports, ProviderPre};

/// The result of a replay.
#[derive(Clone, Debug, PartialEq)]
pub struct Replayed {
    /// Its end.
    pub outcome: Outcome,
    /// The first host call that differs from the record.
    pub difference: Option<Difference>,
}

impl Replayed {
    /// Returns whether the call matches the record. If the end of the call depends on the machine, or was not
    /// recorded, only the recorded host calls count.
    pub fn is_same(&self, recorded: &RecordedCall) -> bool {
        let is_whole = recorded.complete && recorded.outcome.is_comparable();
        match (&self.difference, is_whole) {
            (None, true) => self.outcome == recorded.outcome,
            (Some(_), true) => false,
            // The call went on after the end of the record.
            (difference, false) => difference.as_ref().is_none_or(|difference| difference.expected.is_none()),
        }
    }
}

/// A component that is linked for replays, one at a time.
pub(crate) struct Replays {
    pre: ProviderPre<GuestState>,
    next: Mutex<Arc<[RecordedHostCall]>>,
    replayed: Mutex<Option<Replayed>>,
}

impl Replays {
    pub(crate) fn new(component: &Component) -> wasmtime::Result<Self> {
        let linker = linker(component.engine(), &component.component_type(), None)?;
        let pre = linker.instantiate_pre(component).and_then(ProviderPre::new)?;
        Ok(Self { pre, next: Mutex::default(), replayed: Mutex::default() })
    }

    /// Makes an instance answer its host calls from the record of the next call.
    pub(crate) fn begin(&self, state: &mut GuestState) {
        let host_calls = std::mem::take(&mut *self.next.lock());
        state.recording = Some(Box::new(InstanceRecording::replay(host_calls)));
    }

    /// Instantiates the component.
    pub(crate) async fn instantiate(
        &self,
        store: &mut Store<GuestState>,
        is_for_preparation: bool,
    ) -> wasmtime::Result<Exports> {
        Exports::instantiate(&self.pre, store, is_for_preparation).await
    }

    /// Sets the host calls of the next call.
    pub(crate) fn set_next(&self, host_calls: Arc<[RecordedHostCall]>) {
        *self.next.lock() = host_calls;
        *self.replayed.lock() = None;
    }

    /// Takes the result of the last call; none if it has not ended.
    pub(crate) fn take(&self) -> Option<Replayed> {
        self.replayed.lock().take()
    }

    /// Records the end of the call.
    pub(crate) fn end(&self, state: &GuestState, outcome: Outcome) {
        let difference = state.recording.as_ref().and_then(|recording| recording.difference());
        *self.replayed.lock() = Some(Replayed { outcome, difference });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baseline::Baseline;

    #[test]
    fn a_component_is_linked_for_the_engine_that_its_code_is_for() {
        let baseline = Baseline::new().unwrap();
        let component = Component::new(baseline.wasmtime(), wat::parse_str("(component)").unwrap()).unwrap();
        let refused = Replays::new(&component).err().unwrap().to_string();
        assert!(refused.contains("no exported instance"), "{refused}");
    }
}
