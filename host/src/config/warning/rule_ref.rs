//! [`RuleRef`]: a rule in a warning.

use std::fmt;

use crate::config::{Config, RuleLine};

/// A `[[rule]]` in a warning: its number, counted from 1, and its line in the config file. Its text is `rule 2 (line 14)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleRef {
    number: usize,
    line: RuleLine,
}

impl RuleRef {
    /// The rule with that index in the config.
    pub(super) fn new(config: &Config, index: usize) -> Self {
        let line = config.rules.get(index).map(|rule| rule.line).unwrap_or_default();
        Self { number: index.saturating_add(1), line }
    }

    /// Returns its number, counted from 1.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Returns its line in the config file, counted from 1; none for a rule that an application made.
    pub fn line(&self) -> Option<usize> {
        self.line.get()
    }
}

impl fmt::Display for RuleRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule {}", self.number)?;
        match self.line() {
            Some(line) => write!(f, " (line {line})"),
            None => Ok(()),
        }
    }
}
