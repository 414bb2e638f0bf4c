//! Standard error: whatever is not a result.
//!
//! Errors, warnings, notes, the log and progress all go through one [`Messages`], so that a line never lands in the
//! middle of a progress bar. Bars are drawn on a terminal only. Foreign text is escaped here, whatever standard error
//! is: logs are read on terminals in the end.

use std::io::{self, Write};
use std::net::SocketAddr;

use clap::builder::styling::{AnsiColor, Style};
use indicatif::MultiProgress;
use tracing_subscriber::fmt::MakeWriter;

use super::colour::When;
use super::escape;

/// Standard error.
#[derive(Clone, Debug)]
pub(super) struct Messages {
    bars: MultiProgress,
    coloured: bool,
}

impl Messages {
    /// This process's standard error.
    pub(super) fn stderr(colour: When) -> Self {
        Self { bars: MultiProgress::new(), coloured: colour.colours(&io::stderr()) }
    }

    /// Whether messages are coloured.
    pub(super) fn is_coloured(&self) -> bool {
        self.coloured
    }

    /// Where progress is drawn.
    pub(super) fn bars(&self) -> &MultiProgress {
        &self.bars
    }

    /// Says why the command failed.
    pub(super) fn error(&self, message: &str) {
        self.labelled("error", AnsiColor::Red, message);
    }

    /// Says what to do about it.
    pub(super) fn help(&self, message: &str) {
        self.labelled("help", AnsiColor::Cyan, message);
    }

    /// Says that a result is not all that it could be.
    pub(super) fn warning(&self, message: &str) {
        self.labelled("warning", AnsiColor::Yellow, message);
    }

    /// Says what is good to know.
    pub(super) fn note(&self, message: &str) {
        self.labelled("note", AnsiColor::Green, message);
    }

    /// Says where the server is, on one line that programs wait for. It is no part of the log, which may be off.
    pub(super) fn listening(&self, scheme: &str, address: SocketAddr) {
        self.drawn(&format!("listening on {scheme}://{address}/mcp"));
    }

    /// Writes text that is fit to be seen, and a line feed.
    pub(super) fn drawn(&self, text: &str) {
        // Who cannot be told cannot be told that either.
        let _ = Stderr(self.bars.clone()).write_all(format!("{text}\n").as_bytes());
    }

    fn labelled(&self, label: &str, colour: AnsiColor, message: &str) {
        self.drawn(&labelled(label, self.coloured.then(|| colour.on_default().bold()), message));
    }
}

fn labelled(label: &str, style: Option<Style>, message: &str) -> String {
    let style = style.unwrap_or_default();
    format!("{style}{label}{style:#}: {}", escape::lines(message))
}

/// The log goes the same way.
impl<'w> MakeWriter<'w> for Messages {
    type Writer = Stderr;

    fn make_writer(&'w self) -> Stderr {
        Stderr(self.bars.clone())
    }
}

/// Standard error as a writer that takes bars away while it writes.
pub(super) struct Stderr(MultiProgress);

impl Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.suspend(|| io::stderr().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_a_provider_does_not_drive_the_terminal() {
        assert_eq!(labelled("error", None, "no \u{1b}[2J"), r"error: no \u{1b}[2J");
    }

    #[test]
    fn only_the_label_is_coloured() {
        let styled = labelled("error", Some(AnsiColor::Red.on_default()), "no");
        assert_eq!(styled, "\u{1b}[31merror\u{1b}[0m: no");
    }
}
