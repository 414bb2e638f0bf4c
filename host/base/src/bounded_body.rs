//! Bodies that the host receives in one buffer: responses to its requests, and requests to it.
//!
//! hyper returns each chunk of a body in a buffer of its own, which takes up to seventy bytes of memory beside its
//! content, and a microsecond. So a body in chunks of one byte would take many times its size. Here the content is
//! appended to one buffer, and short chunks have a maximum number.

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Body;

/// The minimum number of bytes that a chunk counts as: receiving a chunk takes about as long as reading this number of
/// bytes.
const MIN_CHUNK: usize = 64;
/// The maximum of the sum of all [shortfalls](shortfall) of a body: 66,000 chunks of one byte.
const MAX_SHORTFALL: usize = 4 << 20;
/// The maximum number of bytes that are reserved before they are received.
const MAX_RESERVED: u64 = 1 << 20;

/// Why there is no body.
#[derive(Debug, thiserror::Error)]
pub enum BodyError<E> {
    /// The body is longer than this maximum, in bytes.
    #[error("the body has more than {0} bytes")]
    TooLarge(usize),
    /// The body consists of too many short chunks.
    #[error(transparent)]
    ShortChunks(ShortChunks),
    /// The body broke off.
    #[error(transparent)]
    Receive(#[from] E),
}

/// A body consists of too many short chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body consists of too many short chunks; expected chunks of {MIN_CHUNK} bytes or more")]
pub struct ShortChunks;

/// The short chunks of one body so far.
#[derive(Debug, Default)]
pub struct ChunkCounter {
    /// The sum of all [shortfalls](shortfall).
    missing: usize,
}

impl ChunkCounter {
    /// Counts a chunk of this length.
    ///
    /// # Errors
    ///
    /// The body has too many short chunks.
    pub fn count(&mut self, length: usize) -> Result<(), ShortChunks> {
        self.missing = self.missing.saturating_add(shortfall(length));
        if self.missing > MAX_SHORTFALL { Err(ShortChunks) } else { Ok(()) }
    }
}

/// Returns the number of bytes by which a chunk of this length is shorter than the length that counts at least.
pub fn shortfall(length: usize) -> usize {
    MIN_CHUNK.saturating_sub(length)
}

/// Receives a body of at most `max` bytes.
///
/// # Errors
///
/// See [`BodyError`]. The rest of the body was not received.
pub async fn receive<B: Body<Data = Bytes> + Unpin>(mut body: B, max: usize) -> Result<Bytes, BodyError<B::Error>> {
    let reserved = usize::try_from(body.size_hint().lower().min(MAX_RESERVED)).unwrap_or(usize::MAX);
    let (mut received, mut chunks) = (Vec::with_capacity(reserved.min(max)), ChunkCounter::default());
    while let Some(frame) = body.frame().await {
        let Ok(chunk) = frame?.into_data() else { continue };
        if chunk.len() > max.saturating_sub(received.len()) {
            return Err(BodyError::TooLarge(max));
        }
        chunks.count(chunk.len()).map_err(BodyError::ShortChunks)?;
        received.extend_from_slice(&chunk);
    }
    Ok(received.into())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::stream;
    use http_body_util::{Full, StreamBody};
    use hyper::body::Frame;

    use super::*;

    fn chunks(length: usize, count: usize) -> impl Body<Data = Bytes, Error = Infallible> + Unpin {
        let chunk = Bytes::from(vec![b'a'; length]);
        StreamBody::new(stream::iter((0..count).map(move |_| Ok(Frame::data(chunk.clone())))))
    }

    #[tokio::test]
    async fn a_body_has_a_maximum_size() {
        assert_eq!(receive(Full::new(Bytes::from_static(b"abc")), 3).await.unwrap(), "abc");
        assert_eq!(receive(chunks(3, 1000), 3000).await.unwrap().len(), 3000);
        assert!(matches!(receive(chunks(3, 1000), 2999).await, Err(BodyError::TooLarge(2999))));
        assert!(matches!(receive(Full::new(Bytes::from_static(b"a")), 0).await, Err(BodyError::TooLarge(0))));
    }

    #[tokio::test]
    async fn a_body_in_short_chunks_has_a_maximum_number_of_them() {
        assert_eq!(receive(chunks(1, 60_000), usize::MAX).await.unwrap().len(), 60_000);
        assert!(matches!(receive(chunks(1, 70_000), usize::MAX).await, Err(BodyError::ShortChunks(_))));
        assert!(matches!(receive(chunks(0, usize::MAX), usize::MAX).await, Err(BodyError::ShortChunks(_))));
        assert_eq!(receive(chunks(64, 1_000_000), usize::MAX).await.unwrap().len(), 64_000_000);
    }
}
