//! Matching of paths against templates.

use super::{Captures, Parameter, Part, PathTemplate};
use crate::path::{decode_part, split_query};
use std::collections::HashSet;

pub(super) fn matches(template: &PathTemplate, path: &str) -> Option<Captures> {
    let (path, query) = split_query(path);
    let mut values = Vec::new();
    if !match_parts(&template.path, path, &mut values, &mut HashSet::new()) {
        return None;
    }
    // Values were collected from last to first.
    values.reverse();
    let mut captures = Captures::default();
    for (part, value) in values {
        let (name, value) = match part {
            Part::Literal(_) => continue,
            Part::Segment(name) => (name, decode_part(value).ok()?),
            Part::Rest(name) => {
                let slashes = value.bytes().filter(|byte| *byte == b'/').count();
                let value = decode_part(value).ok()?;
                let as_many = value.iter().filter(|byte| **byte == b'/').count() == slashes;
                (name, as_many.then_some(value)?)
            }
        };
        captures.0.push((name.clone(), value));
    }
    match_query(&template.query, query, &mut captures)?;
    Some(captures)
}

/// Returns whether `parts` match all of `text`. `values` receives the variables' values, last first. `failed` memoizes
/// the positions (as remaining lengths) that are known not to match, so that none is tried twice.
fn match_parts<'t, 'p>(
    parts: &'t [Part],
    text: &'p str,
    values: &mut Vec<(&'t Part, &'p str)>,
    failed: &mut HashSet<(usize, usize)>,
) -> bool {
    let Some((part, others)) = parts.split_first() else {
        return text.is_empty();
    };
    if let Part::Literal(literal) = part {
        return text.strip_prefix(literal.as_str()).is_some_and(|text| match_parts(others, text, values, failed));
    }
    if failed.contains(&(parts.len(), text.len())) {
        return false;
    }
    let (shortest, longest) = match part {
        Part::Rest(_) => (0, text.len()),
        _ => (1, text.find('/').unwrap_or(text.len())),
    };
    for end in (shortest..=longest).rev() {
        let Some((value, behind)) = text.split_at_checked(end) else {
            continue;
        };
        // Without this check, each position would cost a call.
        let fits = match others.first() {
            Some(Part::Literal(literal)) => behind.starts_with(literal.as_str()),
            _ => behind.is_empty(),
        };
        if fits && !splits_percent_encoding(value) && match_parts(others, behind, values, failed) {
            values.push((part, value));
            return true;
        }
        if others.is_empty() {
            break;
        }
    }
    failed.insert((parts.len(), text.len()));
    false
}

/// Returns whether the value ends within a percent-encoding, whose rest would be misread as something else.
fn splits_percent_encoding(value: &str) -> bool {
    let mut last = value.bytes().rev();
    last.next() == Some(b'%') || last.next() == Some(b'%')
}

fn match_query(parameters: &[Parameter], query: Option<&str>, captures: &mut Captures) -> Option<()> {
    let given: Vec<&str> =
        query.filter(|query| !query.is_empty()).map(|query| query.split('&').collect()).unwrap_or_default();
    let is_literal =
        |pair: &str| parameters.iter().any(|parameter| matches!(parameter, Parameter::Literal(text) if text == pair));
    for parameter in parameters {
        if let Parameter::Literal(text) = parameter
            && given.iter().filter(|pair| *pair == text).count() != 1
        {
            return None;
        }
    }
    for pair in given {
        if is_literal(pair) {
            continue;
        }
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let known = parameters.iter().any(|parameter| matches!(parameter, Parameter::Variable(known) if known == name));
        if !known || captures.get_bytes(name).is_some() {
            return None;
        }
        // In a query `?` is an ordinary character (RFC 3986, section 3.4).
        captures.0.push((name.to_owned(), decode_part(&value.replace('?', "%3F")).ok()?));
    }
    Some(())
}
