//! Help texts, wrapped at the width of the terminal: at most [`MAX_WIDTH`] columns, and [`DEFAULT_WIDTH`] without a terminal.
//!
//! clap lays them out for that width and leaves the wrapping to us, as its own would need another crate. A line is broken in its
//! text only: what stands in front of it, such as an option, and a command without an explanation are left whole, so that they can
//! be copied.

use std::io;
use std::process::ExitCode;

use anstream::adapter::strip_str;
use anstream::stream::RawStream;
use clap::error::ErrorKind;
use clap::{ColorChoice, Command};
use rustix::termios::tcgetwinsize;

use super::color;

/// The maximum number of columns.
const MAX_WIDTH: usize = 100;
/// The number of columns without a terminal.
const DEFAULT_WIDTH: usize = 80;
/// The minimum number of columns for a text. If fewer are left beside what stands in front of it, it continues below that.
const MIN_TEXT_WIDTH: usize = 24;
/// The indentation of a text that continues below what stood in front of it.
const INDENT: usize = 10;
/// The indentation of commands and options.
const COMMAND_INDENT: usize = 2;

/// Has the help of a command and its subcommands laid out for standard output.
pub(super) fn laid_out(command: Command) -> Command {
    command.term_width(width())
}

/// Prints the help that was asked for, or why a command line is wrong. Returns the exit code.
pub(super) fn report(error: &clap::Error) -> ExitCode {
    // A reader that closes the stream early is no failure.
    let _ = match error.kind() {
        ErrorKind::DisplayHelp => print(error, io::stdout()),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => print(error, io::stderr()),
        _ => error.print(),
    };
    u8::try_from(error.exit_code()).unwrap_or(u8::MAX).into()
}

fn print(error: &clap::Error, mut stream: impl RawStream) -> io::Result<()> {
    let help = error.render();
    let text = match color::is_colored(ColorChoice::Auto, &stream) {
        true => help.ansi().to_string(),
        false => help.to_string(),
    };
    stream.write_all(wrap(&text, width()).as_bytes())?;
    stream.flush()
}

/// The number of columns for help texts on standard output.
fn width() -> usize {
    let size = tcgetwinsize(io::stdout()).ok();
    // A terminal that has no size says 0.
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(DEFAULT_WIDTH).min(MAX_WIDTH)
}

/// Wraps a help text, which may have escape sequences of colors.
fn wrap(text: &str, width: usize) -> String {
    let lines: Vec<_> = text.split('\n').map(|line| wrap_line(line, width)).collect();
    lines.join("\n")
}

fn wrap_line(line: &str, width: usize) -> String {
    let Some(start) = text_start(line).filter(|_| columns(line) > width) else { return line.to_owned() };
    let is_narrow = start.saturating_add(MIN_TEXT_WIDTH) > width;
    let hang = if is_narrow { start.min(INDENT) } else { start };
    let (mut wrapped, mut column) = (String::with_capacity(line.len()), 0_usize);
    // A line may be broken behind this column.
    let mut begin = start.saturating_sub(is_narrow.into());
    for piece in line.split_inclusive(' ') {
        let word = columns(piece.trim_end_matches(' '));
        if word > 0 && column > begin && column.saturating_add(word) > width {
            wrapped.truncate(wrapped.trim_end_matches(' ').len());
            wrapped.push('\n');
            wrapped.push_str(&" ".repeat(hang));
            (column, begin) = (hang, hang);
        }
        wrapped.push_str(piece);
        column = column.saturating_add(columns(piece));
    }
    wrapped
}

/// Returns the column at which the text of a line begins: behind the first gap of several spaces, if it has one. None if it is a
/// command or an option without a text.
fn text_start(line: &str) -> Option<usize> {
    let plain = strip_str(line).to_string();
    let unindented = plain.trim_start_matches(' ');
    let indent = columns(&plain).saturating_sub(columns(unindented));
    match unindented.split_once("  ") {
        Some((_, text)) => Some(columns(&plain).saturating_sub(columns(text.trim_start_matches(' ')))),
        None if indent == COMMAND_INDENT => None,
        None => Some(indent),
    }
}

/// The number of columns of a text without its escape sequences. A help text has no wide characters but in examples.
fn columns(text: &str) -> usize {
    strip_str(text).to_string().chars().count()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn a_text_continues_below_itself() {
        for (line, wrapped) in [
            ("Serve resources to clients over HTTP", "Serve resources to clients over\nHTTP"),
            (
                "  -o <F>  Write it to this file, and nothing to it",
                "  -o <F>  Write it to this file,\n          and nothing to it",
            ),
            ("          Write it to this file, at once", "          Write it to this file,\n          at once"),
            (
                "  mcp-host list    all of the resources that exist",
                "  mcp-host list    all of the\n          resources that exist",
            ),
            ("short", "short"),
            ("", ""),
        ] {
            assert_eq!(wrap(line, 32), wrapped);
        }
    }

    #[test]
    fn what_can_be_copied_is_not_broken() {
        for line in [
            "  mcp-host componentize build/notes.core.wasm -o plugins/notes.wasm",
            "a-word-that-is-longer-than-a-line-is",
        ] {
            assert_eq!(wrap(line, 30), line);
        }
        assert_eq!(
            wrap("  mcp-host componentize notes.core.wasm --needs needs.json    embed what it asks for", 40),
            "  mcp-host componentize notes.core.wasm --needs needs.json\n          embed what it asks for"
        );
    }

    #[test]
    fn colors_take_no_columns() {
        let line = "\u{1b}[1mServe\u{1b}[0m resources to \u{1b}[1mclients\u{1b}[0m over HTTP";
        assert_eq!(wrap(line, 36), line);
        assert_eq!(wrap(line, 31), line.replace(" HTTP", "\nHTTP"));
    }

    #[test]
    fn the_help_of_every_command_fits_the_width() {
        for width in [DEFAULT_WIDTH, MAX_WIDTH] {
            let mut command = Cli::command().term_width(width);
            command.build();
            let helps: Vec<_> = std::iter::once(command.clone())
                .chain(command.get_subcommands().cloned())
                .flat_map(|mut command| [command.render_help(), command.render_long_help()])
                .collect();
            assert!(helps.len() > 20);
            for help in helps {
                for line in wrap(&help.to_string(), width).lines() {
                    let is_whole = text_start(line).is_none_or(|start| start.saturating_add(MIN_TEXT_WIDTH) > width);
                    assert!(columns(line) <= width || is_whole, "{line}");
                }
            }
        }
    }
}
