//! The YAML subset of front matter: one mapping of names to scalars and lists of scalars.
//!
//! The parser's events are processed one by one, without building a tree. Deeper nesting is skipped, and scalars are
//! kept verbatim (`1.10` stays `1.10`, and `no` is not a boolean). Aliases are rejected, because a few lines of them
//! can expand to gigabytes.
//!
//! Parsing stops with a fault after [`MAX_EVENTS`] scalars, lists and mappings, after [`MAX_FIELDS`] fields, and at a
//! nesting depth of [`MAX_DEPTH`], so the cost of a note does not depend on its size.

use saphyr_parser::{Event, Parser, ScalarStyle};

/// The maximum number of scalars, lists and mappings. The beginning and the end of a list or mapping both count.
pub(super) const MAX_EVENTS: usize = 4000;

/// The maximum number of fields.
const MAX_FIELDS: usize = 200;

/// The maximum nesting depth of lists and mappings.
const MAX_DEPTH: usize = 16;

/// The value of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    /// Nothing, or `null`.
    Null,
    /// A scalar, verbatim.
    Scalar(String),
    /// A list of scalars.
    List(Vec<String>),
    /// Anything else.
    Other,
}

/// Parses the fields, in order.
pub(super) fn parse(yaml: &str) -> Result<Vec<(String, Value)>, String> {
    let mut parser = Parser::new_from_str(yaml);
    let mut reader = Reader::default();
    let mut events = 0_usize;
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| fault_at_line(error.marker().line(), error.info()))?;
        events = events.saturating_add(1);
        if events > MAX_EVENTS {
            return Err(fault_at_line(span.start.line(), &format!("it has more than {MAX_EVENTS} values")));
        }
        if matches!(event, Event::DocumentEnd) {
            break;
        }
        reader.event(event).map_err(|fault| fault_at_line(span.start.line(), &fault))?;
    }
    Ok(reader.fields)
}

/// Adds the line number in the note to a fault. Line 1 is the `---`.
fn fault_at_line(line: usize, fault: &str) -> String {
    format!("line {}: {fault}", line.saturating_add(1))
}

#[derive(Default)]
struct Reader {
    fields: Vec<(String, Value)>,
    /// The number of open mappings and lists.
    depth: usize,
    /// The field whose value is expected or is being read.
    name: Option<String>,
    /// The items read from a list.
    list: Option<Vec<String>>,
    /// Whether the value contains nested lists or mappings.
    is_nested: bool,
}

