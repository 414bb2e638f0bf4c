//! [`Template`]: the URI templates of RFC 6570, composed like URIs.
//!
//! A provider returns a path template (`blob/{rev}/{+path}`), and the host prefixes it with the mount. Both are
//! valid templates, and the composed one expands to the mount followed by the expansion of the path template. The
//! literal parts of a template follow the rules of paths and are normalized; its expressions are unchanged.
//!
//! A value of a variable may be `..` or empty. The expansion is routed like any other URI, and rejected if it leaves
//! the mount.
//!
//! A template has at most [`Template::MAX_VARIABLES`] variables. The template and its expansion have at most
//! [`MAX_URI_LEN`] bytes.
//!
//! `iri-string` validates templates. It panics on a template such as `%€`, and on listing the variables of
//! `{x:99999}`, so both are rejected first. It also panics on expanding `{+x}` with a non-ASCII value, so expansion
//! is implemented here.

use std::collections::BTreeMap;

use iri_string::template::UriTemplateStr;
use iri_string::validate;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::error::{CharacterError, PathError, TemplateError, excerpt};
use super::mount::Mount;
use super::normalize::{self, Component};
use super::str_newtype;
use super::{MAX_TEMPLATE_VARIABLES, MAX_URI_LEN};

/// All except the unreserved characters.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// All except the unreserved and the reserved characters (RFC 3986, section 2.2).
const RESERVED: &AsciiSet = &UNRESERVED
    .remove(b':')
    .remove(b'/')
    .remove(b'?')
    .remove(b'#')
    .remove(b'[')
    .remove(b']')
    .remove(b'@')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=');

/// A valid URI template (RFC 6570) below a mount.
///
/// ```
/// use mcp_host_model::uri::Mount;
///
/// let mount: Mount = "git://linux/".parse()?;
/// let template = mount.compose_template("blob/{rev}/{+path}")?;
/// assert_eq!(template.as_str(), "git://linux/blob/{rev}/{+path}");
/// assert_eq!(template.path_template(), "blob/{rev}/{+path}");
/// assert_eq!(template.variables().collect::<Vec<_>>(), ["rev", "path"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UriTemplate {
    text: String,
    mount_len: usize,
}

str_newtype!(UriTemplate);

impl UriTemplate {
    /// The maximum number of variables in a template. Repeated variables count each time.
    pub const MAX_VARIABLES: usize = MAX_TEMPLATE_VARIABLES;

    /// Returns the provider's path template: the part after the mount.
    #[must_use]
    pub fn path_template(&self) -> &str {
        self.text.split_at_checked(self.mount_len).map_or("", |(_, path)| path)
    }

    /// Returns the names of the variables, in the order of their first occurrence.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        let names = pieces(&self.text).filter_map(|piece| match piece {
            Piece::Literal(_) => None,
            Piece::Expression(expression) => Some(variables(expression)),
        });
        let mut seen = Vec::new();
        names.flatten().map(|(name, _)| name).filter(move |name| {
            let is_new = !seen.contains(name);
            if is_new {
                seen.push(name);
            }
            is_new
        })
    }

    /// Expands the template with these values to a URI, or a prefix of one (RFC 6570, section 3). Variables without
    /// a value expand to nothing. A value is text, not percent-encoded: its `%` is encoded like any other character.
    ///
    /// Returns `None` if the result would exceed [`MAX_URI_LEN`] bytes. The expansion uses no more memory than that,
    /// however long the values are and however often the template repeats them.
    #[must_use]
    pub fn expand<'a>(&self, values: impl IntoIterator<Item = (&'a str, &'a str)>) -> Option<String> {
        self.expand_with(&values.into_iter().collect(), |_| String::new())
    }

    /// Expands the template as [`expand`](Self::expand) does, but replaces each variable of its path without a value
    /// by the result of `unset`.
    ///
    /// A separator beside such a variable that depends on whether it has a value belongs to the replaced text.
    pub fn expand_with(
        &self,
        values: &BTreeMap<&str, &str>,
        mut unset: impl FnMut(Unset<'_>) -> String,
    ) -> Option<String> {
        let mut expansion = Expansion(String::new());
        let mut is_in_query = false;
        for piece in pieces(&self.text) {
            match piece {
                Piece::Literal(literal) => {
                    is_in_query |= literal.contains('?');
                    expansion.push(literal)?;
                }
                Piece::Expression(expression) => {
                    is_in_query |= expression.starts_with(['?', '&']);
                    let in_path = |name: &str| match is_in_query {
                        true => String::new(),
                        false => unset(Unset { name, expression }),
                    };
                    expansion.expand(expression, values, in_path)?;
                }
            }
        }
        Some(expansion.0)
    }
}

