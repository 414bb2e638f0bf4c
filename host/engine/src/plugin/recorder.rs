//! Starting and ending the recording ([`recording`](crate::recording)) and the profile of a loaded plugin.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};
use std::time::Duration;

use mcp_host_base::regular_file;
use mcp_host_base::task;
use mcp_host_model::digest::Digest;
use wasmtime::component::Component;
use wasmtime::component::types::ComponentItem;

use super::Plugin;
use super::backend::{Backend, ComponentBackend};
use super::call::CallContext;
use crate::MAX_COMPONENT_SIZE;
use crate::diagnostics::{CallObserver, ObservedPlugin};
use crate::recording::{Recorder, Recording, RecordingError, Replays};

/// A recording that ends when this is dropped.
pub struct RecordingGuard {
    context: Weak<CallContext>,
}

/// A profile that ends when this is dropped.
pub struct ProfilingGuard(Weak<CallContext>);

impl Drop for ProfilingGuard {
    fn drop(&mut self) {
        if let Some(context) = self.0.upgrade() {
            context.profiled.store(None);
        }
    }
}

/// The maximum number of interfaces that a recorded component imports and exports. WASI has some 50, which a component
/// may import in several versions.
const MAX_INTERFACES: usize = 256;
/// The maximum number of functions and types of these interfaces. WASI has some 700.
const MAX_ITEMS: usize = 4096;

/// The interval of checks whether a plugin is still loaded.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

impl RecordingGuard {
    /// Waits until the plugin is unloaded: a reload has replaced it, or it was disabled.
    pub fn unloaded(&self) -> impl Future<Output = ()> + Send + use<> {
        let context = self.context.clone();
        async move {
            while context.strong_count() > 0 {
                tokio::time::sleep(LOOK_INTERVAL).await;
            }
        }
    }
}

impl Drop for RecordingGuard {
    fn drop(&mut self) {
        if let Some(context) = self.context.upgrade()
            && let Backend::Component(component) = &*context.backend
        {
            component.recording.store(None);
        }
    }
}

/// Returns an error if a component has more interfaces than are recorded: its types are decoded, and its passthrough is
/// made and compiled, in this process, not in the compiler's with its limits.
fn check_interfaces(component: &Component) -> Result<(), RecordingError> {
    let (engine, ty) = (component.engine(), component.component_type());
    let (mut interfaces, mut items) = (0_usize, 0_usize);
    for (_, item) in ty.imports(engine).chain(ty.exports(engine)) {
        if let ComponentItem::ComponentInstance(interface) = item.ty {
            interfaces = interfaces.saturating_add(1);
            items = items.saturating_add(interface.exports(engine).len());
        }
    }
    if interfaces <= MAX_INTERFACES && items <= MAX_ITEMS {
        return Ok(());
    }
    Err(RecordingError::Imports(format!(
        "it cannot be recorded: it has {interfaces} interfaces with {items} functions and types; at most {MAX_INTERFACES} and {MAX_ITEMS} are possible"
    )))
}

impl Plugin {
    /// Records its calls, from the next one until the guard is dropped. One recording at a time.
    pub async fn record(&self, recorder: Recorder) -> Result<RecordingGuard, RecordingError> {
        self.begin_recording(recorder).await?;
        Ok(RecordingGuard { context: Arc::downgrade(&self.call_context) })
    }

    /// Reports its calls, and stack samples of computing guests, to an observer until the guard is dropped.
    /// None while there is another one.
    pub fn profile(&self, observer: Arc<dyn CallObserver>) -> Option<ProfilingGuard> {
        let observed =
            ObservedPlugin { name: self.name.clone(), component: None, observer, calls: AtomicU64::default() };
        let none: Option<Arc<ObservedPlugin>> = None;
        let before = self.call_context.profiled.compare_and_swap(&none, Some(Arc::new(observed)));
        before.is_none().then(|| ProfilingGuard(Arc::downgrade(&self.call_context)))
    }

    /// Records its calls from the next one on.
    pub(super) async fn begin_recording(&self, recorder: Recorder) -> Result<(), RecordingError> {
        let Recorder { sink, passthrough, .. } = recorder;
        let Some(component) = self.component() else { return Err(RecordingError::Native(self.name.to_string())) };
        let is_busy = || RecordingError::Busy(self.name.to_string());
        if component.recording.load().is_some() {
            return Err(is_busy());
        }
        let (engine, plugin) = (self.call_context.engine.clone(), component.recorded_as.clone());
        let loaded = component.component.pre.instance_pre().component().clone();
        let (redaction, file) = (component.redaction.clone(), plugin.component.clone());
        let max = usize::try_from(MAX_COMPONENT_SIZE).unwrap_or(usize::MAX);
        let prepare = move || {
            check_interfaces(&loaded)?;
            let unreadable = |reason: String| RecordingError::File { file: plugin.component.clone(), reason };
            let content = regular_file::read(plugin.component.as_ref(), max);
            let content = content.map_err(|error| unreadable(error.to_string()))?;
            if Digest::compute(&content).to_string() != plugin.digest {
                return Err(unreadable("the file has changed".to_owned()));
            }
            let passthrough = passthrough.make(&content).map_err(RecordingError::Imports)?;
            Recording::new(&engine, &loaded, &passthrough, plugin, redaction, sink)
        };
        let prepared = task::spawn_blocking(prepare).await;
        let recording = prepared.map_err(|error| RecordingError::File { file, reason: error.to_string() })??;
        let recording = Arc::new(recording);
        let none: Option<Arc<Recording>> = None;
        let before = component.recording.compare_and_swap(&none, Some(recording));
        if before.is_some() { Err(is_busy()) } else { Ok(()) }
    }

    /// Returns the replays that its calls are made from, if any.
    pub(crate) fn replays(&self) -> Option<&Replays> {
        self.component().and_then(|component| component.replays.as_ref())
    }

    fn component(&self) -> Option<&ComponentBackend> {
        match &*self.call_context.backend {
            Backend::Component(component) => Some(component),
            Backend::Native(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A component that imports this number of interfaces, each with this number of functions.
    fn importing(interfaces: usize, functions: usize) -> String {
        let functions: String = (0..functions).map(|number| format!("(export \"f{number}\" (func))")).collect();
        let import = |number| format!("(import \"a:b/i{number}\" (instance {functions}))");
        format!("(component {})", (0..interfaces).map(import).collect::<String>())
    }

    #[test]
    fn a_component_with_too_many_interfaces_or_functions_is_not_recorded() {
        let engine = wasmtime::Engine::default();
        let check = |interfaces, functions| {
            let component = wat::parse_str(importing(interfaces, functions)).unwrap();
            check_interfaces(&Component::new(&engine, component).unwrap())
        };
        check(MAX_INTERFACES, MAX_ITEMS / MAX_INTERFACES).unwrap();
        for (interfaces, functions) in [(MAX_INTERFACES + 1, 1), (1, MAX_ITEMS + 1)] {
            let refused = check(interfaces, functions).unwrap_err().to_string();
            assert!(refused.contains("it cannot be recorded") && refused.contains("at most 256 and 4096"), "{refused}");
        }
    }
}
