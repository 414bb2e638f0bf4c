//! Parts of a file by lines or bytes, read from its beginning or end in chunks.
//!
//! A part has at most the given number of bytes. A longer part ends earlier, after a line or, within a line, between
//! two characters; it then contains the start of the next part. To find a line, the lines before it are counted, in at
//! most [`MAX_SCAN`] bytes. The lines of the whole file are counted up to [`MAX_COUNTED`] bytes.

use crate::route::{Part, Span};
use folder::OpenFile;
use folder::encoding::TextEncoding;
use mcp_provider::{Failure, Result};

/// The maximum number of bytes searched for a line.
const MAX_SCAN: u64 = 128 * 1024 * 1024;

/// The maximum size of a file whose lines are all counted.
const MAX_COUNTED: u64 = 16 * 1024 * 1024;

/// The number of bytes searched per read.
const CHUNK: usize = 256 * 1024;

/// Bytes that can be read from any position.
pub(crate) trait Bytes {
    /// Reads `len` bytes from an offset, or fewer at the end.
    fn read_at(&self, offset: u64, len: usize) -> Result<Vec<u8>>;
}

impl Bytes for OpenFile {
    fn read_at(&self, offset: u64, len: usize) -> Result<Vec<u8>> {
        Self::read_at(self, offset, len)
    }
}

impl Bytes for [u8] {
    fn read_at(&self, offset: u64, len: usize) -> Result<Vec<u8>> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.len());
        let end = start.saturating_add(len).min(self.len());
        Ok(self.get(start..end).unwrap_or_default().to_vec())
    }
}

/// A part of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Slice {
    pub(crate) bytes: Vec<u8>,
    /// The offset of the first byte.
    pub(crate) start: u64,
    /// The range: `lines=1-20`.
    pub(crate) range: String,
    /// The next range, if the part ends earlier than requested.
    pub(crate) next: Option<String>,
    /// The number of lines of the whole file, if they were counted.
    pub(crate) total_lines: Option<u64>,
}

/// A file from which parts are read.
pub(crate) struct Source<'a, B: Bytes + ?Sized> {
    pub(crate) bytes: &'a B,
    pub(crate) size: u64,
    /// The encoding, if the file is text.
    pub(crate) encoding: Option<TextEncoding>,
    /// The maximum number of bytes of a part.
    pub(crate) max: usize,
}

