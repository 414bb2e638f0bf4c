//! Path templates: matching a path against an RFC 6570 template to extract the values of its variables.
//!
//! RFC 6570 defines how a template is expanded, and leaves matching open. The supported matching rules:
//!
//! | expression | matches |
//! |---|---|
//! | `{var}` | at least one character, all in one segment |
//! | `{+var}` | any number of segments, greedy; no encoded slash, because no file name contains one |
//! | `{?a,b}` | a query with any of these, each at most once, in any order; or no query |
//! | `{&a}` | the same, after literals such as `?all=true`, which are required |
//!
//! Values are percent-decoded; a NUL or a malformed percent-encoding never matches. If a path can be split in several
//! ways, earlier variables are greedy. The other operators and modifiers of RFC 6570, two adjacent variables, and a
//! variable that occurs twice are errors of [`PathTemplate::parse`].
//!
//! Matching backtracks with memoization: a hostile path can force it to try every end position of a variable, but each
//! only once. The worst case is `v·n²` steps for `n` bytes and `v` variables.

mod matching;
mod parse;

use iri_string::spec::UriSpec;
use iri_string::template::UriTemplateStr;
use iri_string::template::simple_context::SimpleContext;

/// A path template that can be matched and expanded.
///
/// ```
/// use mcp_provider::PathTemplate;
///
/// let log = PathTemplate::parse("log/{rev}{?path,limit}")?;
/// let captures = log.matches("log/feature%2Fx?limit=3").unwrap();
/// assert_eq!(captures.get("rev"), Some("feature/x"));
/// assert_eq!(captures.get("limit"), Some("3"));
/// assert_eq!(captures.get("path"), None);
/// assert!(log.matches("tree/main").is_none());
///
/// assert_eq!(log.expand(&[("rev", "feature/x"), ("limit", "3")])?, "log/feature%2Fx?limit=3");
/// # Ok::<(), mcp_provider::TemplateError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathTemplate {
    text: String,
    path: Vec<Part>,
    query: Vec<Parameter>,
}

/// A part of a template before its query.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// Literal text.
    Literal(String),
    /// `{var}`.
    Segment(String),
    /// `{+var}`.
    Rest(String),
}

/// A part of a template's query.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Parameter {
    /// Literal text: `all=true`.
    Literal(String),
    /// A variable of `{?…}` or `{&…}`.
    Variable(String),
}

/// Why a template is unusable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// It is not a URI template.
    #[error("{template:?} is not a URI template (RFC 6570): {reason}")]
    Syntax {
        /// The template.
        template: String,
        /// The error and its position.
        reason: String,
    },
    /// It is valid, but cannot be matched.
    #[error("the template {template:?} cannot be matched: {reason}")]
    Unmatchable {
        /// The template.
        template: String,
        /// The obstacle, and the replacement to write.
        reason: String,
    },
    /// A variable of the path has no value, or an empty one where one is required.
    #[error("the template {template:?} needs a value for `{variable}`")]
    Missing {
        /// The template.
        template: String,
        /// The variable.
        variable: String,
    },
}

impl PathTemplate {
    /// Parses a template.
    ///
    /// # Errors
    ///
    /// [`TemplateError`] if it is not a template, or one that cannot be matched: see the table above.
    pub fn parse(template: &str) -> Result<Self, TemplateError> {
        parse::parse(template)
    }

    /// Returns the template's source text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the names of the variables, in order.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        let path = self.path.iter().filter_map(|part| match part {
            Part::Literal(_) => None,
            Part::Segment(name) | Part::Rest(name) => Some(name.as_str()),
        });
        path.chain(self.query.iter().filter_map(|parameter| match parameter {
            Parameter::Literal(_) => None,
            Parameter::Variable(name) => Some(name.as_str()),
        }))
    }

    /// Matches a path and returns the values of the variables; `None` if it does not match.
    pub fn matches(&self, path: &str) -> Option<Captures> {
        matching::matches(self, path)
    }

    /// Expands the template to a path.
    ///
    /// Values are not percent-encoded. The expansion follows RFC 6570, except that a value of `{+var}` is a list of
    /// names separated by slashes, each of which is encoded as a segment: a `?` or a `%` in a file name is preserved.
    /// The path is in the host's normal form: `@` is not encoded, although the expansion of some clients encodes it.
    ///
    /// # Errors
    ///
    /// [`TemplateError::Missing`] if a variable of the path (not of the query) has no value, or the value of `{var}` is
    /// empty.
    pub fn expand(&self, values: &[(&str, &str)]) -> Result<String, TemplateError> {
        let value = |name: &str| values.iter().find(|(given, _)| *given == name).map(|(_, value)| *value);
        let mut context = SimpleContext::new();
        for (name, value) in values {
            context.insert(*name, *value);
        }
        for part in &self.path {
            let (name, encoded) = match part {
                Part::Literal(_) => continue,
                Part::Segment(name) => (name, value(name).filter(|value| !value.is_empty()).map(str::to_owned)),
                Part::Rest(name) => (name, value(name).map(crate::path::encode)),
            };
            let missing = || TemplateError::Missing { template: self.text.clone(), variable: name.clone() };
            context.insert(name.as_str(), encoded.ok_or_else(missing)?.as_str());
        }
        let syntax = |error: iri_string::template::Error| self::parse::syntax_error(&self.text, &error);
        let template = UriTemplateStr::new(&self.text).map_err(syntax)?;
        Ok(crate::path::normalize(&template.expand::<UriSpec, _>(&context).map_err(syntax)?.to_string()))
    }
}

/// The values of a template's variables, extracted from a path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Captures(Vec<(String, Vec<u8>)>);

impl Captures {
    /// Returns the percent-decoded value of a variable; `None` if the path has none, or it is not UTF-8.
    pub fn get(&self, variable: &str) -> Option<&str> {
        std::str::from_utf8(self.get_bytes(variable)?).ok()
    }

    /// Returns the percent-decoded bytes of a variable.
    pub fn get_bytes(&self, variable: &str) -> Option<&[u8]> {
        self.0.iter().find(|(name, _)| name == variable).map(|(_, value)| value.as_slice())
    }
}

#[cfg(test)]
mod tests;
