//! The names and times of host calls, from the spans in the bindings that wasmtime generates.
//!
//! Each function that a component may import has one call site with a span named [`SPAN`], in the crates of
//! wasmtime-wasi and in our own bindings. A span lives for the duration of the host call. The layer exists only where
//! calls are observed, and assigns a host call to the guest call that the thread is polling.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;

use mcp_host_engine::diagnostics::{HostCalls, OpenHostCall};
use parking_lot::Mutex;
use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// The name of the spans.
const SPAN: &str = "wit-bindgen import";

/// The layer that records host calls.
pub(in crate::diagnostics) struct HostCallLayer {
    /// The names of the functions by call site.
    names: Mutex<HashMap<Identifier, Arc<str>>>,
}

/// A layer that records host calls, and ignores all other spans.
pub(crate) fn layer<S>() -> impl Layer<S>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let layer = HostCallLayer { names: Mutex::default() };
    layer.with_filter(filter_fn(|metadata| metadata.is_span() && metadata.name() == SPAN))
}

impl HostCallLayer {
    fn name(&self, span: &Attributes<'_>) -> Arc<str> {
        let metadata = span.metadata();
        let mut names = self.names.lock();
        names.entry(metadata.callsite()).or_insert_with(|| name(metadata, span).into()).clone()
    }
}

/// `wasi:filesystem/types descriptor.open-at`: the interface is the last part of the generated module's path.
fn name(metadata: &Metadata<'_>, span: &Attributes<'_>) -> String {
    let mut function = Function::default();
    span.record(&mut function);
    let mut path = metadata.target().rsplit("::");
    let (interface, package, namespace) = (path.next(), path.next(), path.next());
    let interface = match (namespace, package, interface) {
        (Some(namespace), Some(package), Some(interface)) => format!("{namespace}:{package}/{interface}"),
        _ => metadata.target().to_owned(),
    };
    format!("{} {}", interface.replace('_', "-"), function.0)
}

/// The name of a function, without the method marker.
#[derive(Default)]
struct Function(String);

impl Visit for Function {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "function" {
            let name = value.rsplit_once(']').map_or(value, |(_, name)| name);
            self.0 = match value.strip_prefix("[resource-drop]") {
                Some(resource) => format!("{resource}.drop"),
                None => name.to_owned(),
            };
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}

impl<S> Layer<S> for HostCallLayer
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    fn on_new_span(&self, span: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let (Some(calls), Some(made)) = (HostCalls::current(), context.span(id)) {
            made.extensions_mut().insert(calls.begin(self.name(span)));
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        if let Some(closed) = context.span(&id) {
            drop(closed.extensions_mut().remove::<OpenHostCall>());
        }
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[tokio::test]
    async fn a_host_call_has_the_name_of_the_contract_and_lasts_as_long_as_its_span() {
        let subscriber = tracing_subscriber::registry().with(layer());
        let _default = tracing::subscriber::set_default(subscriber);
        let calls = Arc::new(HostCalls::default());
        calls
            .clone()
            .scope(async {
                let open = tracing::span!(
                    target: "x::generated::wasi::filesystem::types",
                    Level::TRACE,
                    "wit-bindgen import",
                    module = "types",
                    function = "[method]descriptor.open-at",
                );
                assert!(!calls.last()[0].has_returned);
                drop(open);
                drop(tracing::span!(target: "x::wasi", Level::TRACE, "other"));
            })
            .await;
        let last = calls.last();
        assert_eq!((last.len(), &*last[0].function), (1, "wasi:filesystem/types descriptor.open-at"));
        assert!(last[0].has_returned);
    }
}
