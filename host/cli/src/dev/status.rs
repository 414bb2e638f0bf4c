//! The status line: the current activity and the keys, or the prompt while the user chooses a resource.

use std::time::Instant;

use clap::builder::styling::{AnsiColor, Style};

use super::line_editor::LineEditor;
use super::{BAD, GOOD, NEUTRAL};
use crate::escape;

/// The keys and their actions.
pub(super) const KEYS: [(char, &str); 6] =
    [('r', "read"), ('t', "test"), ('l', "list"), ('b', "build"), ('?', "help"), ('q', "quit")];

/// The maximum number of characters of the prompt's text; the end is shown.
const MAX_TYPED: usize = 60;

/// The current activity.
#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    /// A build is running, since this time.
    Building(Instant),
    /// The host is compiling a component since this time, and serves the previous one.
    Compiling(Instant),
    /// The last build failed.
    BuildFailed,
    /// A conformance test is running.
    Testing,
    /// The provider prepares its data: the progress in per cent, if the provider reports it.
    Preparing(Option<u8>),
    /// No activity.
    Ready,
}

/// The status line of a terminal.
pub(super) fn status_line(state: State, listing: &str, is_colored: bool) -> String {
    let (color, state) = match state {
        State::Building(since) => (NEUTRAL, format!("building, {} s", since.elapsed().as_secs())),
        State::Compiling(since) => (NEUTRAL, format!("compiling, {} s", since.elapsed().as_secs())),
        State::BuildFailed => (BAD, "build failed".to_owned()),
        State::Testing => (NEUTRAL, "testing".to_owned()),
        State::Preparing(None) => (NEUTRAL, "preparing".to_owned()),
        State::Preparing(Some(percent)) => (NEUTRAL, format!("preparing, {percent} %")),
        State::Ready => (GOOD, "ready".to_owned()),
    };
    let keys =
        KEYS.map(|(key, action)| format!("{} {action}", styled(&key.to_string(), Style::new().bold(), is_colored)));
    format!("{} │ {} │ {listing}", styled(&state, color.on_default().bold(), is_colored), keys.join(" · "))
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
    use std::time::Duration;

    use crossterm::event::KeyCode;

    use super::*;

    #[test]
    fn the_status_comes_first_because_a_narrow_terminal_cuts_the_rest() {
        let line = |state| status_line(state, "3 resources, 1 template", false);
        assert_eq!(
            line(State::Ready),
            "ready │ r read · t test · l list · b build · ? help · q quit │ 3 resources, 1 template"
        );
        assert!(line(State::BuildFailed).starts_with("build failed │"));
        let long_ago = Instant::now().checked_sub(Duration::from_secs(75)).unwrap();
        assert!(line(State::Building(long_ago)).starts_with("building, 75 s │"));
        assert!(line(State::Compiling(long_ago)).starts_with("compiling, 75 s │"));
        assert!(line(State::Preparing(Some(7))).starts_with("preparing, 7 % │"));
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
