//! The decoder of lines, one message each.

use std::io;

use tokio_util::bytes::{Buf, BytesMut};
use tokio_util::codec::Decoder;

/// The maximum length of a line in bytes; the official SDKs have the same limit.
const MAX_LINE: usize = 16 << 20;

/// The maximum size of a buffer that is retained from one line to the next.
const MAX_IDLE_BUFFER: usize = 64 << 10;

/// A line that was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// The text without its line ending.
    Text(BytesMut),
    /// A line longer than [`MAX_LINE`], which has been skipped.
    TooLong,
}

/// Splits a stream into lines. Empty lines are skipped; the last line needs no line feed.
#[derive(Debug)]
pub(super) struct LineDecoder {
    /// The number of bytes of the buffer that have been searched for a line feed.
    searched: usize,
    /// Whether the decoder is inside a line that is too long.
    skipping: bool,
    max_line: usize,
}

impl Default for LineDecoder {
    fn default() -> Self {
        Self { searched: 0, skipping: false, max_line: MAX_LINE }
    }
}

impl LineDecoder {
    fn line(&mut self, mut text: BytesMut) -> Option<Line> {
        if std::mem::take(&mut self.skipping) || text.len() > self.max_line {
            return Some(Line::TooLong);
        }
        let end = text.trim_ascii_end().len();
        text.truncate(end);
        // Some editors begin a file with a byte order mark, which a reader of JSON may ignore (RFC 8259, section 8.1).
        if text.starts_with(b"\xEF\xBB\xBF") {
            text.advance(3);
        }
        (!text.is_empty()).then_some(Line::Text(text))
    }
}

impl Decoder for LineDecoder {
    type Item = Line;
    type Error = io::Error;

    fn decode(&mut self, source: &mut BytesMut) -> io::Result<Option<Line>> {
        while let Some(end) = source.iter().skip(self.searched).position(|byte| *byte == b'\n') {
            let length = self.searched.saturating_add(end).saturating_add(1);
            self.searched = 0;
            if let Some(line) = self.line(source.split_to(length)) {
                return Ok(Some(line));
            }
        }
        self.searched = source.len();
        if self.skipping || source.len() > self.max_line {
            self.skipping = true;
            self.searched = 0;
            source.clear();
        }
        Ok(None)
    }

    fn decode_eof(&mut self, source: &mut BytesMut) -> io::Result<Option<Line>> {
        if let Some(line) = self.decode(source)? {
            return Ok(Some(line));
        }
        self.searched = 0;
        Ok(self.line(source.split()))
    }
}

/// Shrinks a buffer that has grown for a long line, after the line has been parsed.
pub(super) fn shrink(buffer: &mut BytesMut) {
    if buffer.capacity() > MAX_IDLE_BUFFER && buffer.len() <= MAX_IDLE_BUFFER {
        *buffer = BytesMut::from(buffer.as_ref());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of a text that arrives in pieces of the given size.
    fn lines(text: &str, piece: usize) -> Vec<Line> {
        let mut decoder = LineDecoder { max_line: 8, ..LineDecoder::default() };
        let (mut buffer, mut lines) = (BytesMut::new(), Vec::new());
        for piece in text.as_bytes().chunks(piece) {
            buffer.extend_from_slice(piece);
            while let Some(line) = decoder.decode(&mut buffer).unwrap() {
                lines.push(line);
            }
        }
        while let Some(line) = decoder.decode_eof(&mut buffer).unwrap() {
            lines.push(line);
        }
        lines
    }

    fn text(text: &str) -> Line {
        Line::Text(text.into())
    }

    #[test]
    fn lines_are_the_same_in_whatever_pieces_they_come() {
        for piece in 1..40 {
            let found = lines("one\r\n\n  \n\u{FEFF}two\nmuch too long\nthree\nlast", piece);
            assert_eq!(found, [text("one"), text("two"), Line::TooLong, text("three"), text("last")], "{piece}");
        }
    }

    #[test]
    fn a_line_that_never_ends_is_not_kept() {
        let mut decoder = LineDecoder { max_line: 8, ..LineDecoder::default() };
        let mut buffer = BytesMut::new();
        for _ in 0..100 {
            buffer.extend_from_slice(b"xxxx");
            assert_eq!(decoder.decode(&mut buffer).unwrap(), None);
            assert!(buffer.len() <= 12);
        }
        buffer.extend_from_slice(b"\nnext\n");
        assert_eq!(decoder.decode(&mut buffer).unwrap(), Some(Line::TooLong));
        assert_eq!(decoder.decode(&mut buffer).unwrap(), Some(text("next")));
    }
}
