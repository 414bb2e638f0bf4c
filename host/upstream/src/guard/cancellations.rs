//! Cancellations of the pending requests of one connection: the response of a cancelled request ends at once.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::model::RequestId;
use tokio_util::sync::CancellationToken;

/// The pending requests of one connection whose responses end when they are cancelled.
#[derive(Debug, Default)]
pub(crate) struct Cancellations {
    pending: Mutex<HashMap<RequestId, CancellationToken>>,
}

/// Is cancelled when its request is.
pub(crate) struct Cancellation {
    id: RequestId,
    token: CancellationToken,
    cancellations: Arc<Cancellations>,
}

impl Cancellations {
    /// Returns the cancellation of a request that is being sent.
    pub(crate) fn of_request(self: &Arc<Self>, id: RequestId) -> Cancellation {
        let token = CancellationToken::new();
        self.pending.lock().insert(id.clone(), token.clone());
        Cancellation { id, token, cancellations: self.clone() }
    }

    /// Cancels a request.
    pub(crate) fn cancel(&self, id: &RequestId) {
        if let Some(token) = self.pending.lock().get(id) {
            token.cancel();
        }
    }
}

impl Cancellation {
    pub(crate) async fn cancelled(&self) {
        self.token.cancelled().await;
    }

    pub(crate) fn token(&self) -> CancellationToken {
        self.token.clone()
    }
}

impl Drop for Cancellation {
    fn drop(&mut self) {
        self.cancellations.pending.lock().remove(&self.id);
    }
}
