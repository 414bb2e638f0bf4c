//! One problem of a config: the message, the position, and the correction.
//!
//! Bounded: the first [`MAX_DIAGNOSTICS`] problems of a file are kept; the others are only counted.

use std::ops::Range;

pub(super) use mcp_host_base::text::{quote, truncated};

/// The maximum number of problems in one error.
const MAX_DIAGNOSTICS: usize = 100;

/// A position in the file; line and column are counted from 1, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// One problem of a config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    pub(super) message: String,
    pub(super) help: String,
    pub(super) primary: Option<Label>,
    pub(super) secondary: Option<Label>,
    pub(super) shows_source: bool,
    cause: Cause,
    pub(super) position: Option<Position>,
}

/// The cause of a problem. Later variants leave less of the config usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cause {
    /// A file, a directory or a variable of a plugin or of a registry is missing on this machine, or its value is
    /// unusable.
    MachineForPlugin,
    /// The same for an item of the server itself that does not affect access decisions: a certificate, the key of a
    /// collector.
    MachineForServer,
    /// The same for an item of a principal or an issuer: a token, keys.
    MachineForPrincipals,
    /// The text of the config.
    Config,
}

impl Cause {
    /// The cause of a missing or unusable item of the machine, for the key at this path of the config.
    pub(super) fn of_machine_at(path: &str) -> Self {
        match path.split('.').next().unwrap_or_default() {
            "plugin" | "registry" | "trust" | "upstream" => Self::MachineForPlugin,
            "principal" | "issuer" => Self::MachineForPrincipals,
            _ => Self::MachineForServer,
        }
    }
}

/// A span of the file to which a problem refers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Label {
    pub(super) span: Range<usize>,
    pub(super) text: Option<String>,
}

impl Diagnostic {
    /// A problem of the file as a whole. `message` is the problem, `help` the correction.
    pub(super) fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        let (message, help) = (message.into(), help.into());
        Self { message, help, primary: None, secondary: None, shows_source: true, cause: Cause::Config, position: None }
    }

    /// Sets the span of the problem, in bytes.
    pub(super) fn at(mut self, span: Range<usize>) -> Self {
        self.primary = Some(Label { span, text: None });
        self
    }

    /// Labels this span.
    pub(super) fn label(mut self, label: impl Into<String>) -> Self {
        self.primary = self.primary.map(|mark| Label { text: Some(label.into()), ..mark });
        self
    }

    /// Adds a second span that conflicts with the first.
    pub(super) fn secondary(mut self, span: Range<usize>, label: impl Into<String>) -> Self {
        self.secondary = Some(Label { span, text: Some(label.into()) });
        self
    }

    /// Omits the source line, because it contains a secret.
    pub(super) fn redacted(self) -> Self {
        Self { shows_source: false, ..self }
    }

    /// Sets the cause. The default is the config.
    pub(super) fn caused_by(self, cause: Cause) -> Self {
        Self { cause, ..self }
    }

    /// Returns the problem.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the correction.
    pub fn help(&self) -> &str {
        &self.help
    }

    /// Returns the position; `None` if the problem concerns the file as a whole.
    pub fn position(&self) -> Option<Position> {
        self.position
    }

    pub(super) fn start(&self) -> usize {
        self.primary.as_ref().map_or(usize::MAX, |mark| mark.span.start)
    }
}

/// Collected problems: the first [`MAX_DIAGNOSTICS`], and the number of further ones.
#[derive(Debug, Default)]
pub(super) struct Diagnostics {
    pub(super) shown: Vec<Diagnostic>,
    /// The number of further problems.
    pub(super) omitted: usize,
    /// The last cause among all problems, kept or not.
    cause: Option<Cause>,
}

impl Diagnostics {
    pub(super) fn push(&mut self, problem: Diagnostic) {
        self.cause = self.cause.max(Some(problem.cause));
        if self.shown.len() < MAX_DIAGNOSTICS {
            self.shown.push(problem);
        } else {
            self.omitted = self.omitted.saturating_add(1);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.shown.is_empty()
    }

    /// Returns the last cause among all problems; `None` without a problem.
    pub(super) fn cause(&self) -> Option<Cause> {
        self.cause
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(problem: Diagnostic) -> Self {
        Self { cause: Some(problem.cause), shown: vec![problem], omitted: 0 }
    }
}

/// An error of a value, with a correction.
pub(super) trait Suggest: std::error::Error {
    /// Returns the correction. `key` is the key of the value.
    fn suggestion(&self, key: &str) -> String;
}
