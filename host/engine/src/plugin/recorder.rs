//! Starting and ending the recording ([`recording`](crate::recording)) and the profile of a loaded plugin.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};
use std::time::Duration;

use mcp_host_base::regular_file;
use mcp_host_model::digest::Digest;

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
            let unreadable = |reason: String| RecordingError::File { file: plugin.component.clone(), reason };
            let content = regular_file::read(plugin.component.as_ref(), max);
            let content = content.map_err(|error| unreadable(error.to_string()))?;
            if Digest::compute(&content).to_string() != plugin.digest {
                return Err(unreadable("the file has changed".to_owned()));
            }
            let passthrough = passthrough.make(&content).map_err(RecordingError::Imports)?;
            Recording::new(&engine, &loaded, &passthrough, plugin, redaction, sink)
        };
        let prepared = tokio::task::spawn_blocking(prepare).await;
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
