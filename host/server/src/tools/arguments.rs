//! The arguments of a tool, each a string or an integer in a range.
//!
//! The errors are read by models: they name the argument, what is expected in the words of JSON Schema, and what was
//! found. The values stay in the message until they are taken, so a large value of the wrong type costs nothing.

use std::fmt;
use std::ops::RangeInclusive;

use mcp_host_base::text::quote;
use serde::Deserializer as _;
use serde::de::{Error, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::output::ToolError;
use crate::params::{found, without_position};

/// The arguments of one call.
#[derive(Debug)]
pub(super) struct Arguments<'a> {
    members: Vec<(&'static str, &'a RawValue)>,
}

impl<'a> Arguments<'a> {
    /// Parses an object with these optional members, and no others.
    pub(super) fn parse(text: Option<&'a str>, names: &[&'static str]) -> Result<Self, ToolError> {
        let mut json = serde_json::Deserializer::from_str(text.unwrap_or("{}"));
        let members = json.deserialize_map(Members { names });
        members.map(|members| Self { members }).map_err(|error| ToolError::Arguments(without_position(&error)))
    }

    /// Takes an optional string.
    pub(super) fn string(&self, name: &str) -> Result<Option<String>, ToolError> {
        let Some(raw) = self.value(name) else { return Ok(None) };
        let is_string = raw.get().starts_with('"');
        serde_json::from_str(raw.get()).map(Some).map_err(|error| match is_string {
            // A JSON escape can be a lone surrogate, which is not Unicode text.
            true => wrong(name, &format!("a string of Unicode text ({})", without_position(&error)), raw),
            false => wrong(name, "a string", raw),
        })
    }

    /// Takes a string.
    pub(super) fn required_string(&self, name: &str) -> Result<String, ToolError> {
        let missing = || ToolError::Arguments(format!("`{name}`: expected a string, found nothing"));
        self.string(name)?.ok_or_else(missing)
    }

    /// Takes an optional integer in a range. `5.0` is an integer, too.
    pub(super) fn integer(&self, name: &str, range: RangeInclusive<usize>) -> Result<Option<usize>, ToolError> {
        let Some(raw) = self.value(name) else { return Ok(None) };
        let expected = || format!("an integer from {} to {}", range.start(), range.end());
        parse_integer(raw.get(), &range).map(Some).ok_or_else(|| wrong(name, &expected(), raw))
    }

    /// The value of an argument. `null` counts as absent.
    fn value(&self, name: &str) -> Option<&'a RawValue> {
        let member = self.members.iter().find(|(known, _)| *known == name);
        member.map(|(_, raw)| *raw).filter(|raw| raw.get() != "null")
    }
}

fn wrong(name: &str, expected: &str, raw: &RawValue) -> ToolError {
    ToolError::Arguments(format!("`{name}`: expected {expected}, found {}", found(raw)))
}

/// Returns the value of a JSON number, if it is an integer in this range. In JSON Schema (2020-12, section 6.1.1 of the
/// validation) numbers with a zero fraction are integers, so `5`, `5.0` and `0.5e1` are the same. The value is exact,
/// and is computed from the text in linear time.
fn parse_integer(number: &str, range: &RangeInclusive<usize>) -> Option<usize> {
    /// A number of digits that no `usize` reaches.
    const MAX_DIGITS: usize = 20;
    let (is_negative, number) = number.strip_prefix('-').map_or((false, number), |number| (true, number));
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [whole, fraction].concat();
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let significant = digits.trim_matches('0');
    let value = if significant.is_empty() {
        0
    } else {
        // The number of digits before the point, without leading zeros.
        let leading = digits.len().saturating_sub(digits.trim_start_matches('0').len());
        let before_point = i64::try_from(whole.len()).ok()?.checked_sub(i64::try_from(leading).ok()?)?;
        let before_point = usize::try_from(before_point.checked_add(exponent.parse().ok()?)?).ok()?;
        if significant.len() > before_point || before_point > MAX_DIGITS || is_negative {
            return None;
        }
        format!("{significant:0<before_point$}").parse().ok()?
    };
    range.contains(&value).then_some(value)
}

/// Reads the members of an object with these names.
struct Members<'n> {
    names: &'n [&'static str],
}

