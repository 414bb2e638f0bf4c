//! A rate limit of HTTP/2 frames outside of requests: PING, SETTINGS, PRIORITY, WINDOW_UPDATE, RST_STREAM and unknown
//! ones.
//!
//! Each frame costs the server some work, and none counts towards a limit of requests (CVE-2019-9512, -9513, -9515).
//! The same is true of empty DATA frames (CVE-2019-9518), and of HEADERS on a stream that is already open or closed:
//! trailers, which are ignored on a stream that the server has reset. Long DATA frames are bounded by the size of the
//! body, and the HEADERS of a request by the size of the head. A [short](shortfall) DATA frame with content counts as a
//! part of such a frame, also on a stream that the server has reset. So each connection has a token bucket for such
//! frames: a burst of [`BURST`], [`RATE`] per second, [`PER_REQUEST`] more for each request, and one more for each
//! [`SENT_BYTES`] bytes that the server sends. A request has a greater stream id than all requests before (RFC 9113,
//! section 5.1.1). When the bucket is empty, the server stops reading and closes the connection (GOAWAY).
//!
//! The frames are counted by their headers, as they are read from the connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use mcp_host_base::bounded_body::shortfall;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The capacity of the bucket in frames.
const BURST: u64 = 4096;
/// The refill rate in frames per second.
const RATE: u64 = 100;
/// The number of additional frames for each request: its stream has window updates, and may be reset.
const PER_REQUEST: u64 = 8;
/// The number of sent bytes that allow one more frame: a client may update two windows for each small event.
const SENT_BYTES: u64 = 64;
/// The number of units in a token.
const UNIT: u64 = 1000;
/// The number of units for a short DATA frame: about 66,000 are as many as [`BURST`] other frames.
const SHORT_DATA: u64 = UNIT / 16;

/// The length of the connection preface.
const PREFACE: usize = 24;
/// The length of the header of a frame.
const HEADER: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
/// The flag of a DATA frame with padding.
const PADDED: u8 = 8;
/// The maximum length of padding, with the byte that has its length.
const MAX_PADDING: usize = 256;

/// An HTTP/2 connection whose frames are counted.
#[derive(Debug)]
pub(super) struct ControlFrames<S> {
    io: S,
    header: [u8; HEADER],
    /// The number of bytes of `header` that were read.
    header_len: usize,
    /// The number of bytes until the next header.
    skip: usize,
    /// The greatest stream id of a request so far.
    last_stream: u32,
    bucket: Bucket,
    /// Cancelled when the bucket is empty.
    flooded: CancellationToken,
}

/// The token bucket of frames that a client may send.
#[derive(Debug)]
struct Bucket {
    /// In units of [`UNIT`] per token.
    tokens: u64,
    filled_at: Instant,
}

impl Bucket {
    fn new(now: Instant) -> Self {
        Self { tokens: BURST.saturating_mul(UNIT), filled_at: now }
    }

    fn add(&mut self, units: u64) {
        self.tokens = self.tokens.saturating_add(units).min(BURST.saturating_mul(UNIT));
    }

    /// Adds the tokens for the time since the last refill.
    fn fill(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.filled_at);
        // A fraction of a millisecond is left for the next refill.
        let millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        if millis > 0 {
            self.filled_at = now;
            self.add(millis.saturating_mul(RATE.saturating_mul(UNIT) / 1000));
        }
    }

    /// Takes the units for one frame. Returns false if the bucket is empty.
    fn take(&mut self, units: u64) -> bool {
        let left = self.tokens.checked_sub(units);
        self.tokens = left.unwrap_or(self.tokens);
        left.is_some()
    }
}

impl<S> ControlFrames<S> {
    /// Counts the frames of a connection, which begins with the preface.
    pub(super) fn new(io: S, flooded: CancellationToken) -> Self {
        let bucket = Bucket::new(Instant::now());
        Self { io, header: [0; HEADER], header_len: 0, skip: PREFACE, last_stream: 0, bucket, flooded }
    }

