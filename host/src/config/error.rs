//! What is wrong with a config, and how it is shown.
//!
//! A [`ConfigError`] carries *all* [`Problem`]s of one file, in the order of the file. Each says what is wrong, where, and
//! what to write instead; [`ConfigError::render`] draws them with the offending text underlined. Text from the file is
//! stripped of control characters on its way to a terminal.
//!
//! Bounded: [`MOST_PROBLEMS`] problems are kept, the others counted. A line that has a problem is shown as it stands in the
//! file, but nothing that was read from a variable or from another file ever is.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet, normalize_untrusted_str};

use super::Config;

/// How many problems one error shows. Whoever has more has made one mistake many times.
const MOST_PROBLEMS: usize = 100;

/// How many characters of a value a message repeats.
const MOST_QUOTED: usize = 60;

/// How an error is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Look {
    /// Text only: for logs and files.
    #[default]
    Plain,
    /// With ANSI colours: for terminals.
    Coloured,
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
pub struct Problem {
    message: String,
    help: String,
    mark: Option<Mark>,
    beside: Option<Mark>,
    is_seen: bool,
    is_of_disk: bool,
    position: Option<Position>,
}

/// A piece of the file that a problem points at.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mark {
    span: Range<usize>,
    label: Option<String>,
}

impl Problem {
    /// A problem with the file as a whole. `message` says what is wrong, `help` what to write instead.
    pub(super) fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        let (message, help) = (message.into(), help.into());
        Self { message, help, mark: None, beside: None, is_seen: true, is_of_disk: false, position: None }
    }

    /// Points at the piece of the file that is wrong, in bytes.
    pub(super) fn at(mut self, span: Range<usize>) -> Self {
        self.mark = Some(Mark { span, label: None });
        self
    }

    /// Writes something under that piece.
    pub(super) fn label(mut self, label: impl Into<String>) -> Self {
        self.mark = self.mark.map(|mark| Mark { label: Some(label.into()), ..mark });
        self
    }

    /// Points at a second piece as well, the one that the first is at odds with.
    pub(super) fn beside(mut self, span: Range<usize>, label: impl Into<String>) -> Self {
        self.beside = Some(Mark { span, label: Some(label.into()) });
        self
    }

    /// Leaves out the line of the file, because it holds a secret.
    pub(super) fn unseen(self) -> Self {
        Self { is_seen: false, ..self }
    }

    /// Says that it is not the file that is wrong, but what a plugin needs on the disk.
    pub(super) fn of_disk(self) -> Self {
        Self { is_of_disk: true, ..self }
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
        self.mark.as_ref().map_or(usize::MAX, |mark| mark.span.start)
    }
}

/// Problems as they are found: the first [`MOST_PROBLEMS`], and how many more there were.
#[derive(Debug, Default)]
pub(super) struct Problems {
    kept: Vec<Problem>,
    left_out: usize,
    /// Whether one of all is about more than the disk.
    is_mistaken: bool,
}

impl Problems {
    pub(super) fn push(&mut self, problem: Problem) {
        self.is_mistaken |= !problem.is_of_disk;
        if self.kept.len() < MOST_PROBLEMS {
            self.kept.push(problem);
        } else {
            self.left_out = self.left_out.saturating_add(1);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Whether all are about the disk.
    pub(super) fn are_of_disk(&self) -> bool {
        !self.is_mistaken
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self { is_mistaken: !problem.is_of_disk, kept: vec![problem], left_out: 0 }
    }
}

/// A config that cannot be used, with everything that is wrong with it.
///
/// Its `Display` and its `Debug` are [`render`](Self::render) in the plain look.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigError {
    file: PathBuf,
    text: String,
    problems: Vec<Problem>,
    left_out: usize,
    files: BTreeSet<PathBuf>,
    rest: Option<Box<Config>>,
}

impl ConfigError {
    /// Puts the problems into the order of the file.
    pub(super) fn new(file: &Path, text: &str, problems: impl Into<Problems>) -> Self {
        let Problems { kept: mut problems, left_out, .. } = problems.into();
        for problem in &mut problems {
            for mark in problem.mark.iter_mut().chain(&mut problem.beside) {
                mark.span = within(text, &mark.span);
            }
            problem.position = problem.mark.as_ref().map(|mark| position(text, mark.span.start));
        }
        problems.sort_by_key(Problem::start);
        Self { file: file.to_owned(), text: text.to_owned(), problems, left_out, files: BTreeSet::new(), rest: None }
    }

