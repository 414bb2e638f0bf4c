//! Standard error: everything but results.
//!
//! Errors, warnings, notes, the log, panics and progress all go through one [`Messages`], and then through the queue
//! and the thread of [`Stderr`]. There is no other writer, and no caller blocks on it. Foreign text is always escaped
//! here, even if standard error is not a terminal, because logs end up on terminals.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io;
use std::net::SocketAddr;
use std::panic::PanicHookInfo;
use std::path::Path;
use std::thread;
use std::time::Duration;

use bytesize::ByteSize;
use clap::ColorChoice;
use clap::builder::styling::{AnsiColor, Style};
use mcp_host_base::text::wrap;
use mcp_host_engine::Progress;

use super::escape;
use super::output::{is_colored, terminal_width};
use super::stderr::{Spinner, Stderr};

/// The maximum wait of a terminating server for its last lines.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Standard error.
#[derive(Clone, Debug)]
pub(super) struct Messages {
    stderr: Stderr,
    colored: bool,
}

impl Messages {
    /// This process's standard error. Also receives panic messages.
    pub(super) fn stderr(choice: ColorChoice) -> Self {
        let messages = Self { stderr: Stderr::start(), colored: is_colored(choice, &io::stderr()) };
        let panics = messages.clone();
        std::panic::set_hook(Box::new(move |panic| panics.print_line(&format_panic(panic, &Backtrace::capture()))));
        messages
    }

    /// Whether messages are colored.
    pub(super) fn is_colored(&self) -> bool {
        self.colored
    }

    /// The queue for all messages.
    pub(super) fn writer(&self) -> &Stderr {
        &self.stderr
    }

    /// Shows a spinner on a terminal until the result is dropped.
    pub(super) fn spin(&self, text: String) -> Spinner {
        self.stderr.spin(text)
    }

    /// The progress of compilations: a spinner for each component.
    pub(super) fn compilation_progress(&self) -> Progress {
        let messages = self.clone();
        Progress::new(move |file: &Path, size| messages.compiling(file, size))
    }

    /// Shows that a component is being compiled, until the spinner is dropped.
    pub(super) fn compiling(&self, file: &Path, size: u64) -> Spinner {
        self.spin(compiling(file, size))
    }

    /// Waits until all messages are written: without a timeout for a command, with a timeout for a server.
    pub(super) fn flush(&self) {
        self.stderr.flush(if self.stderr.is_lossy() { FLUSH_TIMEOUT } else { Duration::MAX });
    }

    /// Prints the error of a command.
    pub(super) fn error(&self, message: &str) {
        self.labeled("error", AnsiColor::Red, message);
    }

    /// Prints the help for an error.
    pub(super) fn help(&self, message: &str) {
        self.labeled("help", AnsiColor::Cyan, message);
    }

    /// Prints that a result is incomplete.
    pub(super) fn warning(&self, message: &str) {
        self.labeled("warning", AnsiColor::Yellow, message);
    }

    /// Prints a note.
    pub(super) fn note(&self, message: &str) {
        self.labeled("note", AnsiColor::Green, message);
    }

    /// Prints the server's address on one line, for which programs wait. The line is not part of the log, which may be
    /// off.
    pub(super) fn listening(&self, scheme: &str, address: SocketAddr) {
        self.print_line(&format!("listening on {scheme}://{address}/mcp"));
    }

    /// Prints the address like [`listening`](Self::listening), a note and an escaped line, in one write: no line of the
    /// log can come between them.
    pub(super) fn listening_with(&self, scheme: &str, address: SocketAddr, note: &str, line: &str) {
        let style = self.colored.then(|| AnsiColor::Green.on_default().bold());
        let note = labeled("note", style, note, self.columns());
        self.print_lines(&format!("listening on {scheme}://{address}/mcp\n{note}\n{line}\n"));
    }

