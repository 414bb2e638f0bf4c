//! Inflating zlib streams with a declared size.
//!
//! The declared size is untrusted, so inflation stops at it, and the output must match it exactly. The stream's
//! checksum is verified at its end, which [`Inflate`] requires to be reached.

use gix_zlib::{Decompress, FlushDecompress, Status};
use std::io::{self, BufRead, Read};

/// A reader of a zlib stream, up to its declared size.
///
/// The stream must end after `size` bytes with a valid checksum; if not, reading fails with
/// [`io::ErrorKind::InvalidData`].
pub(crate) struct Inflate<R> {
    source: R,
    state: Decompress,
    remaining: u64,
    is_done: bool,
}

impl<R: BufRead> Inflate<R> {
    /// Creates a reader of the stream at the beginning of `source`, with a declared size.
    pub(crate) fn new(source: R, size: u64) -> Self {
        Self { source, state: Decompress::new(), remaining: size, is_done: false }
    }

    /// Inflates the beginning of a stream that contains its own size: up to the length of `buffer`, or the whole
    /// stream. The caller must then declare the remaining size with [`Inflate::set_remaining`].
    pub(crate) fn read_prefix(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut length = 0usize;
        while let Some(free) = buffer.get_mut(length..).filter(|free| !free.is_empty()) {
            match self.step(free)? {
                0 => break,
                written => length = length.saturating_add(written),
            }
        }
        Ok(length)
    }

    /// Declares the remaining size.
    pub(crate) fn set_remaining(&mut self, left: u64) {
        self.remaining = left;
    }

    /// Returns the source, positioned after the stream, once the stream was read to its end.
    pub(crate) fn into_source(self) -> R {
        self.source
    }

    /// Inflates into `buffer` and returns the number of bytes; zero at the end of the stream.
    fn step(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.is_done {
            let input = self.source.fill_buf()?;
            let exhausted = input.is_empty();
            let (read, written) = (self.state.total_in(), self.state.total_out());
            let status = self.state.decompress(input, buffer, FlushDecompress::None).map_err(invalid)?;
            let read = self.state.total_in().saturating_sub(read);
            let written = self.state.total_out().saturating_sub(written);
            self.source.consume(usize::try_from(read).unwrap_or_default());
            self.is_done = status == Status::StreamEnd;
            match usize::try_from(written) {
                Ok(written) if written > 0 => return Ok(written),
                _ if self.is_done => {}
                _ if exhausted => return Err(invalid("the compressed data are truncated")),
                _ if read == 0 => return Err(invalid("the compressed data make no progress")),
                _ => {}
            }
        }
        Ok(0)
    }
}

impl<R: BufRead> Read for Inflate<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        if self.remaining == 0 {
            let more = self.step(&mut [0])?;
            return if more == 0 { Ok(0) } else { Err(invalid("the inflated data exceed their declared size")) };
        }
        let most = usize::try_from(self.remaining).unwrap_or(usize::MAX).min(buffer.len());
        let written = self.step(buffer.get_mut(..most).unwrap_or_default())?;
        if written == 0 {
            return Err(invalid("the inflated data are shorter than their declared size"));
        }
        self.remaining = self.remaining.saturating_sub(written as u64);
        Ok(written)
    }
}

/// Inflates a whole stream of `size` bytes, which the caller has checked against its limit.
pub(crate) fn read_all(source: impl BufRead, size: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    read_remaining(&mut Inflate::new(source, size), &mut bytes, size)?;
    Ok(bytes)
}

/// Inflates the remaining `size` bytes of a stream, which the caller has checked against its limit, and its end.
pub(crate) fn read_remaining<R: BufRead>(stream: &mut Inflate<R>, bytes: &mut Vec<u8>, size: u64) -> io::Result<()> {
    // One allocation of the exact size: growing the buffer would need twice the memory at the end.
    let size = usize::try_from(size).map_err(invalid)?;
    bytes.try_reserve_exact(size).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    let start = bytes.len();
    bytes.resize(start.saturating_add(size), 0);
    stream.read_exact(bytes.get_mut(start..).unwrap_or_default())?;
    // At the declared size, this read verifies the end and the checksum.
    stream.read(&mut [0]).map(|_| ())
}

fn invalid(fault: impl ToString) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, fault.to_string())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io::BufReader;

    /// Encodes `content` as a zlib stream of stored blocks.
    pub(crate) fn deflate(content: &[u8]) -> Vec<u8> {
        let mut stream = vec![0x78, 0x01];
        for (n, chunk) in content.chunks(60_000).enumerate() {
            let last = u8::from((n + 1) * 60_000 >= content.len());
            let length = chunk.len() as u16;
            stream.push(last);
            stream.extend(length.to_le_bytes());
            stream.extend((!length).to_le_bytes());
            stream.extend(chunk);
        }
        if content.is_empty() {
            stream.extend([1, 0, 0, 0xff, 0xff]);
        }
        let (mut a, mut b) = (1u32, 0u32);
        for byte in content {
            a = (a + u32::from(*byte)) % 65521;
            b = (b + a) % 65521;
        }
        stream.extend((b << 16 | a).to_be_bytes());
        stream
    }

    fn fault(stream: &[u8], size: u64) -> String {
        let error = read_all(stream, size).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        error.to_string()
    }

    #[test]
    fn a_stream_gives_what_went_in_and_leaves_what_follows() {
        for content in [&b""[..], b"a", &[7; 100_000]] {
            let mut stream = deflate(content);
            assert_eq!(read_all(stream.as_slice(), content.len() as u64).unwrap(), content);
            stream.extend(b"behind");
            let mut inflate = Inflate::new(BufReader::with_capacity(3, stream.as_slice()), content.len() as u64);
            let mut bytes = Vec::new();
            inflate.read_to_end(&mut bytes).unwrap();
            assert_eq!(bytes, content);
            let mut behind = Vec::new();
            inflate.into_source().read_to_end(&mut behind).unwrap();
            assert_eq!(behind, b"behind");
        }
    }

    #[test]
    fn a_stream_that_inflates_to_another_size_is_damaged() {
        let stream = deflate(b"hello");
        assert!(fault(&stream, 4).contains("exceed"));
        assert!(fault(&stream, 6).contains("shorter than"));
    }

    #[test]
    fn a_wrong_checksum_is_damage_even_when_all_bytes_came() {
        let mut stream = deflate(b"hello");
        *stream.last_mut().unwrap() ^= 1;
        fault(&stream, 5);
    }

    #[test]
    fn a_stream_cut_anywhere_is_damage() {
        let stream = deflate(b"hello");
        for length in 0..stream.len() {
            fault(&stream[..length], 5);
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_no_stream_never_panics(stream in proptest::collection::vec(0u8.., 0..200), size in 0u64..300) {
            let _ = read_all(stream.as_slice(), size);
        }
    }
}