/// A variable of the path of a template that has no value.
#[derive(Clone, Copy, Debug)]
pub struct Unset<'a> {
    /// Its name.
    pub name: &'a str,
    /// The expression that contains it.
    expression: &'a str,
}

impl Unset<'_> {
    /// Returns whether its expansion may have slashes.
    pub fn has_slashes(&self) -> bool {
        self.expression.starts_with(['+', '/'])
    }

    /// Returns whether its expansion, unless empty, begins with a slash.
    pub fn begins_with_slash(&self) -> bool {
        self.expression.starts_with('/')
    }

    /// Returns the beginning of its expansion if its value begins with this text; none if the beginning depends on
    /// other variables, or on the length of the value.
    pub fn beginning(&self, value: &str) -> Option<String> {
        let (name, encoded) = match self.expression.strip_prefix('+') {
            Some(name) => (name, RESERVED),
            None => (self.expression, UNRESERVED),
        };
        (name == self.name).then(|| utf8_percent_encode(value, encoded).to_string())
    }
}

/// The expansion so far: at most [`MAX_URI_LEN`] bytes.
struct Expansion(String);

impl Expansion {
    /// Appends a text, unless the result would be too long.
    fn push(&mut self, text: &str) -> Option<()> {
        let len = self.0.len().checked_add(text.len())?;
        (len <= MAX_URI_LEN).then(|| self.0.push_str(text))
    }

    /// Expands one expression (RFC 6570, section 3.2, with the table of appendix A). `unset` returns the replacement
    /// of a variable without a value, with the separator that its value would have.
    fn expand(
        &mut self,
        expression: &str,
        values: &BTreeMap<&str, &str>,
        mut unset: impl FnMut(&str) -> String,
    ) -> Option<()> {
        let (first, separator, is_named) = match expression.chars().next() {
            Some('+') => ("", ",", false),
            Some('.') => (".", ".", false),
            Some('/') => ("/", "/", false),
            Some(';') => (";", ";", true),
            Some('?') => ("?", "&", true),
            Some('&') => ("&", "&", true),
            _ => ("", ",", false),
        };
        let encoded = if expression.starts_with('+') { RESERVED } else { UNRESERVED };
        let mut is_first = true;
        for (name, prefix) in variables(expression) {
            let Some(value) = values.get(name).copied() else {
                self.push(&unset(name))?;
                continue;
            };
            self.push(if std::mem::take(&mut is_first) { first } else { separator })?;
            if is_named {
                self.push(name)?;
                self.push("=")?;
            }
            let length = prefix.and_then(|prefix| prefix.parse().ok()).unwrap_or(usize::MAX);
            let end = value.char_indices().nth(length).map_or(value.len(), |(end, _)| end);
            let value = value.split_at_checked(end).map_or(value, |(value, _)| value);
            utf8_percent_encode(value, encoded).try_for_each(|piece| self.push(piece))?;
        }
        Some(())
    }
}

impl Mount {
    /// Composes the URI template of a provider's path template.
    ///
    /// # Errors
    ///
    /// The text is not a template, or cannot expand to a path. This is a fault of the provider.
    pub fn compose_template(&self, path_template: &str) -> Result<UriTemplate, TemplateError> {
        let len = [self.as_str(), path_template].iter().map(|text| text.len()).sum();
        if len > MAX_URI_LEN {
            return Err(TemplateError::TooLong { len });
        }
        check(path_template)?;
        if self.is_prefix() && scheme_len(path_template).is_none() {
            return Err(TemplateError::NoScheme);
        }
        if path_template.contains('#') {
            return Err(TemplateError::Fragment);
        }
        // Expressions have no brackets, so these are in a literal.
        let bracket = path_template.char_indices().find(|(_, c)| matches!(c, '[' | ']'));
        if let Some((at, found)) = bracket {
            return Err(CharacterError::Character { found, at }.into());
        }
        let path_template = self.normalize_template(path_template);
        self.check_literals(&path_template)?;
        let text = [self.as_str(), &path_template].concat();
        check(&text)?;
        let mount_len = self.as_str().len();
        Ok(UriTemplate { text, mount_len })
    }

