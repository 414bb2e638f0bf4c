//! The error of a config with problems.
//!
//! A [`ConfigError`] contains *all* [`Diagnostic`]s of one file, in the order of the file. Each has the problem, its
//! position, and a correction; [`ConfigError::render`] underlines the offending text. Control characters of the file
//! are removed before they reach a terminal.
//!
//! The offending line is quoted from the file, unless it may hold a secret. Values from a variable or from another file
//! are never quoted.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet, normalize_untrusted_str};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Config;
use super::admin::Admin;
use super::diagnostic::{Cause, Diagnostic, Diagnostics, Position};
use super::secret_text::holds_secret;
use mcp_host_base::text::wrap;

/// The columns of the label before a correction, `  = help: `, in addition to the columns of a line number.
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
    /// The usable part of the config; `None` if the text cannot be parsed.
    rest: Option<Box<Config>>,
    /// Whether all problems are missing or unusable items of the machine, and none is in the config itself.
    is_usable: bool,
    /// Whether only items of plugins are missing or unusable.
    is_servable: bool,
    /// Whether no item of rules, principals and issuers is missing or unusable.
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

    /// Adds the usable part of the config. The causes of the problems determine who may use it.
    pub(super) fn with_rest(self, rest: Config, cause: Option<Cause>) -> Self {
        let is_usable = cause != Some(Cause::Config);
        let is_servable = cause <= Some(Cause::MachineForPlugin);
        let decides_access = cause <= Some(Cause::MachineForServer);
        Self { rest: Some(Box::new(rest)), is_usable, is_servable, decides_access, ..self }
    }

    /// Returns the administration listener of the config, if it is valid: for a client of a server that runs with an
    /// earlier version of the file.
    pub fn admin(&self) -> Option<&Admin> {
        self.rest.as_ref()?.admin.as_ref()
    }

    /// Returns the path of the file, as the caller named it.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the files in the config, as far as it could be read, and the missing directories of its grants. If one
    /// of them changes, the config should be read again.
    pub fn files(&self) -> &BTreeSet<PathBuf> {
        &self.files
    }

    /// Returns the config if all problems are missing or unusable files, directories or variables of plugins. Its rules
    /// and settings are valid, and a `ConfigWatcher` applies them. Its plugins are incomplete, and must not be loaded.
    pub fn partial_config(&self) -> Option<&Config> {
        self.rest.as_deref().filter(|_| self.is_servable)
    }

    /// Returns the config if all problems are missing or unusable files, directories or variables, none of them of a
    /// principal or an issuer. A `ConfigWatcher` applies its rules, groups, principals and issuers.
    pub fn config_of_access(&self) -> Option<&Config> {
        self.rest.as_deref().filter(|_| self.decides_access)
    }

    /// Returns the config if all problems are missing or unusable files, directories or variables, of plugins or of the
    /// server itself: keys, certificates, secrets. Its names, rules and directories are valid. For commands that start
    /// neither a server nor a plugin.
    pub fn config_without_secrets(&self) -> Option<&Config> {
        self.rest.as_deref().filter(|_| self.is_usable)
    }

    /// Returns the problems, in the order of the file. Never empty.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// Returns the same problems, without source lines that overlap private values: values of `grants.env`, the
    /// commands of upstreams, and URLs with a query. For readers without access to the file: a log, and administrators
    /// over a network.
    #[must_use]
    pub fn without_private_lines(mut self) -> Self {
        let private = private_spans(&self.text);
        for problem in &mut self.diagnostics {
            let shown = problem.primary.iter().chain(&problem.secondary);
            let mut shown = shown.map(|mark| whole_lines(&self.text, &mark.span));
            problem.shows_source &= match &private {
                Some(private) => !shown.any(|lines| private.iter().any(|span| overlap(span, &lines))),
                // The text is not TOML, so private values cannot be located.
                None => false,
            };
        }
        self
    }

    /// Renders all problems, each with its line and correction. The last line has no line break.
    pub fn render(&self, look: RenderStyle) -> String {
        self.render_within(look, None)
    }

    /// Renders all problems like [`render`](Self::render), with corrections wrapped at the given number of columns. The
    /// lines of a correction below its first are part of a config, and are not wrapped.
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
                (Some(mark), Some(Position { line, column })) if !problem.shows_source => {
                    match masked_line(&self.text, mark.span.start) {
                        // The underline is as long as the mark in place of the value.
                        Some((shown, value)) => title.element(
                            Snippet::source(shown)
                                .path(file)
                                .line_start(line)
                                .annotation(AnnotationKind::Primary.span(value)),
                        ),
                        None => title.element(Origin::path(file).line(line).char_column(column)),
                    }
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
            Some(columns) => {
                let (prose, lines) =
                    help.split_at_checked(help.find('\n').unwrap_or(help.len())).unwrap_or((&help, ""));
                wrap(prose, columns.saturating_sub(used), 0, 0) + lines
            }
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

/// Moves a span to character boundaries of the text.
fn clamp_span(text: &str, span: &Range<usize>) -> Range<usize> {
    let start = text.floor_char_boundary(span.start);
    start..text.ceil_char_boundary(span.end).max(start)
}

/// Returns the lines that a span is on.
fn lines_around<'t>(text: &'t str, span: &Range<usize>) -> &'t str {
    text.get(whole_lines(text, span)).unwrap_or_default()
}