impl<B: Bytes + ?Sized> Source<'_, B> {
    /// Reads a part.
    pub(crate) fn read(&self, part: Part) -> Result<Slice> {
        match part {
            Part::Lines(Span::From(first, last)) => self.lines(first, last),
            Part::Lines(Span::Last(count)) => self.last_lines(count),
            Part::Bytes(Span::From(first, last)) => self.byte_range(first, last),
            Part::Bytes(Span::Last(count)) => self.byte_range(self.size.saturating_sub(count), None),
        }
    }

    /// Reads the beginning, by lines if the encoding allows.
    pub(crate) fn head(&self) -> Result<Slice> {
        let whole = Span::From(0, None);
        match self.encoding {
            Some(encoding) if encoding.has_line_feeds() => self.lines(1, None),
            _ => self.read(Part::Bytes(whole)),
        }
    }

    fn byte_range(&self, first: u64, last: Option<u64>) -> Result<Slice> {
        if first >= self.size && first > 0 {
            return Err(Failure::invalid(format!("the file has {} bytes, numbered from 0", self.size)));
        }
        let end = last.map_or(self.size, |last| last.saturating_add(1).min(self.size));
        let wanted = usize::try_from(end.saturating_sub(first)).unwrap_or(usize::MAX);
        let mut bytes = self.bytes.read_at(first, wanted.min(self.max))?;
        let mut next = None;
        if wanted > self.max {
            if let Some(encoding) = self.encoding {
                bytes.truncate(encoding.whole_characters(&bytes));
            }
            let behind = first.saturating_add(len(&bytes));
            next = Some(format!("bytes={behind}-{}", last.map(|last| last.to_string()).unwrap_or_default()));
        }
        let range = byte_text(first, &bytes);
        Ok(Slice { bytes, start: first, range, next, total_lines: None })
    }

    fn lines(&self, first: u64, last: Option<u64>) -> Result<Slice> {
        let start = self.line_start(first)?;
        let wanted = last.map_or(u64::MAX, |last| last.saturating_sub(first).saturating_add(1));
        // One extra byte shows whether there is more.
        let mut bytes = self.bytes.read_at(start, self.max.saturating_add(1))?;
        let is_all = bytes.len() <= self.max;
        let end = usize::try_from(wanted.saturating_sub(1))
            .ok()
            .and_then(|skipped| memchr::memchr_iter(b'\n', &bytes).nth(skipped))
            .map(|newline| newline.saturating_add(1));
        let mut next = None;
        match end.filter(|end| *end <= self.max) {
            Some(end) => bytes.truncate(end),
            None if is_all => {}
            None => {
                bytes.truncate(self.max);
                match memchr::memrchr(b'\n', &bytes) {
                    Some(newline) => {
                        bytes.truncate(newline.saturating_add(1));
                        let behind = first.saturating_add(line_feeds(&bytes));
                        next = Some(format!("lines={behind}-{}", last.map(|l| l.to_string()).unwrap_or_default()));
                    }
                    None => {
                        let encoding = self.encoding.unwrap_or(TextEncoding::UTF_8);
                        bytes.truncate(encoding.whole_characters(&bytes));
                        let behind = start.saturating_add(len(&bytes));
                        next = Some(format!("bytes={behind}-"));
                        let range = byte_text(start, &bytes);
                        return Ok(Slice { bytes, start, range, next, total_lines: None });
                    }
                }
            }
        }
        let count = lines_of(&bytes);
        let total_lines = if self.size <= MAX_COUNTED {
            let before = first.saturating_sub(1).saturating_add(line_feeds(&bytes));
            let behind = start.saturating_add(len(&bytes));
            let is_partial = bytes.last().is_some_and(|byte| *byte != b'\n');
            let after = if is_partial { 1 } else { self.count_lines(behind)? };
            Some(before.saturating_add(after))
        } else {
            None
        };
        let last = first.saturating_add(count).saturating_sub(1);
        Ok(Slice { bytes, start, range: format!("lines={first}-{last}"), next, total_lines })
    }

    /// Returns the offset of a line.
    fn line_start(&self, line: u64) -> Result<u64> {
        let (mut offset, mut missing) = (0_u64, line.saturating_sub(1));
        while missing > 0 {
            if offset >= MAX_SCAN {
                return Err(Failure::invalid(format!(
                    "line {line} is not within the first {MAX_SCAN} bytes of the file, which has {}; ask for `bytes`",
                    self.size
                )));
            }
            let chunk = self.bytes.read_at(offset, CHUNK)?;
            if chunk.is_empty() {
                break;
            }
            let mut position = chunk.len();
            for newline in memchr::memchr_iter(b'\n', &chunk) {
                missing = missing.saturating_sub(1);
                if missing == 0 {
                    position = newline.saturating_add(1);
                    break;
                }
            }
            offset = offset.saturating_add(u64::try_from(position).unwrap_or(u64::MAX));
        }
        if line > 1 && (missing > 0 || offset >= self.size) {
            let lines = self.count_lines(0)?;
            return Err(Failure::invalid(format!("the file has {lines} lines, numbered from 1")));
        }
        Ok(offset)
    }

    /// Counts the lines from the start of a line to the end.
    fn count_lines(&self, mut offset: u64) -> Result<u64> {
        let (mut count, mut is_partial) = (0_u64, false);
        loop {
            let chunk = self.bytes.read_at(offset, CHUNK)?;
            let Some(last) = chunk.last() else { return Ok(count.saturating_add(u64::from(is_partial))) };
            count = count.saturating_add(line_feeds(&chunk));
            is_partial = *last != b'\n';
            offset = offset.saturating_add(len(&chunk));
        }
    }

    fn last_lines(&self, count: u64) -> Result<Slice> {
        let buffer = self.size.min(u64::try_from(self.max).unwrap_or(u64::MAX));
        let offset = self.size.saturating_sub(buffer);
        let mut bytes = self.bytes.read_at(offset, self.max)?;
        let before_last = bytes.len().saturating_sub(1);
        let searched = bytes.get(..before_last).unwrap_or_default();
        let skipped = usize::try_from(count.saturating_sub(1)).unwrap_or(usize::MAX);
        let start = match memchr::memrchr_iter(b'\n', searched).nth(skipped) {
            Some(newline) => newline.saturating_add(1),
            None if offset == 0 => 0,
            // Only the last lines fit.
            None => match memchr::memchr(b'\n', searched) {
                Some(newline) => newline.saturating_add(1),
                None => {
                    let encoding = self.encoding.unwrap_or(TextEncoding::UTF_8);
                    let is_boundary = |start: &usize| {
                        bytes.get(*start..).is_some_and(|rest| encoding.decode_part(rest, true).is_some())
                    };
                    (0..4).find(is_boundary).unwrap_or_default()
                }
            },
        };
        bytes.drain(..start.min(bytes.len()));
        let start = offset.saturating_add(u64::try_from(start).unwrap_or(u64::MAX));
        let range = byte_text(start, &bytes);
        Ok(Slice { bytes, start, range, next: None, total_lines: None })
    }
}

/// Returns the range of the bytes from an offset.
fn byte_text(start: u64, bytes: &[u8]) -> String {
    format!("bytes={start}-{}", start.saturating_add(len(bytes)).saturating_sub(1))
}