    /// Normalizes the literals of a path template.
    fn normalize_template(&self, path_template: &str) -> String {
        let mut out = String::with_capacity(path_template.len());
        let mut component = if self.owns_all_hosts() { Component::Authority } else { Component::Path };
        let mut path_template = path_template;
        if let Some(len) = scheme_len(path_template).filter(|_| self.is_prefix()) {
            let (scheme, rest) = path_template.split_at_checked(len).unwrap_or((path_template, ""));
            out.push_str(&scheme.to_ascii_lowercase());
            path_template = rest;
            if let Some(rest) = rest.strip_prefix("//") {
                out.push_str("//");
                (path_template, component) = (rest, Component::Authority);
            }
        }
        for piece in pieces(path_template) {
            match piece {
                Piece::Literal(literal) => {
                    let mut rest = literal;
                    while let Some((end, next)) = end_of(component, rest) {
                        let (part, behind) = rest.split_at_checked(end).unwrap_or((rest, ""));
                        normalize::push_normalized(&mut out, part, component);
                        (component, rest) = (next, behind);
                    }
                    normalize::push_normalized(&mut out, rest, component);
                }
                Piece::Expression(expression) => {
                    component = match (component, expression.chars().next()) {
                        (_, Some('?')) => Component::Query,
                        (Component::Authority | Component::AuthorityOrPath, Some('/')) => Component::Path,
                        // The value may contain a slash.
                        (Component::Authority, Some('+')) => Component::AuthorityOrPath,
                        (component, _) => component,
                    };
                    out.extend(["{", expression, "}"]);
                }
            }
        }
        out
    }

    /// Checks that the literals of a normalized path template follow the rules of paths.
    fn check_literals(&self, path_template: &str) -> Result<(), TemplateError> {
        // The common form of all expansions, with `{}` in place of variables.
        let outline: String = pieces(path_template)
            .map(|piece| match piece {
                Piece::Literal(literal) => literal,
                Piece::Expression(expression) if expression.starts_with('/') => "/{}",
                Piece::Expression(expression) if expression.starts_with('?') => "?{}",
                Piece::Expression(expression) if expression.starts_with('+') => "{+}",
                Piece::Expression(_) => "{}",
            })
            .collect();
        let (path, _) = normalize::split_query(&outline);
        if self.is_prefix() {
            return self.check_uri_literals(path_template, path);
        }
        if path.starts_with('/') {
            return Err(TemplateError::LeadingSlash);
        }
        if path.split('/').any(normalize::is_dot_segment) {
            return Err(TemplateError::DotSegment);
        }
        let host = path.split('/').flat_map(|segment| segment.split("{+}")).next().unwrap_or_default();
        if self.owns_all_hosts() && host.contains('@') {
            return Err(TemplateError::Host(PathError::UserInfo));
        }
        self.compose(literal_prefix(path_template)).map(drop).map_err(TemplateError::Host)
    }
}

impl Mount {
    /// Does the same below a mount `NAME+`, where templates are templates of URIs. `outline` has `{}` in place of
    /// variables, and no query.
    fn check_uri_literals(&self, template: &str, outline: &str) -> Result<(), TemplateError> {
        let scheme = scheme_len(outline).and_then(|len| outline.split_at_checked(len));
        let (scheme, rest) = scheme.ok_or(TemplateError::NoScheme)?;
        if rest.split('/').any(normalize::is_dot_segment) {
            return Err(TemplateError::DotSegment);
        }
        let authority = rest.strip_prefix("//").and_then(|rest| rest.split('/').next());
        if authority.is_some_and(|authority| authority.contains('@')) {
            return Err(TemplateError::Host(PathError::UserInfo));
        }
        // Every URI of the template begins with its literal up to the last slash.
        let literal = literal_prefix(template);
        let beginning = if literal.len() > scheme.len() { literal } else { scheme };
        self.compose(beginning).map(drop).map_err(TemplateError::Host)
    }
}

