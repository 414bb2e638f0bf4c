//! Syntax errors of TOML, with corrections.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, Error};

use super::diagnostic::{Diagnostic, Diagnostics, quote, truncated};
use super::headings::MixedBrackets;
use super::secret_text::names_secret;

/// Parses a document. Reports its syntax errors, at most one per line; the document is the readable part.
pub(super) fn parse(text: &str) -> (Spanned<DeTable<'_>>, Diagnostics) {
    let (document, mut errors) = DeTable::parse_recoverable(text);
    errors.sort_by_key(|error| span(error, text).start);
    let mut problems = Diagnostics::default();
    let mut next_line = 0;
    let mut brackets = MixedBrackets::new(text);
    for error in &errors {
        let start = span(error, text).start;
        let is_duplicate = error.message() == "duplicate key";
        if start >= next_line && !(is_duplicate && brackets.is_reported(start)) {
            let line = line_around(text, start);
            let problem = if is_duplicate { brackets.explain(start) } else { explain_quotes(error, text, &line) };
            let problem = problem.or_else(|| explain_unquoted(error, text, &line));
            problems.push(problem.unwrap_or_else(|| explain(error, text)));
            next_line = line.end.saturating_add(1);
        }
        // The parser treats the text after an open bracket as its contents: further errors there are noise.
        if error.message().contains("array") || error.message().contains("inline table") {
            break;
        }
    }
    (document, problems)
}

/// Explains typographic quotes, which word processors and web pages use in place of straight ones: `name = “notes”`.
fn explain_quotes(error: &Error, text: &str, line: &Range<usize>) -> Option<Diagnostic> {
    let whole = text.get(line.clone())?;
    let is_open =
        error.message().starts_with("invalid basic string") || error.message().starts_with("invalid literal string");
    let (at, found) = if is_open {
        // The string was meant to end with this character.
        let (at, last) = whole.trim_end().char_indices().next_back()?;
        (line.start.checked_add(at)?, last)
    } else {
        let start = span(error, text).start;
        let rest = text.get(start..line.end)?;
        let (at, first) =
            rest.char_indices().find(|(_, c)| !c.is_ascii_whitespace() && !matches!(c, '=' | '[' | '{' | ','))?;
        (start.checked_add(at)?, first)
    };
    if !is_typographic_quote(found) {
        return None;
    }
    let message = format!("`{found}` is not a quotation mark of TOML");
    let problem = Diagnostic::new(message, quotes_help(whole)).at(at..at.checked_add(found.len_utf8())?);
    Some(if names_secret(key_of(whole)) { problem.redacted() } else { problem })
}

/// Returns the line with straight quotes, if it is `key = value` with one text, and not a secret.
fn quotes_help(line: &str) -> String {
    let key = key_of(line);
    let value = line.split_once('=').map(|(_, value)| value.trim());
    let inner = value.and_then(|value| value.strip_prefix(is_quote)?.strip_suffix(is_quote));
    match inner.filter(|inner| !inner.contains(is_quote) && !inner.contains('\\') && !names_secret(key)) {
        Some(inner) if !key.is_empty() => {
            format!("write straight quotes: `{} = \"{}\"`", truncated(key.trim_matches(is_quote)), truncated(inner))
        }
        _ => "write straight quotes: `\"` at the beginning and at the end of the text".to_owned(),
    }
}

/// The last part of the key of a line.
fn key_of(line: &str) -> &str {
    let key = line.split_once('=').map_or("", |(key, _)| key.trim());
    key.rsplit('.').next().unwrap_or(key)
}

fn is_quote(c: char) -> bool {
    matches!(c, '"' | '\'') || is_typographic_quote(c)
}

fn is_typographic_quote(c: char) -> bool {
    matches!(c, '\u{2018}'..='\u{201f}' | '«' | '»' | '‹' | '›' | '「'..='』' | '〝'..='〟' | '＂' | '＇')
}

