//! PostgreSQL array literals: `{1,NULL,3}`, `{{"a b","c\"d"},{e,f}}`, `[0:1]={1,2}`.

use std::fmt::Write as _;

use crate::sql::bindings::ScalarContent;
use crate::sql::bindings::databases::{Scalar, SqlArray};

/// The maximum number of dimensions in PostgreSQL.
const MAX_DIMENSIONS: usize = 6;

/// A literal cannot be written: the dimensions do not match the elements.
#[derive(Debug, thiserror::Error)]
#[error("an array has {elements} elements, which its dimensions do not have")]
pub(super) struct DimensionError {
    elements: usize,
}

/// Reads a literal, and its elements with `scalar`. None if the text is not a literal.
pub(super) fn parse(text: &str, scalar: impl Fn(&str) -> Scalar) -> Option<SqlArray> {
    // Bounds precede an array that does not begin at 1.
    let text = if text.starts_with('[') { text.split_once('=')?.1 } else { text };
    let mut parser = Parser { rest: text, dimensions: Vec::new(), counts: Vec::new(), elements: Vec::new() };
    parser.array(0, &scalar)?;
    let Parser { rest, dimensions, elements, .. } = parser;
    let dimensions = if elements.is_empty() { Vec::new() } else { dimensions };
    rest.is_empty().then_some(SqlArray { dimensions, elements })
}

struct Parser<'a> {
    rest: &'a str,
    /// The length of the first array at each depth.
    dimensions: Vec<u32>,
    /// The current length of the open array at each depth.
    counts: Vec<u32>,
    elements: Vec<Scalar>,
}

impl Parser<'_> {
    fn take(&mut self, expected: char) -> Option<()> {
        self.rest = self.rest.strip_prefix(expected)?;
        Some(())
    }

    fn array(&mut self, depth: usize, scalar: &impl Fn(&str) -> Scalar) -> Option<()> {
        if depth >= MAX_DIMENSIONS {
            return None;
        }
        self.take('{')?;
        self.counts.truncate(depth);
        self.counts.push(0);
        while !self.rest.starts_with('}') {
            match self.rest.starts_with('{') {
                true => self.array(depth.saturating_add(1), scalar)?,
                false => {
                    let element = self.element(scalar)?;
                    self.elements.push(element);
                }
            }
            let count = self.counts.get_mut(depth)?;
            *count = count.saturating_add(1);
            self.counts.truncate(depth.saturating_add(1));
            if !self.rest.starts_with('}') {
                self.take(',')?;
            }
        }
        self.take('}')?;
        if self.dimensions.len() <= depth {
            self.dimensions.resize(depth.saturating_add(1), 0);
        }
        *self.dimensions.get_mut(depth)? = *self.counts.get(depth)?;
        Some(())
    }

    fn element(&mut self, scalar: &impl Fn(&str) -> Scalar) -> Option<Scalar> {
        if let Some(quoted) = self.rest.strip_prefix('"') {
            let (mut text, mut characters) = (String::new(), quoted.chars());
            loop {
                match characters.next()? {
                    '"' => break,
                    '\\' => text.push(characters.next()?),
                    character => text.push(character),
                }
            }
            self.rest = characters.as_str();
            return Some(scalar(&text));
        }
        let (text, rest) = self.rest.split_at_checked(self.rest.find([',', '}'])?)?;
        if text.is_empty() || text.contains(['{', '"', '\\']) {
            return None;
        }
        self.rest = rest;
        Some(if text.eq_ignore_ascii_case("null") { Scalar::Null } else { scalar(text) })
    }
}

/// Writes a literal.
pub(super) fn render(array: &SqlArray) -> Result<String, DimensionError> {
    let SqlArray { dimensions, elements } = array;
    let error = || DimensionError { elements: elements.len() };
    let expected =
        dimensions.iter().try_fold(1_usize, |product, length| product.checked_mul(usize::try_from(*length).ok()?));
    if dimensions.is_empty() || elements.is_empty() {
        return if elements.is_empty() { Ok("{}".to_owned()) } else { Err(error()) };
    }
    if expected != Some(elements.len()) || dimensions.len() > MAX_DIMENSIONS {
        return Err(error());
    }
    let mut text = String::new();
    render_dimension(dimensions, elements, &mut text);
    Ok(text)
}