/// Returns a span with the rest of its lines.
fn whole_lines(text: &str, span: &Range<usize>) -> Range<usize> {
    let (before, after) = (text.get(..span.start).unwrap_or_default(), text.get(span.end..).unwrap_or_default());
    let start = before.rfind('\n').map_or(0, |newline| newline.saturating_add(1));
    start..span.end.saturating_add(after.find('\n').unwrap_or(after.len()))
}

fn overlap(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start < other.end && other.start < one.end
}

/// The line of the value at this offset with a mark in place of the value, which may be a secret, and the span of the
/// mark. `None` if the line has more than a key before the value: that may be a secret, too.
fn masked_line(text: &str, value: usize) -> Option<(String, Range<usize>)> {
    const MARK: &str = "…";
    let before = text.get(..value)?;
    let start = before.rfind('\n').map_or(0, |end| end.saturating_add(1));
    let key = before.get(start..)?;
    let name = key.trim_end().strip_suffix('=')?.trim();
    let is_key = |c: char| c.is_ascii_alphanumeric() || ['-', '_', '.'].contains(&c);
    if name.is_empty() || !name.chars().all(is_key) {
        return None;
    }
    Some((format!("{key}{MARK}"), key.len()..key.len().saturating_add(MARK.len())))
}

/// The spans of private values: values of `env` in a table `grants`, `command`, and URLs with a query. `None` if the
/// text is not TOML.
fn private_spans(text: &str) -> Option<Vec<Range<usize>>> {
    let root = DeTable::parse(text).ok()?;
    let mut spans = Vec::new();
    add_private_spans(root.get_ref(), false, &mut spans);
    Some(spans)
}

fn add_private_spans(table: &DeTable<'_>, is_grants: bool, spans: &mut Vec<Range<usize>>) {
    for (key, value) in table {
        let key = key.get_ref();
        match (value.get_ref(), &**key) {
            // A table of dotted keys or with a header has only the span of the header, so the spans of its values are
            // added.
            (DeValue::Table(variables), "env") if is_grants => {
                spans.push(value.span());
                spans.extend(variables.iter().map(|(_, value)| value.span()));
            }
            (_, "command") => spans.push(value.span()),
            _ => add_private_values(value, &**key == "grants", spans),
        }
    }
}

fn add_private_values(value: &Spanned<DeValue<'_>>, is_grants: bool, spans: &mut Vec<Range<usize>>) {
    match value.get_ref() {
        DeValue::Table(table) => add_private_spans(table, is_grants, spans),
        DeValue::Array(values) => values.iter().for_each(|value| add_private_values(value, false, spans)),
        DeValue::String(text) if text.contains("://") && text.contains('?') => spans.push(value.span()),
        _ => {}
    }
}

fn position_at(text: &str, at: usize) -> Position {
    let before = text.get(..at).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline.saturating_add(1));
    let column = before.get(line_start..).unwrap_or_default().chars().count().saturating_add(1);
    Position { line: before.matches('\n').count().saturating_add(1), column }
}
