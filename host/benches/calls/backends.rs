//! Ways to the same answer.

use std::collections::HashMap;
use std::fmt;
use std::hint::black_box;
use std::sync::Arc;

use mcp_resource_host::access::Principal;
use mcp_resource_host::resource::{Contents, Entry, Listing};
use mcp_resource_host::{Host, ListRequest};
use tokio::runtime::Runtime;

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    /// One resource.
    Read {
        /// Its URI.
        uri: String,
        /// What it is, for people.
        name: String,
    },
    /// The first page of the listing: 100 entries.
    List,
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { name: what, .. } => f.write_str(what),
            Self::List => f.write_str("list 100 entries"),
        }
    }
}

/// A way to an answer.
#[derive(Clone)]
pub(crate) enum Backend {
    /// A map from URIs to the host's own types, in this process; an answer is a copy. The least that any server does.
    Native(Arc<Native>),
    /// The same, on the threads of another runtime and back: what keeping callers apart from a busy provider costs with
    /// no sandbox at all.
    Thread(Arc<Native>, Arc<Runtime>),
    /// The façade: routing, access, a fresh instance of the provider, and the checks of what it answers.
    Fresh(Arc<Host>),
    /// The same with an instance that has served others before (`instances.max-calls`).
    Reused(Arc<Host>),
}

/// The data of the baseline: what the host answered, so that both have the same.
pub(crate) struct Native {
    contents: HashMap<String, Vec<Contents>>,
    page: Listing<Entry>,
}

/// All ways, the baseline first.
pub(crate) async fn all(fresh: Host, reused: Host, requests: &[Request]) -> [Backend; 4] {
    let mut contents = HashMap::new();
    for request in requests {
        if let Request::Read { uri, .. } = request {
            contents.insert(uri.clone(), read(&fresh, uri).await);
        }
    }
    let native = Arc::new(Native { contents, page: list(&fresh).await });
    let runtime = Runtime::new().expect("threads for the baseline");
    [
        Backend::Native(native.clone()),
        Backend::Thread(native, Arc::new(runtime)),
        Backend::Fresh(Arc::new(fresh)),
        Backend::Reused(Arc::new(reused)),
    ]
}

impl Backend {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Native(_) => "native",
            Self::Thread(..) => "native on a thread",
            Self::Fresh(_) => "fresh",
            Self::Reused(_) => "reused",
        }
    }

    /// Asks, and drops the answer.
    pub(crate) async fn answer(&self, request: &Request) {
        match self {
            Self::Native(native) => native.answer(request),
            Self::Thread(native, runtime) => {
                let (native, request) = (native.clone(), request.clone());
                runtime.spawn(async move { native.answer(&request) }).await.expect("it does not fail");
            }
            Self::Fresh(host) | Self::Reused(host) => match request {
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

async fn read(host: &Host, uri: &str) -> Vec<Contents> {
    host.read(&Principal::LOCAL, uri).await.expect("it is there")
}

async fn list(host: &Host) -> Listing<Entry> {
    let page = host.list(&Principal::LOCAL, ListRequest::default()).await.expect("a page");
    assert!(page.missing.is_empty() && page.next_cursor.is_some(), "a full page of the one plugin");
    page
}