impl<'a> Visitor<'a> for Members<'_> {
    type Value = Vec<(&'static str, &'a RawValue)>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut read: Self::Value = Vec::new();
        while let Some(name) = members.next_key::<String>()? {
            let Some(known) = self.names.iter().find(|known| **known == name) else {
                let (name, known) = (quote(&name), self.names.join("`, `"));
                return Err(A::Error::custom(format_args!("there is no argument {name}; expected `{known}`")));
            };
            if read.iter().any(|(other, _)| other == known) {
                return Err(A::Error::custom(format_args!("`{known}`: expected it once, found it twice")));
            }
            read.push((*known, members.next_value()?));
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 2] = ["query", "limit"];

    fn parse(text: &str) -> Result<Arguments<'_>, ToolError> {
        Arguments::parse(Some(text), &NAMES)
    }

    fn message<T>(result: Result<T, ToolError>) -> String {
        match result {
            Err(ToolError::Arguments(message)) => message,
            _ => panic!("not an error of the arguments"),
        }
    }

    #[test]
    fn arguments_are_taken_by_their_names() {
        let arguments = parse(r#"{ "query": "a\"b", "limit": 100 }"#).unwrap();
        assert_eq!(arguments.required_string("query").unwrap(), "a\"b");
        assert_eq!(arguments.integer("limit", 1..=100).unwrap(), Some(100));
        for absent in [None, Some(r#"{ "query": null, "limit": null }"#)] {
            let arguments = Arguments::parse(absent, &NAMES).unwrap();
            assert_eq!(arguments.string("query").unwrap(), None);
            assert_eq!(arguments.integer("limit", 1..=100).unwrap(), None);
        }
    }

    #[test]
    fn a_wrong_argument_is_named_with_what_is_expected_and_what_was_found() {
        let long = format!("\"{}\"", "x".repeat(1000));
        for (limit, found) in [
            ("101", "101"),
            ("0", "0"),
            ("-1", "-1"),
            ("1.5", "1.5"),
            ("\"many\"", "the string \"many\""),
            (long.as_str(), "a long string"),
            ("true", "true"),
            ("[1]", "an array"),
            ("{}", "an object"),
        ] {
            let text = format!(r#"{{ "limit": {limit} }}"#);
            let wrong = message(parse(&text).unwrap().integer("limit", 1..=100));
            assert_eq!(wrong, format!("`limit`: expected an integer from 1 to 100, found {found}"));
        }
        let wrong = message(parse(r#"{ "query": 5 }"#).unwrap().string("query"));
        assert_eq!(wrong, "`query`: expected a string, found 5");
        let wrong = message(parse(r#"{ "query": "\ud83d x" }"#).unwrap().string("query"));
        let expected =
            "`query`: expected a string of Unicode text (unexpected end of hex escape), found the string \"\\ud83d x\"";
        assert_eq!(wrong, expected);
        let wrong = message(parse("{}").unwrap().required_string("query"));
        assert_eq!(wrong, "`query`: expected a string, found nothing");
    }

    #[test]
    fn an_integer_may_be_written_with_a_zero_fraction() {
        for limit in ["5", "5.0", "0.5e1"] {
            let text = format!(r#"{{ "limit": {limit} }}"#);
            assert_eq!(parse(&text).unwrap().integer("limit", 1..=100).unwrap(), Some(5), "{limit}");
        }
    }

    #[test]
    fn other_arguments_and_repeated_ones_are_refused() {
        let wrong = message(parse(r#"{ "query": "a", "words": "b" }"#));
        assert_eq!(wrong, "there is no argument `words`; expected `query`, `limit`");
        let wrong = message(parse(r#"{ "query": "a", "query": "b" }"#));
        assert_eq!(wrong, "`query`: expected it once, found it twice");
    }

    #[test]
    fn a_number_with_a_zero_fraction_is_an_integer() {
        for (number, expected) in [
            ("5", Some(5)),
            ("5.0", Some(5)),
            ("5.000000", Some(5)),
            ("1e1", Some(10)),
            ("1E+1", Some(10)),
            ("0.5e1", Some(5)),
            ("50e-1", Some(5)),
            ("100", Some(100)),
            ("0.00100e5", Some(100)),
            ("0", Some(0)),
            ("-0", Some(0)),
            ("-0.0e9999999999999999999", Some(0)),
            ("0.5", None),
            ("1.5", None),
            ("15e-1", None),
            ("-5", None),
            ("101", None),
            ("100.00000000000000000000000001", None),
            ("1e2", Some(100)),
            ("1e3", None),
            ("1e9999999999999999999", None),
            ("1e-9999999999999999999", None),
            ("1e999999999", None),
            ("99999999999999999999999999", None),
            ("true", None),
            ("\"5\"", None),
            ("[5]", None),
        ] {
            assert_eq!(parse_integer(number, &(0..=100)), expected, "{number}");
        }
        assert_eq!(parse_integer(&usize::MAX.to_string(), &(0..=usize::MAX)), Some(usize::MAX));
        assert_eq!(parse_integer("18446744073709551616", &(0..=usize::MAX)), None);
        let (zeros, long) = ("0".repeat(1 << 16), format!("1.{}", "0".repeat(1 << 16)));
        assert_eq!(parse_integer(&format!("0.{zeros}1e{}", (1 << 16) + 1), &(0..=100)), Some(1));
        assert_eq!(parse_integer(&long, &(0..=100)), Some(1));
    }
}
