//! Standard error: whatever is not a result.
//!
//! Errors, warnings, notes, the log, panics and progress all go through one [`Messages`], and from there through the queue and
//! the thread of [`Stderr`]: nobody else writes there, and nobody waits for it. Foreign text is escaped here, whatever standard
//! error is: logs are read on terminals in the end.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io;
use std::net::SocketAddr;
use std::panic::PanicHookInfo;
use std::thread;
use std::time::Duration;

use clap::builder::styling::{AnsiColor, Style};

use super::color::ColorChoice;
use super::escape;
use super::stderr::{Spinner, Stderr};

/// How long the end of a server waits for its last lines to be written.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Standard error.
#[derive(Clone, Debug)]
pub(super) struct Messages {
    stderr: Stderr,
    colored: bool,
}

impl Messages {
    /// This process's standard error. Panics are told there as well.
    pub(super) fn stderr(color: ColorChoice) -> Self {
        let messages = Self { stderr: Stderr::start(), colored: color.use_color(&io::stderr()) };
        let panics = messages.clone();
        std::panic::set_hook(Box::new(move |panic| panics.print_line(&format_panic(panic, &Backtrace::capture()))));
        messages
    }

    /// Whether messages are coloured.
    pub(super) fn is_colored(&self) -> bool {
        self.colored
    }

    /// Where they are written.
    pub(super) fn writer(&self) -> &Stderr {
        &self.stderr
    }

    /// Shows that something is under way, on a terminal, until the result is dropped.
    pub(super) fn spin(&self, text: String) -> Spinner {
        self.stderr.spin(text)
    }

    /// Waits until everything so far is written: a command as long as that takes, a server not for long.
    pub(super) fn flush(&self) {
        self.stderr.flush(if self.stderr.is_lossy() { FLUSH_TIMEOUT } else { Duration::MAX });
    }

    /// Says why the command failed.
    pub(super) fn error(&self, message: &str) {
        self.labeled("error", AnsiColor::Red, message);
    }

    /// Says what to do about it.
    pub(super) fn help(&self, message: &str) {
        self.labeled("help", AnsiColor::Cyan, message);
    }

    /// Says that a result is not all that it could be.
    pub(super) fn warning(&self, message: &str) {
        self.labeled("warning", AnsiColor::Yellow, message);
    }

    /// Says what is good to know.
    pub(super) fn note(&self, message: &str) {
        self.labeled("note", AnsiColor::Green, message);
    }

    /// Says where the server is, on one line that programs wait for. It is no part of the log, which may be off.
    pub(super) fn listening(&self, scheme: &str, address: SocketAddr) {
        self.print_line(&format!("listening on {scheme}://{address}/mcp"));
    }

    /// Writes text that is fit to be seen, and a line feed.
    pub(super) fn print_line(&self, text: &str) {
        self.stderr.write(format!("{text}\n").into_bytes());
    }

    fn labeled(&self, label: &str, color: AnsiColor, message: &str) {
        self.print_line(&labeled(label, self.colored.then(|| color.on_default().bold()), message));
    }
}

fn labeled(label: &str, style: Option<Style>, message: &str) -> String {
    let style = style.unwrap_or_default();
    format!("{style}{label}{style:#}: {}", escape::lines(message))
}

/// What is said of a panic, as Rust says it.
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
        assert_eq!(labeled("error", None, "no \u{1b}[2J"), r"error: no \u{1b}[2J");
    }

    #[test]
    fn only_the_label_is_coloured() {
        let styled = labeled("error", Some(AnsiColor::Red.on_default()), "no");
        assert_eq!(styled, "\u{1b}[31merror\u{1b}[0m: no");
    }
}