fn render_dimension(dimensions: &[u32], elements: &[Scalar], text: &mut String) {
    let [length, inner @ ..] = dimensions else { return };
    let length = usize::try_from(*length).unwrap_or(usize::MAX);
    let size = elements.len().checked_div(length).filter(|size| *size > 0).unwrap_or(1);
    text.push('{');
    for (index, part) in elements.chunks(size).enumerate() {
        if index > 0 {
            text.push(',');
        }
        match part {
            [element] if inner.is_empty() => render_element(element, text),
            part => render_dimension(inner, part, text),
        }
    }
    text.push('}');
}

fn render_element(element: &Scalar, text: &mut String) {
    let Some(value) = scalar_text(element) else { return text.push_str("NULL") };
    text.push('"');
    for character in value.chars() {
        if matches!(character, '"' | '\\') {
            text.push('\\');
        }
        text.push(character);
    }
    text.push('"');
}

/// The text form of a value. None for NULL.
pub(super) fn scalar_text(scalar: &Scalar) -> Option<String> {
    Some(match scalar.into() {
        ScalarContent::Null => return None,
        ScalarContent::Boolean(value) => value.to_string(),
        ScalarContent::Integer(value) => value.to_string(),
        ScalarContent::Float(value) if value.is_infinite() => {
            if value.is_sign_positive() { "Infinity" } else { "-Infinity" }.to_owned()
        }
        ScalarContent::Float(value) => value.to_string(),
        ScalarContent::Bytes(bytes) => {
            let mut text = String::with_capacity(bytes.len().saturating_mul(2).saturating_add(2));
            text.push_str("\\x");
            for byte in bytes {
                // Writing to a string cannot fail.
                let _ = write!(text, "{byte:02x}");
            }
            text
        }
        ScalarContent::Text(text) => text.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(text: &str) -> Option<(Vec<u32>, Vec<Option<String>>)> {
        let array = parse(text, |text| Scalar::Text(text.to_owned()))?;
        let element = |scalar: Scalar| if let Scalar::Text(text) = scalar { Some(text) } else { None };
        Some((array.dimensions, array.elements.into_iter().map(element).collect()))
    }

    fn some(texts: &[&str]) -> Vec<Option<String>> {
        texts.iter().map(|text| Some((*text).to_owned())).collect()
    }

    #[test]
    fn a_literal_is_read_with_its_dimensions() {
        assert_eq!(texts("{}"), Some((vec![], vec![])));
        assert_eq!(texts("{a,b}"), Some((vec![2], some(&["a", "b"]))));
        assert_eq!(texts("[0:1]={a,b}"), Some((vec![2], some(&["a", "b"]))));
        assert_eq!(texts("{{a,b,c},{d,e,f}}"), Some((vec![2, 3], some(&["a", "b", "c", "d", "e", "f"]))));
        assert_eq!(texts("{{{a}},{{b}}}"), Some((vec![2, 1, 1], some(&["a", "b"]))));
        assert_eq!(texts(r#"{"a b","","c\"d\\e",NULL,"NULL"}"#).unwrap().1[4], Some("NULL".to_owned()));
        assert_eq!(texts(r#"{"a b","","c\"d\\e",NULL}"#).unwrap().1[2..], [Some("c\"d\\e".to_owned()), None]);
    }

    #[test]
    fn what_is_no_literal_is_not_read() {
        for text in ["", "{", "{a", "{a}b", "a", "{a;b}x", "[0:1]", "{,}", "{\"a}", "{{{{{{{a}}}}}}}"] {
            assert_eq!(texts(text), None, "{text}");
        }
    }

    #[test]
    fn elements_that_the_dimensions_do_not_have_are_refused() {
        let elements = vec![Scalar::Integer(1), Scalar::Integer(2), Scalar::Integer(3)];
        for dimensions in [vec![], vec![2], vec![2, 2], vec![3, 0], vec![1; 7]] {
            assert!(render(&SqlArray { dimensions, elements: elements.clone() }).is_err());
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(rows in 1..4_u32, texts in proptest::collection::vec(".*", 1..5)) {
            let row = texts.iter().map(|text| Scalar::Text(text.clone()));
            let elements: Vec<_> = (0..rows).flat_map(|_| row.clone()).collect();
            let dimensions = vec![rows, u32::try_from(texts.len()).unwrap()];
            let literal = render(&SqlArray { dimensions: dimensions.clone(), elements }).unwrap();
            let read = super::parse(&literal, |text| Scalar::Text(text.to_owned())).unwrap();
            prop_assert_eq!(read.dimensions, dimensions);
            let read: Vec<_> = read.elements.iter().map(|scalar| format!("{scalar:?}")).collect();
            let expected: Vec<_> = (0..rows).flat_map(|_| row.clone()).map(|scalar| format!("{scalar:?}")).collect();
            prop_assert_eq!(read, expected);
        }
    }
}
