//! `/metrics`: the metrics of the host and its servers, in the text format of OpenMetrics or Prometheus, by content
//! negotiation.

#[cfg(target_os = "linux")]
mod process;

use std::fmt::{self, Write as _};
use std::sync::Arc;

use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use mcp_host_base::metrics::Family;
use mcp_host_base::task;
use mcp_resource_host::host::Host;
use mcp_resource_host::metrics::HostCollector;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::text;
use crate::server_metrics::ServerCollector;

/// The media type of OpenMetrics.
const OPENMETRICS: &str = "application/openmetrics-text";

const READY: Family = Family::gauge(
    "mcp_host_ready",
    &[],
    "1 if `/readyz` answers 200, 0 while a required plugin is missing or the server shuts down.",
);

/// A collector that the program shares.
#[derive(Debug)]
struct Shared(Arc<dyn Collector>);

impl Collector for Shared {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.0.encode(encoder)
    }
}

/// The registry of a host. Scrapes are encoded one at a time, on a thread that serves no clients.
pub(super) struct Metrics(Arc<Mutex<Registry>>);

impl Metrics {
    /// Creates the registry with the metrics of this host, its servers, the process and `others`.
    pub(super) fn new(host: &Arc<Host>, draining: &CancellationToken, others: Vec<Arc<dyn Collector>>) -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Readiness { host: host.clone(), draining: draining.clone() }));
        #[cfg(target_os = "linux")]
        registry.register_collector(Box::new(process::ProcessCollector));
        registry.register_collector(Box::new(HostCollector::new(host.clone())));
        registry.register_collector(Box::new(ServerCollector::new(host.clone())));
        for collector in others {
            registry.register_collector(Box::new(Shared(collector)));
        }
        Self(Arc::new(Mutex::new(registry)))
    }

    /// Answers a scrape.
    pub(super) async fn respond(&self, headers: &HeaderMap) -> Response {
        let registry = self.0.clone().lock_owned().await;
        let encoding = task::spawn_blocking(move || {
            let mut exposition = String::new();
            encode(&mut exposition, &registry).map(|()| exposition)
        });
        // Encoding fails if it panics, which is logged, or if the runtime shuts down.
        let Ok(Ok(exposition)) = encoding.await else {
            return text(StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be encoded\n");
        };
        let (body, content_type) = match accepts_openmetrics(headers) {
            true => (exposition, "application/openmetrics-text; version=1.0.0; charset=utf-8"),
            false => (to_prometheus(&exposition), "text/plain; version=0.0.4; charset=utf-8"),
        };
        let mut response = text(StatusCode::OK, body);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        response
    }
}

/// The metric of readiness.
#[derive(Debug)]
struct Readiness {
    host: Arc<Host>,
    draining: CancellationToken,
}

impl Collector for Readiness {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let audit = self.host.audit_state();
        let is_refusing = audit.is_some_and(|audit| audit.refuses && audit.failure.is_some());
        let is_ready = !self.draining.is_cancelled() && self.host.missing_plugins().is_empty() && !is_refusing;
        READY.encode_one(&mut encoder, u64::from(is_ready))
    }
}

fn accepts_openmetrics(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let is_openmetrics = parts.next().is_some_and(|media_type| media_type.eq_ignore_ascii_case(OPENMETRICS));
        is_openmetrics && !parts.any(|parameter| matches!(parameter, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
    })
}

/// Converts an exposition to the text format 0.0.4 of Prometheus: the metadata of a counter carries the name of its
/// samples, which ends in `_total`, and there is no end mark.
fn to_prometheus(exposition: &str) -> String {
    let mut converted = String::with_capacity(exposition.len());
    let mut help = None;
    for line in exposition.lines() {
        if line == "# EOF" {
            continue;
        }
        // The description stands immediately before the type.
        if let Some(described) = line.strip_prefix("# HELP ") {
            help = described.split_once(' ');
            continue;
        }
        // Writing to a string does not fail.
        let _ = match (line.strip_prefix("# TYPE ").and_then(|typed| typed.split_once(' ')), help.take()) {
            (Some((name, kind)), Some((_, help))) => {
                let suffix = if kind == "counter" { "_total" } else { "" };
                writeln!(converted, "# HELP {name}{suffix} {help}\n# TYPE {name}{suffix} {kind}")
            }
            _ => writeln!(converted, "{line}"),
        };
    }
    converted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_that_which_the_request_accepts() {
        let accepts = |value| accepts_openmetrics(&HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(value))]));
        assert!(accepts("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"));
        assert!(accepts("text/plain, Application/OpenMetrics-Text"));
        for other in ["text/plain;version=0.0.4", "*/*", "application/openmetrics-text;q=0", ""] {
            assert!(!accepts(other), "{other}");
        }
        assert!(!accepts_openmetrics(&HeaderMap::new()));
    }

    #[test]
    fn the_metadata_of_counters_name_their_samples_in_the_format_of_prometheus() {
        let exposition =
            "# HELP a A b.\n# TYPE a counter\na_total{x=\"y\"} 3\n# HELP b B.\n# TYPE b gauge\nb{} 1\n# EOF\n";
        let expected =
            "# HELP a_total A b.\n# TYPE a_total counter\na_total{x=\"y\"} 3\n# HELP b B.\n# TYPE b gauge\nb{} 1\n";
        assert_eq!(to_prometheus(exposition), expected);
    }
}
