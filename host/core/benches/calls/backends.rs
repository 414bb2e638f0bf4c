//! The backends that return the same response.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Arc;

use futures::TryStreamExt;
use mcp_resource_host::access::Principal;
use mcp_resource_host::provider::{self, Failure, Page, Provider, async_trait};
use mcp_resource_host::resource::{Listing, Resource, ResourceBody, ResourceContents};
use mcp_resource_host::{Host, ListRequest};
use tokio::runtime::Runtime;

use crate::setup::{self, MOUNT, Request, StateDir};

/// A way to produce a response.
#[derive(Clone)]
pub(crate) enum Backend {
    /// A map from URIs to the host's own types, in this process. A response is a copy: the least that any server
    /// does.
    Native(Arc<Native>),
    /// The same map on the threads of another runtime, and back: the cost of isolating callers from a busy provider,
    /// without a sandbox.
    Thread(Arc<Native>, Arc<Runtime>),
    /// The façade with a native provider: routing, access, admission, validation of the answer, and no sandbox.
    Provider(Arc<Host>),
    /// The façade: routing, access, a fresh instance of the provider, and validation of its response.
    Fresh(Arc<Host>),
    /// The façade with an instance that has served other calls before (`instances.max-calls`).
    Reused(Arc<Host>),
}

/// The data of the baseline: the host's responses, so that both return the same.
pub(crate) struct Native {
    contents: HashMap<String, Vec<ResourceContents>>,
    page: Listing<Resource>,
}

/// Returns all backends, the baseline first.
pub(crate) async fn all(kept: &StateDir, fresh: Host, reused: Host, requests: &[Request]) -> [Backend; 5] {
    let mut contents = HashMap::new();
    for request in requests {
        if let Request::Read { uri, .. } = request {
            contents.insert(uri.clone(), read(&fresh, uri).await);
        }
    }
    let native = Arc::new(Native { contents, page: list(&fresh).await });
    let provider = setup::native_host(kept, native_provider(&fresh, &native).await).await;
    let runtime = Runtime::new().expect("threads for the baseline");
    [
        Backend::Native(native.clone()),
        Backend::Thread(native, Arc::new(runtime)),
        Backend::Provider(Arc::new(provider)),
        Backend::Fresh(Arc::new(fresh)),
        Backend::Reused(Arc::new(reused)),
    ]
}

impl Backend {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Native(_) => "native",
            Self::Thread(..) => "native on a thread",
            Self::Provider(_) => "native provider",
            Self::Fresh(_) => "fresh",
            Self::Reused(_) => "reused",
        }
    }

    /// Makes the request, and drops the response.
    pub(crate) async fn answer(&self, request: &Request) {
        match self {
            Self::Native(native) => native.answer(request),
            Self::Thread(native, runtime) => {
                let (native, request) = (native.clone(), request.clone());
                runtime.spawn(async move { native.answer(&request) }).await.expect("it does not fail");
            }
            Self::Provider(host) | Self::Fresh(host) | Self::Reused(host) => match request {
                Request::Read { uri, .. } => drop(black_box(read(host, uri).await)),
                Request::List => drop(black_box(list(host).await)),
            },
        }
    }
}

impl Native {
    fn answer(&self, request: &Request) {
        match request {
            Request::Read { uri, .. } => drop(black_box(self.contents.get(uri).cloned())),
            Request::List => drop(black_box(self.page.clone())),
        }
    }
}

async fn read(host: &Host, uri: &str) -> Vec<ResourceContents> {
    host.read(&Principal::LOCAL, uri).await.expect("it is there")
}

async fn list(host: &Host) -> Listing<Resource> {
    let page = host.list(&Principal::LOCAL, ListRequest::default()).await.expect("a page");
    assert!(page.missing.is_empty() && page.next_cursor.is_some(), "a full page of the one plugin");
    page
}

/// A native provider with the resources of the component: all entries, and the contents of the resources that are
/// read.
struct NativeProvider {
    entries: Vec<provider::Entry>,
    contents: HashMap<String, Vec<provider::Contents>>,
}

async fn native_provider(fresh: &Host, native: &Native) -> NativeProvider {
    let path = |uri: &str| uri.strip_prefix(MOUNT).expect("a URI of the mount").to_owned();
    let entry = |entry: &Resource| {
        let mut copy = provider::Entry::new(path(entry.uri.as_str()), &entry.name);
        copy.mime_type.clone_from(&entry.mime_type);
        copy.size = entry.size;
        copy
    };
    let entries: Vec<Resource> = fresh.list_all(&Principal::LOCAL).try_collect().await.expect("all entries");
    let contents = native.contents.iter().map(|(uri, contents)| {
        let copies = contents.iter().map(|one| match &one.body {
            ResourceBody::Text(text) => provider::Contents::text(entry(&one.entry), text),
            ResourceBody::Blob(bytes) => provider::Contents::blob(entry(&one.entry), bytes.clone()),
        });
        (path(uri), copies.collect())
    });
    NativeProvider { entries: entries.iter().map(entry).collect(), contents: contents.collect() }
}

#[async_trait]
impl Provider for NativeProvider {
    async fn list(&self, _: Option<&str>, cursor: Option<&str>, limit: usize) -> provider::Result<Page> {
        let start = cursor.map_or(Ok(0), str::parse).map_err(|_| Failure::invalid("a cursor of this provider"))?;
        let rest = self.entries.get(start..).unwrap_or_default();
        let entries: Vec<_> = rest.iter().take(limit).cloned().collect();
        let next = start + entries.len();
        Ok(Page { entries, next_cursor: (next < self.entries.len()).then(|| next.to_string()) })
    }

    async fn read(&self, path: &str) -> provider::Result<Vec<provider::Contents>> {
        self.contents.get(path).cloned().ok_or(Failure::NotFound)
    }

    async fn stat(&self, path: &str) -> provider::Result<provider::Entry> {
        self.entries.iter().find(|entry| entry.path == path).cloned().ok_or(Failure::NotFound)
    }
}
