//! Server-sent events of the mock origin.

use std::sync::Arc;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;

/// Events that a test sends. Each response with this source has all of them, from the first on, until the client
/// disconnects.
#[derive(Clone, Debug, Default)]
pub struct EventSource(Arc<watch::Sender<Vec<String>>>);

impl EventSource {
    /// Creates a source without events.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sends an event with that data, which is one line.
    pub fn send(&self, data: impl Into<String>) {
        self.0.send_modify(|events| events.push(data.into()));
    }

    /// Writes the events until the client disconnects.
    pub(super) async fn write(&self, stream: &mut (impl AsyncWrite + Unpin)) -> std::io::Result<()> {
        let (mut events, mut sent) = (self.0.subscribe(), 0);
        loop {
            let new: Vec<String> = events.borrow_and_update().iter().skip(sent).cloned().collect();
            sent += new.len();
            for data in new {
                stream.write_all(format!("data: {data}\n\n").as_bytes()).await?;
            }
            stream.flush().await?;
            if events.changed().await.is_err() {
                return Ok(());
            }
        }
    }
}
