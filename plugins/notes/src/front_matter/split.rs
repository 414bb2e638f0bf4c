//! Splitting a note into front matter and body.

/// The beginning of a note, split.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Split<'a> {
    /// The note does not start with `---`.
    Absent,
    /// The note starts with `---`, but the beginning does not contain the closing line.
    Unclosed,
    /// The beginning contains both lines.
    Closed {
        /// The text between the lines.
        yaml: &'a [u8],
        /// The text after the closing line.
        body: &'a [u8],
    },
}

/// Splits a note. Lines may end with CR LF, and a byte order mark may precede the first line.
pub(super) fn split(note: &[u8]) -> Split<'_> {
    let note = note.strip_prefix(b"\xef\xbb\xbf").unwrap_or(note);
    let mut lines = note.split_inclusive(|byte| *byte == b'\n');
    let Some(first) = lines.next().filter(|line| line.trim_ascii_end() == b"---") else { return Split::Absent };
    let start = first.len();
    let mut end = start;
    for line in lines {
        let behind = end.saturating_add(line.len());
        if matches!(line.trim_ascii_end(), b"---" | b"...") {
            let (yaml, body) = (note.get(start..end).unwrap_or_default(), note.get(behind..).unwrap_or_default());
            return Split::Closed { yaml, body };
        }
        end = behind;
    }
    Split::Unclosed
}

/// Returns the first non-blank line of a body; `None` if the line may continue after the truncation.
pub(super) fn first_line(body: &[u8], is_all: bool) -> Option<&[u8]> {
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    let mut lines = body.split_inclusive(|byte| *byte == b'\n');
    match lines.find(|line| !line.trim_ascii().is_empty()) {
        Some(line) => (is_all || line.ends_with(b"\n")).then_some(line),
        None => is_all.then_some(b""),
    }
}

/// Returns the text of a heading line: `# Like this`.
pub(super) fn heading(line: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(line).ok()?.strip_prefix("# ")?.trim();
    let text = text.trim_end_matches('#').trim_end();
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn front_matter_stands_between_two_lines() {
        for note in ["---\na: 1\n---\nbody", "\u{feff}---\na: 1\n---\nbody", "--- \na: 1\n...\nbody"] {
            assert_eq!(split(note.as_bytes()), Split::Closed { yaml: b"a: 1\n", body: b"body" }, "{note}");
        }
        assert_eq!(split(b"---\r\na: 1\r\n---\r\n"), Split::Closed { yaml: b"a: 1\r\n", body: b"" });
        assert_eq!(split(b"---\n---"), Split::Closed { yaml: b"", body: b"" });
    }

    #[test]
    fn a_note_that_begins_otherwise_has_none() {
        for note in ["", "text", "\n---\na: 1\n---\n", "----\n", "--- a\n", " ---\n"] {
            assert_eq!(split(note.as_bytes()), Split::Absent, "{note:?}");
        }
    }

    #[test]
    fn front_matter_without_an_end_is_not_closed() {
        for note in ["---", "---\n", "---\na: 1\n ---\n"] {
            assert_eq!(split(note.as_bytes()), Split::Unclosed, "{note:?}");
        }
    }

    #[test]
    fn a_heading_is_the_text_of_a_line_of_the_first_level() {
        assert_eq!(heading("# 日本 語 ##\r\n".as_bytes()).as_deref(), Some("日本 語"));
        for line in [b"text\n".as_slice(), b"## Second", b"#tag", b"# ", b"", b"# \xff"] {
            assert_eq!(heading(line), None, "{line:?}");
        }
    }

    #[test]
    fn the_first_line_is_known_only_when_it_is_whole() {
        assert_eq!(first_line(b"\n \n# a\ntext", false), Some(b"# a\n".as_slice()));
        assert_eq!(first_line(b"\n# a", true), Some(b"# a".as_slice()));
        assert_eq!(first_line(b"\n# a", false), None);
        assert_eq!(first_line(b"\n", false), None);
        assert_eq!(first_line(b"\n", true), Some(b"".as_slice()));
    }
}
