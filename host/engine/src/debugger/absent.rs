//! Without the feature `debugger` there are no debuggers.

use mcp_host_config::limits::Limits;
use mcp_host_sandbox::state::GuestState;
use wasmtime::Store;
use wasmtime::component::Component;

/// A debugger, which only the feature `debugger` can make.
#[derive(Clone, Debug)]
pub enum Debugger {}

impl Debugger {
    pub(crate) fn observe(&self, _: &mut Store<GuestState>) {
        match *self {}
    }

    #[allow(clippy::unused_async, reason = "with the feature it waits")]
    pub(crate) async fn enter(&self, _: &mut Store<GuestState>, _: &Component) -> wasmtime::Result<()> {
        match *self {}
    }
}

pub(crate) fn debuggable_limits(limits: &Limits) -> Limits {
    limits.clone()
}