fn len(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

fn line_feeds(bytes: &[u8]) -> u64 {
    u64::try_from(memchr::memchr_iter(b'\n', bytes).count()).unwrap_or(u64::MAX)
}

/// Counts lines. The last line may lack a line feed.
fn lines_of(bytes: &[u8]) -> u64 {
    line_feeds(bytes).saturating_add(u64::from(bytes.last().is_some_and(|byte| *byte != b'\n')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn source(bytes: &[u8], max: usize) -> Source<'_, [u8]> {
        let size = u64::try_from(bytes.len()).unwrap();
        Source { bytes, size, encoding: Some(TextEncoding::UTF_8), max }
    }

    fn lines(text: &str, first: u64, last: Option<u64>) -> String {
        let slice = source(text.as_bytes(), 1000).read(Part::Lines(Span::From(first, last))).unwrap();
        String::from_utf8(slice.bytes).unwrap()
    }

    #[test]
    fn lines_are_numbered_from_one_and_keep_their_ends() {
        let text = "a\r\nb\n\nd";
        assert_eq!(lines(text, 1, Some(1)), "a\r\n");
        assert_eq!(lines(text, 2, Some(3)), "b\n\n");
        assert_eq!(lines(text, 4, None), "d");
        assert_eq!(lines(text, 1, Some(99)), text);
        assert_eq!(lines("", 1, None), "");
    }

    #[test]
    fn a_part_behind_the_end_is_refused_with_the_number_that_there_is() {
        for (text, first, expected) in [("a\nb\n", 3, "2 lines"), ("a\nb", 3, "2 lines"), ("", 2, "0 lines")] {
            let failure = source(text.as_bytes(), 9).read(Part::Lines(Span::From(first, None))).unwrap_err();
            assert!(failure.to_string().contains(expected), "{failure}");
        }
        let failure = source(b"abc", 9).read(Part::Bytes(Span::From(3, None))).unwrap_err();
        assert!(failure.to_string().contains("3 bytes"), "{failure}");
    }

    #[test]
    fn the_last_lines_are_those_of_tail() {
        let last = |text: &str, count| {
            String::from_utf8(source(text.as_bytes(), 10).read(Part::Lines(Span::Last(count))).unwrap().bytes).unwrap()
        };
        assert_eq!(last("a\nb\nc\n", 2), "b\nc\n");
        assert_eq!(last("a\nb\nc", 2), "b\nc");
        assert_eq!(last("a\n", 5), "a\n");
        assert_eq!(last("", 5), "");
        assert_eq!(last("0123456789\nabc\ndef\n", 9), "abc\ndef\n", "only whole lines fit");
        assert_eq!(last("日本日本日本", 1), "本日本", "only whole characters fit");
    }

    #[test]
    fn a_line_that_is_longer_than_a_part_continues_by_bytes() {
        let slice = source("日本語".as_bytes(), 4).head().unwrap();
        assert_eq!((slice.bytes.as_slice(), slice.next.as_deref()), ("日".as_bytes(), Some("bytes=3-")));
        assert_eq!(slice.range, "bytes=0-2");
    }

    fn parse(range: &str) -> Part {
        let route = crate::route::Route::parse(&format!("x?{range}")).unwrap();
        route.view.part.unwrap()
    }

    proptest! {
        #[test]
        fn the_parts_of_a_file_are_the_file(text in "([a-c日\n]{0,12}\r?\n?){0,12}", max in 4usize..20) {
            let source = source(text.as_bytes(), max);
            let mut slice = source.head().unwrap();
            let mut read = slice.bytes.clone();
            while let Some(next) = slice.next {
                prop_assert!(!slice.bytes.is_empty());
                slice = source.read(parse(&next)).unwrap();
                prop_assert!(slice.bytes.len() <= max);
                prop_assert_eq!(&source.read(parse(&slice.range)).unwrap().bytes, &slice.bytes);
                read.extend_from_slice(&slice.bytes);
            }
            prop_assert_eq!(String::from_utf8(read).unwrap(), text);
        }

        #[test]
        fn each_range_of_lines_is_what_the_standard_library_counts(
            text in "([a日]{0,3}\n?){0,10}", first in 1u64..12, more in 0u64..5,
        ) {
            let all: Vec<&str> = text.split_inclusive('\n').collect();
            let (from, to) = (usize::try_from(first - 1).unwrap(), usize::try_from(first + more).unwrap());
            match source(text.as_bytes(), 1000).read(Part::Lines(Span::From(first, Some(first + more)))) {
                Ok(slice) => {
                    prop_assert_eq!(slice.bytes, all[from.min(all.len())..to.min(all.len())].concat().into_bytes());
                    prop_assert_eq!(slice.total_lines, Some(u64::try_from(all.len()).unwrap()));
                }
                Err(_) => prop_assert!(from >= all.len() && first > 1),
            }
        }
    }
}
