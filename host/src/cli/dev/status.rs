//! The status line: what is going on, and the keys; while a resource is being chosen, the prompt.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use clap::builder::styling::{AnsiColor, Style};

use super::line_editor::LineEditor;
use super::{BAD, GOOD, NEUTRAL, format_elapsed};
use crate::cli::escape;

/// The keys, with what they do.
pub(super) const KEYS: [(char, &str); 6] =
    [('r', "read"), ('t', "test"), ('l', "list"), ('b', "build"), ('?', "help"), ('q', "quit")];

/// The characters of the prompt's text that are shown: its end.
const MAX_TYPED: usize = 60;

/// What the last build came to.
#[derive(Clone, Copy, Debug)]
pub(super) enum BuildState {
    /// One is running, since then.
    Running(Instant),
    /// It succeeded.
    Succeeded,
    /// It failed.
    Failed,
}

/// The status line of a terminal.
pub(super) fn status_line(build: BuildState, is_testing: bool, listing: &str, url: &str, is_colored: bool) -> String {
    let (color, state) = match build {
        BuildState::Running(since) => {
            let seconds = Duration::from_secs(since.elapsed().as_secs());
            (
                NEUTRAL,
                if seconds.is_zero() {
                    "building".to_owned()
                } else {
                    format!("building, {}", format_elapsed(seconds))
                },
            )
        }
        BuildState::Failed => (BAD, "build failed".to_owned()),
        BuildState::Succeeded if is_testing => (NEUTRAL, "testing".to_owned()),
        BuildState::Succeeded => (GOOD, "ready".to_owned()),
    };
    let mut line = format!("{} │", styled(&state, color.on_default().bold(), is_colored));
    for (key, action) in KEYS {
        // Writing to a string cannot fail.
        let _ = write!(line, " {} {action}", styled(&key.to_string(), Style::new().bold(), is_colored));
    }
    let _ = write!(line, " │ {listing} at {url}");
    line
}

/// The prompt for a resource to read.
pub(super) fn prompt(editor: &LineEditor, last_read: Option<&str>, is_colored: bool) -> String {
    let label = styled("read", AnsiColor::Cyan.on_default().bold(), is_colored);
    let typed = editor.text();
    if typed.is_empty() {
        let again = last_read.map(|uri| format!(", Enter for {}", escape::line(uri))).unwrap_or_default();
        return format!("{label}: █ a number of the listing, or a URI{again}; Esc cancels");
    }
    let hidden = typed.chars().count().saturating_sub(MAX_TYPED);
    let shown: String = typed.chars().skip(hidden).collect();
    format!("{label}: {}{}█", if hidden > 0 { "…" } else { "" }, escape::line(&shown))
}

fn styled(text: &str, style: Style, is_colored: bool) -> String {
    if is_colored { format!("{style}{text}{style:#}") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use crossterm::event::KeyCode;

    use super::*;

    #[test]
    fn the_status_comes_first_because_a_narrow_terminal_cuts_the_rest() {
        let line = |build| status_line(build, false, "3 resources, 1 template", "http://127.0.0.1:1/mcp", false);
        assert_eq!(
            line(BuildState::Succeeded),
            "ready │ r read t test l list b build ? help q quit │ 3 resources, 1 template at http://127.0.0.1:1/mcp"
        );
        assert!(line(BuildState::Failed).starts_with("build failed │"));
        let long_ago = Instant::now().checked_sub(Duration::from_secs(75)).unwrap();
        assert!(line(BuildState::Running(long_ago)).starts_with("building, 1 m 15 s │"));
    }

    #[test]
    fn the_prompt_shows_the_end_of_what_is_typed() {
        let mut editor = LineEditor::default();
        assert!(prompt(&editor, Some("a:///\u{202e}"), false).contains("Enter for a:///\\u{202e};"));
        for c in "x".repeat(100).chars().chain("end".chars()) {
            editor.press(KeyCode::Char(c).into());
        }
        assert_eq!(prompt(&editor, None, false), format!("read: …{}end█", "x".repeat(57)));
    }
}
