//! A request to the upstream whose result comes as text ([`message`](crate::message)).

use std::sync::Arc;

use rmcp::Peer;
use rmcp::RoleClient;
use rmcp::model::{CancelledNotificationParam, ClientRequest, CustomResult, RequestId, ServerResult};
use rmcp::service::{PeerRequestOptions, ServiceError};
use serde_json::Value;
use tokio::runtime::Handle;

use crate::connection::Link;
use crate::direct::Direct;
use crate::http::Thread;

/// Sends requests over a connection, by the shortest way there is.
#[derive(Clone)]
pub(crate) struct Asker {
    runtime: Handle,
    /// What posts requests without sessions; none if the upstream is a program.
    direct: Option<Arc<Direct>>,
}

impl Asker {
    pub(crate) fn new(runtime: Handle, direct: Option<Direct>) -> Self {
        Self { runtime, direct: direct.map(Arc::new) }
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Sends a request, and returns the text of its result. It is cancelled if the caller does not wait for the answer.
    pub(crate) async fn ask(
        &self,
        link: &Link,
        request: ClientRequest,
        thread: Thread,
    ) -> Result<String, ServiceError> {
        if let Some(direct) = self.direct.as_ref().filter(|_| link.is_stateless())
            && let Some(answer) = direct.ask(&link.info.protocol_version, request.clone(), thread).await
        {
            return answer;
        }
        ask(&link.peer, &self.runtime, request).await
    }
}

/// Sends a request by rmcp's client.
pub(crate) async fn ask(
    peer: &Peer<RoleClient>,
    runtime: &Handle,
    request: ClientRequest,
) -> Result<String, ServiceError> {
    let handle = peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await?;
    let mut waiting = Waiting { peer, runtime, id: Some(handle.id.clone()) };
    let answer = handle.await_response().await;
    waiting.id = None;
    match answer? {
        ServerResult::CustomResult(CustomResult(Value::String(text))) => Ok(text),
        _ => Err(ServiceError::UnexpectedResponse),
    }
}

/// Cancels the request if it is dropped while that has its id.
struct Waiting<'a> {
    peer: &'a Peer<RoleClient>,
    runtime: &'a Handle,
    id: Option<RequestId>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let peer = self.peer.clone();
        self.runtime.spawn(async move {
            let params = CancelledNotificationParam::new(
                Some(id),
                Some("the client no longer waits for the response".to_owned()),
            );
            // A connection that has ended has no requests.
            peer.notify_cancelled(params).await.unwrap_or_default();
        });
    }
}
