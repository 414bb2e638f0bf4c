//! Providers of functions: each function reads one resource, or all resources of a template.
//!
//! A type that implements [`Functions`] is a [`Provider`]: with pages, templates, completion and changes.
//!
//! ```
//! use mcp_provider::functions::{Args, Content, Functions, Resource, files};
//! use mcp_provider::{Config, Info, Provider, Result, export};
//! use std::path::PathBuf;
//!
//! struct Folder {
//!     dir: PathBuf,
//! }
//!
//! impl Functions for Folder {
//!     fn info() -> Info {
//!         Info::new("folder", "0.1.0").description("The files of a folder.")
//!     }
//!
//!     fn new(config: &Config) -> Result<Self> {
//!         Ok(Self { dir: config.get("dir").unwrap_or("/data").into() })
//!     }
//!
//!     fn resources() -> Vec<Resource<Self>> {
//!         vec![
//!             Resource::new("{name}", Self::file).list(|folder| files(&folder.dir)),
//!             Resource::new("first/{name}{?lines}", Self::first_lines),
//!         ]
//!     }
//! }
//!
//! impl Folder {
//!     fn file(&self, of: &Args) -> Result<PathBuf> {
//!         of.file_in("name", &self.dir)
//!     }
//!
//!     fn first_lines(&self, of: &Args) -> Result<String> {
//!         let (file, lines) = (self.file(of)?, of.or("lines", 10)?);
//!         Ok(std::fs::read_to_string(file)?.split_inclusive('\n').take(lines).collect())
//!     }
//! }
//!
//! export!(Folder);
//!
//! let dir = tempfile::tempdir()?;
//! std::fs::write(dir.path().join("a b.md"), "one\ntwo\n")?;
//! let folder = Folder::open(&Config::from_pairs([("dir", dir.path().to_str().unwrap())]))?;
//! assert_eq!(folder.list(None, None, 10)?.entries[0].path, "a%20b.md");
//! assert_eq!(folder.read("first/a%20b.md?lines=1")?[0].as_text(), Some("one\n"));
//! # Ok::<(), mcp_provider::Failure>(())
//! ```
//!
//! | | |
//! |---|---|
//! | arguments | [`Args`]: each is converted where it is read; a value of another type is an invalid request that says what is expected. A missing or empty variable of the query is the default |
//! | results | [`Content`]: text, JSON, bytes, a file, or contents with metadata; none is not found |
//! | listing | any iterator of values, files, or [`Item`]s, in any order that stays the same while the data do, iterated as far as a page needs. A cursor has digests of the last paths: any instance continues |
//! | completion | by a function; else by [`Resource::one_of`]; else by the first listing with a variable of that name |
//! | changes | by the size and time of a file, or a digest of what is read, in the token; or by a function, [`Resource::fingerprint`] |
//!
//! If a template is invalid, or two templates have the same paths or names, every call fails, so any unit test finds
//! the mistake.

mod args;
mod content;
mod file;
mod item;
mod listing;
mod resource;
#[cfg(test)]
mod tests;

pub use args::Args;
pub use content::Content;
pub use file::{Memo, file_state, files};
pub use item::Item;
pub use resource::Resource;

use self::listing::Listed;
use crate::{
    Argument, Changes, Completion, Config, Contents, Entry, Failure, Info, Page, PathTemplate, Provider, Result,
    Template,
};

/// A provider of functions. It is a [`Provider`], and `export!` takes it.
pub trait Functions: Sized + 'static {
    /// Returns the provider's description. It reports changes, whatever the description says.
    fn info() -> Info;

    /// Opens the provider, before the first call of an instance.
    ///
    /// # Errors
    ///
    /// A failure is returned to the caller, and `new` is retried at the next call.
    fn new(config: &Config) -> Result<Self>;

    /// Returns the resources, in the order in which they are listed.
    fn resources() -> Vec<Resource<Self>>;
}

impl<F: Functions> Provider for F {
    fn describe() -> Info {
        F::info().watches(true)
    }

    fn open(config: &Config) -> Result<Self> {
        Table::<F>::new()?;
        F::new(config)
    }

    fn list(&self, parent: Option<&str>, cursor: Option<&str>, limit: usize) -> Result<Page> {
        if let Some(parent) = parent {
            self.stat(parent)?;
            return Err(Failure::invalid("expected no parent: this resource has no children"));
        }
        let table = Table::<F>::new()?;
        let listed: Vec<_> = table.0.iter().filter(|one| one.resource.is_listed(&one.pattern)).collect();
        listing::page(listed.len(), cursor, limit, |index| match listed.get(index) {
            Some(one) => one.listed(self),
            None => Ok(Box::new(std::iter::empty())),
        })
    }

    fn read(&self, path: &str) -> Result<Vec<Contents>> {
        let table = Table::<F>::new()?;
        let (one, args) = table.find(path)?;
        let content = one.resource.call(self, &args)?;
        content.into_contents(one.resource.entry(&one.pattern, path, &args))
    }