/// Returns the length of the scheme with its colon, if it is literal.
fn scheme_len(template: &str) -> Option<usize> {
    let literal = template.split(['{', '?']).next().unwrap_or_default();
    let (scheme, _) = literal.split_once(':').filter(|(scheme, _)| validate::scheme(scheme).is_ok())?;
    scheme.len().checked_add(1)
}

/// Returns the end of a component in a literal, and the next component.
fn end_of(component: Component, literal: &str) -> Option<(usize, Component)> {
    let ends: &[char] = match component {
        Component::Authority | Component::AuthorityOrPath => &['/', '?'],
        Component::Path => &['?'],
        Component::UserInfo | Component::Query => &[],
    };
    let (end, delimiter) = literal.char_indices().find(|(_, c)| ends.contains(c))?;
    Some((end, if delimiter == '/' { Component::Path } else { Component::Query }))
}

/// Checks that a text is a template by RFC 6570, within its bounds of length and variables, and without NUL.
pub(super) fn check(template: &str) -> Result<(), TemplateError> {
    if template.len() > MAX_URI_LEN {
        return Err(TemplateError::TooLong { len: template.len() });
    }
    if let Some((at, found)) = template.char_indices().find(|(_, c)| !c.is_ascii()) {
        return Err(CharacterError::Character { found, at }.into());
    }
    if let Some(at) = template.find("%00") {
        return Err(CharacterError::Nul { at }.into());
    }
    if let Err(error) = UriTemplateStr::new(template) {
        let reason = error.to_string();
        let reason = reason.strip_prefix("invalid URI template: ").unwrap_or(&reason).to_owned();
        return Err(TemplateError::Syntax { reason });
    }
    let expressions = pieces(template).filter_map(|piece| match piece {
        Piece::Literal(_) => None,
        Piece::Expression(expression) => Some(expression),
    });
    let mut count = 0_usize;
    for expression in expressions {
        count = count.saturating_add(variables(expression).count());
        if count > UriTemplate::MAX_VARIABLES {
            return Err(TemplateError::TooManyVariables);
        }
        if variables(expression).filter_map(|(_, prefix)| prefix).any(|prefix| !is_prefix_length(prefix)) {
            let expression = excerpt(expression);
            return Err(TemplateError::Prefix { expression });
        }
    }
    Ok(())
}

/// Returns the literal part of a valid template, up to its last slash.
pub(super) fn literal_prefix(template: &str) -> &str {
    let literal = template.split(['{', '?']).next().unwrap_or_default();
    let end = literal.split_inclusive('/').filter(|segment| segment.ends_with('/')).map(str::len).sum();
    literal.split_at_checked(end).map_or("", |(stem, _)| stem)
}

/// A part of a template (RFC 6570, section 2).
#[derive(Clone, Copy, Debug)]
enum Piece<'a> {
    /// Literal text.
    Literal(&'a str),
    /// The text between two braces.
    Expression(&'a str),
}

/// Splits a valid template into its parts.
fn pieces(template: &str) -> impl Iterator<Item = Piece<'_>> {
    template
        .split('{')
        .flat_map(|part| match part.split_once('}') {
            // Literals have no braces, so only the text before the first expression lacks one.
            None => [Some(Piece::Literal(part)), None],
            Some((expression, literal)) => [Some(Piece::Expression(expression)), Some(Piece::Literal(literal))],
        })
        .flatten()
}

/// Returns the variables of a valid expression, each with the length of its prefix modifier, if any.
fn variables(expression: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let list = expression.trim_start_matches(['+', '#', '.', '/', ';', '?', '&']);
    list.split(',').map(|variable| match variable.split_once(':') {
        Some((name, prefix)) => (name, Some(prefix)),
        None => (variable.trim_end_matches('*'), None),
    })
}

/// Returns whether this is `max-length` of RFC 6570, section 2.4.1.
fn is_prefix_length(digits: &str) -> bool {
    (1..=4).contains(&digits.len()) && !digits.starts_with('0')
}