/// Explains text without quotes, such as `mount = git://linux/`, which the parser reads as a number or a date.
fn explain_unquoted(error: &Error, text: &str, line: &Range<usize>) -> Option<Diagnostic> {
    let (key, rest) = text.get(line.clone())?.split_once('=')?;
    let value = rest.split('#').next()?.trim();
    if value.is_empty() || value.contains(['"', '\'', '[', '{', '=']) {
        return None;
    }
    let start = line.start.checked_add(key.len())?.checked_add(1)?.checked_add(rest.find(value)?)?;
    if span(error, text).start < start {
        return None;
    }
    let key = key.trim();
    let (message, shown) = if names_secret(key.rsplit('.').next().unwrap_or(key)) {
        (format!("the value of {} is not a TOML value", quote(key)), "…".to_owned())
    } else {
        (format!("{} is not a TOML value", quote(value)), truncated(value))
    };
    let help = format!("put text in quotes: `{} = \"{shown}\"`", truncated(key));
    Some(Diagnostic::new(message, help).at(start..start.checked_add(value.len())?))
}

/// Returns the message of the parser, with a correction.
fn explain(error: &Error, text: &str) -> Diagnostic {
    let (what, expected) = match error.message().split_once(", expected ") {
        Some((what, expected)) => (what, Some(expected)),
        None => (error.message(), None),
    };
    let place = span(error, text);
    let is_unclosed = expected.is_some_and(|expected| matches!(expected, "`\"`" | "`'`"));
    let message = match what {
        "duplicate key" => format!("the key {} is defined twice", quote(text.get(place.clone()).unwrap_or_default())),
        "invalid basic string" | "invalid literal string" if is_unclosed => "the string has no end".to_owned(),
        _ => what.to_owned(),
    };
    let help = match what {
        "duplicate key" => {
            "write it once, with all that both say; of several plugins or upstreams, each begins with `[[plugin]]` or `[[upstream]]`"
        }
        "invalid basic string" | "invalid literal string" if is_unclosed => {
            "end it on the same line, with the quote that it began with"
        }
        "missing escaped value" | "too few unicode value digits" => {
            r"write a backslash as `\\`, or put the string in single quotes: 'C:\notes'"
        }
        "unclosed table" | "unclosed array table" => {
            "close the heading: `[server]`, `[[plugin]]`, `[[upstream]]`, `[[rule]]`"
        }
        "key with no value" => "write `key = value`",
        "invalid unquoted key" => "write `key = value`; put the key in quotes if it has other characters",
        _ if what.starts_with("cannot extend value of type inline table") => {
            "the table before the dot is written as `{ … }` above: put `key = value` there, after a comma"
        }
        _ if what.contains("array") => "put commas between the entries of a list, and `]` at its end",
        _ if what.contains("inline table") => "put commas between the entries of a table, and `}` at its end",
        _ => "the file is TOML: lines of `key = value` below `[server]`, `[[plugin]]`, `[[upstream]]` and `[[rule]]`",
    };
    let problem = Diagnostic::new(message, help).at(place);
    match expected {
        Some(expected) => problem.label(format!("expected {expected}")),
        None => problem,
    }
}

fn span(error: &Error, text: &str) -> Range<usize> {
    error.span().unwrap_or(text.len()..text.len())
}

/// Returns the line around a position, without its line break.
fn line_around(text: &str, at: usize) -> Range<usize> {
    let at = text.floor_char_boundary(at);
    let (before, after) = text.split_at(at);
    let start = before.rfind('\n').map_or(0, |newline| newline.saturating_add(1));
    start..at.saturating_add(after.find('\n').unwrap_or(after.len()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::{Config, Environment};

    #[test]
    fn where_a_file_with_a_syntax_error_has_its_administration_listener_is_known_and_nothing_else_of_it_is_served() {
        for broken in ["oops = [\n", "[[plugin]]\nname = notes\n", "[server\n"] {
            let text = format!("[admin]\nlisten = '127.0.0.1:9464'\n\n{broken}");
            let error = Config::parse_in(&text, Path::new("/etc/mcp-host.toml"), &Environment::empty()).unwrap_err();
            let listen = error.admin().map(|admin| admin.listen.to_string());
            assert_eq!(listen.as_deref(), Some("127.0.0.1:9464"), "{broken}");
            assert!(error.partial_config().is_none(), "{broken}");
        }
    }
}
