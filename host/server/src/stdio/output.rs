//! The output, one message a line.
//!
//! A line is written chunk by chunk, each after the reader has accepted the previous one (backpressure). Waiting lines
//! are documents that have not been encoded; the [budget](crate::budget) bounds their bytes, and the limit of requests
//! in flight bounds their number. The output records since when it has been blocked, so that a client that does not
//! read cannot delay shutdown.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use crate::json::Encoder;
use crate::server_metrics::{ServerMetrics, Transport};

/// The interval at which a stalled output is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The output. Clones share it; each write is a whole line.
#[derive(Clone)]
pub(super) struct Output(Arc<Inner>);

/// The stream that answers are written to.
type Writer = Box<dyn AsyncWrite + Send + Unpin>;

struct Inner {
    writer: Mutex<Option<Writer>>,
    metrics: Arc<ServerMetrics>,
    /// The time since when the writer has accepted no bytes although some are pending.
    blocked_since: parking_lot::Mutex<Option<Instant>>,
}

impl Output {
    /// Creates an output that counts its bytes.
    pub(super) fn new(writer: impl AsyncWrite + Send + Unpin + 'static, metrics: Arc<ServerMetrics>) -> Self {
        Self(Arc::new(Inner {
            writer: Mutex::new(Some(Box::new(writer))),
            metrics,
            blocked_since: parking_lot::Mutex::default(),
        }))
    }

    /// Writes a document and a line feed.
    pub(super) async fn write(&self, line: Encoder) -> io::Result<()> {
        let mut writer = self.0.writer.lock().await;
        self.write_locked(&mut writer, line).await
    }

    /// Writes the message that `next` returns, if any. `next` is called when no other line is being written.
    pub(super) async fn write_next(&self, next: impl FnOnce() -> Option<Value>) -> io::Result<()> {
        let mut writer = self.0.writer.lock().await;
        match next() {
            Some(message) => self.write_locked(&mut writer, Encoder::from_json(message.to_string().into_bytes())).await,
            None => Ok(()),
        }
    }

    async fn write_locked(&self, writer: &mut Option<Writer>, line: Encoder) -> io::Result<()> {
        let mut line = line.wrap("", "\n");
        let writer = writer.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        let written = async {
            while let Some(piece) = line.next_chunk() {
                let mut rest = &*piece;
                while !rest.is_empty() {
                    self.set_blocked_since(Some(Instant::now()));
                    let count = writer.write(rest).await?;
                    if count == 0 {
                        return Err(io::ErrorKind::WriteZero.into());
                    }
                    self.0.metrics.record_sent(Transport::Stdio, count);
                    rest = rest.get(count..).unwrap_or_default();
                }
            }
            self.set_blocked_since(Some(Instant::now()));
            writer.flush().await
        };
        let written = written.await;
        self.set_blocked_since(None);
        written
    }

    /// Waits until the writer has accepted nothing for `limit` although bytes are pending.
    pub(super) async fn wait_stalled(&self, limit: Duration) {
        while self.blocked_since().is_none_or(|since| since.elapsed() < limit) {
            sleep(POLL_INTERVAL.min(limit)).await;
        }
    }

    /// Closes the writer after the current line.
    pub(super) async fn close(&self) {
        drop(self.0.writer.lock().await.take());
    }

    fn blocked_since(&self) -> Option<Instant> {
        *self.0.blocked_since.lock()
    }

    fn set_blocked_since(&self, since: Option<Instant>) {
        *self.0.blocked_since.lock() = since;
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn a_reader_that_does_not_read_is_noticed_and_one_that_does_gets_whole_lines() {
        let (mut reader, writer) = tokio::io::duplex(16);
        let metrics = Arc::new(ServerMetrics::default());
        let output = Output::new(writer, metrics);
        let long = format!("\"{}\"", "x".repeat(200_000));
        let writing = tokio::spawn({
            let (output, long) = (output.clone(), long.clone());
            async move { output.write(Encoder::from_json(long.into_bytes())).await }
        });
        output.wait_stalled(Duration::from_millis(1)).await;
        let mut read = vec![0; long.len() + 1];
        reader.read_exact(&mut read).await.unwrap();
        writing.await.unwrap().unwrap();
        assert_eq!(String::from_utf8(read).unwrap(), long + "\n");
        assert_eq!(output.blocked_since(), None);
    }
}