    /// Counts the frames whose headers end in these bytes. Returns false if there were too many.
    fn count(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let skipped = self.skip.min(bytes.len());
            self.skip = self.skip.saturating_sub(skipped);
            bytes = bytes.get(skipped..).unwrap_or_default();
            let missing = HEADER.saturating_sub(self.header_len).min(bytes.len());
            let (part, rest) = bytes.split_at_checked(missing).unwrap_or((bytes, &[]));
            let end = self.header_len.saturating_add(part.len());
            if let Some(header) = self.header.get_mut(self.header_len..end) {
                header.copy_from_slice(part);
            }
            (self.header_len, bytes) = (end, rest);
            if self.header_len == HEADER {
                let [high, middle, low, kind, flags, stream @ ..] = self.header;
                // The first bit is reserved.
                let stream = u32::from_be_bytes(stream) & (u32::MAX >> 1);
                self.header_len = 0;
                self.skip = usize::try_from(u32::from_be_bytes([0, high, middle, low])).unwrap_or(usize::MAX);
                // The least content that a padded frame of this length may have.
                let content = self.skip.saturating_sub(if flags & PADDED == 0 { 0 } else { MAX_PADDING });
                let cost = match kind {
                    DATA if content > 0 && shortfall(content) == 0 => 0,
                    DATA if content > 0 => SHORT_DATA,
                    HEADERS if stream > self.last_stream => {
                        self.last_stream = stream;
                        self.bucket.add(PER_REQUEST.saturating_mul(UNIT));
                        0
                    }
                    _ => UNIT,
                };
                if !self.bucket.take(cost) {
                    return false;
                }
            }
        }
        true
    }

    fn sent(&mut self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.bucket.add(bytes.saturating_mul(UNIT / SENT_BYTES));
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ControlFrames<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.flooded.is_cancelled() {
            // The driver of the connection closes it.
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.io).poll_read(context, buffer))?;
        this.bucket.fill(Instant::now());
        if !this.count(buffer.filled().get(before..).unwrap_or_default()) {
            this.flooded.cancel();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ControlFrames<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.io).poll_write(context, bytes))?;
        self.sent(written);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.io).poll_write_vectored(context, slices))?;
        self.sent(written);
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::AsyncReadExt as _;

    use super::*;

    /// The flag of the last frame of a stream.
    const END_STREAM: u8 = 1;

    /// A frame of a kind with a payload of `len` bytes, on stream 1.
    fn frame(kind: u8, len: u16) -> Vec<u8> {
        frame_of(1, kind, 0, len)
    }

    /// The same on a stream, with flags.
    fn frame_of(stream: u32, kind: u8, flags: u8, len: u16) -> Vec<u8> {
        let [high, low] = len.to_be_bytes();
        let mut frame = [[0, high, low, kind, flags].as_slice(), &stream.to_be_bytes()].concat();
        frame.resize(HEADER + usize::from(len), 0xff);
        frame
    }

    /// Reads bytes in chunks of a size. Returns whether they are a flood.
    fn is_flood(chunk: usize, sent: usize, frames: impl Iterator<Item = Vec<u8>>) -> bool {
        let mut connection = ControlFrames::new((), CancellationToken::new());
        let bytes: Vec<u8> = std::iter::once(vec![b'P'; PREFACE]).chain(frames).flatten().collect();
        let mut chunks = bytes.chunks(chunk);
        !chunks.all(|chunk| {
            connection.sent(sent);
            connection.count(chunk)
        })
    }

    fn repeated(frame: Vec<u8>, count: usize) -> impl Iterator<Item = Vec<u8>> {
        std::iter::repeat_n(frame, count)
    }

    #[test]
    fn frames_of_control_are_bounded_however_they_are_divided() {
        for chunk in [1, 7, 9, 10_000] {
            // PRIORITY, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, an unknown one.
            for (kind, len) in [(2, 5), (3, 4), (4, 0), (4, 600), (6, 8), (7, 8), (8, 4), (77, 0), (77, 300)] {
                assert!(!is_flood(chunk, 0, repeated(frame(kind, len), 4096)), "{kind} {chunk}");
                assert!(is_flood(chunk, 0, repeated(frame(kind, len), 4097)), "{kind} {chunk}");
            }
        }
    }

    #[test]
    fn requests_and_what_is_sent_give_as_many_as_they_need() {
        assert!(!is_flood(100, 0, repeated(frame(DATA, 1000), 20_000)));
        assert!(is_flood(100, 0, repeated(frame(DATA, 0), 4097)), "a frame without data is no part of a body");
        let request = |number: u32| {
            let head = frame_of(2 * number + 1, HEADERS, 4, 50);
            // The end of its body, and seven updates of its window.
            [head, frame_of(2 * number + 1, DATA, END_STREAM, 0), frame(8, 4).repeat(7)].concat()
        };
        assert!(!is_flood(100, 0, (0..10_000).map(request)));
        // Two window updates for each event of 150 bytes.
        assert!(!is_flood(26, 150, repeated(frame(8, 4), 20_000)));
    }

    #[test]
    fn frames_of_streams_that_were_reset_give_nothing_and_are_counted() {
        let request = || std::iter::once(frame_of(7, HEADERS, 4, 50));
        let flood = |frame: Vec<u8>| is_flood(100, 0, request().chain(repeated(frame, 4097)));
        assert!(flood(frame_of(7, DATA, END_STREAM, 0)), "the end of a body");
        assert!(flood(frame_of(7, HEADERS, 5, 20)), "trailers");
        assert!(flood(frame_of(7, DATA, PADDED, 256)), "padding only");
        assert!(!flood(frame_of(7, DATA, PADDED, 257)));
        assert!(flood(frame_of(5, HEADERS, 5, 20)), "a stream that was skipped");
        let reserved = |number: u32| frame_of(7 | number << 31, HEADERS, 5, 20);
        assert!(
            is_flood(100, 0, (0..4200).map(|number| reserved(number % 2))),
            "the reserved bit makes no other stream"
        );
    }

    #[test]
    fn short_frames_of_a_body_are_counted_as_parts() {
        for (flags, len) in [(0, 1), (0, 63), (PADDED, 257), (PADDED, 319)] {
            let frames = |count| repeated(frame_of(1, DATA, flags, len), count);
            assert!(!is_flood(10_000, 0, frames(60_000)), "{len}");
            assert!(is_flood(10_000, 0, frames(70_000)), "{len}");
        }
        for (flags, len) in [(0, 64), (PADDED, 320)] {
            assert!(!is_flood(10_000, 0, repeated(frame_of(1, DATA, flags, len), 70_000)), "{len}");
        }
    }

    #[test]
    fn the_bucket_is_filled_by_time() {
        let now = Instant::now();
        let mut bucket = Bucket::new(now);
        while bucket.take(UNIT) {}
        for millis in 1..=1000 {
            bucket.fill(now + Duration::from_millis(millis));
        }
        assert_eq!(std::iter::repeat_with(|| bucket.take(UNIT)).take_while(|taken| *taken).count(), 100);
    }

    #[tokio::test]
    async fn a_flood_is_not_read_any_more() {
        let flooded = CancellationToken::new();
        let bytes: Vec<u8> = [vec![b'P'; PREFACE], frame(6, 8).repeat(5000)].concat();
        let (mut client, server) = tokio::io::duplex(1 << 20);
        tokio::io::AsyncWriteExt::write_all(&mut client, &bytes).await.unwrap();
        let mut connection = ControlFrames::new(server, flooded.clone());
        let mut buffer = vec![0; 1 << 20];
        tokio::select! {
            biased;
            () = flooded.cancelled() => {}
            () = async { while connection.read(&mut buffer).await.unwrap() > 0 {} } => panic!("it is read to its end"),
        }
    }
}
