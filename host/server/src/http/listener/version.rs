//! The version of HTTP that a client speaks: HTTP/2 if its first bytes are the connection preface (RFC 9113, section
//! 3.4), else HTTP/1.1. Clients that agreed on HTTP/2 by ALPN send the preface as well.
//!
//! hyper-util detects the version, too, but passes the bytes that it has read to the connection in a separate read. The
//! connection treats that read as an incomplete head, and doubles its buffer of 8 KiB, which it keeps while it is open.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt as _, ReadBuf};

/// The first bytes of an HTTP/2 connection.
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The protocol of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
}

/// A stream whose first bytes have been read.
#[derive(Debug)]
pub(super) struct Rewound<S> {
    first: Vec<u8>,
    io: S,
}

/// Reads until the version is known. Returns the stream with the read bytes put back.
pub(super) async fn detect<S: AsyncRead + Unpin>(mut io: S) -> io::Result<(Protocol, Rewound<S>)> {
    let mut first = Vec::with_capacity(HTTP2_PREFACE.len());
    while let Some(missing) = HTTP2_PREFACE.strip_prefix(first.as_slice()).filter(|missing| !missing.is_empty()) {
        if (&mut io).take(missing.len() as u64).read_buf(&mut first).await? == 0 {
            break;
        }
    }
    let protocol = if first == HTTP2_PREFACE { Protocol::Http2 } else { Protocol::Http1 };
    Ok((protocol, Rewound { first, io }))
}

impl<S: AsyncRead + Unpin> AsyncRead for Rewound<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.first.is_empty() || buffer.remaining() == 0 {
            return Pin::new(&mut self.io).poll_read(context, buffer);
        }
        let len = self.first.len().min(buffer.remaining());
        buffer.put_slice(self.first.drain(..len).as_slice());
        // Read the bytes that have arrived behind it, too, so that one read returns all.
        if self.first.is_empty() && buffer.remaining() > 0 {
            self.first = Vec::new();
            // After an error, the next read fails or returns the end.
            let _ = Pin::new(&mut self.io).poll_read(context, buffer);
        }
        Poll::Ready(Ok(()))
    }
}

write_to_io!(Rewound);

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    /// The version of a client that sends `sent` in pieces of `piece` bytes, and all bytes that are read after the
    /// detection.
    async fn detected(sent: &[u8], piece: usize) -> (Protocol, Vec<u8>) {
        let (mut client, server) = tokio::io::duplex(1024);
        let sending = async {
            for piece in sent.chunks(piece) {
                client.write_all(piece).await.unwrap();
                tokio::task::yield_now().await;
            }
            drop(client);
        };
        let reading = async {
            let (protocol, mut stream) = detect(server).await.unwrap();
            let mut read = Vec::new();
            stream.read_to_end(&mut read).await.unwrap();
            (protocol, read)
        };
        tokio::join!(sending, reading).1
    }

    #[tokio::test]
    async fn the_preface_is_http2_and_all_else_http1() {
        let with_frames = [HTTP2_PREFACE, b"frames"].concat();
        let cases: [(&[u8], Protocol); 6] = [
            (&with_frames, Protocol::Http2),
            (HTTP2_PREFACE, Protocol::Http2),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r!", Protocol::Http1),
            (b"POST /mcp HTTP/1.1\r\nhost: a\r\n\r\n", Protocol::Http1),
            (b"PRI", Protocol::Http1),
            (b"", Protocol::Http1),
        ];
        for (sent, protocol) in cases {
            for piece in [1, 2, 23, 24, 25, 1000] {
                let (found, read) = detected(sent, piece).await;
                assert_eq!((found, read.as_slice()), (protocol, sent), "{piece}");
            }
        }
    }

    #[tokio::test]
    async fn what_has_arrived_is_one_read() {
        let (mut client, server) = tokio::io::duplex(1024);
        let request = b"POST /mcp HTTP/1.1\r\nhost: a\r\n\r\n";
        client.write_all(request).await.unwrap();
        let (_, mut stream) = detect(server).await.unwrap();
        let mut buffer = Vec::with_capacity(1024);
        assert_eq!(stream.read_buf(&mut buffer).await.unwrap(), request.len());
        assert_eq!(buffer, request);
    }
}
