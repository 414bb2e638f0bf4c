//! The template parser.

use super::{Parameter, Part, PathTemplate, TemplateError};
use iri_string::template::UriTemplateStr;

pub(super) fn parse(template: &str) -> Result<PathTemplate, TemplateError> {
    if !template.is_ascii() {
        let reason = "expected ASCII only; write other characters percent-encoded".to_owned();
        return Err(TemplateError::Syntax { template: template.to_owned(), reason });
    }
    UriTemplateStr::new(template).map_err(|error| syntax_error(template, &error))?;

    let mut parser = Parser { template, path: Vec::new(), query: Vec::new(), in_query: false, names: Vec::new() };
    let mut rest = template;
    while let Some((literal, behind)) = rest.split_once('{') {
        let Some((expression, behind)) = behind.split_once('}') else {
            break;
        };
        parser.literal(literal)?;
        parser.expression(expression)?;
        rest = behind;
    }
    parser.literal(rest)?;
    Ok(PathTemplate { text: template.to_owned(), path: parser.path, query: parser.query })
}

pub(super) fn syntax_error(template: &str, error: &iri_string::template::Error) -> TemplateError {
    TemplateError::Syntax { template: template.to_owned(), reason: error.to_string() }
}

struct Parser<'t> {
    template: &'t str,
    path: Vec<Part>,
    query: Vec<Parameter>,
    in_query: bool,
    names: Vec<&'t str>,
}

impl<'t> Parser<'t> {
    fn literal(&mut self, literal: &'t str) -> Result<(), TemplateError> {
        if literal.is_empty() {
            return Ok(());
        }
        if literal.contains('#') {
            return self.unmatchable("a path has no fragment; write `%23` for the character itself".to_owned());
        }
        if self.in_query {
            self.query_literal(literal);
            return Ok(());
        }
        let (path, query) = crate::path::split_query(literal);
        if !path.is_empty() {
            self.path.push(Part::Literal(path.to_owned()));
        }
        if let Some(query) = query {
            self.in_query = true;
            self.query_literal(query);
        }
        Ok(())
    }

    fn query_literal(&mut self, literal: &str) {
        let pairs = literal.strip_prefix('&').unwrap_or(literal).split('&');
        self.query.extend(pairs.map(|pair| Parameter::Literal(pair.to_owned())));
    }

    fn expression(&mut self, expression: &'t str) -> Result<(), TemplateError> {
        if expression.contains([':', '*']) {
            return self.unmatchable(format!("`{{{expression}}}` has a modifier; write the variable without it"));
        }
        match (expression.strip_prefix(['+', '?', '&']), expression.as_bytes().first()) {
            (Some(names), Some(b'?')) if !self.in_query => self.parameters(names),
            (Some(names), Some(b'&')) if self.in_query => self.parameters(names),
            (Some(name), Some(b'+')) if !self.in_query => self.variable(name, Part::Rest),
            (None, Some(first)) if !self.in_query && !b"#./;".contains(first) => {
                self.variable(expression, Part::Segment)
            }
            _ => self.unmatchable(format!(
                "`{{{expression}}}` is not supported; write `{{var}}` or `{{+var}}` before the query, `{{?var}}` to \
                 begin it and `{{&var}}` within it"
            )),
        }
    }

    fn variable(&mut self, name: &'t str, part: impl Fn(String) -> Part) -> Result<(), TemplateError> {
        if name.contains(',') {
            return self.unmatchable(format!("`{name}` lists several variables; write each in its own braces"));
        }
        if matches!(self.path.last(), Some(Part::Segment(_) | Part::Rest(_))) {
            return self
                .unmatchable(format!("`{{{name}}}` directly follows another variable; put a literal between them"));
        }
        self.path.push(part(name.to_owned()));
        self.name(name)
    }

    fn parameters(&mut self, names: &'t str) -> Result<(), TemplateError> {
        self.in_query = true;
        for name in names.split(',') {
            self.query.push(Parameter::Variable(name.to_owned()));
            self.name(name)?;
        }
        Ok(())
    }

    fn name(&mut self, name: &'t str) -> Result<(), TemplateError> {
        if self.names.contains(&name) {
            return self.unmatchable(format!("`{name}` occurs twice"));
        }
        self.names.push(name);
        Ok(())
    }

    fn unmatchable(&self, reason: String) -> Result<(), TemplateError> {
        Err(TemplateError::Unmatchable { template: self.template.to_owned(), reason })
    }
}
