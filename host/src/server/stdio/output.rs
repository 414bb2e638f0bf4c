//! Standard output, one message a line.
//!
//! A line is written piece by piece, each when the one before has been taken. What waits behind it are documents that are not
//! written yet, which the [budget](crate::server::budget) bounds in bytes and the requests in flight bound in number. It is known since
//! when nothing has been taken, so that the server can end although nobody reads.

use std::io;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use rmcp::transport::io::StdioWriter;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use crate::server::json::Encoder;

/// How often it is looked whether anything is taken.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Standard output, shared by all that write whole lines to it.
pub(super) struct Output<W = StdioWriter>(Arc<Inner<W>>);

struct Inner<W> {
    writer: Mutex<Option<W>>,
    /// Since when bytes wait to be taken and none is.
    blocked_since: std::sync::Mutex<Option<Instant>>,
}

impl<W> Clone for Output<W> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<W: AsyncWrite + Unpin> Output<W> {
    pub(super) fn new(writer: W) -> Self {
        Self(Arc::new(Inner { writer: Mutex::new(Some(writer)), blocked_since: std::sync::Mutex::default() }))
    }

    /// Writes a document and a line feed.
    pub(super) async fn write(&self, line: Encoder) -> io::Result<()> {
        let mut line = line.wrap("", "\n");
        let mut writer = self.0.writer.lock().await;
        let writer = writer.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        let written = async {
            while let Some(piece) = line.next_chunk() {
                let mut rest = piece.as_slice();
                while !rest.is_empty() {
                    self.set_blocked_since(Some(Instant::now()));
                    let count = writer.write(rest).await?;
                    if count == 0 {
                        return Err(io::ErrorKind::WriteZero.into());
                    }
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

    /// Waits until nothing has been taken for so long, although something is to be.
    pub(super) async fn wait_stalled(&self, limit: Duration) {
        while self.blocked_since().is_none_or(|since| since.elapsed() < limit) {
            sleep(POLL_INTERVAL.min(limit)).await;
        }
    }

    /// Closes it, once everything under way is written.
    pub(super) async fn close(&self) {
        drop(self.0.writer.lock().await.take());
    }

    fn blocked_since(&self) -> Option<Instant> {
        *self.0.blocked_since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_blocked_since(&self, since: Option<Instant>) {
        *self.0.blocked_since.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn a_reader_that_does_not_read_is_noticed_and_one_that_does_gets_whole_lines() {
        let (mut reader, writer) = tokio::io::duplex(16);
        let output = Output::new(writer);
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
