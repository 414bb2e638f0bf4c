//! The declaration of a resource, or of all resources of a template.

use std::time::Duration;

use super::{Args, Content, Item};
use crate::{Captures, Entry, Failure, PathTemplate, Result, Role, Template, path};

type Read<F> = Box<dyn Fn(&F, &Args) -> Result<Content>>;
type List<F> = Box<dyn Fn(&F) -> Result<Box<dyn Iterator<Item = Item>>>>;
type Fingerprint<F> = Box<dyn Fn(&F, &Args) -> Result<String>>;
type Complete<F> = Box<dyn Fn(&F, &str) -> Result<Vec<String>>>;

/// A function that reads one resource, or all resources of an RFC 6570 template.
pub struct Resource<F> {
    path_template: String,
    name: Option<String>,
    title: Option<String>,
    description: Option<String>,
    mime_type: Option<String>,
    audience: Vec<Role>,
    priority: Option<f64>,
    ttl: Option<Duration>,
    is_subscribable: bool,
    one_of: Vec<(String, Vec<String>)>,
    read: Read<F>,
    list: Option<List<F>>,
    fingerprint: Option<Fingerprint<F>>,
    complete: Vec<(String, Complete<F>)>,
}

impl<F> std::fmt::Debug for Resource<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resource").field("path_template", &self.path_template).finish_non_exhaustive()
    }
}

