//! Diagnostics of a config.
//!
//! A [`ConfigError`] contains *all* [`Diagnostic`]s of one file, in the order of the file. Each says what is wrong,
//! where, and what to write instead; [`ConfigError::render`] draws them with the offending text underlined. Control
//! characters of the file are removed before they reach a terminal.
//!
//! Bounded: the first [`MAX_DIAGNOSTICS`] problems are retained, the others counted. The offending line is quoted from
//! the file, unless it seems to hold a secret; values that were read from a variable or from another file are never quoted.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet, normalize_untrusted_str};

use super::Config;
use super::admin::Admin;
use super::secret_text::holds_secret;
use mcp_host_base::text::wrap;
pub(super) use mcp_host_base::text::{quote, truncated};

/// The number of problems that one error retains.
const MAX_DIAGNOSTICS: usize = 100;
/// The columns of the label before a correction, `  = help: `, after the columns of a line number.
const HELP_LABEL_WIDTH: usize = 10;

/// The style of a rendered error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RenderStyle {
    /// Plain text, for logs and files.
    #[default]
    Plain,
    /// With ANSI colors, for terminals.
    Ansi,
}

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
    message: String,
    help: String,
    primary: Option<Label>,
    secondary: Option<Label>,
    shows_source: bool,
    cause: Cause,
    position: Option<Position>,
}

/// The cause of a problem. A later one leaves less of the config usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cause {
    /// The machine lacks a file, a directory or a variable of a plugin or of the registry that it comes from, or has no usable value there.
    MachineForPlugin,
    /// The machine lacks such a thing that the server itself needs, but that decides no access: a certificate, the key of a collector.
    MachineForServer,
    /// The machine lacks such a thing of a principal or an issuer: a token, keys.
    MachineForPrincipals,
    /// The text of the config.
    Config,
}

impl Cause {
    /// The cause of a problem of the machine that a key at that path of the config has.
    pub(super) fn of_machine_at(path: &str) -> Self {
        match path.split('.').next().unwrap_or_default() {
            "plugin" | "registry" | "trust" | "upstream" => Self::MachineForPlugin,
            "principal" | "issuer" => Self::MachineForPrincipals,
            _ => Self::MachineForServer,
        }
    }
}

/// A span of the file that a problem points at.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Label {
    span: Range<usize>,
    text: Option<String>,
}

impl Diagnostic {
    /// A problem of the file as a whole. `message` says what is wrong, `help` what to write instead.
    pub(super) fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        let (message, help) = (message.into(), help.into());
        Self { message, help, primary: None, secondary: None, shows_source: true, cause: Cause::Config, position: None }
    }

    /// Points at a span of the file, in bytes.
    pub(super) fn at(mut self, span: Range<usize>) -> Self {
        self.primary = Some(Label { span, text: None });
        self
    }

    /// Labels that span.
    pub(super) fn label(mut self, label: impl Into<String>) -> Self {
        self.primary = self.primary.map(|mark| Label { text: Some(label.into()), ..mark });
        self
    }

    /// Points at a second span, which the first conflicts with.
    pub(super) fn secondary(mut self, span: Range<usize>, label: impl Into<String>) -> Self {
        self.secondary = Some(Label { span, text: Some(label.into()) });
        self
    }

    /// Omits the source line, because it contains a secret.
    pub(super) fn redacted(self) -> Self {
        Self { shows_source: false, ..self }
    }

    /// Sets the cause, which is the config unless set.
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

    /// Returns its position; `None` if it concerns the file as a whole.
    pub fn position(&self) -> Option<Position> {
        self.position
    }

    fn start(&self) -> usize {
        self.primary.as_ref().map_or(usize::MAX, |mark| mark.span.start)
    }
}

/// Collected problems: the first [`MAX_DIAGNOSTICS`], and the number of others.
#[derive(Debug, Default)]
pub(super) struct Diagnostics {
    shown: Vec<Diagnostic>,
    omitted: usize,
    /// The last of the causes of all problems, retained or not.
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

    /// Returns the last of the causes of all problems; none without a problem.
    pub(super) fn cause(&self) -> Option<Cause> {
        self.cause
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(problem: Diagnostic) -> Self {
        Self { cause: Some(problem.cause), shown: vec![problem], omitted: 0 }
    }
}

/// An invalid config, with all its problems.
///
/// `Display` and `Debug` are [`render`](Self::render) in the plain style.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigError {
    file: PathBuf,
    text: String,
    diagnostics: Vec<Diagnostic>,
    omitted: usize,
    files: BTreeSet<PathBuf>,
    /// The config without what cannot be used; none if the text cannot be parsed.
    rest: Option<Box<Config>>,
    /// Whether the machine lacks something, and the config itself has no problems.
    is_usable: bool,
    /// Whether only plugins lack something.
    is_servable: bool,
    /// Whether rules, principals and issuers lack nothing.
    decides_access: bool,
}

impl ConfigError {
    /// Sorts the problems into the order of the file.
    pub(super) fn new(file: &Path, text: &str, problems: impl Into<Diagnostics>) -> Self {
        let Diagnostics { shown: mut problems, omitted: left_out, .. } = problems.into();
        for problem in &mut problems {
            for mark in problem.primary.iter_mut().chain(&mut problem.secondary) {
                mark.span = clamp_span(text, &mark.span);
            }
            problem.position = problem.primary.as_ref().map(|mark| position_at(text, mark.span.start));
            let mut marks = problem.primary.iter().chain(&problem.secondary);
            problem.shows_source &= !marks.any(|mark| holds_secret(lines_around(text, &mark.span)));
        }
        problems.sort_by_key(Diagnostic::start);
        Self {
            file: file.to_owned(),
            text: text.to_owned(),
            diagnostics: problems,
            omitted: left_out,
            files: BTreeSet::new(),
            rest: None,
            is_usable: false,
            is_servable: false,
            decides_access: false,
        }
    }

