//! Requests to the collector: OTLP over HTTP, as Protocol Buffers.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Request, Uri};
use mcp_host_config::telemetry::Telemetry as Settings;
use mcp_host_sandbox::outbound_http::{ExchangeError, HttpsClient};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SpanData;
use prost::Message as _;

use super::EXPORT_BOUNDS;

/// The media type of a request.
const PROTOBUF: HeaderValue = HeaderValue::from_static("application/x-protobuf");

/// Sends spans to the collector.
pub(super) struct Exporter {
    url: Uri,
    headers: HeaderMap,
    resource: ResourceAttributesWithSchema,
    client: HttpsClient,
}

impl Exporter {
    /// Creates an exporter with valid settings.
    pub(super) fn new(settings: &Settings, resource: &Resource) -> Result<Self, hyper::http::Error> {
        let mut headers = HeaderMap::new();
        for (name, value) in &settings.headers {
            headers.insert(name.header().clone(), value.expose().header()?);
        }
        headers.insert(CONTENT_TYPE, PROTOBUF);
        let authorities = settings.ca.as_ref().map(|ca| ca.certificates().to_vec());
        Ok(Self {
            url: settings.traces_url().parse()?,
            headers,
            resource: resource.into(),
            client: HttpsClient::new(authorities.unwrap_or_default()),
        })
    }

    /// Returns the URL that spans are sent to, without a query.
    pub(super) fn url(&self) -> String {
        self.url.to_string()
    }

    /// Sends spans, and returns the number that the collector rejected.
    pub(super) async fn export(&self, spans: Vec<SpanData>) -> Result<u64, ExchangeError> {
        let resource_spans = group_spans_by_resource_and_scope(spans, &self.resource);
        let body = ExportTraceServiceRequest { resource_spans }.encode_to_vec();
        let mut request = Request::post(self.url.clone())
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| ExchangeError::failed(&error))?;
        request.headers_mut().extend(self.headers.clone());
        let answer = self.client.exchange(request, EXPORT_BOUNDS).await?;
        // The status says that the request was accepted, whatever the body contains.
        let partial = ExportTraceServiceResponse::decode(answer).ok().and_then(|answer| answer.partial_success);
        Ok(partial.and_then(|partial| u64::try_from(partial.rejected_spans).ok()).unwrap_or(0))
    }
}
