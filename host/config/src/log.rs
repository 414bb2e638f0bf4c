//! The log of the command `serve`: `[log]`.
//!
//! A filter has a level for all targets, and levels for single targets, separated by commas:
//! `warn,mcp_host::guest=debug`.

use std::fmt;
use std::str::FromStr;

use super::declare::{from_text, named_enum, table};
use super::diagnostic::{Suggest, quote};
use super::reader::Schema;

/// The maximum number of levels of a filter.
const MAX_DIRECTIVES: usize = 64;
/// The maximum length of a filter, in bytes.
const MAX_LEN: usize = 4096;

/// The levels.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

table! {
    /// The log: `[log]`.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Log as "a table", such as "{ format = \"json\" }" {
        /// The format of the log of `serve`: `text` for people, or `json`, one object per line. The option
        /// `--log-format` takes precedence. `text` unless set; if standard error is the journal of systemd, fields of
        /// the journal.
        pub format: Option<LogFormat>,
        /// The filter of the log of `serve`. The option `--log` takes precedence, then the variable `MCP_HOST_LOG`.
        /// `info` unless set.
        pub filter: Option<LogFilter>,
    }
}

named_enum! {
    /// The format of the log.
    pub enum LogFormat as "`text` or `json`", such as "\"json\"" {
        /// Lines for people.
        Text = "text",
        /// A JSON object per line.
        Json = "json",
    }
}

/// The filter of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFilter(String);

/// The reason why a text is not a filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LogFilterError {
    /// A part of the text is not a level.
    #[error("{} is not a level", quote(.0))]
    NotALevel(String),
    /// The filter has too many levels: each is compared with the target of each line.
    #[error("a filter has at most {MAX_DIRECTIVES} levels, and this one has {0}")]
    TooManyLevels(usize),
    /// The filter has too many bytes.
    #[error("a filter has at most {MAX_LEN} bytes, and this one has {0}")]
    TooLong(usize),
}

impl LogFilter {
    /// The text of the filter.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The targets with the names of their levels. A level with the target `None` applies to all targets.
    pub fn directives(&self) -> impl Iterator<Item = (Option<&str>, &str)> {
        directives(&self.0)
    }
}

fn directives(text: &str) -> impl Iterator<Item = (Option<&str>, &str)> {
    text.split(',').map(|directive| match directive.split_once('=') {
        Some((target, level)) => (Some(target.trim()), level.trim()),
        None => (None, directive.trim()),
    })
}

impl LogFilterError {
    /// Returns the correction.
    pub fn help(&self) -> &'static str {
        match self {
            Self::NotALevel(_) => {
                "write off, error, warn, info, debug or trace, or TARGET=LEVEL for one part, separated by commas: \
                 `info,mcp_host::guest=debug`"
            }
            Self::TooManyLevels(_) | Self::TooLong(_) => {
                "write a level for everything, and one for each part that differs: `info,mcp_host::guest=debug`"
            }
        }
    }
}

impl FromStr for LogFilter {
    type Err = LogFilterError;

    fn from_str(text: &str) -> Result<Self, LogFilterError> {
        if text.len() > MAX_LEN {
            return Err(LogFilterError::TooLong(text.len()));
        }
        let count = directives(text).count();
        if count > MAX_DIRECTIVES {
            return Err(LogFilterError::TooManyLevels(count));
        }
        let is_level = |name: &str| LEVELS.iter().any(|level| level.eq_ignore_ascii_case(name));
        match directives(text).find(|(_, level)| !is_level(level)) {
            Some((_, other)) => Err(LogFilterError::NotALevel(other.to_owned())),
            None => Ok(Self(text.to_owned())),
        }
    }
}

impl fmt::Display for LogFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Suggest for LogFilterError {
    fn suggestion(&self, _: &str) -> String {
        self.help().to_owned()
    }
}

/// A regular expression for the directives of a filter, with letters of both cases.
fn pattern() -> String {
    let any_case = |level: &&str| level.chars().map(|c| format!("[{}{c}]", c.to_ascii_uppercase())).collect::<String>();
    let level = LEVELS.iter().map(any_case).collect::<Vec<_>>().join("|");
    let directive = format!(r"([^,=]*=)?\s*({level})\s*");
    format!("^{directive}(,{directive})*$")
}

from_text!(LogFilter, "a log filter", "\"info,mcp_host::guest=debug\"", Schema::pattern(&pattern()));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_has_a_level_for_everything_and_levels_for_targets() {
        let filter: LogFilter = "WARN, mcp_host::guest=debug".parse().unwrap();
        assert_eq!(filter.directives().collect::<Vec<_>>(), [(None, "WARN"), (Some("mcp_host::guest"), "debug")]);
        for (text, wrong) in [
            ("inof", "inof"),
            ("", ""),
            ("5", "5"),
            ("warn,wasmtime=5", "5"),
            ("info,a=loud", "loud"),
            ("info,", ""),
            ("mcp_host", "mcp_host"),
        ] {
            assert_eq!(text.parse::<LogFilter>(), Err(LogFilterError::NotALevel(wrong.to_owned())), "{text}");
        }
        let targets = |count| (0..count).map(|number| format!("target{number}=info")).collect::<Vec<_>>().join(",");
        assert!(targets(64).parse::<LogFilter>().is_ok());
        assert_eq!(targets(65).parse::<LogFilter>(), Err(LogFilterError::TooManyLevels(65)));
        assert_eq!(format!("{}=info", "x".repeat(4092)).parse::<LogFilter>(), Err(LogFilterError::TooLong(4097)));
    }
}
