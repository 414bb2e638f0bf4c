//! Traces over OTLP/HTTP: the spans of sampled requests ([`Telemetry`]), for an OpenTelemetry collector.
//!
//! ```no_run
//! # fn start(config: &mcp_resource_host::config::Config) -> std::io::Result<()> {
//! use std::time::Duration;
//!
//! use mcp_resource_host::telemetry::Telemetry;
//! use tracing_subscriber::layer::SubscriberExt as _;
//! use tracing_subscriber::util::SubscriberInitExt as _;
//!
//! let Some(settings) = &config.telemetry else { return Ok(()) };
//! let telemetry = Telemetry::start(settings, &config.server.name)?;
//! tracing_subscriber::registry().with(telemetry.layer()).init();
//! // At the end of the program:
//! telemetry.shutdown(Duration::from_secs(1));
//! # Ok(())
//! # }
//! ```
//!
//! A span that ends is put into a queue of [`MAX_QUEUED`] spans, without waiting. A thread with its own runtime sends
//! them, up to [`MAX_BATCH`] at a time and within [`EXPORT_BOUNDS`]. Redirects are not followed. Spans that the
//! collector does not accept are dropped. After a failure the exporter backs off ([`Backoff`], up to [`MAX_PAUSE`]),
//! and the queue fills. Load shedding: a request that begins while the queue is full has no spans
//! ([`trace::admits_request`]). So a collector that is slow, gone or hostile costs only spans, which are counted
//! ([`SpanCounts`]).

mod exporter;
mod queue;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use mcp_host_base::backoff::Backoff;
use mcp_host_base::metrics::{Counter, Family};
use mcp_host_base::trace;
use mcp_host_config::telemetry::Telemetry as Settings;
use mcp_host_sandbox::outbound_http::ExchangeBounds;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider, SpanLimits};
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use tokio::runtime::Builder;
use tokio_util::sync::CancellationToken;
use tracing::subscriber::Interest;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Filter};
use tracing_subscriber::registry::LookupSpan;

use self::exporter::Exporter;
use self::queue::{QueueProcessor, SpanQueue};

/// The maximum number of queued spans.
const MAX_QUEUED: usize = 2048;
/// The maximum number of spans in one request to the collector.
const MAX_BATCH: usize = 512;
/// The maximum wait for more spans of a batch.
const BATCH_DELAY: Duration = Duration::from_secs(1);
/// The bounds of a request to the collector.
const EXPORT_BOUNDS: ExchangeBounds = ExchangeBounds { timeout: Duration::from_secs(10), max_body: 64 << 10 };
/// The maximum pause after a failure.
const MAX_PAUSE: Duration = Duration::from_secs(30);

const SPANS: Family = Family::counter(
    "mcp_host_telemetry_spans_total",
    &["outcome"],
    "Spans of traced requests by outcome: exported, dropped (the queue was full), failed (the collector did not accept them).",
);

/// The numbers of exported and dropped spans, as metrics.
#[derive(Clone, Debug, Default)]
pub struct SpanCounts(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    exported: Counter,
    dropped: Counter,
    failed: Counter,
}

impl Collector for SpanCounts {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Counts { exported, dropped, failed } = &*self.0;
        SPANS.encode(&mut encoder, |samples| {
            [("exported", exported), ("dropped", dropped), ("failed", failed)]
                .into_iter()
                .try_for_each(|(outcome, count)| samples.integer(&[outcome], count.get()))
        })
    }
}

/// The export of spans.
#[derive(Debug)]
pub struct Telemetry {
    provider: SdkTracerProvider,
    counts: SpanCounts,
    closing: CancellationToken,
    ended: Mutex<mpsc::Receiver<()>>,
}

impl Telemetry {
    /// Starts the thread that sends spans, without contacting the collector. For one instance per process: with
    /// several, the queue of the first decides whether a request has spans.
    ///
    /// # Errors
    ///
    /// The thread cannot be started.
    pub fn start(settings: &Settings, service: &str) -> io::Result<Self> {
        let (counts, closing) = (SpanCounts::default(), CancellationToken::new());
        // Attributes of the environment (`OTEL_RESOURCE_ATTRIBUTES`) are added.
        let resource = Resource::builder()
            .with_service_name(service.to_owned())
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build();
        let exporter = Exporter::new(settings, &resource).map_err(io::Error::other)?;
        let (processor, queue) = QueueProcessor::new(counts.clone(), closing.clone());
        let admission = processor.clone();
        trace::set_admission(move || admission.admits_request());
        let (ended_sender, ended) = mpsc::channel();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let of_thread = counts.clone();
        thread::Builder::new().name("telemetry".to_owned()).spawn(move || {
            // Dropped when the thread ends; the shutdown waits for this.
            let _ended = ended_sender;
            runtime.block_on(send_all(queue, exporter, &of_thread));
        })?;
        let provider = SdkTracerProvider::builder()
            .with_span_processor(processor)
            // Requests that are not sampled have no spans.
            .with_sampler(Sampler::AlwaysOn)
            .with_span_limits(SpanLimits::default())
            .with_resource(resource)
            .build();
        Ok(Self { provider, counts, closing, ended: Mutex::new(ended) })
    }

    /// Returns a layer that takes only the spans of requests.
    pub fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        let scope = InstrumentationScope::builder("mcp-host").with_version(env!("CARGO_PKG_VERSION")).build();
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer_with_scope(scope))
            .with_location(false)
            .with_threads(false)
            .with_level(false)
            .with_target(false)
            .with_tracked_inactivity(false)
            .with_context_activation(false)
            .with_filter(TracedSpans)
    }

    /// Returns the numbers of spans, for a registry of metrics.
    pub fn counts(&self) -> SpanCounts {
        self.counts.clone()
    }

    /// Sends the queued spans, for at most `timeout`. Later spans are dropped. Blocks.
    pub fn shutdown(&self, timeout: Duration) {
        self.closing.cancel();
        // No message is ever sent: this returns an error when the thread has ended.
        let _ = self.ended.lock().recv_timeout(timeout);
    }
}

/// Sends spans until the queue is closed and empty.
async fn send_all(mut queue: SpanQueue, exporter: Exporter, counts: &SpanCounts) {
    let mut failing: Option<Backoff> = None;
    while let Some(batch) = queue.next_batch().await {
        let sent = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        match exporter.export(batch).await {
            Ok(rejected) => {
                let rejected = rejected.min(sent);
                counts.0.failed.add(rejected);
                counts.0.exported.add(sent.saturating_sub(rejected));
                if failing.take().is_some() {
                    tracing::info!(target: mcp_host_base::log_target::SERVER, "traces are exported again");
                }
            }
            Err(error) => {
                counts.0.failed.add(sent);
                if failing.is_none() {
                    tracing::warn!(
                        target: mcp_host_base::log_target::SERVER, %error, url = exporter.url(),
                        "traces cannot be exported (`telemetry.otlp`); spans are dropped meanwhile"
                    );
                }
                let backoff = failing.get_or_insert_with(|| Backoff::up_to(MAX_PAUSE));
                queue.pause(backoff.next_delay()).await;
            }
        }
    }
}

/// The spans of sampled requests, and the spans below them.
struct TracedSpans;

impl<S> Filter<S> for TracedSpans
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    fn enabled(&self, metadata: &Metadata<'_>, context: &Context<'_, S>) -> bool {
        trace::is_span(metadata) && (metadata.name() == trace::REQUEST || context.lookup_current().is_some())
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        match trace::is_span(metadata) {
            true => Interest::sometimes(),
            false => Interest::never(),
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::INFO)
    }
}
