//! The context of a request: the facts that only its transport knows.

use std::fmt;
use std::sync::Arc;

use mcp_host_base::trace::TraceId;
use serde::{Serialize, Serializer};
use sha2::{Digest as _, Sha256};
use tokio::task::futures::TaskLocalFuture;

tokio::task_local! {
    /// The context of the request that the current task executes.
    static CURRENT: RequestContext;
}

/// The maximum length of a JSON-RPC id in a line, in bytes.
pub(super) const MAX_REQUEST_ID: usize = 128;

/// The facts about a request that only its transport knows.
#[derive(Clone, Debug)]
pub struct RequestContext {
    /// The session, if the request belongs to one.
    pub(super) session: Option<SessionHash>,
    /// Who makes the request.
    origin: Origin,
    /// The trace of the request.
    pub(super) trace_id: Option<TraceId>,
}

/// Who makes a request.
#[derive(Clone, Debug)]
enum Origin {
    /// A client, by a JSON-RPC request with this id.
    Request(RequestId),
    /// An administrator with this name.
    Administrator(Arc<str>),
}

/// The id of a JSON-RPC request, as its client chose it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(untagged)]
pub enum RequestId {
    /// A number.
    Number(i64),
    /// A string.
    Text(Arc<str>),
}

/// The beginning of the SHA-256 of a session id: it distinguishes sessions, and cannot be used to hijack one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionHash([u8; 8]);

impl RequestContext {
    /// The context of a request.
    pub fn new(session: Option<SessionHash>, request_id: &RequestId, trace_id: Option<TraceId>) -> Self {
        let request_id = match request_id {
            RequestId::Text(text) if text.len() > MAX_REQUEST_ID => {
                RequestId::Text(mcp_host_base::text::prefix(text, MAX_REQUEST_ID).into())
            }
            request_id => request_id.clone(),
        };
        Self::of(session, Origin::Request(request_id), trace_id)
    }

    /// The context of a request that an administrator makes as another principal.
    pub fn of_administrator(name: &str) -> Self {
        Self::of(None, Origin::Administrator(name.into()), None)
    }

    fn of(session: Option<SessionHash>, origin: Origin, trace_id: Option<TraceId>) -> Self {
        Self { session, origin, trace_id }
    }

    /// The id of the JSON-RPC request, if the request came as one.
    pub(super) fn request_id(&self) -> Option<&RequestId> {
        match &self.origin {
            Origin::Request(id) => Some(id),
            Origin::Administrator(_) => None,
        }
    }

    /// The administrator who makes the request as its principal.
    pub(super) fn administrator(&self) -> Option<&str> {
        match &self.origin {
            Origin::Request(_) => None,
            Origin::Administrator(name) => Some(name),
        }
    }

    /// Executes a request of the façade in this context.
    pub fn scope<F: Future>(self, request: F) -> TaskLocalFuture<Self, F> {
        CURRENT.scope(self, request)
    }

    /// Calls `use_it` with the context of the current task.
    pub(super) fn with_current<T>(use_it: impl Fn(Option<&Self>) -> T) -> T {
        CURRENT.try_with(|context| use_it(Some(context))).unwrap_or_else(|_| use_it(None))
    }

    /// The session, if the request belongs to one.
    pub fn session(&self) -> Option<SessionHash> {
        self.session
    }

    /// The trace of the request, if any.
    pub fn trace_id(&self) -> Option<TraceId> {
        self.trace_id
    }

    /// The length of the text that comes from outside, in bytes.
    pub(super) fn text_len(&self) -> usize {
        match &self.origin {
            Origin::Request(RequestId::Text(text)) | Origin::Administrator(text) => text.len(),
            Origin::Request(RequestId::Number(_)) => 0,
        }
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl SessionHash {
    /// Hashes the id of a session.
    pub fn new(id: &str) -> Self {
        let digest: [u8; 32] = Sha256::digest(id).into();
        let (beginning, _) = digest.as_chunks::<8>();
        Self(beginning.first().copied().unwrap_or_default())
    }
}

impl fmt::Display for SessionHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

impl Serialize for SessionHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_told_by_a_hash_of_its_id() {
        // `printf session | sha256sum`
        let hash = serde_json::to_string(&SessionHash::new("session")).unwrap();
        assert_eq!(hash, "\"3f3af1ecebbd1410\"");
    }
}
