//! MCP over standard input and output, for one client that started this process.
//!
//! At most [`MAX_IN_FLIGHT`] requests are worked on at once; the next is read when one of them has been answered and the
//! answer has been written, so a client that does not read its answers stops the reading of its requests and costs no memory.

use std::collections::HashMap;
use std::sync::Arc;

use rmcp::model::{ClientJsonRpcMessage, ClientNotification, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::service::{QuitReason, ServerInitializeError};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::io::{StdioReader, StdioWriter, stdio_pipes};
use rmcp::{RoleServer, ServiceExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::about::About;
use super::handler::{Face, Handler};
use super::{MAX_DRAIN, ServeError};
use crate::host::Host;

/// Requests that are worked on at once.
const MAX_IN_FLIGHT: usize = 64;

/// Serves one client over stdio until it closes its end, or until `shutdown` fires; requests in flight are answered first.
pub async fn serve_stdio(host: Arc<Host>, shutdown: CancellationToken) -> Result<(), ServeError> {
    let about = Arc::new(About::default());
    let ending = CancellationToken::new();
    let handler = Handler::new(host, about, Face::Stdio, ending.clone());
    let service = match handler.serve(Orderly::new(shutdown, ending)).await {
        Ok(service) => service,
        // A client that goes away, or a signal, before anything was asked.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => return Ok(()),
        Err(error) => return Err(ServeError::Handshake(error.to_string())),
    };
    match service.waiting().await {
        Ok(QuitReason::JoinError(error)) | Err(error) => Err(ServeError::Internal(error.to_string())),
        Ok(_) => Ok(()),
    }
}

/// Standard input and output with a bound on requests in flight, and an end that waits for them.
struct Orderly {
    inner: AsyncRwTransport<RoleServer, StdioReader, StdioWriter>,
    shutdown: CancellationToken,
    /// Fires when nothing more is read: what is in flight is to come to its end.
    ending: CancellationToken,
    in_flight: Arc<Semaphore>,
    /// Requests that were taken and are to be answered.
    taken: HashMap<RequestId, OwnedSemaphorePermit>,
}

impl Orderly {
    fn new(shutdown: CancellationToken, ending: CancellationToken) -> Self {
        let (read, write) = stdio_pipes();
        Self {
            inner: AsyncRwTransport::new(read, write),
            shutdown,
            ending,
            in_flight: Arc::new(Semaphore::new(MAX_IN_FLIGHT)),
            taken: HashMap::new(),
        }
    }

    /// Waits until everything that was taken has been answered, within bounds.
    async fn all_answered(&self) {
        let all = u32::try_from(MAX_IN_FLIGHT).unwrap_or(u32::MAX);
        if tokio::time::timeout(MAX_DRAIN, self.in_flight.acquire_many(all)).await.is_err() {
            tracing::warn!("ending with requests unanswered");
        }
    }
}

impl Transport<RoleServer> for Orderly {
    type Error = std::io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let id = match &message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        let answered = id.and_then(|id| self.taken.remove(id));
        let send = self.inner.send(message);
        async move {
            let sent = send.await;
            drop(answered);
            sent
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        // Cancel safe: a permit that is not kept is given back, and the inner transport keeps a line it has begun.
        let permit = tokio::select! {
            permit = self.in_flight.clone().acquire_owned() => permit.ok(),
            () = self.shutdown.cancelled() => None,
        };
        let message = match permit.is_some() {
            true => tokio::select! {
                message = self.inner.receive() => message,
                () = self.shutdown.cancelled() => None,
            },
            false => None,
        };
        match &message {
            Some(JsonRpcMessage::Request(request)) => {
                self.taken.extend(permit.map(|permit| (request.id.clone(), permit)))
            }
            Some(JsonRpcMessage::Notification(notification)) => {
                // What has been cancelled is not answered.
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.taken.remove(id);
                }
            }
            Some(_) => {}
            None => {
                drop(permit);
                self.ending.cancel();
                self.all_answered().await;
            }
        }
        message
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
