//! Templates for paths, the other way round: which values, put into a template, give this path?
//!
//! RFC 6570 defines how a template is expanded, and leaves matching open. What is matched here:
//!
//! | expression | matches |
//! |---|---|
//! | `{var}` | at least one character, all in one segment |
//! | `{+var}` | any number of segments, as many as fit; no encoded slash, because no file's name has one |
//! | `{?a,b}` | a query of any of these, each at most once, in any order; or no query |
//! | `{&a}` | the same, after literals such as `?all=true`, which must be there |
//!
//! Values are percent-decoded; a NUL or a malformed percent-encoding matches nothing. Where a path can be taken
//! apart in several ways, earlier variables take as much as they can. The other operators and modifiers of RFC 6570, two
//! variables with nothing between them, and a variable named twice are errors of [`PathTemplate::parse`].
//!
//! A hostile path can make matching try every place that a variable may end at, but each place once only: with `n` bytes and
//! `v` variables, `v·n²` steps at worst.

mod matching;
mod parse;

use iri_string::spec::UriSpec;
use iri_string::template::UriTemplateStr;
use iri_string::template::simple_context::SimpleContext;

/// A template for paths that can be matched and expanded.
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
    /// Text that stands as it is.
    Literal(String),
    /// `{var}`.
    Segment(String),
    /// `{+var}`.
    Rest(String),
}

/// A part of a template's query.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Parameter {
    /// Text that stands as it is: `all=true`.
    Literal(String),
    /// A variable of `{?…}` or `{&…}`.
    Variable(String),
}

/// Why a template cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// It is no URI template.
    #[error("{template:?} is no URI template (RFC 6570): {reason}")]
    Syntax {
        /// The template.
        template: String,
        /// What is wrong, and where.
        reason: String,
    },
    /// It is one, but cannot be matched.
    #[error("the template {template:?} cannot be matched: {reason}")]
    Unmatchable {
        /// The template.
        template: String,
        /// What stands in the way, and what to write instead.
        reason: String,
    },
    /// A variable of the path has no value, or an empty one where there must be something.
    #[error("the template {template:?} needs a value for `{variable}`")]
    Missing {
        /// The template.
        template: String,
        /// The variable.
        variable: String,
    },
}

impl PathTemplate {
    /// Takes a template apart.
    ///
    /// # Errors
    ///
    /// When it is no template, or one that cannot be matched: see the table above.
    pub fn parse(template: &str) -> Result<Self, TemplateError> {
        parse::parse(template)
    }

    /// The template as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The names of its variables, in order.
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

    /// The values that give this path, or none when none do.
    pub fn matches(&self, path: &str) -> Option<Captures> {
        matching::matches(self, path)
    }

    /// The path that these values give.
    ///
    /// Values are not percent-encoded. This is the expansion of RFC 6570, but that a value of `{+var}` is taken for names
    /// separated by slashes, of which everything else is encoded: so a `?` or a `%` in a file's name stays one.
    ///
    /// # Errors
    ///
    /// [`TemplateError::Missing`] when a variable of the path (not of the query) has no value, or that of `{var}` is empty.
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
        Ok(template.expand::<UriSpec, _>(&context).map_err(syntax)?.to_string())
    }
}

/// The values that a path has for the variables of a template.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Captures(Vec<(String, Vec<u8>)>);

impl Captures {
    /// The value of a variable, percent-decoded; none where the path has none, or where it is no UTF-8.
    pub fn get(&self, variable: &str) -> Option<&str> {
        std::str::from_utf8(self.get_bytes(variable)?).ok()
    }

    /// The same, in whatever bytes it is.
    pub fn get_bytes(&self, variable: &str) -> Option<&[u8]> {
        self.0.iter().find(|(name, _)| name == variable).map(|(_, value)| value.as_slice())
    }
}

#[cfg(test)]
mod tests;
