//! A bound on informational responses (1xx) of servers to the host's requests.
//!
//! A server may send any number of them before the final response (RFC 9110, section 15.2). The client library reads
//! and drops them, so a server that sends nothing else would use the processor until the timeout of the exchange. The
//! size of each is bounded by the library's buffer, whose size its users set.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hyper::Request;
use tokio::sync::Notify;

/// The maximum number of informational responses in an exchange.
pub const MAX_INFORMATIONAL: usize = 16;

/// There are more informational responses than [`MAX_INFORMATIONAL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a response, found more than {MAX_INFORMATIONAL} informational ones (1xx) before it")]
pub struct TooManyInformational;

/// Runs the exchange of a request. Ends it with an error once the server has sent too many informational responses.
///
/// # Errors
///
/// [`TooManyInformational`]: the exchange has been dropped, and the client library closes its connection.
pub async fn limit<B, T, F: Future<Output = T>>(
    mut request: Request<B>,
    exchange: impl FnOnce(Request<B>) -> F,
) -> Result<T, TooManyInformational> {
    let (received, exceeded) = (AtomicUsize::new(0), Arc::new(Notify::new()));
    let notify = exceeded.clone();
    hyper::ext::on_informational(&mut request, move |_| {
        if received.fetch_add(1, Ordering::Relaxed) >= MAX_INFORMATIONAL {
            notify.notify_one();
        }
    });
    tokio::select! {
        biased;
        () = exceeded.notified() => Err(TooManyInformational),
        answer = exchange(request) => Ok(answer),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use hyper::body::{Body, Bytes, Frame};
    use hyper::client::conn::http1;
    use hyper::rt::{Read, ReadBufCursor, Write};

    use super::*;

    /// An empty body.
    struct Empty;

    impl Body for Empty {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(None)
        }
    }

    /// A server that sends a text after the request, and then nothing.
    struct Server {
        answer: Vec<u8>,
        has_request: bool,
    }

    impl Read for Server {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            mut buffer: ReadBufCursor<'_>,
        ) -> Poll<std::io::Result<()>> {
            if !self.has_request || self.answer.is_empty() {
                return Poll::Pending;
            }
            let count = buffer.remaining().min(self.answer.len());
            buffer.put_slice(&self.answer[..count]);
            self.answer.drain(..count);
            Poll::Ready(Ok(()))
        }
    }

    impl Write for Server {
        fn poll_write(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<std::io::Result<usize>> {
            self.has_request = true;
            context.waker().wake_by_ref();
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    async fn status_after(informational: usize) -> Result<u16, TooManyInformational> {
        let answer = "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(informational) + "HTTP/1.1 204 No Content\r\n\r\n";
        let server = Server { answer: answer.into_bytes(), has_request: false };
        let (mut sender, connection) = http1::handshake(server).await.unwrap();
        let connection = tokio::spawn(connection);
        let exchange = |request| async move { sender.send_request(request).await.unwrap().status().as_u16() };
        let status = limit(Request::new(Empty), exchange).await;
        connection.abort();
        status
    }

    #[tokio::test]
    async fn an_exchange_ends_with_too_many_informational_responses() {
        assert_eq!(status_after(0).await, Ok(204));
        assert_eq!(status_after(MAX_INFORMATIONAL).await, Ok(204));
        assert_eq!(status_after(MAX_INFORMATIONAL + 1).await, Err(TooManyInformational));
        assert_eq!(status_after(10_000).await, Err(TooManyInformational));
    }
}
