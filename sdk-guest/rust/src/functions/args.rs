//! The arguments of a function: the variables of its template.

use std::any::type_name;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::file::is_file_name;
use crate::{Captures, Failure, Result};

/// The longest value that an error quotes, in characters.
const MAX_QUOTED: usize = 100;

/// The arguments of a function: the values of the template's variables, percent-decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Args {
    captures: Captures,
    one_of: Vec<(String, Vec<String>)>,
}

impl Args {
    pub(super) fn new(captures: Captures, one_of: Vec<(String, Vec<String>)>) -> Self {
        Self { captures, one_of }
    }

    /// Creates arguments for tests of a function: the values of a template's variables in a path.
    ///
    /// # Errors
    ///
    /// The template cannot be used, or the path is not one of it.
    pub fn of(template: &str, path: &str) -> Result<Self> {
        let captures = crate::PathTemplate::parse(template)?.matches(path).ok_or(Failure::NotFound)?;
        Ok(Self::new(captures, Vec::new()))
    }

    /// Returns the text of a variable; `None` if it is missing, or empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.captures.get(name).filter(|value| !value.is_empty())
    }

    /// Returns the text of a variable that is required.
    ///
    /// # Errors
    ///
    /// [`Failure::InvalidRequest`] if it is missing or empty, [`Failure::NotFound`] if it is not UTF-8.
    pub fn text(&self, name: &str) -> Result<&str> {
        match (self.get(name), self.captures.get_bytes(name)) {
            (Some(value), _) => self.checked(name, value),
            (None, Some(bytes)) if !bytes.is_empty() => Err(Failure::NotFound),
            (None, _) => Err(Failure::invalid(format!("expected a value of `{name}`: `?{name}=…`"))),
        }
    }

    /// Converts a variable; `None` if it is missing or empty. Only the canonical spelling of a number is valid, so that
    /// a resource has one path.
    ///
    /// # Errors
    ///
    /// [`Failure::InvalidRequest`], which names the variable and what is expected, if it is of another type.
    pub fn parse<T: FromStr + Display>(&self, name: &str) -> Result<Option<T>> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let text = self.checked(name, text)?;
        // A fraction may have zeros at its end.
        let is_plain = |value: &T| match type_name::<T>() {
            "f32" | "f64" => text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'-' | b'.')),
            _ => value.to_string() == text,
        };
        let value = text.parse().ok().filter(|value| is_plain(value));
        value.map(Some).ok_or_else(|| expected(name, &expectation::<T>(), text))
    }

    /// Converts a variable, or returns the default if it is missing or empty: `of.or("days", 7)?`.
    ///
    /// # Errors
    ///
    /// As [`parse`](Self::parse).
    pub fn or<T: FromStr + Display>(&self, name: &str, default: T) -> Result<T> {
        Ok(self.parse(name)?.unwrap_or(default))
    }

    /// Returns the path of the file in `folder` that a variable names. The name must be a relative path without hidden
    /// segments, and cannot lead out of the folder (path traversal).
    ///
    /// # Errors
    ///
    /// [`Failure::NotFound`] for any other name.
    pub fn file_in(&self, name: &str, folder: impl AsRef<Path>) -> Result<PathBuf> {
        let file = self.text(name)?;
        if is_file_name(file) { Ok(folder.as_ref().join(file)) } else { Err(Failure::NotFound) }
    }

    /// Checks a text against the values that [`Resource::one_of`](super::Resource::one_of) declares.
    fn checked<'t>(&self, name: &str, text: &'t str) -> Result<&'t str> {
        match self.one_of.iter().find(|(variable, _)| variable == name) {
            Some((_, values)) if !values.iter().any(|value| value == text) => {
                Err(expected(name, &values.join(" or "), text))
            }
            _ => Ok(text),
        }
    }
}

fn expected(name: &str, expected: &str, found: &str) -> Failure {
    let mut shown: String = found.chars().take(MAX_QUOTED).collect();
    if shown.len() < found.len() {
        shown.push('…');
    }
    Failure::invalid(format!("`{name}` must be {expected}, found {shown:?}"))
}

/// What a type is, for a client.
fn expectation<T>() -> String {
    match type_name::<T>() {
        "bool" => "true or false".to_owned(),
        "f32" | "f64" => "a number, such as 0.5".to_owned(),
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" => "an integer from 0, such as 7".to_owned(),
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => "an integer, such as 7".to_owned(),
        other => format!("a {}", other.rsplit("::").next().unwrap_or(other)),
    }
}
