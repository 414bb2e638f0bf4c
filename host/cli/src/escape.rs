//! Escapes provider text for terminals: [`mcp_host_base::escape`] for text of several lines and for JSON.

use std::borrow::Cow;

use mcp_host_base::escape::{escape, is_deceptive, is_unsafe};
pub(super) use mcp_host_base::escape::{json, line};

/// Escapes text of several lines. A line may end with CR LF; any other CR would overwrite the line.
pub(super) fn lines(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = match line.strip_suffix("\r\n") {
            Some(line) => (line, "\r\n"),
            None => (line, ""),
        };
        escaped.push_str(&escape(line, |c| is_unsafe(c) && !matches!(c, '\n' | '\t')));
        escaped.push_str(end);
    }
    Cow::Owned(escaped)
}

/// Escapes deceptive characters in a line of our own log. The formatter has already escaped control characters in
/// foreign text.
pub(super) fn log_line(text: &str, is_json: bool) -> Cow<'_, str> {
    if is_json { json(text) } else { escape(text, is_deceptive) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_never_driven() {
        assert_eq!(lines("a\u{9b}2Jb\u{7f}"), r"a\u{9b}2Jb\u{7f}");
    }

    #[test]
    fn a_line_of_the_log_keeps_its_colours_and_loses_what_deceives() {
        assert_eq!(log_line("\u{1b}[32mINFO\u{1b}[0m a\u{202e}b\n", false), "\u{1b}[32mINFO\u{1b}[0m a\\u{202e}b\n");
        assert_eq!(log_line("{\"uri\":\"a\u{2028}\"}\n", true), "{\"uri\":\"a\\u2028\"}\n");
    }

    #[test]
    fn lines_and_tabs_of_a_text_stay() {
        assert_eq!(lines("a\n\tb\r\nc\u{1b}\n"), "a\n\tb\r\nc\\u{1b}\n");
    }

    #[test]
    fn a_carriage_return_within_a_line_does_not_overwrite_it() {
        assert_eq!(lines("rm -rf\rls\r\r\n"), "rm -rf\\rls\\r\r\n");
    }
}
