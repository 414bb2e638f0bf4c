//! Label matchers: `job="api",code=~"5.."`.
//!
//! Matchers are parsed and written again, so no value of `match` can extend the query beyond the braces of its selector
//! (injection): a rule for `series/up` covers only that metric.

use mcp_provider::{Failure, Result};

/// The operators; operators of two characters come first.
const OPERATORS: [&str; 4] = ["=~", "!~", "!=", "="];

/// A label matcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Matcher {
    label: String,
    operator: &'static str,
    value: String,
}

impl std::fmt::Display for Matcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}{}", self.label, self.operator, quote(&self.value))
    }
}

/// Parses matchers that are separated by commas, with or without surrounding braces.
///
/// # Errors
///
/// [`Failure::InvalidRequest`] if the text is anything else.
pub(crate) fn parse(text: &str) -> Result<Vec<Matcher>> {
    let trimmed = text.trim();
    let mut rest = trimmed.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(trimmed).trim();
    let mut matchers = Vec::new();
    while !rest.is_empty() {
        let (matcher, after) = parse_one(rest).ok_or_else(|| {
            Failure::invalid(format!(
                "expected label matchers such as `job=\"api\",code=~\"5..\"` for `match`, found `{text}`"
            ))
        })?;
        matchers.push(matcher);
        rest = after;
    }
    Ok(matchers)
}

/// Parses the first matcher and its comma. Returns the rest of the text.
fn parse_one(text: &str) -> Option<(Matcher, &str)> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
    let (label, rest) = text.split_at_checked(end)?;
    if !is_label(label) {
        return None;
    }
    let rest = rest.trim_start();
    let operator = OPERATORS.into_iter().find(|operator| rest.starts_with(operator))?;
    let (value, rest) = parse_string(rest.strip_prefix(operator)?.trim_start())?;
    let rest = rest.trim_start();
    let rest = if rest.is_empty() { rest } else { rest.strip_prefix(',')?.trim_start() };
    Some((Matcher { label: label.to_owned(), operator, value }, rest))
}

/// Parses a quoted string with the escapes `\"`, `\\`, `\n` and `\t`. Before any other character, a backslash stands
/// for itself, as people write regular expressions. Returns the rest of the text.
fn parse_string(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let mut value = String::new();
    let mut characters = text.char_indices().skip(1);
    while let Some((at, c)) = characters.next() {
        match c {
            '\\' => match characters.next()?.1 {
                'n' => value.push('\n'),
                't' => value.push('\t'),
                c if c == quote || c == '\\' => value.push(c),
                c => value.extend(['\\', c]),
            },
            c if c == quote => return Some((value, text.get(at.saturating_add(1)..)?)),
            c => value.push(c),
        }
    }
    None
}

/// Returns whether a text is the name of a label.
pub(crate) fn is_label(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Returns a selector of a metric: `{__name__="up",job="api"}`.
pub(crate) fn selector(metric: &str, matchers: &[Matcher]) -> String {
    let mut selector = format!("{{__name__={}", quote(metric));
    for matcher in matchers {
        selector.push_str(&format!(",{matcher}"));
    }
    selector.push('}');
    selector
}

/// Writes a PromQL string.
pub(crate) fn quote(value: &str) -> String {
    let mut quoted = String::with_capacity(value.len().saturating_add(2));
    quoted.push('"');
    for c in value.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Returns an RE2 regular expression that matches exactly this text.
pub(crate) fn escape_regex(text: &str) -> String {
    text.chars()
        .flat_map(|c| (!c.is_alphanumeric() && c.is_ascii() && c != '_').then_some('\\').into_iter().chain([c]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(text: &str) -> Option<String> {
        Some(selector("up", &parse(text).ok()?))
    }

    #[test]
    fn matchers_are_written_anew() {
        for (text, expected) in [
            ("", r#"{__name__="up"}"#),
            (r#"job="api""#, r#"{__name__="up",job="api"}"#),
            (r#"{ job = 'api' , code=~"5..", }"#, r#"{__name__="up",job="api",code=~"5.."}"#),
            (r#"path!~"/a\d+\\.html",x!="\"""#, r#"{__name__="up",path!~"/a\\d+\\.html",x!="\""}"#),
        ] {
            assert_eq!(written(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_list_of_matchers_is_refused() {
        for text in [
            r#"job"#,
            r#"job="api"#,
            r#"job=api"#,
            r#"job="api"} or vector(1) or up{job="x""#,
            r#"job="api" or x="y""#,
            r#"1a="b""#,
            r#","#,
            r#"a="b",,c="d""#,
            r#"a=="b""#,
            "a=`b`",
            r#"é="b""#,
        ] {
            assert!(matches!(parse(text), Err(Failure::InvalidRequest(_))), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_value_comes_back_from_its_quoted_form(value in "\\PC*") {
            let text = format!("a={}", quote(&value));
            let parsed = parse(&text).unwrap();
            prop_assert_eq!(&parsed, &[Matcher { label: "a".to_owned(), operator: "=", value }]);
        }

        #[test]
        fn no_text_breaks_the_parser_and_what_it_accepts_is_its_own_form(text in "[a-c={}\"',\\\\~! ]{0,20}") {
            if let Ok(matchers) = parse(&text) {
                let written: Vec<String> = matchers.iter().map(Matcher::to_string).collect();
                prop_assert_eq!(parse(&written.join(",")), Ok(matchers));
            }
        }
    }
}
