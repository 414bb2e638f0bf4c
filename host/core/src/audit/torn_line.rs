//! Torn lines: lines that were written only in part.

use std::io::{self, ErrorKind, Write};

/// The number of bytes of a torn line at the end of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TornLine(pub(super) usize);

/// The result of a write: the number of bytes in complete lines, and the error that ended the write.
pub(super) type Written = (usize, io::Result<()>);

impl TornLine {
    /// Writes lines. If the output ends with a torn line, a line break goes first, so that no other line is
    /// damaged.
    pub(super) fn write(&mut self, output: &mut impl Write, lines: &[u8]) -> Written {
        if self.0 > 0 {
            if let Err(error) = output.write_all(b"\n") {
                return (0, Err(error));
            }
            self.0 = 0;
        }
        let mut written = 0_usize;
        loop {
            let rest = match lines.get(written..) {
                Some(rest) if !rest.is_empty() => rest,
                _ => return (lines.len(), Ok(())),
            };
            let error = match output.write(rest) {
                Ok(0) => ErrorKind::WriteZero.into(),
                Ok(more) => {
                    written = written.saturating_add(more);
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => error,
            };
            let whole = whole_lines(lines, written);
            self.0 = written.saturating_sub(whole);
            return (whole, Err(error));
        }
    }
}

/// Returns the length of the complete lines in the first `len` bytes.
pub(super) fn whole_lines(lines: &[u8], len: usize) -> usize {
    let end = lines.iter().take(len).rposition(|byte| *byte == b'\n');
    end.map_or(0, |end| end.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An output with space for a limited number of bytes.
    struct Disk {
        bytes: Vec<u8>,
        space: usize,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let len = bytes.len().min(self.space);
            if len == 0 {
                return Err(ErrorKind::StorageFull.into());
            }
            self.space -= len;
            self.bytes.extend_from_slice(&bytes[..len]);
            Ok(len)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_that_is_written_in_part_damages_no_other() {
        let lines = b"one\ntwo\nthree\n";
        for space in 0..lines.len() {
            let (mut disk, mut torn) = (Disk { bytes: Vec::new(), space }, TornLine::default());
            let (written, result) = torn.write(&mut disk, lines);
            assert_eq!(result.unwrap_err().kind(), ErrorKind::StorageFull);
            disk.space = 100;
            let (rest, result) = torn.write(&mut disk, &lines[written..]);
            result.unwrap();
            assert_eq!(written + rest, lines.len());
            let text = String::from_utf8(disk.bytes).unwrap();
            let whole = ["one", "two", "three"];
            assert!(whole.iter().all(|line| text.lines().any(|found| found == *line)), "{space}: {text:?}");
            let is_part = |found: &str| whole.iter().any(|line| line.starts_with(found));
            assert!(text.lines().count() <= whole.len() + 1 && text.lines().all(is_part), "{space}: {text:?}");
        }
    }
}