    /// The same, with the files that the config depends on.
    pub(super) fn with_files(self, files: BTreeSet<PathBuf>) -> Self {
        Self { files, ..self }
    }

    /// The same, with what can be used of the config all the same.
    pub(super) fn with_rest(self, rest: Option<Config>) -> Self {
        Self { rest: rest.map(Box::new), ..self }
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
    pub fn rest(&self) -> Option<&Config> {
        self.rest.as_deref()
    }

    /// What is wrong with it, in the order of the file. Never empty.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Draws all problems, each with its line and what to write instead. Several lines, the last without a line break.
    pub fn render(&self, look: Look) -> String {
        let renderer = match look {
            Look::Plain => Renderer::plain(),
            Look::Coloured => Renderer::styled(),
        };
        let file = normalize_untrusted_str(&self.file.display().to_string());
        let mut drawn: Vec<String> =
            self.problems.iter().map(|problem| renderer.render(&[self.group(problem, &file)])).collect();
        let total = self.problems.len().saturating_add(self.left_out);
        if self.left_out > 0 {
            drawn.push(format!("{file}: {total} problems, of which the first {} are shown", self.problems.len()));
        } else if total > 1 {
            drawn.push(format!("{file}: {total} problems"));
        }
        drawn.join("\n\n")
    }

    fn group<'a>(&'a self, problem: &'a Problem, file: &'a str) -> Group<'a> {
        let title = Level::ERROR.primary_title(problem.message.as_str());
        let group = match (&problem.mark, problem.position) {
            (None, _) | (_, None) => title.element(Origin::path(file)),
            (_, Some(Position { line, column })) if !problem.is_seen => {
                title.element(Origin::path(file).line(line).char_column(column))
            }
            (Some(mark), _) => title.element(
                Snippet::source(self.text.as_str())
                    .path(file)
                    .annotation(AnnotationKind::Primary.span(mark.span.clone()).label(mark.label.as_deref()))
                    .annotations(problem.beside.iter().map(|beside| {
                        AnnotationKind::Context.span(beside.span.clone()).label(beside.label.as_deref())
                    })),
            ),
        };
        group.element(Level::HELP.message(normalize_untrusted_str(&problem.help)))
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(Look::Plain))
    }
}

impl fmt::Debug for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for ConfigError {}

/// An error about a value that knows what to write instead.
pub(super) trait Advice: std::error::Error {
    /// What to write instead. `key` is the key that the value belongs to.
    fn advice(&self, key: &str) -> String;
}

/// A piece of the file for a message: in backticks, on one line, and not too long.
pub(super) fn quote(text: &str) -> String {
    format!("`{}`", short(text))
}

/// A piece of the file for a message: on one line, and not too long.
pub(super) fn short(text: &str) -> String {
    let mut short: String = text.lines().next().unwrap_or_default().chars().take(MOST_QUOTED).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// The span, moved to character boundaries of the text.
fn within(text: &str, span: &Range<usize>) -> Range<usize> {
    let start = text.floor_char_boundary(span.start);
    start..text.ceil_char_boundary(span.end).max(start)
}

fn position(text: &str, at: usize) -> Position {
    let before = text.get(..at).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline.saturating_add(1));
    let column = before.get(line_start..).unwrap_or_default().chars().count().saturating_add(1);
    Position { line: before.matches('\n').count().saturating_add(1), column }
}
