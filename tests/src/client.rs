//! The official Rust client, with a method for each kind of request.

use std::process::Stdio;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{
    ArgumentInfo, ClientCapabilities, ClientConfig, ClientRequest, CompleteRequestParams, CompletionContext,
    CompletionInfo, ErrorData, Implementation, ListResourcesResult, PaginatedRequestParams, PingRequest,
    ReadResourceRequestParams, Reference, Resource, ResourceContents, ResourceTemplate,
};
use rmcp::service::{Peer, RunningService};
use rmcp::transport::IntoTransport;
use rmcp::{ClientLifecycleMode, ClientServiceExt, RoleClient, ServiceError};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::{Revision, TIMEOUT};

/// Pages after which a listing counts as endless: more than any test has.
const MAX_PAGES: usize = 500;

/// A connected client.
#[derive(Debug)]
pub struct Client {
    service: RunningService<RoleClient, ClientConfig>,
}

impl Client {
    /// Connects to a server in that revision.
    pub(crate) async fn connect<T, E, A>(transport: T, revision: Revision) -> Self
    where
        T: IntoTransport<RoleClient, E, A>,
        E: std::error::Error + Send + Sync + 'static,
    {
        let lifecycle = if revision.has_initialize() {
            ClientLifecycleMode::Initialize
        } else {
            ClientLifecycleMode::Discover { preferred_versions: vec![revision.clone()] }
        };
        let config = ClientConfig::new(ClientCapabilities::default(), Implementation::new("tests", "1.0.0"))
            .with_protocol_version(revision);
        let service = with_timeout(config.serve_with_lifecycle(transport, lifecycle)).await;
        Self { service: service.expect("the server answers") }
    }

    /// Starts a server that speaks over its standard streams, and connects to it in that revision. The server is killed
    /// when the process is dropped.
    pub async fn of_program(mut command: Command, revision: Revision) -> (Self, Child) {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut child = command.spawn().expect("the server starts");
        let streams = (child.stdout.take().expect("it is a pipe"), child.stdin.take().expect("it is a pipe"));
        (Self::connect(streams, revision).await, child)
    }

    /// The underlying client.
    pub fn peer(&self) -> &Peer<RoleClient> {
        self.service.peer()
    }

    /// Requests one page of resources.
    pub async fn page(&self, cursor: Option<&str>) -> Result<ListResourcesResult, ErrorData> {
        into_mcp_result(with_timeout(self.peer().list_resources(page_params(cursor))).await)
    }

    /// Requests all pages of resources.
    pub async fn pages(&self) -> Vec<ListResourcesResult> {
        let mut pages = vec![self.page(None).await.expect("the first page")];
        while let Some(cursor) = pages.last().and_then(|page| page.next_cursor.clone()) {
            assert!(pages.len() < MAX_PAGES, "the listing does not end");
            pages.push(self.page(Some(&cursor)).await.expect("a further page"));
        }
        pages
    }

    /// Lists all resources.
    pub async fn resources(&self) -> Vec<Resource> {
        self.pages().await.into_iter().flat_map(|page| page.resources).collect()
    }

    /// Lists the URIs of all resources.
    pub async fn uris(&self) -> Vec<String> {
        self.resources().await.into_iter().map(|resource| resource.uri).collect()
    }

    /// Lists all templates.
    pub async fn templates(&self) -> Vec<ResourceTemplate> {
        let mut templates = Vec::new();
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            let page = with_timeout(self.peer().list_resource_templates(page_params(cursor.as_deref()))).await;
            let page = into_mcp_result(page).expect("a page of templates");
            templates.extend(page.resource_templates);
            cursor = page.next_cursor;
            if cursor.is_none() {
                return templates;
            }
        }
        panic!("the listing of templates does not end")
    }

    /// Reads a resource.
    pub async fn read(&self, uri: &str) -> Result<Vec<ResourceContents>, ErrorData> {
        let result = with_timeout(self.peer().read_resource(ReadResourceRequestParams::new(uri))).await;
        into_mcp_result(result).map(|result| result.contents)
    }

    /// Reads a resource with exactly one content, text or blob.
    pub async fn bytes(&self, uri: &str) -> Vec<u8> {
        let contents = self.read(uri).await.unwrap_or_else(|error| panic!("{uri}: {error:?}"));
        assert_eq!(contents.len(), 1, "{uri} has one content");
        content_bytes(&contents[0])
    }

    /// Reads a resource with exactly one content, which is text.
    pub async fn text(&self, uri: &str) -> String {
        match self.read(uri).await.as_deref() {
            Ok([ResourceContents::TextResourceContents { text, .. }]) => text.clone(),
            other => panic!("{uri} should be one text, not {other:?}"),
        }
    }

    /// Reads a resource, and returns the error that it must fail with.
    pub async fn read_error(&self, uri: &str) -> ErrorData {
        self.read(uri).await.expect_err(uri)
    }

    /// Completes a variable of a template, given the values of other variables.
    pub async fn complete(
        &self,
        template: &str,
        (name, value): (&str, &str),
        context: &[(&str, &str)],
    ) -> Result<CompletionInfo, ErrorData> {
        let argument = ArgumentInfo::new(name, value);
        let known = context.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let request = CompleteRequestParams::new(Reference::for_resource(template), argument)
            .with_context(CompletionContext::with_arguments(known));
        into_mcp_result(with_timeout(self.peer().complete(request)).await).map(|result| result.completion)
    }

    /// Pings the server. Only the revisions with sessions have pings.
    pub async fn ping(&self) -> Result<(), ErrorData> {
        let ping = ClientRequest::PingRequest(PingRequest::default());
        into_mcp_result(with_timeout(self.peer().send_request(ping)).await).map(drop)
    }

    /// Sets the log level to `warning`. Only the revisions with sessions have log levels.
    #[expect(deprecated, reason = "those revisions are still served")]
    pub async fn set_log_level_to_warning(&self) -> Result<(), ErrorData> {
        use rmcp::model::{LoggingLevel, SetLevelRequestParams};
        let level = SetLevelRequestParams::new(LoggingLevel::Warning);
        into_mcp_result(with_timeout(self.peer().set_level(level)).await)
    }

    /// Disconnects.
    pub(crate) async fn close(self) {
        with_timeout(self.service.cancel()).await.expect("the client ends");
    }
}

/// Returns the bytes of a content.
pub fn content_bytes(contents: &ResourceContents) -> Vec<u8> {
    match contents {
        ResourceContents::TextResourceContents { text, .. } => text.clone().into_bytes(),
        ResourceContents::BlobResourceContents { blob, .. } => STANDARD.decode(blob).expect("a blob is base64"),
        other => panic!("neither text nor blob: {other:?}"),
    }
}

async fn with_timeout<T>(answer: impl Future<Output = T>) -> T {
    timeout(TIMEOUT, answer).await.expect("the server answers in time")
}

fn into_mcp_result<T>(answer: Result<T, ServiceError>) -> Result<T, ErrorData> {
    answer.map_err(|error| match error {
        ServiceError::McpError(error) => error,
        other => panic!("no answer, but {other:?}"),
    })
}

fn page_params(cursor: Option<&str>) -> Option<PaginatedRequestParams> {
    cursor.map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor.to_owned())))
}