impl<F: 'static> Resource<F> {
    /// Declares the resource of a path, or all resources of a template, by the function that reads them.
    pub fn new<C: Into<Content>>(
        path_template: impl Into<String>,
        read: impl Fn(&F, &Args) -> Result<C> + 'static,
    ) -> Self {
        Self {
            path_template: path_template.into(),
            name: None,
            title: None,
            description: None,
            mime_type: None,
            audience: Vec::new(),
            priority: None,
            ttl: None,
            is_subscribable: true,
            one_of: Vec::new(),
            read: Box::new(move |provider, args| read(provider, args).map(Into::into)),
            list: None,
            fingerprint: None,
            complete: Vec::new(),
        }
    }

    /// Lists the resources of a template: values of its variable, files, or [`Item`]s, in any order that stays the same
    /// while the data do. Only the items that a page needs are taken from the iterator.
    #[must_use]
    pub fn list<I>(mut self, list: impl Fn(&F) -> Result<I> + 'static) -> Self
    where
        I: IntoIterator<Item: Into<Item>> + 'static,
    {
        self.list = Some(Box::new(move |provider| Ok(Box::new(list(provider)?.into_iter().map(Into::into)))));
        self
    }

    /// Sets a function that computes the fingerprint of a content, for resources that are expensive to read: a value
    /// that changes when the content changes. By default the fingerprint is the size and modification time of a file,
    /// or a digest of the content.
    #[must_use]
    pub fn fingerprint<S: ToString>(mut self, of: impl Fn(&F, &Args) -> Result<S> + 'static) -> Self {
        self.fingerprint = Some(Box::new(move |provider, args| of(provider, args).map(|state| state.to_string())));
        self
    }

    /// Sets the completion of a variable. `values` gets the typed text; only returned values with this prefix are used.
    #[must_use]
    pub fn complete(
        mut self,
        variable: impl Into<String>,
        values: impl Fn(&F, &str) -> Result<Vec<String>> + 'static,
    ) -> Self {
        self.complete.push((variable.into(), Box::new(values)));
        self
    }

    /// Declares all values of a variable. Requests with other values are invalid; completion offers these values.
    #[must_use]
    pub fn one_of<S: Into<String>>(mut self, variable: impl Into<String>, values: impl IntoIterator<Item = S>) -> Self {
        self.one_of.push((variable.into(), values.into_iter().map(Into::into).collect()));
        self
    }

    /// Sets the name for programs. Without it, it is made of the template.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the name for people.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets the description.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Sets the MIME type of what the function returns. Without it, it follows from the type of what is returned.
    #[must_use]
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }

    /// Sets the intended audience.
    #[must_use]
    pub fn audience(mut self, roles: impl IntoIterator<Item = Role>) -> Self {
        self.audience = roles.into_iter().collect();
        self
    }

    /// Sets the importance, from 0.0 to 1.0.
    #[must_use]
    pub fn priority(mut self, priority: f64) -> Self {
        self.priority = crate::priority::clamp(priority);
        self
    }

    /// Sets how long a reader may cache it.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Declares that clients cannot subscribe to it.
    #[must_use]
    pub fn not_subscribable(mut self) -> Self {
        self.is_subscribable = false;
        self
    }

    /// Parses the template. Checks that the declared variables exist, and that the text between variables is in the
    /// normal form of paths: the host normalizes paths, so other text would never match.
    pub(super) fn parse(&self) -> Result<PathTemplate> {
        let template = &self.path_template;
        let fault = |text: String| Err(Failure::internal(format!("the template {template:?} {text}")));
        let pattern = PathTemplate::parse(template)?;
        let declared = self.one_of.iter().map(|(name, _)| name).chain(self.complete.iter().map(|(name, _)| name));
        for name in declared {
            if pattern.variables().all(|variable| variable != name) {
                return fault(format!("has no variable {name:?}"));
            }
        }
        if template.starts_with('/') {
            return fault(format!("begins with a slash; write {:?}", template.trim_start_matches('/')));
        }
        let shape = shape(template);
        for segment in shape.split('/') {
            if segment == "." || segment == ".." {
                return fault(format!("has {segment:?}, which no path has"));
            }
            for literal in segment.split(['{', '}', '+']) {
                let encoded = path::decode_segment(literal).map(path::encode_segment);
                if encoded.as_deref() != Ok(literal) {
                    return fault(format!("has {literal:?}; paths have {:?}: write that", encoded.unwrap_or_default()));
                }
            }
        }
        if self.list.is_some() && self.path_variables(&pattern).next().is_none() {
            return fault("is one resource, which is listed by itself; remove the listing".to_owned());
        }
        Ok(pattern)
    }

    pub(super) fn args(&self, _: &PathTemplate, captures: Captures) -> Args {
        Args::new(captures, self.one_of.clone())
    }

    pub(super) fn call(&self, provider: &F, args: &Args) -> Result<Content> {
        (self.read)(provider, args)
    }

    pub(super) fn has_list(&self) -> bool {
        self.list.is_some()
    }

    /// Whether it is listed: it has a listing, or is one resource.
    pub(super) fn is_listed(&self, pattern: &PathTemplate) -> bool {
        self.list.is_some() || self.path_variables(pattern).next().is_none()
    }

    /// What is listed of it.
    pub(super) fn items(&self, provider: &F) -> Result<Box<dyn Iterator<Item = Item>>> {
        match &self.list {
            Some(list) => list(provider),
            None => Ok(Box::new(std::iter::once(Item::of::<String>([])))),
        }
    }

    pub(super) fn fingerprint_of(&self, provider: &F, args: &Args) -> Option<Result<String>> {
        self.fingerprint.as_ref().map(|of| of(provider, args))
    }

    /// The values that a function or a declaration has for a variable.
    pub(super) fn completed(&self, provider: &F, variable: &str, typed: &str) -> Option<Result<Vec<String>>> {
        if let Some((_, complete)) = self.complete.iter().find(|(name, _)| name == variable) {
            return Some(complete(provider, typed));
        }
        self.one_of.iter().find(|(name, _)| name == variable).map(|(_, values)| Ok(values.clone()))
    }

    /// The names of the variables before the query.
    pub(super) fn path_variables<'p>(&self, pattern: &'p PathTemplate) -> impl Iterator<Item = &'p str> + use<'p, F> {
        let path = pattern.as_str().split("{?").next().unwrap_or_default();
        path.split('{').skip(1).filter_map(|rest| rest.split('}').next()).map(|name| name.trim_start_matches('+'))
    }

    /// Returns its name: the one that is set, else the name of its template.
    pub(super) fn name_in(&self, pattern: &PathTemplate) -> String {
        if let Some(name) = &self.name {
            return name.clone();
        }
        let path = pattern.as_str().split("{?").next().unwrap_or_default();
        let literals: Vec<_> =
            path.split('{').map(|part| part.split_once('}').map_or(part, |(_, literal)| literal)).collect();
        let words: Vec<_> =
            literals.iter().flat_map(|literal| literal.split('/')).filter(|word| !word.is_empty()).collect();
        if words.is_empty() { pattern.variables().next().unwrap_or("resource").to_owned() } else { words.join("-") }
    }

    pub(super) fn template(&self, pattern: &PathTemplate) -> Template {
        let template = Template::new(pattern.as_str(), self.name_in(pattern)).audience(self.audience.iter().copied());
        Template {
            title: self.title.clone(),
            description: self.description.clone(),
            mime_type: self.mime_type.clone(),
            priority: self.priority,
            ..template
        }
    }

    /// The entry of a path. What is declared of a template describes the family.
    pub(super) fn entry(&self, pattern: &PathTemplate, path: &str, args: &Args) -> Entry {
        let names: Vec<_> = self.path_variables(pattern).filter_map(|name| args.get(name)).collect();
        let is_one = self.path_variables(pattern).next().is_none();
        let name = if names.is_empty() { self.name_in(pattern) } else { names.join("/") };
        Entry {
            title: self.title.clone().filter(|_| is_one),
            description: self.description.clone().filter(|_| is_one),
            mime_type: self.mime_type.clone(),
            priority: self.priority,
            ttl: self.ttl,
            subscribable: self.is_subscribable,
            ..Entry::new(path, name).audience(self.audience.iter().copied())
        }
    }
}

/// The template without the names of its variables, and without its query.
pub(super) fn shape(template: &str) -> String {
    let path = template.split("{?").next().unwrap_or_default();
    let mut shape = String::new();
    for (index, part) in path.split('{').enumerate() {
        match part.split_once('}') {
            Some((name, literal)) if index > 0 => {
                shape.push_str(if name.starts_with('+') { "{+}" } else { "{}" });
                shape.push_str(literal);
            }
            _ => shape.push_str(part),
        }
    }
    shape
}
