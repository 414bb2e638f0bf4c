//! A stream that counts its bytes, and fails when its counter refuses them.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Counts the bytes of a stream. An error fails the stream.
pub(super) trait StreamCounter {
    /// Records that bytes were received.
    fn record_received(&self, bytes: usize) -> io::Result<()>;

    /// Records that bytes are about to be sent.
    fn record_sent(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A stream with its counter.
pub(super) struct CountedStream<S, C> {
    stream: S,
    counter: Arc<C>,
}

impl<S, C> CountedStream<S, C> {
    /// Counts the bytes of this stream from now on.
    pub(super) fn new(stream: S, counter: Arc<C>) -> Self {
        Self { stream, counter }
    }
}

impl<S: AsyncRead + Unpin, C: StreamCounter> AsyncRead for CountedStream<S, C> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        Poll::Ready(self.counter.record_received(buffer.filled().len().saturating_sub(before)))
    }
}

impl<S: AsyncWrite + Unpin, C: StreamCounter> AsyncWrite for CountedStream<S, C> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.counter.record_sent()?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.counter.record_sent()?;
        Pin::new(&mut self.stream).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Fails after this number of bytes.
    struct AtMost(AtomicUsize);

    impl StreamCounter for AtMost {
        fn record_received(&self, bytes: usize) -> io::Result<()> {
            let left = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes));
            left.map(drop).map_err(|_| io::Error::other("too much"))
        }
    }

    #[tokio::test]
    async fn what_is_received_counts_and_what_is_sent_passes() {
        let (near, mut far) = tokio::io::duplex(64);
        let mut stream = CountedStream::new(near, Arc::new(AtMost(AtomicUsize::new(5))));
        stream.write_all(b"more than five").await.unwrap();
        far.write_all(b"12345").await.unwrap();
        let mut received = [0; 5];
        stream.read_exact(&mut received).await.unwrap();
        assert_eq!(&received, b"12345");
        far.write_all(b"6").await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap_err().to_string(), "too much");
    }
}