    fn stat(&self, path: &str) -> Result<Entry> {
        let table = Table::<F>::new()?;
        let (one, args) = table.find(path)?;
        let entry = one.resource.entry(&one.pattern, path, &args);
        match one.resource.call(self, &args)? {
            Content::File(file) => file::entry_of(entry, &file),
            content => {
                let contents = content.into_contents(entry)?;
                let found = contents.into_iter().map(|contents| contents.entry).find(|entry| entry.path == path);
                let template = one.pattern.as_str();
                found.ok_or_else(|| {
                    Failure::internal(format!(
                        "the function of {template:?} returned no content with the path {path:?}"
                    ))
                })
            }
        }
    }

    fn templates(&self) -> Vec<Template> {
        let all = Table::<F>::new().map(|table| table.0).unwrap_or_default();
        all.into_iter()
            .filter(|one| one.pattern.variables().next().is_some())
            .map(|one| one.resource.template(&one.pattern))
            .collect()
    }

    fn complete(&self, template: &str, argument: &Argument, known: &[Argument]) -> Result<Completion> {
        let table = Table::<F>::new()?;
        let Some(one) = table.0.iter().find(|one| one.pattern.as_str() == template) else {
            return Ok(Completion::default());
        };
        let (name, typed) = (argument.name.as_str(), argument.value.as_str());
        if let Some(values) = one.resource.completed(self, name, typed) {
            return Ok(Completion::matching(values?, typed));
        }
        let has_values = |one: &&Row<F>| {
            one.resource.has_list() && one.resource.path_variables(&one.pattern).any(|variable| variable == name)
        };
        let Some(lists) = std::iter::once(one).chain(&table.0).find(has_values) else {
            return Ok(Completion::default());
        };
        let mut values = Vec::new();
        for listed in lists.listed(self)? {
            let is_beside = known
                .iter()
                .filter(|known| known.name != name)
                .all(|known| listed.value(&known.name).is_none_or(|value| value == known.value));
            if let Some(value) = listed.value(name).filter(|_| is_beside) {
                values.push(value.to_owned());
            }
        }
        Ok(Completion::matching(values, typed))
    }

    fn changes(&self, watched: &[String], since: Option<&str>) -> Result<Changes> {
        let table = Table::<F>::new()?;
        let mut listing = Vec::new();
        for one in table.0.iter().filter(|one| one.resource.is_listed(&one.pattern)) {
            for listed in one.listed(self)? {
                listing.push(listed.state()?);
            }
        }
        listing.sort_unstable();
        Changes::compare(watched, since, &listing.join("\n"), |path| table.state(self, path))
    }
}

/// A resource with its template, parsed.
struct Row<F> {
    resource: Resource<F>,
    pattern: PathTemplate,
}

impl<F: Functions> Row<F> {
    /// What is listed of a resource. What its template cannot have is left out, with a warning in the log.
    fn listed<'a>(&'a self, provider: &F) -> Result<Box<dyn Iterator<Item = Listed<'a, F>> + 'a>> {
        let items = self.resource.items(provider)?;
        Ok(Box::new(items.filter_map(move |item| Listed::new(&self.resource, &self.pattern, item))))
    }
}

/// The resources of a provider.
struct Table<F>(Vec<Row<F>>);

impl<F: Functions> Table<F> {
    fn new() -> Result<Self> {
        let mut rows: Vec<Row<F>> = Vec::new();
        for resource in F::resources() {
            let pattern = resource.parse()?;
            for other in &rows {
                let (template, known) = (pattern.as_str(), other.pattern.as_str());
                if resource::shape(template) == resource::shape(known) {
                    let help = "give it other text, such as a first segment";
                    return Err(Failure::internal(format!("the paths of {template:?} are those of {known:?}; {help}")));
                }
                let name = resource.name_in(&pattern);
                if other.resource.name_in(&other.pattern) == name {
                    return Err(Failure::internal(format!(
                        "there is a resource named {name:?} already; give it another name"
                    )));
                }
            }
            rows.push(Row { resource, pattern });
        }
        Ok(Self(rows))
    }

    /// The resource of a path, with its arguments. A path without variables is preferred to templates.
    fn find(&self, path: &str) -> Result<(&Row<F>, Args)> {
        let (templates, paths): (Vec<_>, Vec<_>) =
            self.0.iter().partition(|one| one.resource.path_variables(&one.pattern).next().is_some());
        for one in paths.into_iter().chain(templates) {
            if let Some(captures) = one.pattern.matches(path) {
                return Ok((one, one.resource.args(&one.pattern, captures)));
            }
        }
        Err(Failure::NotFound)
    }

    /// What differs when the content of a path does; empty if there is no such resource.
    fn state(&self, provider: &F, path: &str) -> Result<String> {
        let state = self.find(path).and_then(|(one, args)| match one.resource.fingerprint_of(provider, &args) {
            Some(state) => state,
            None => one.resource.call(provider, &args)?.fingerprint(),
        });
        match state {
            Err(Failure::NotFound) => Ok(String::new()),
            Err(Failure::InvalidRequest(text) | Failure::Denied(text)) => Ok(text),
            state => state,
        }
    }
}
