//! Whether a stream is coloured.

use std::ffi::OsStr;
use std::io::IsTerminal;

use clap::ValueEnum;

/// When to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ColorChoice {
    /// On a terminal that has colours, unless `NO_COLOR` is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl ColorChoice {
    /// Whether to colour what goes to that stream.
    pub(super) fn use_color(self, stream: &impl IsTerminal) -> bool {
        let variable = std::env::var_os;
        self.decide(stream.is_terminal(), variable("NO_COLOR").as_deref(), variable("TERM").as_deref())
    }

    /// `NO_COLOR` counts when it is set to anything but the empty text, as its convention has it.
    fn decide(self, is_terminal: bool, no_color: Option<&OsStr>, term: Option<&OsStr>) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => {
                let is_disabled = no_color.is_some_and(|value| !value.is_empty());
                is_terminal && !is_disabled && term.is_none_or(|term| term != "dumb")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auto(is_terminal: bool, no_color: Option<&str>, term: &str) -> bool {
        ColorChoice::Auto.decide(is_terminal, no_color.map(OsStr::new), Some(OsStr::new(term)))
    }

    #[test]
    fn only_a_terminal_that_has_colours_is_coloured() {
        assert!(auto(true, None, "xterm"));
        assert!(!auto(false, None, "xterm"));
        assert!(!auto(true, None, "dumb"));
    }

    #[test]
    fn no_color_is_honoured_unless_it_is_empty() {
        assert!(!auto(true, Some("1"), "xterm"));
        assert!(auto(true, Some(""), "xterm"));
    }

    #[test]
    fn what_the_command_line_says_is_stronger_than_the_environment() {
        let no_color = Some(OsStr::new("1"));
        assert!(ColorChoice::Always.decide(false, no_color, None));
        assert!(!ColorChoice::Never.decide(true, None, None));
    }
}
