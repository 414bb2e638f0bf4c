//! The baseline: a server made with rmcp alone, as one would write it without a host.
//!
//! It has the same resources as the guest `sizes`, ready in a map, and uses the same transports with the same settings.
//! It runs in a child process: this program, started again with an argument.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use axum::serve::ListenerExt;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{
    CacheScope, CompleteRequestParams, CompleteResult, CompletionInfo, ErrorCode, ListResourceTemplatesResult,
    ListResourcesResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
    Resource, ResourceContents, ResourceTemplate, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::transport::io::stdio_pipes;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use tokio::net::TcpListener;

use crate::bare_axum;

/// The argument that makes this program serve over HTTP, on a port that it logs to standard error as the host does. The
/// next one is the number of listed resources, [`RESOURCE_COUNT`] if it is missing.
pub(crate) const HTTP: &str = "--native-http";
/// The argument that makes this program serve over its standard streams.
pub(crate) const STDIO: &str = "--native-stdio";

/// The sizes of the readable resources, in bytes.
pub(crate) const SIZES: [usize; 3] = [1 << 10, 64 << 10, 1 << 20];
/// The number of resources on a page, which is the host's default.
pub(crate) const PAGE_SIZE: usize = 100;
/// The template of the resources.
pub(crate) const TEMPLATE: &str = "sizes:///text/{size}";
/// The completions of its variable.
pub(crate) const COMPLETION_PREFIX: &str = "10";
/// The default number of listed resources.
pub(crate) const RESOURCE_COUNT: usize = 1000;

/// Serves and exits the process, if it was started with one of the arguments.
pub(crate) fn serve_if_requested() {
    let asked = std::env::args().nth(1);
    let runtime = || tokio::runtime::Runtime::new().expect("a runtime");
    match asked.as_deref() {
        Some(bare_axum::HTTP) => runtime().block_on(bare_axum::serve()),
        Some(HTTP) => {
            let count = std::env::args().nth(2).map(|count| count.parse().expect("a number of resources"));
            runtime().block_on(serve_http(count.unwrap_or(RESOURCE_COUNT)));
        }
        Some(STDIO) => runtime().block_on(serve_stdio()),
        _ => return,
    }
    std::process::exit(0);
}

async fn serve_stdio() {
    let service = Arc::new(Native::new(RESOURCE_COUNT)).serve(stdio_pipes()).await.expect("a client");
    service.waiting().await.expect("the client goes away");
}

async fn serve_http(count: usize) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let native = Arc::new(Native::new(count));
    let service = StreamableHttpService::new(
        move || Ok::<_, io::Error>(native.clone()),
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default().with_json_response(true),
    );
    eprintln!("listening on http://{}/mcp", listener.local_addr().expect("an address"));
    let listener = listener.tap_io(|tcp| tcp.set_nodelay(true).expect("TCP_NODELAY can be set"));
    axum::serve(listener, axum::Router::new().route_service("/mcp", service))
        .await
        .expect("it serves until it is killed");
}

enum Body {
    Text(String),
    Blob(Vec<u8>),
}

struct Native {
    bodies: HashMap<String, Body>,
    resources: Vec<Resource>,
}

impl Native {
    fn new(count: usize) -> Self {
        let texts = SIZES.map(|size| (format!("sizes:///text/{size}"), Body::Text(text(size))));
        let blobs = SIZES.map(|size| (format!("sizes:///blob/{size}"), Body::Blob(blob(size))));
        Self { bodies: texts.into_iter().chain(blobs).collect(), resources: resources(count).collect() }
    }
}

/// The listing of the guest `sizes`.
pub(crate) fn resources(count: usize) -> impl Iterator<Item = Resource> {
    (0..count).map(|size| {
        let mut resource = Resource::new(format!("sizes:///text/{size}"), size.to_string());
        resource.title = Some("Text of a known size".to_owned());
        resource.mime_type = Some("text/plain".to_owned());
        resource.size = Some(size as u64);
        resource
    })
}

/// The template of the guest `sizes`.
pub(crate) fn template() -> ResourceTemplate {
    ResourceTemplate::new(TEMPLATE, "text").with_mime_type("text/plain")
}

/// The completions of the guest `sizes`.
pub(crate) fn completions(beginning: &str) -> Vec<String> {
    SIZES.iter().map(ToString::to_string).filter(|size| size.starts_with(beginning)).collect()
}

/// The content of the guest `sizes` for a size.
pub(crate) fn text(size: usize) -> String {
    const LINE: &str = "0123456789 abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXY\n";
    let mut text = LINE.repeat(size.div_ceil(LINE.len()));
    text.truncate(size);
    text
}

/// The content of the guest `sizes` for a size.
pub(crate) fn blob(size: usize) -> Vec<u8> {
    (0..=u8::MAX).cycle().take(size).collect()
}

impl ServerHandler for Native {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_resources().enable_completions().build())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        let start = cursor.and_then(|cursor| cursor.parse().ok()).unwrap_or(0).min(self.resources.len());
        let end = (start + PAGE_SIZE).min(self.resources.len());
        let mut result = ListResourcesResult::with_all_items(self.resources[start..end].to_vec());
        result.next_cursor = (end < self.resources.len()).then(|| end.to_string());
        Ok(result)
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(vec![template()]))
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let values = completions(&request.argument.value);
        Ok(CompleteResult::new(CompletionInfo::with_all_values(values).expect("there are few")))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri;
        let contents = match self.bodies.get(&uri) {
            Some(Body::Text(text)) => ResourceContents::TextResourceContents {
                uri,
                mime_type: Some("text/plain".to_owned()),
                text: text.clone(),
                meta: None,
            },
            Some(Body::Blob(bytes)) => ResourceContents::BlobResourceContents {
                uri,
                mime_type: None,
                blob: STANDARD.encode(bytes),
                meta: None,
            },
            None => return Err(ErrorData::new(ErrorCode::RESOURCE_NOT_FOUND, "there is no such resource", None)),
        };
        let result = ReadResourceResult::new(vec![contents]);
        // Cache hints exist only in the revision without sessions.
        Ok(match context.protocol_version().is_some_and(|revision| !revision.has_initialize()) {
            true => result.with_ttl_ms(0).with_cache_scope(CacheScope::Private).into(),
            false => result.into(),
        })
    }
}
