//! `man`: manual pages, one for the program and one for each command.
//!
//! The notes and examples of a command's `--help` become sections of its page; examples are not filled.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Command;
use clap::builder::Resettable;
use clap_mangen::Man;
use roff::{Roff, roman};

use super::context::Context;
use super::error::CliError;

const EXAMPLES: &str = "\
Examples:
  mcp-host man ~/.local/share/man/man1     then `man mcp-host` and `man mcp-host-serve`";

/// Write the manual pages of this program and its commands
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The directory to write them to: `mcp-host.1`, `mcp-host-serve.1` and so on; it is made if it is missing
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

impl Args {
    pub(super) fn run(self, command: Command, context: &Context) -> Result<(), CliError> {
        let pages = write(command, &self.directory)
            .with_context(|| format!("cannot write manual pages to {}", self.directory.display()))?;
        context.messages.note(&format!("wrote {pages} manual pages to {}", self.directory.display()));
        Ok(())
    }
}

/// Writes the pages of a program, and returns their number.
fn write(program: Command, directory: &Path) -> io::Result<usize> {
    fs::create_dir_all(directory)?;
    let mut program = program.disable_help_subcommand(true);
    program.build();
    let mut pages = 0_usize;
    let mut commands = vec![program];
    while let Some(command) = commands.pop() {
        commands.extend(command.get_subcommands().filter(|command| !command.is_hide_set()).cloned());
        let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
        fs::write(directory.join(format!("{name}.1")), page(command)?)?;
        pages = pages.saturating_add(1);
    }
    Ok(pages)
}

fn page(command: Command) -> io::Result<Vec<u8>> {
    let notes = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let mut page = Vec::new();
    let version = command.get_version().map(str::to_owned).unwrap_or_else(|| env!("CARGO_PKG_VERSION").to_owned());
    Man::new(command.after_help(Resettable::Reset)).source(format!("mcp-host {version}")).render(&mut page)?;
    sections(&notes).to_writer(&mut page)?;
    Ok(page)
}

/// The sections of a text of `--help`. `Examples:` and `Exit codes:` begin sections of their own. Indented lines are not filled.
fn sections(notes: &str) -> Roff {
    let mut roff = Roff::new();
    let mut is_heading_wanted = true;
    let mut is_filled = true;
    for line in notes.lines() {
        if line.starts_with(' ') == is_filled {
            roff.control(if is_filled { "nf" } else { "fi" }, []);
            is_filled = !is_filled;
        }
        if line == "Examples:" {
            roff.control("SH", ["EXAMPLES"]);
        } else if let Some(codes) = line.strip_prefix("Exit codes: ") {
            roff.control("SH", ["EXIT STATUS"]).text([roman(codes)]);
        } else if line.is_empty() {
            roff.control("PP", []);
        } else {
            if is_heading_wanted {
                roff.control("SH", ["NOTES"]);
            }
            roff.text([roman(line)]);
        }
        is_heading_wanted = false;
    }
    roff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_exit_codes_and_examples_are_sections_and_examples_keep_their_lines() {
        let notes = "It asks.\n\nExit codes: 0 yes, 1 no.\n\nExamples:\n  a -b     first\n  c        second\n\nMore.";
        let page = sections(notes).to_roff();
        let lines: Vec<_> = page.lines().collect();
        let expected = [
            ".SH NOTES",
            "It asks.",
            ".PP",
            ".SH \"EXIT STATUS\"",
            "0 yes, 1 no.",
            ".PP",
            ".SH EXAMPLES",
            ".nf",
            "  a \\-b     first",
            "  c        second",
            ".fi",
            ".PP",
            "More.",
        ];
        assert_eq!(lines, expected);
    }
}