    /// Prints the address of the administration listener, like [`listening`](Self::listening).
    pub(super) fn administration(&self, url: &str) {
        self.print_line(&escape::line(&format!("administration at {url}")));
    }

    /// Prints the address of the console with a one-time login.
    pub(super) fn console(&self, url: &str) {
        let again = match cfg!(unix) {
            true => format!("; `kill -USR1 {}` prints another", std::process::id()),
            false => String::new(),
        };
        self.print_line(&escape::line(&format!("console at {url} (logs in once, within 60 s{again})")));
    }

    /// Writes escaped text and a line feed.
    pub(super) fn print_line(&self, text: &str) {
        self.stderr.write(format!("{text}\n").into_bytes());
    }

    /// Writes escaped lines, each with its line feed.
    pub(super) fn print_lines(&self, lines: &str) {
        if !lines.is_empty() {
            self.stderr.write(lines.as_bytes().to_vec());
        }
    }

    /// Prints an escaped message with a label in this color.
    pub(super) fn labeled(&self, label: &str, color: AnsiColor, message: &str) {
        let style = self.colored.then(|| color.on_default().bold());
        self.print_line(&labeled(label, style, message, self.columns()));
    }

    /// The width of the terminal. `None` if standard error is not a terminal.
    pub(super) fn columns(&self) -> Option<usize> {
        terminal_width(&io::stderr()).map(usize::from)
    }
}

/// A message with its label. The first line is prose, and is wrapped; further lines are lists and snippets, which are
/// not.
fn labeled(label: &str, style: Option<Style>, message: &str, columns: Option<usize>) -> String {
    let style = style.unwrap_or_default();
    let message = escape::lines(message);
    let (prose, rest) = message.split_at_checked(message.find('\n').unwrap_or(message.len())).unwrap_or((&message, ""));
    let indent = label.len().saturating_add(": ".len());
    let prose = columns.map_or_else(|| prose.to_owned(), |columns| wrap(prose, columns, indent, indent));
    format!("{style}{label}{style:#}: {prose}{rest}")
}

/// The text of a spinner for a component of this size.
fn compiling(file: &Path, size: u64) -> String {
    let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
    format!("compiling {} ({}); this is done once", escape::line(&name), ByteSize(size))
}

/// The message of a panic, as the standard library formats it.
fn format_panic(panic: &PanicHookInfo<'_>, backtrace: &Backtrace) -> String {
    let thread = thread::current();
    let name = thread.name().unwrap_or("<unnamed>");
    let location = panic.location().map(ToString::to_string).unwrap_or_default();
    let message = panic.payload_as_str().unwrap_or("Box<dyn Any>");
    let text = format!("thread '{name}' panicked at {location}:\n{}", escape::lines(message));
    match backtrace.status() {
        BacktraceStatus::Captured => format!("{text}\nstack backtrace:\n{backtrace}"),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_a_provider_does_not_drive_the_terminal() {
        assert_eq!(labeled("error", None, "no \u{1b}[2J", None), r"error: no \u{1b}[2J");
    }

    #[test]
    fn on_a_terminal_prose_is_wrapped_below_itself_and_what_follows_is_not() {
        let message = "one two three:\n  [dev] and build";
        assert_eq!(labeled("help", None, message, Some(16)), "help: one two\n      three:\n  [dev] and build");
        assert_eq!(labeled("help", None, message, None), format!("help: {message}"));
    }

    #[test]
    fn only_the_label_is_coloured() {
        let styled = labeled("error", Some(AnsiColor::Red.on_default()), "no", Some(80));
        assert_eq!(styled, "\u{1b}[31merror\u{1b}[0m: no");
    }

    #[test]
    fn a_spinner_says_what_takes_so_long_and_that_it_will_not_again() {
        let shown = compiling(Path::new("/plugins/git.wasm"), 3 << 20);
        assert_eq!(shown, "compiling git.wasm (3.0 MiB); this is done once");
    }
}
