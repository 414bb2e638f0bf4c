//! What is wrong with a config, and how it is shown.
//!
//! A [`ConfigError`] carries *all* [`Diagnostic`]s of one file, in the order of the file. Each says what is wrong, where, and
//! what to write instead; [`ConfigError::render`] draws them with the offending text underlined. Text from the file is
//! stripped of control characters on its way to a terminal.
//!
//! Bounded: [`MAX_DIAGNOSTICS`] problems are kept, the others counted. A line that has a problem is shown as it stands in the
//! file, but nothing that was read from a variable or from another file ever is.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet, normalize_untrusted_str};

use super::Config;
pub(super) use crate::quote::{quote, truncated};

/// How many problems one error shows. Whoever has more has made one mistake many times.
const MAX_DIAGNOSTICS: usize = 100;

/// How an error is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RenderStyle {
    /// Text only: for logs and files.
    #[default]
    Plain,
    /// With ANSI colours: for terminals.
    Ansi,
}

/// A place in the file, both numbers counted from 1 and in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// One thing that is wrong with a config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    message: String,
    help: String,
    primary: Option<Label>,
    secondary: Option<Label>,
    shows_source: bool,
    is_filesystem: bool,
    position: Option<Position>,
}

/// A piece of the file that a problem points at.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Label {
    span: Range<usize>,
    text: Option<String>,
}

impl Diagnostic {
    /// A problem with the file as a whole. `message` says what is wrong, `help` what to write instead.
    pub(super) fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        let (message, help) = (message.into(), help.into());
        Self { message, help, primary: None, secondary: None, shows_source: true, is_filesystem: false, position: None }
    }

    /// Points at the piece of the file that is wrong, in bytes.
    pub(super) fn at(mut self, span: Range<usize>) -> Self {
        self.primary = Some(Label { span, text: None });
        self
    }

    /// Writes something under that piece.
    pub(super) fn label(mut self, label: impl Into<String>) -> Self {
        self.primary = self.primary.map(|mark| Label { text: Some(label.into()), ..mark });
        self
    }

    /// Points at a second piece as well, the one that the first is at odds with.
    pub(super) fn secondary(mut self, span: Range<usize>, label: impl Into<String>) -> Self {
        self.secondary = Some(Label { span, text: Some(label.into()) });
        self
    }

    /// Leaves out the line of the file, because it holds a secret.
    pub(super) fn redacted(self) -> Self {
        Self { shows_source: false, ..self }
    }

    /// Says that it is not the file that is wrong, but what a plugin needs on the disk.
    pub(super) fn filesystem(self) -> Self {
        Self { is_filesystem: true, ..self }
    }

    /// What is wrong.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What to write instead.
    pub fn help(&self) -> &str {
        &self.help
    }

    /// Where it is; nowhere when it is about the file as a whole.
    pub fn position(&self) -> Option<Position> {
        self.position
    }

    fn start(&self) -> usize {
        self.primary.as_ref().map_or(usize::MAX, |mark| mark.span.start)
    }
}

/// Problems as they are found: the first [`MAX_DIAGNOSTICS`], and how many more there were.
#[derive(Debug, Default)]
pub(super) struct Diagnostics {
    shown: Vec<Diagnostic>,
    omitted: usize,
    /// Whether one of all is about more than the disk.
    has_config_error: bool,
}

impl Diagnostics {
    pub(super) fn push(&mut self, problem: Diagnostic) {
        self.has_config_error |= !problem.is_filesystem;
        if self.shown.len() < MAX_DIAGNOSTICS {
            self.shown.push(problem);
        } else {
            self.omitted = self.omitted.saturating_add(1);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.shown.is_empty()
    }

    /// Whether all are about the disk.
    pub(super) fn are_all_filesystem(&self) -> bool {
        !self.has_config_error
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(problem: Diagnostic) -> Self {
        Self { has_config_error: !problem.is_filesystem, shown: vec![problem], omitted: 0 }
    }
}

/// A config that cannot be used, with everything that is wrong with it.
///
/// Its `Display` and its `Debug` are [`render`](Self::render) in the plain look.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigError {
    file: PathBuf,
    text: String,
    diagnostics: Vec<Diagnostic>,
    omitted: usize,
    files: BTreeSet<PathBuf>,
    partial_config: Option<Box<Config>>,
}

impl ConfigError {
    /// Puts the problems into the order of the file.
    pub(super) fn new(file: &Path, text: &str, problems: impl Into<Diagnostics>) -> Self {
        let Diagnostics { shown: mut problems, omitted: left_out, .. } = problems.into();
        for problem in &mut problems {
            for mark in problem.primary.iter_mut().chain(&mut problem.secondary) {
                mark.span = clamp_span(text, &mark.span);
            }
            problem.position = problem.primary.as_ref().map(|mark| position_at(text, mark.span.start));
        }
        problems.sort_by_key(Diagnostic::start);
        Self {
            file: file.to_owned(),
            text: text.to_owned(),
            diagnostics: problems,
            omitted: left_out,
            files: BTreeSet::new(),
            partial_config: None,
        }
    }

