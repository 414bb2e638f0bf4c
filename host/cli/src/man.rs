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
use roff::{Roff, bold, roman};

use super::context::Context;
use super::error::CliError;

const EXAMPLES: &str = "\
Examples:
  mcp-host man ~/.local/share/man/man1     then `man mcp-host` and `man mcp-host-serve`";

/// Write the manual pages of this program and its commands
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The directory for the pages: `mcp-host.1`, `mcp-host-serve.1` and so on; it is created if it is missing
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

/// Groups of commands that are used together: a page refers to the other commands of its groups.
const RELATED: [&[&str]; 5] = [
    &["init", "check", "serve", "connect"],
    &["check", "explain", "doctor", "inspect"],
    &["serve", "status", "admin"],
    &["list", "read", "watch", "search", "context"],
    &["new", "dev", "test", "inspect"],
];

/// Writes the pages of a program, and returns their number.
fn write(program: Command, directory: &Path) -> io::Result<usize> {
    fs::create_dir_all(directory)?;
    let mut program = program.disable_help_subcommand(true);
    program.build();
    let mut pages = 0_usize;
    let top = page_name(&program);
    let known: Vec<_> = program.get_subcommands().filter(|command| !command.is_hide_set()).map(page_name).collect();
    let mut commands = vec![(program, None::<String>)];
    while let Some((command, parent)) = commands.pop() {
        let name = page_name(&command);
        let below: Vec<_> = command.get_subcommands().filter(|command| !command.is_hide_set()).cloned().collect();
        let related = RELATED.iter().map(|group| group.iter().map(|one| format!("{top}-{one}")).collect::<Vec<_>>());
        let related = related.filter(|group| group.contains(&name)).flatten().filter(|one| known.contains(one));
        let mut see: Vec<String> = parent.into_iter().collect();
        for page in below.iter().map(page_name).chain(related).filter(|page| *page != name) {
            if !see.contains(&page) {
                see.push(page);
            }
        }
        commands.extend(below.into_iter().map(|command| (command, Some(name.clone()))));
        fs::write(directory.join(format!("{name}.1")), page(command, &see)?)?;
        pages = pages.saturating_add(1);
    }
    Ok(pages)
}

/// The name of a command's page.
fn page_name(command: &Command) -> String {
    command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned()
}

fn page(command: Command, see: &[String]) -> io::Result<Vec<u8>> {
    let notes = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let mut page = Vec::new();
    let version = command.get_version().map(str::to_owned).unwrap_or_else(|| env!("CARGO_PKG_VERSION").to_owned());
    Man::new(command.after_help(Resettable::Reset)).source(format!("mcp-host {version}")).render(&mut page)?;
    sections(&notes).to_writer(&mut page)?;
    see_also(see).to_writer(&mut page)?;
    Ok(page)
}

/// The section with references to other pages; empty without any.
fn see_also(pages: &[String]) -> Roff {
    let mut roff = Roff::new();
    if !pages.is_empty() {
        let mut text = Vec::new();
        for (at, page) in pages.iter().enumerate() {
            text.extend((at > 0).then(|| roman(", ")));
            text.extend([bold(page.as_str()), roman("(1)")]);
        }
        roff.control("SH", ["SEE ALSO"]).text(text);
    }
    roff
}

/// The sections of the text of `--help`. `Examples:` and `Exit codes:` begin new sections. Indented lines are not
/// filled.
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
    fn a_page_names_the_pages_above_below_and_beside() {
        let directory = tempfile::tempdir().unwrap();
        let admin = Command::new("admin").subcommand(Command::new("reload")).subcommand(Command::new("log").hide(true));
        let program = Command::new("x").subcommands([admin, Command::new("status"), Command::new("man")]);
        assert_eq!(write(program, directory.path()).unwrap(), 5);
        for (page, see) in [
            ("x", Some(r"\fBx\-admin\fR(1), \fBx\-status\fR(1), \fBx\-man\fR(1)")),
            ("x-admin", Some(r"\fBx\fR(1), \fBx\-admin\-reload\fR(1), \fBx\-status\fR(1)")),
            ("x-admin-reload", Some(r"\fBx\-admin\fR(1)")),
            ("x-man", Some(r"\fBx\fR(1)")),
        ] {
            let text = fs::read_to_string(directory.path().join(format!("{page}.1"))).unwrap();
            let found = text.lines().skip_while(|line| *line != ".SH \"SEE ALSO\"").nth(1);
            assert_eq!(found, see, "{page}: {text}");
        }
    }

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
