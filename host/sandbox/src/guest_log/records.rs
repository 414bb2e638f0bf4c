//! Tracebacks as one record: lines that belong together, although a guest logs them one by one or writes them to
//! standard error.
//!
//! | language | a record begins with | and goes on with |
//! |---|---|---|
//! | Python | `Traceback (most recent call last):`, or the message before it | indented lines; the line of the exception; the same again for its cause |
//! | Python, a stack without an exception | a line that ends with `Stack (most recent call last):`, or the message before it | indented lines |
//! | JavaScript | any line | lines `    at …` |
//! | Rust, Go | `thread '…' panicked at`, `panic: `, `fatal error: ` | all that follows: the instance ends |
//!
//! A line that may begin a record is held until the next line, or until the call ends; other lines are logged
//! immediately. Bounded: a record has at most [`MAX_LINES`] lines and [`MAX_BYTES`] bytes; further lines begin another
//! record.

use mcp_host_base::text::prefix;

use super::{GuestLog, MAX_CONTEXT, MAX_LINE, is_enabled};
use crate::bindings::logging::Level;

/// The maximum number of lines of a record.
const MAX_LINES: usize = 64;
/// The maximum size of a record in bytes.
const MAX_BYTES: usize = 8 << 10;
/// The first line of a Python traceback.
const PYTHON: &str = "Traceback (most recent call last):";
/// The line before a Python stack without an exception: from `stack_info` of the module `logging`, or from a call that
/// runs for a long time.
const PYTHON_STACK: &str = "Stack (most recent call last):";
/// The lines between an exception and its cause.
const PYTHON_CAUSES: [&str; 2] = [
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
];

/// Lines that belong together, with one level and context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(super) level: Level,
    pub(super) context: String,
    pub(super) lines: Vec<String>,
}

/// The kind of a record, according to its lines so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    /// A single line, until a stack follows.
    #[default]
    Line,
    /// A JavaScript stack.
    Stack,
    /// A Python traceback.
    Python,
    /// A Python traceback with its exception.
    PythonException,
    /// A Python stack without an exception.
    PythonStack,
    /// All remaining lines of an instance that ends.
    Rest,
}

/// Assembles the lines of one source into records.
#[derive(Debug, Default)]
pub(crate) struct Records {
    held: Option<Record>,
    kind: Kind,
    bytes: usize,
}

impl Records {
    /// Adds a line. Returns the completed records.
    pub(crate) fn push(&mut self, level: Level, context: &str, line: &str) -> Vec<Record> {
        let line = prefix(line, MAX_LINE.saturating_add(1));
        let context = known_context(context);
        let is_of_held = self.held.as_ref().is_some_and(|held| {
            held.level == level && held.context == context && held.lines.len() < MAX_LINES && self.bytes < MAX_BYTES
        });
        if let Some(kind) = self.continued_by(line).filter(|_| is_of_held)
            && let Some(held) = &mut self.held
        {
            self.kind = kind;
            self.bytes = self.bytes.saturating_add(line.len());
            held.lines.push(line.to_owned());
            return Vec::new();
        }
        let finished = self.finish();
        let record = Record { level, context: context.to_owned(), lines: vec![line.to_owned()] };
        let kind = begun_by(line);
        // Only warnings and errors can have a stack.
        if kind == Kind::Line && !matches!(level, Level::Warn | Level::Error | Level::Critical) {
            return finished.into_iter().chain([record]).collect();
        }
        (self.kind, self.bytes, self.held) = (kind, line.len(), Some(record));
        finished.into_iter().collect()
    }

    /// Returns whether all lines are separate records, except that the last one may begin a longer record: neither the
    /// lines nor the held record belong to a traceback.
    pub(super) fn are_plain(&self, lines: &str) -> bool {
        const BEGINNINGS: [&str; 5] = [PYTHON, PYTHON_STACK, "panicked at", "panic: ", "fatal error: "];
        let has_stack =
            lines.trim_start().starts_with("at ") || lines.contains("\n    at ") || lines.contains("\n\tat ");
        self.kind == Kind::Line && !has_stack && !BEGINNINGS.iter().any(|beginning| lines.contains(beginning))
    }

    /// Logs a message of `wasi:logging`: one line, which may continue the held record, or several.
    pub(crate) fn message(&mut self, log: &GuestLog, level: Level, context: &str, message: &str) {
        if !is_enabled(level) {
            return;
        }
        let context = known_context(context);
        let seen = prefix(message, MAX_BYTES);
        let has_traceback = [PYTHON, PYTHON_STACK, "\n    at "].iter().any(|part| seen.contains(part));
        if seen.contains('\n') && !has_traceback {
            self.finish().into_iter().for_each(|held| log.record(held));
            return log.guest_message(level, context, message);
        }
        let lines: Vec<_> = if has_traceback { seen.lines().collect() } else { vec![message] };
        for record in lines.into_iter().flat_map(|line| self.push(level, context, line)) {
            log.record(record);
        }
    }

    /// Returns the held record.
    pub(crate) fn finish(&mut self) -> Option<Record> {
        self.kind = Kind::Line;
        self.held.take()
    }