    /// Adds the files that the config depends on.
    pub(super) fn with_files(self, files: BTreeSet<PathBuf>) -> Self {
        Self { files, ..self }
    }

    /// Adds the config without what has problems, as far as their causes leave it usable.
    pub(super) fn with_rest(self, rest: Config, cause: Option<Cause>) -> Self {
        let is_usable = cause != Some(Cause::Config);
        let is_servable = cause <= Some(Cause::MachineForPlugin);
        let decides_access = cause <= Some(Cause::MachineForServer);
        Self { rest: Some(Box::new(rest)), is_usable, is_servable, decides_access, ..self }
    }

    /// Returns the administration listener of the config, unless that is a part of what cannot be used: for a client of a server that
    /// runs with an earlier version of the file.
    pub fn admin(&self) -> Option<&Admin> {
        self.rest.as_ref()?.admin.as_ref()
    }

    /// Returns the path of the file, as the caller named it.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the files that the config names, as far as it could be read, and the missing directories of its grants.
    /// It is worth reading again when one of them has changed.
    pub fn files(&self) -> &BTreeSet<PathBuf> {
        &self.files
    }

    /// Returns the config if all problems are files, directories or variables of plugins that do not exist or cannot be used. Its
    /// rules and settings are valid, and a `ConfigWatcher` applies them. Its plugins are not: they lack
    /// what was not found.
    pub fn partial_config(&self) -> Option<&Config> {
        self.rest.as_deref().filter(|_| self.is_servable)
    }

    /// Returns the config if all problems are files, directories or variables that do not exist or cannot be used, and none of them is
    /// of a principal or an issuer. A `ConfigWatcher` applies its rules, groups, principals and issuers.
    pub fn config_of_access(&self) -> Option<&Config> {
        self.rest.as_deref().filter(|_| self.decides_access)
    }

    /// Returns the config if all problems are files, directories or variables that do not exist or hold no usable value, of plugins
    /// or of the server itself: keys, certificates, secrets. Its names, rules and directories are valid. For commands that start
    /// neither a server nor a plugin.
    pub fn config_without_secrets(&self) -> Option<&Config> {
        self.rest.as_deref().filter(|_| self.is_usable)
    }

    /// Returns the problems, in the order of the file. Never empty.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// Renders all problems, each with its line and correction. Several lines, the last without a line break.
    pub fn render(&self, look: RenderStyle) -> String {
        self.render_within(look, None)
    }

    /// Renders all problems as [`render`](Self::render) does, with corrections that are wrapped where they are wider than so many
    /// columns.
    pub fn render_within(&self, look: RenderStyle, columns: Option<usize>) -> String {
        let renderer = match look {
            RenderStyle::Plain => Renderer::plain(),
            RenderStyle::Ansi => Renderer::styled(),
        };
        let file = normalize_untrusted_str(&self.file.display().to_string());
        let mut drawn: Vec<String> =
            self.diagnostics.iter().map(|problem| renderer.render(&[self.group(problem, &file, columns)])).collect();
        let total = self.diagnostics.len().saturating_add(self.omitted);
        if self.omitted > 0 {
            drawn.push(format!("{file}: {total} problems, of which the first {} are shown", self.diagnostics.len()));
        } else if total > 1 {
            drawn.push(format!("{file}: {total} problems"));
        }
        drawn.join("\n\n")
    }

    fn group<'a>(&'a self, problem: &'a Diagnostic, file: &'a str, columns: Option<usize>) -> Group<'a> {
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
        let help = normalize_untrusted_str(&problem.help);
        let used = HELP_LABEL_WIDTH.saturating_add(problem.position.map_or(1, |at| at.line.to_string().len()));
        // The renderer aligns the lines below the first.
        let help = match columns {
            Some(columns) => wrap(&help, columns.saturating_sub(used), 0, 0),
            None => help,
        };
        group.element(Level::HELP.message(help))
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

/// An error of a value, with a correction.
pub(super) trait Suggest: std::error::Error {
    /// Returns what to write instead. `key` is the key of the value.
    fn suggestion(&self, key: &str) -> String;
}

/// Moves a span to character boundaries of the text.
fn clamp_span(text: &str, span: &Range<usize>) -> Range<usize> {
    let start = text.floor_char_boundary(span.start);
    start..text.ceil_char_boundary(span.end).max(start)
}

/// Returns the lines that a span is on.
fn lines_around<'t>(text: &'t str, span: &Range<usize>) -> &'t str {
    let (before, after) = (text.get(..span.start).unwrap_or_default(), text.get(span.end..).unwrap_or_default());
    let start = before.rfind('\n').map_or(0, |newline| newline.saturating_add(1));
    let end = span.end.saturating_add(after.find('\n').unwrap_or(after.len()));
    text.get(start..end).unwrap_or_default()
}

fn position_at(text: &str, at: usize) -> Position {
    let before = text.get(..at).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline.saturating_add(1));
    let column = before.get(line_start..).unwrap_or_default().chars().count().saturating_add(1);
    Position { line: before.matches('\n').count().saturating_add(1), column }
}