    /// The same, with the files that the config depends on.
    pub(super) fn with_files(self, files: BTreeSet<PathBuf>) -> Self {
        Self { files, ..self }
    }

    /// The same, with what can be used of the config all the same.
    pub(super) fn with_partial_config(self, rest: Option<Config>) -> Self {
        Self { partial_config: rest.map(Box::new), ..self }
    }

    /// The file as it was named.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The files that it names, as far as it could be read, and the directories to grant that are not there: another try makes
    /// sense when one of them has changed.
    pub fn files(&self) -> &BTreeSet<PathBuf> {
        &self.files
    }

    /// The config, if all that is wrong is that files or directories which its plugins need are not there, or are of another
    /// kind. Its rules and settings are those of the file, and can be used
    /// ([`Host::reload_settings`](crate::host::Host::reload_settings)). Its plugins cannot: they lack what was not found.
    pub fn partial_config(&self) -> Option<&Config> {
        self.partial_config.as_deref()
    }

    /// What is wrong with it, in the order of the file. Never empty.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// Draws all problems, each with its line and what to write instead. Several lines, the last without a line break.
    pub fn render(&self, look: RenderStyle) -> String {
        let renderer = match look {
            RenderStyle::Plain => Renderer::plain(),
            RenderStyle::Ansi => Renderer::styled(),
        };
        let file = normalize_untrusted_str(&self.file.display().to_string());
        let mut drawn: Vec<String> =
            self.diagnostics.iter().map(|problem| renderer.render(&[self.group(problem, &file)])).collect();
        let total = self.diagnostics.len().saturating_add(self.omitted);
        if self.omitted > 0 {
            drawn.push(format!("{file}: {total} problems, of which the first {} are shown", self.diagnostics.len()));
        } else if total > 1 {
            drawn.push(format!("{file}: {total} problems"));
        }
        drawn.join("\n\n")
    }

    fn group<'a>(&'a self, problem: &'a Diagnostic, file: &'a str) -> Group<'a> {
        let title = Level::ERROR.primary_title(problem.message.as_str());
        let group =
            match (&problem.primary, problem.position) {
                (None, _) | (_, None) => title.element(Origin::path(file)),
                (_, Some(Position { line, column })) if !problem.shows_source => {
                    title.element(Origin::path(file).line(line).char_column(column))
                }
                (Some(mark), _) => title.element(
                    Snippet::source(self.text.as_str())
                        .path(file)
                        .annotation(AnnotationKind::Primary.span(mark.span.clone()).label(mark.text.as_deref()))
                        .annotations(problem.secondary.iter().map(|beside| {
                            AnnotationKind::Context.span(beside.span.clone()).label(beside.text.as_deref())
                        })),
                ),
            };
        group.element(Level::HELP.message(normalize_untrusted_str(&problem.help)))
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(RenderStyle::Plain))
    }
}

impl fmt::Debug for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for ConfigError {}

/// An error about a value that knows what to write instead.
pub(super) trait Suggest: std::error::Error {
    /// What to write instead. `key` is the key that the value belongs to.
    fn suggestion(&self, key: &str) -> String;
}

/// The span, moved to character boundaries of the text.
fn clamp_span(text: &str, span: &Range<usize>) -> Range<usize> {
    let start = text.floor_char_boundary(span.start);
    start..text.ceil_char_boundary(span.end).max(start)
}

fn position_at(text: &str, at: usize) -> Position {
    let before = text.get(..at).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline.saturating_add(1));
    let column = before.get(line_start..).unwrap_or_default().chars().count().saturating_add(1);
    Position { line: before.matches('\n').count().saturating_add(1), column }
}