impl Reader {
    fn event(&mut self, event: Event<'_>) -> Result<(), String> {
        match event {
            Event::Alias(_) => return Err("aliases are not allowed here; write the value out".to_owned()),
            Event::Scalar(text, style, ..) => self.scalar(&text, style)?,
            Event::SequenceStart(..) | Event::MappingStart(..) => {
                match (self.depth, &event) {
                    (0, Event::MappingStart(..)) => {}
                    (1, _) if self.name.is_none() => {
                        return Err("expected a name before the colon, found a list or mapping".to_owned());
                    }
                    (1, Event::SequenceStart(..)) => self.list = Some(Vec::new()),
                    (0, _) => return Err("expected lines of `name: value`, found a list".to_owned()),
                    _ => self.is_nested = true,
                }
                self.depth = self.depth.saturating_add(1);
                if self.depth > MAX_DEPTH {
                    return Err(format!("lists and mappings are nested more than {MAX_DEPTH} deep"));
                }
            }
            Event::SequenceEnd | Event::MappingEnd => {
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 1 {
                    let value = match self.list.take() {
                        Some(list) if !self.is_nested => Value::List(list),
                        _ => Value::Other,
                    };
                    self.field(value);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle) -> Result<(), String> {
        let is_null = style == ScalarStyle::Plain && matches!(text, "" | "~" | "null");
        match self.depth {
            0 if is_null => {}
            0 => return Err("expected lines of `name: value`, found text".to_owned()),
            1 if self.name.is_none() && self.fields.len() >= MAX_FIELDS => {
                return Err(format!("it has more than {MAX_FIELDS} fields"));
            }
            1 if self.name.is_none() => self.name = Some(text.to_owned()),
            1 => self.field(if is_null { Value::Null } else { Value::Scalar(text.to_owned()) }),
            2 if !is_null => {
                if let Some(list) = &mut self.list {
                    list.push(text.to_owned());
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn field(&mut self, value: Value) {
        self.is_nested = false;
        if let Some(name) = self.name.take() {
            self.fields.push((name, value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn scalar(text: &str) -> Value {
        Value::Scalar(text.to_owned())
    }

    fn field(yaml: &str) -> Value {
        let fields = parse(yaml).unwrap();
        assert_eq!(fields.len(), 1, "{fields:?}");
        fields[0].1.clone()
    }

    #[test]
    fn scalars_stay_as_they_were_written() {
        for (yaml, text) in [
            ("a: 1.10", "1.10"),
            ("a: no", "no"),
            ("a: 2025-01-12", "2025-01-12"),
            ("a: 'null'", "null"),
            ("a: \"日\\n\"", "日\n"),
        ] {
            assert_eq!(field(yaml), scalar(text), "{yaml}");
        }
        assert_eq!(field("a: >\n  two\n  lines\n"), scalar("two lines\n"));
    }

    #[test]
    fn nothing_is_null() {
        for yaml in ["a:", "a: ~", "a: null"] {
            assert_eq!(field(yaml), Value::Null, "{yaml}");
        }
        assert_eq!(parse(""), Ok(Vec::new()));
        assert_eq!(parse("# only a comment"), Ok(Vec::new()));
    }

    #[test]
    fn lists_are_read_in_both_styles() {
        let expected = Value::List(vec!["x".to_owned(), "y z".to_owned()]);
        assert_eq!(field("a: [x, y z]"), expected);
        assert_eq!(field("a:\n- x\n- y z\n"), expected);
        assert_eq!(field("a: [x, ~, 'y z']"), expected);
    }

    #[test]
    fn what_is_nested_deeper_is_something_else_and_the_next_field_is_itself() {
        for yaml in ["a: {b: c}\nz: 1", "a: [[b]]\nz: 1", "a:\n  - b: {c: [d]}\nz: 1"] {
            let fields = parse(yaml).unwrap();
            assert_eq!(fields, [("a".to_owned(), Value::Other), ("z".to_owned(), scalar("1"))], "{yaml}");
        }
    }

    #[test]
    fn what_is_no_mapping_says_where() {
        for (yaml, line) in
            [("text", 2), ("- a", 2), ("a: [", 3), ("a: 1\nb: : 2\n", 3), ("[a]: 1", 2), ("\n\na: *x", 4)]
        {
            let fault = parse(yaml).unwrap_err();
            assert!(fault.starts_with(&format!("line {line}: ")), "{yaml:?}: {fault}");
        }
    }

    #[test]
    fn aliases_are_refused_so_that_no_bomb_goes_off() {
        let mut bomb = "a0: &a0 [x, x]\n".to_owned();
        for n in 1..30 {
            bomb += &format!("a{n}: &a{n} [*a{}, *a{}]\n", n - 1, n - 1);
        }
        assert!(parse(&bomb).unwrap_err().contains("aliases are not allowed"));
    }

    #[test]
    fn reading_stops_at_a_number_of_values_fields_and_levels() {
        let fault = |yaml: &str| parse(yaml).unwrap_err();
        assert!(fault(&format!("tags: [{}]", "x,".repeat(10_000))).contains("more than 4000 values"));
        assert!(fault(&(0..300).map(|n| format!("a{n}: 1\n")).collect::<String>()).contains("more than 200 fields"));
        assert!(fault(&format!("a: {}", "[".repeat(100))).contains("nested more than 16 deep"));
        assert!(parse(&format!("tags: [{}]", "x,".repeat(1500))).is_ok());
    }

    #[test]
    fn deep_nesting_is_an_error_or_passed_over_but_never_a_crash() {
        for yaml in ["[", "{", "{a: [", "- ", "? ", "a: "] {
            let _ = parse(&format!("a: {}", yaml.repeat(60_000 / yaml.len())));
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(yaml in "([a-z\\[\\]{}:,'\"|>&*!?%@`#~ \\n\\t-]|\\PC){0,80}") {
            let _ = parse(&yaml);
        }
    }
}
