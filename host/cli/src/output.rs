//! Standard output: results only.
//!
//! This is the only writer to standard output, except for `serve --stdio`, where the protocol uses it. Output is
//! buffered, so small writes are cheap; [`Output::flush`] at the end of a result writes the buffer. If the reader
//! closes the pipe early, as `head` does, the error has the kind [`BrokenPipe`](std::io::ErrorKind::BrokenPipe), which
//! [`CliError`](super::error::CliError) does not report as a failure.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::fd::AsFd;

use anstream::AutoStream;
use anstream::stream::RawStream;
use clap::ColorChoice;
use mcp_host_base::text::{columns, wrap};
use mcp_host_server::json::Encoder;
use serde::Serialize;

use super::escape;

/// The destination of standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    /// A terminal: it interprets control characters, and a person reads it.
    Terminal,
    /// A program or a file: it gets bytes unchanged.
    Pipe,
}

/// Standard output, locked and buffered.
pub(super) struct Output<'a> {
    writer: Box<dyn Write + 'a>,
    destination: Destination,
    /// The width of the terminal, if it is known.
    width: Option<u16>,
    colored: bool,
}

impl Output<'static> {
    /// This process's standard output.
    pub(super) fn stdout(choice: ColorChoice) -> Self {
        let stdout = io::stdout();
        let destination = if stdout.is_terminal() { Destination::Terminal } else { Destination::Pipe };
        let colored = is_colored(choice, &stdout);
        let width = terminal_width(&stdout);
        Self { writer: Box::new(BufWriter::new(stdout.lock())), destination, width, colored }
    }
}

impl<'a> Output<'a> {
    /// An output to another writer, for tests.
    pub(super) fn to(writer: &'a mut Vec<u8>, destination: Destination) -> Self {
        Self { writer: Box::new(writer), destination, width: None, colored: false }
    }

    /// Behaves like a terminal of this width.
    #[cfg(test)]
    pub(super) fn with_width(self, width: Option<u16>) -> Self {
        Self { width, ..self }
    }

    /// Turns colors of results on or off.
    pub(super) fn colored(self, colored: bool) -> Self {
        Self { colored, ..self }
    }

    /// Returns the destination.
    pub(super) fn destination(&self) -> Destination {
        self.destination
    }

    /// Returns the width of the terminal, if there is one and its width is known.
    pub(super) fn width(&self) -> Option<u16> {
        self.width
    }

    /// Returns whether results are colored.
    pub(super) fn is_colored(&self) -> bool {
        self.colored
    }

    /// Prints our own text and a line feed. Foreign parts must be escaped already.
    pub(super) fn line(&mut self, text: &str) -> io::Result<()> {
        self.writer.write_all(text.as_bytes())?;
        self.writer.write_all(b"\n")
    }

    /// Prints escaped prose and a line feed. On a terminal lines are wrapped, with the indentation of their beginning, or
    /// of the text behind their label.
    pub(super) fn prose(&mut self, text: &str) -> io::Result<()> {
        let Some(columns) = self.width.map(usize::from) else { return self.text(text) };
        let escaped = escape::lines(text);
        for line in escaped.lines() {
            self.line(&wrap(line, columns, 0, hanging_indent(line)))?;
        }
        Ok(())
    }

    /// Prints a provider's text on separate lines, escaped for terminals.
    pub(super) fn text(&mut self, text: &str) -> io::Result<()> {
        let escaped = escape::lines(text);
        self.writer.write_all(escaped.as_bytes())?;
        if escaped.is_empty() || escaped.ends_with('\n') {
            return Ok(());
        }
        self.writer.write_all(b"\n")
    }

    /// Writes bytes unchanged. An error on a terminal.
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.destination == Destination::Terminal {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "raw bytes are not for a terminal"));
        }
        self.writer.write_all(bytes)
    }

    /// Prints a value as JSON: on several lines to a terminal, on one line to a pipe.
    pub(super) fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        match self.destination {
            Destination::Terminal => {
                let text = serde_json::to_string_pretty(value)?;
                self.line(&escape::json(&text))
            }
            Destination::Pipe => {
                serde_json::to_writer(&mut self.writer, value)?;
                self.writer.write_all(b"\n")
            }
        }
    }

    /// Prints a protocol document like [`json`](Self::json).
    pub(super) fn document(&mut self, mut document: Encoder) -> io::Result<()> {
        match self.destination {
            Destination::Terminal => {
                let text = indented(&String::from_utf8_lossy(&document.into_vec()));
                self.line(&escape::json(&text))
            }
            Destination::Pipe => {
                while let Some(piece) = document.next_chunk() {
                    self.writer.write_all(&piece)?;
                }
                self.writer.write_all(b"\n")
            }
        }
    }

    /// Writes the buffer.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// Returns whether output to this stream is colored. `--color always` and `never` override the environment: `NO_COLOR`,
