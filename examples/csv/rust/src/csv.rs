//! Reading and writing CSV (RFC 4180), leniently.

use std::iter::Peekable;
use std::str::Chars;

/// The records of a text. Empty lines are skipped.
pub(crate) struct Records<'t> {
    rest: Peekable<Chars<'t>>,
}

/// Returns the records of a text.
pub(crate) fn records(text: &str) -> Records<'_> {
    Records { rest: text.strip_prefix('\u{feff}').unwrap_or(text).chars().peekable() }
}

impl Iterator for Records<'_> {
    type Item = Vec<String>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.rest.peek().is_some() {
            if self.end_of_record() {
                continue;
            }
            let mut record = vec![self.field()];
            while self.rest.next_if_eq(&',').is_some() {
                record.push(self.field());
            }
            self.end_of_record();
            return Some(record);
        }
        None
    }
}

impl Records<'_> {
    /// Takes the end of a line, if it is here.
    fn end_of_record(&mut self) -> bool {
        let mut ahead = self.rest.clone();
        ahead.next_if_eq(&'\r');
        let is_here = ahead.next_if_eq(&'\n').is_some();
        if is_here {
            self.rest = ahead;
        }
        is_here
    }

    /// Takes one field, up to the comma or the end of the line.
    fn field(&mut self) -> String {
        let mut field = String::new();
        if self.rest.next_if_eq(&'"').is_some() {
            while let Some(c) = self.rest.next() {
                if c == '"' && self.rest.next_if_eq(&'"').is_none() {
                    break;
                }
                field.push(c);
            }
        }
        while let Some(&c) = self.rest.peek() {
            if c == ',' || self.is_at_end_of_line(c) {
                break;
            }
            self.rest.next();
            field.push(c);
        }
        field
    }

    fn is_at_end_of_line(&self, c: char) -> bool {
        c == '\n' || (c == '\r' && self.rest.clone().nth(1) == Some('\n'))
    }
}

/// Appends a record.
pub(crate) fn write<'f>(text: &mut String, record: impl ExactSizeIterator<Item = &'f str>) {
    let is_single = record.len() == 1;
    for (index, field) in record.enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.push_str(&if is_single && field.is_empty() { "\"\"".to_owned() } else { quote(field) });
    }
    text.push('\n');
}

/// Returns a field, quoted if it has to be.
pub(crate) fn quote(field: &str) -> String {
    if field.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Vec<Vec<String>> {
        records(text).collect()
    }

    #[test]
    fn fields_may_be_quoted_and_records_end_with_either_end_of_line() {
        assert_eq!(parse("a,b\r\n1,\"x, \"\"y\"\"\"\n"), [["a", "b"], ["1", "x, \"y\""]]);
        assert_eq!(parse("\"two\nlines\",b"), [["two\nlines", "b"]]);
    }

    #[test]
    fn malformed_text_is_read_leniently() {
        assert_eq!(parse("\u{feff}a\n\n\r\nb"), [["a"], ["b"]]);
        assert_eq!(parse("\"a\"b,c\"d\""), [["ab", "c\"d\""]]);
        assert_eq!(parse("a,\"b"), [["a", "b"]]);
        assert_eq!(parse("a,\n"), [["a", ""]]);
        assert_eq!(parse("a\rb"), [["a\rb"]]);
    }

    #[test]
    fn what_is_written_reads_the_same() {
        let record = ["a", "", "b,c", "\"", "x\ny"];
        let mut text = String::new();
        write(&mut text, record.into_iter());
        assert_eq!(parse(&text), [record]);
        let mut empty = String::new();
        write(&mut empty, [""].into_iter());
        assert_eq!(empty, "\"\"\n");
    }
}