    /// Returns the kind of the held record with this line added. None if the line does not continue the record.
    fn continued_by(&self, line: &str) -> Option<Kind> {
        let is_indented = line.starts_with([' ', '\t']);
        let is_first = self.held.as_ref().is_some_and(|held| held.lines.len() == 1);
        match self.kind {
            Kind::Line | Kind::Stack if is_indented && line.trim_start().starts_with("at ") => Some(Kind::Stack),
            Kind::Line if is_first && line == PYTHON => Some(Kind::Python),
            Kind::Line if is_first && line == PYTHON_STACK => Some(Kind::PythonStack),
            Kind::PythonStack if is_indented => Some(Kind::PythonStack),
            Kind::Line | Kind::Stack | Kind::PythonStack => None,
            Kind::Python if is_indented || line.is_empty() => Some(Kind::Python),
            Kind::Python => Some(Kind::PythonException),
            Kind::PythonException if line == PYTHON => Some(Kind::Python),
            Kind::PythonException if line.is_empty() || is_indented || PYTHON_CAUSES.contains(&line) => {
                Some(Kind::PythonException)
            }
            Kind::PythonException => None,
            Kind::Rest => Some(Kind::Rest),
        }
    }
}

/// The part of a context that is held, compared and hashed: a character more than is logged, which shows that the rest
/// was cut off. A context can be as large as the guest's memory, and what is held is not charged to it.
fn known_context(context: &str) -> &str {
    prefix(context, MAX_CONTEXT.saturating_add(4))
}

/// The kind of a record that begins with this line.
fn begun_by(line: &str) -> Kind {
    let is_panic = line.starts_with("thread '") && line.contains("panicked at");
    match line {
        PYTHON => Kind::Python,
        _ if line.ends_with(PYTHON_STACK) => Kind::PythonStack,
        _ if is_panic || line.starts_with("panic: ") || line.starts_with("fatal error: ") => Kind::Rest,
        _ => Kind::Line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The records of these lines, each as one line.
    fn records(level: Level, lines: &str) -> Vec<String> {
        let mut records = Records::default();
        let mut all: Vec<_> = lines.lines().flat_map(|line| records.push(level, "", line)).collect();
        all.extend(records.finish());
        all.into_iter().map(|record| record.lines.join("|")).collect()
    }

    #[test]
    fn a_traceback_of_python_is_one_record_with_its_message_and_its_causes() {
        let traceback = "read failed\nTraceback (most recent call last):\n  File \"app.py\", line 3, in read\n    x()\nKeyError: 'x'\n\nDuring handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n  File \"app.py\", line 5, in read\nValueError: no\nanother line";
        let found = records(Level::Error, traceback);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("read failed|Traceback") && found[0].ends_with("|ValueError: no"), "{found:?}");
        assert_eq!(found[1], "another line");
    }

    #[test]
    fn a_stack_of_python_without_an_exception_is_one_record() {
        let stack = "  File \"app.py\", line 3, in read\n    x()";
        let found = records(Level::Error, &format!("read has run for 0.3 s. {PYTHON_STACK}\n{stack}\nanother line"));
        let one = stack.replace('\n', "|");
        assert_eq!(found, [format!("read has run for 0.3 s. {PYTHON_STACK}|{one}"), "another line".to_owned()]);
        let twice = records(Level::Warn, &format!("slow\n{PYTHON_STACK}\n{stack}\nslow\n{PYTHON_STACK}\n{stack}"));
        assert_eq!(twice, [format!("slow|{PYTHON_STACK}|{one}"), format!("slow|{PYTHON_STACK}|{one}")]);
    }

    #[test]
    fn a_stack_of_javascript_and_a_panic_are_one_record() {
        let found = records(Level::Error, "one\nError: no\n    at read (app.js:3)\n    at x (app.js:9)\ntwo");
        assert_eq!(found, ["one", "Error: no|    at read (app.js:3)|    at x (app.js:9)", "two"]);
        let found = records(Level::Warn, "one\nthread '<unnamed>' panicked at src/lib.rs:1:2:\noops\nnote: run");
        assert_eq!(found, ["one", "thread '<unnamed>' panicked at src/lib.rs:1:2:|oops|note: run"]);
        let found = records(Level::Warn, "panic: oops\n\ngoroutine 1 [running]:\nmain.read()");
        assert_eq!(found, ["panic: oops||goroutine 1 [running]:|main.read()"]);
    }

    #[test]
    fn a_record_is_bounded_and_plain_lines_are_not_held() {
        let long = "panic: x\n".to_owned() + &"y\n".repeat(100);
        let lengths: Vec<_> = records(Level::Warn, &long).iter().map(|record| record.split('|').count()).collect();
        assert_eq!(lengths.first(), Some(&MAX_LINES));
        let mut records = Records::default();
        assert_eq!(records.push(Level::Info, "", "one").len(), 1);
        assert!(records.push(Level::Error, "", "held").is_empty());
        assert_eq!(records.push(Level::Error, "another", "    at x").len(), 1, "of another context");
    }

    #[test]
    fn of_a_context_only_the_part_that_is_logged_is_held() {
        let context = "é".repeat(1 << 20);
        let mut records = Records::default();
        assert!(records.push(Level::Error, &context, "Error: no").is_empty());
        assert!(records.push(Level::Error, &context, "    at read (app.js:3)").is_empty(), "of the same context");
        let held = records.finish().unwrap();
        assert_eq!(held.lines.len(), 2);
        assert!(held.context.len() <= MAX_CONTEXT + 4 && held.context.capacity() <= 2 * MAX_CONTEXT, "{held:?}");
    }
}
