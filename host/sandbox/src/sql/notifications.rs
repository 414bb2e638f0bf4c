//! Notifications of databases: `listen` of an entry of `grants.sql`.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::task::JoinSet;

/// The notifications of all databases of one plugin. Those that nobody waited for count as one. When it is dropped, the connections
/// are closed.
#[derive(Debug, Default)]
pub struct DatabaseNotifications {
    received: Arc<Notify>,
    listeners: JoinSet<()>,
}

impl DatabaseNotifications {
    /// Adds a listener, which counts notifications until it is dropped.
    pub(super) fn add<F>(&mut self, listener: impl FnOnce(Arc<Notify>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.listeners.spawn(listener(self.received.clone()));
    }

    /// Waits for a notification. Without a listener there is none.
    pub async fn received(&self) {
        self.received.notified().await;
    }
}