/// `CLICOLOR`, `CLICOLOR_FORCE`, and terminals without colors.
pub(super) fn is_colored(choice: ColorChoice, stream: &impl RawStream) -> bool {
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => AutoStream::choice(stream) != anstream::ColorChoice::Never,
    }
}

/// Returns the number of columns of a terminal, from the terminal or from the variable `COLUMNS`.
pub(super) fn terminal_width(stream: &(impl IsTerminal + AsFd)) -> Option<u16> {
    let size = stream.is_terminal().then(|| rustix::termios::tcgetwinsize(stream))?;
    let width = size.ok().map(|size| size.ws_col).filter(|columns| *columns > 0);
    width.or_else(|| std::env::var("COLUMNS").ok()?.parse().ok().filter(|columns| *columns > 0))
}

/// Returns the column where the text of a line begins: behind blanks, and behind a label such as `audit     ` or
/// ` = help: `.
fn hanging_indent(line: &str) -> usize {
    let text = line.trim_start_matches(' ');
    let behind_label = match text.strip_prefix("= help: ") {
        Some(help) => help,
        None => match text.split_once("  ") {
            Some((label, rest)) if !label.contains(' ') => rest.trim_start_matches(' '),
            _ => text,
        },
    };
    columns(line).saturating_sub(columns(behind_label))
}

/// Indents JSON as `serde_json` does, and keeps the order of members.
fn indented(json: &str) -> String {
    let (mut lines, mut depth, mut is_in_string, mut is_escaped) = (String::new(), 0_usize, false, false);
    let mut characters = json.chars().peekable();
    while let Some(character) = characters.next() {
        let closes = matches!(character, '}' | ']') && !is_in_string;
        if closes && !lines.ends_with(['{', '[']) {
            depth = depth.saturating_sub(1);
            lines.push('\n');
            lines.push_str(&"  ".repeat(depth));
        } else if closes {
            depth = depth.saturating_sub(1);
        }
        lines.push(character);
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => is_in_string = !is_in_string,
            _ if is_in_string => {}
            ':' => lines.push(' '),
            '{' | '[' | ',' => {
                depth = depth.saturating_add(usize::from(character != ','));
                if !matches!(characters.peek(), Some('}' | ']')) {
                    lines.push('\n');
                    lines.push_str(&"  ".repeat(depth));
                }
            }
            _ => {}
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(destination: Destination, print: impl FnOnce(&mut Output<'_>) -> io::Result<()>) -> String {
        let mut written = Vec::new();
        let mut output = Output::to(&mut written, destination);
        print(&mut output).unwrap();
        drop(output);
        String::from_utf8(written).unwrap()
    }

    #[test]
    fn bytes_go_to_a_pipe_as_they_are_and_to_a_terminal_never() {
        assert_eq!(printed(Destination::Pipe, |output| output.bytes(b"a\x1bb")), "a\x1bb");
        let mut written = Vec::new();
        assert!(Output::to(&mut written, Destination::Terminal).bytes(b"a").is_err());
        assert!(written.is_empty());
    }

    #[test]
    fn text_on_a_terminal_ends_its_line() {
        for (text, shown) in [("a", "a\n"), ("a\n", "a\n"), ("", "")] {
            assert_eq!(printed(Destination::Terminal, |output| output.text(text)), shown);
        }
    }

    #[test]
    fn on_a_narrow_terminal_prose_is_wrapped_below_itself() {
        for (text, shown) in [
            ("one two three four five", "one two three four\nfive\n"),
            ("  one two three four", "  one two three\n  four\n"),
            ("audit   one two three", "audit   one two\n        three\n"),
            (" = help: one two three", " = help: one two\n         three\n"),
        ] {
            let mut written = Vec::new();
            let mut output = Output::to(&mut written, Destination::Terminal).with_width(Some(18));
            output.prose(text).unwrap();
            drop(output);
            assert_eq!(String::from_utf8(written).unwrap(), shown);
        }
    }

    #[test]
    fn a_document_is_laid_out_as_a_value_is() {
        let value = serde_json::json!({ "a": [1, [], {}, "[{\\\",: ]"], "b": { "c": null }, "d": [[["x"]]] });
        let document = || Encoder::from_json(value.to_string().into_bytes());
        for destination in [Destination::Terminal, Destination::Pipe] {
            let expected = printed(destination, |output| output.json(&value));
            assert_eq!(printed(destination, |output| output.document(document())), expected);
        }
    }

    #[test]
    fn json_is_for_people_on_a_terminal_and_one_line_for_programs() {
        let value = serde_json::json!({ "name": "a\u{9b}b" });
        assert_eq!(printed(Destination::Pipe, |output| output.json(&value)), "{\"name\":\"a\u{9b}b\"}\n");
        assert_eq!(printed(Destination::Terminal, |output| output.json(&value)), "{\n  \"name\": \"a\\u009bb\"\n}\n");
    }
}
