//! Files of environment variables.
//!
//! Values may refer to earlier variables and to the variables of the process, so a short file can expand to gigabytes.
//! The parser reads the file line by line from [`Lines`], which ends with an error before a line can expand to more
//! than [`MAX_EXPANDED`] bytes.
//!
//! The parser ends a name without braces at its first `_`, and takes a quote after a name for a part of the value.
//! Names are therefore put into braces first.

use super::Fault;
use serde_json::{Map, Value};
use std::cell::Cell;
use std::io::{self, Read};

/// The maximum size of all values after expansion.
const MAX_EXPANDED: usize = 4 << 20;

/// Parses a file of variables. The last assignment of a name counts.
pub(super) fn parse(text: &str) -> Result<Value, Fault> {
    let bounds = Bounds::default();
    bounds.longest.set(std::env::vars().map(|(_, value)| value.len()).max().unwrap_or_default());
    let mut variables = Map::new();
    let text = with_braces(text);
    for variable in dotenvy::from_read_iter(Lines { rest: &text, bounds: &bounds }) {
        // The parser's error messages quote the line, so they are not used.
        let (name, value) = variable.map_err(|error| match error {
            dotenvy::Error::Io(_) => format!("{}: {TOO_LARGE}", bounds.place()),
            _ => format!("{}: expected `NAME=value`, with a value that has spaces in quotes", bounds.place()),
        })?;
        if !bounds.add(value.len()) {
            return Err(format!("{}: {TOO_LARGE}", bounds.place()));
        }
        variables.insert(name, Value::String(value));
    }
    Ok(Value::Object(variables))
}

/// Returns the file with `${NAME}` in place of each `$NAME` that is expanded: outside of single quotes and comments.
fn with_braces(text: &str) -> String {
    let mut braced = String::with_capacity(text.len());
    let mut quote = None;
    let mut before = '\n';
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        braced.push(character);
        match character {
            '\\' if quote != Some('\'') => braced.extend(characters.next()),
            '"' | '\'' if quote.is_none() => quote = Some(character),
            '"' | '\'' if quote == Some(character) => quote = None,
            '#' if quote.is_none() && (before.is_whitespace() || before == '=') => {
                while let Some(comment) = characters.next_if(|next| *next != '\n') {
                    braced.push(comment);
                }
            }
            '$' if quote != Some('\'')
                && characters.peek().is_some_and(|next| next.is_ascii_alphabetic() || *next == '_') =>
            {
                braced.push('{');
                while let Some(name) = characters.next_if(|next| next.is_ascii_alphanumeric() || *next == '_') {
                    braced.push(name);
                }
                braced.push('}');
            }
            _ => {}
        }
        before = character;
    }
    braced
}

const TOO_LARGE: &str = "expected at most 4 MiB of values after variables are expanded, found more";

/// The lines that were read, and the size to which they may expand.
#[derive(Debug, Default)]
struct Bounds {
    /// The number of lines read, including the current one.
    lines: Cell<usize>,
    /// Whether the last line is being read.
    is_in_line: Cell<bool>,
    /// The size of the lines since the last value. They may be part of the next value.
    pending: Cell<usize>,
    /// The number of references in these lines.
    references: Cell<usize>,
    /// The size of the longest value.
    longest: Cell<usize>,
    /// The size of all values.
    total: Cell<usize>,
}

impl Bounds {
    /// Adds a line, or a part of one. Returns whether its expansion is certainly within the bounds.
    fn read(&self, line: &str) -> bool {
        let references = line.bytes().filter(|byte| *byte == b'$').count();
        self.lines.set(self.lines.get().saturating_add(usize::from(!self.is_in_line.get())));
        self.is_in_line.set(!line.ends_with('\n'));
        self.pending.set(self.pending.get().saturating_add(line.len()));
        self.references.set(self.references.get().saturating_add(references));
        let expanded = self.references.get().saturating_mul(self.longest.get());
        self.pending.get().saturating_add(expanded) <= MAX_EXPANDED
    }

    /// Adds a value. Returns whether the total is within the bounds.
    fn add(&self, len: usize) -> bool {
        self.pending.set(0);
        self.references.set(0);
        self.longest.set(self.longest.get().max(len));
        self.total.set(self.total.get().saturating_add(len));
        self.total.get() <= MAX_EXPANDED
    }

    fn place(&self) -> String {
        format!("line {}", self.lines.get().max(1))
    }
}

/// A reader that returns at most one line per read, so the parser is never ahead of [`Bounds`].
struct Lines<'a> {
    rest: &'a str,
    bounds: &'a Bounds,
}

impl Read for Lines<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = self.rest.floor_char_boundary(buffer.len());
        let part = self.rest.get(..most).unwrap_or_default();
        let part = part.split_inclusive('\n').next().unwrap_or_default();
        if !self.bounds.read(part) {
            return Err(io::Error::other(TOO_LARGE));
        }
        let mut unread = part.as_bytes();
        let read = unread.read(buffer)?;
        self.rest = self.rest.get(part.len()..).unwrap_or_default();
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn quotes_comments_and_references_are_those_of_a_shell() {
        let text = "# a comment\nA=1\nexport B='$A b' # c\nC=\"${A}2\"\nD=\"two\nlines\"\nE=\nA=3\n";
        let expected = json!({ "A": "3", "B": "$A b", "C": "12", "D": "two\nlines", "E": "" });
        assert_eq!(parse(text), Ok(expected));
    }

    #[test]
    fn a_name_has_underscores_and_ends_at_what_is_no_part_of_one() {
        let text = "# don't\nDB_PASSWORD=x # isn't $DB_PASSWORD\nPLAIN=$DB_PASSWORD\nCONN=\"app/$DB_PASSWORD at db\"\n\
                    END=\"$DB_PASSWORD\"\nTWO=$DB_PASSWORD$PLAIN\nNONE='$DB_PASSWORD'\nESCAPED=\\$DB_PASSWORD\n\
                    BRACED=${DB_PASSWORD}_\n";
        let expected = json!({
            "DB_PASSWORD": "x", "PLAIN": "x", "CONN": "app/x at db", "END": "x", "TWO": "xx", "NONE": "$DB_PASSWORD",
            "ESCAPED": "$DB_PASSWORD", "BRACED": "x_",
        });
        assert_eq!(parse(text), Ok(expected));
    }

    #[test]
    fn references_that_expand_to_gigabytes_are_refused_in_their_line() {
        let mut text = "A=xxxxxxxxxx\n".to_owned();
        for _ in 0..30 {
            text.push_str("A=$A$A\n");
        }
        let fault = parse(&text).unwrap_err();
        assert!(fault.contains("after variables are expanded"), "{fault}");
        let wide = format!("A={}\nB={}\n", "x".repeat(100_000), "$A".repeat(100_000));
        assert!(parse(&wide).unwrap_err().starts_with("line 2: "));
        let many = format!("A={}\n{}", "x".repeat(100_000), "B=$A\n".repeat(1000));
        assert!(parse(&many).unwrap_err().contains("after variables are expanded"));
    }
}
