//! What a provider implements.

use crate::{Argument, Changes, Completion, Config, Contents, Entry, Failure, Info, Page, Result, Template};

/// What a provider implements: a type that holds what it needs to answer, and answers.
///
/// # Lifetime
///
/// [`describe`](Self::describe) is asked of the type. Before the first of the other calls to an instance of the
/// component, [`open`](Self::open) makes a value, which answers that call and any that follow. The host usually takes a
/// fresh instance for every call, and may drop one between any two: what must last lives outside. Calls never overlap. A
/// panic fails that one call.
///
/// # Paths
///
/// Every path comes percent-encoded and normalised, without dot segments, and must go back so; [`path`](crate::path) and
/// [`PathTemplate`](crate::PathTemplate) decode and encode.
pub trait Provider: Sized {
    /// Says what the provider is. It must work with no config and no grants.
    fn describe() -> Info;

    /// Makes the provider ready to answer.
    ///
    /// # Errors
    ///
    /// A failure is the answer to the call that needed it, and `open` is tried again at the next.
    fn open(config: &Config) -> Result<Self>;

    /// Lists the direct children of `parent`, or without one the resources that are useful to see first.
    ///
    /// `cursor` is the `next_cursor` of the page before. `limit`, at least 1, is how many entries are of use; fewer may be
    /// given.
    ///
    /// # Errors
    ///
    /// [`Failure::NotFound`] when there is no such parent; [`Failure::InvalidRequest`] when it is not listable, or the
    /// cursor is none of this provider's.
    fn list(&self, parent: Option<&str>, cursor: Option<&str>, limit: usize) -> Result<Page>;

    /// Reads a resource: at least one content. Several with the same path are several formats of it, the preferred first.
    ///
    /// # Errors
    ///
    /// [`Failure::NotFound`] when there is none; [`Failure::InvalidRequest`] when the path has no shape that this provider
    /// knows.
    fn read(&self, path: &str) -> Result<Vec<Contents>>;

    /// Tells about a resource. By default it is read, which can be dear; a provider that knows an entry without its content
    /// should say so here.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    fn stat(&self, path: &str) -> Result<Entry> {
        let contents = self.read(path)?;
        contents.into_iter().map(|contents| contents.entry).find(|entry| entry.path == path).ok_or_else(|| {
            Failure::internal(format!("reading {path:?} gave no content with that path, so `stat` must be implemented"))
        })
    }

    /// The families of resources that can be read by building a path. By default there are none.
    fn templates(&self) -> Vec<Template> {
        Vec::new()
    }

    /// Completes a variable of one of the [`templates`](Self::templates), which has that variable: this is checked
    /// before. By default nothing fits.
    ///
    /// # Errors
    ///
    /// That nothing fits is an empty answer, not a failure.
    fn complete(&self, template: &str, argument: &Argument, known: &[Argument]) -> Result<Completion> {
        let _ = (template, argument, known);
        Ok(Completion::default())
    }

    /// Tells which of the `watched` paths changed since a token, and whether the default listing did. Without a token
    /// nothing has changed yet, and the answer's token is where to start from. Asked only if [`Info::watches`]. By default
    /// nothing ever changes.
    ///
    /// # Errors
    ///
    /// A token that is not understood is no failure: see [`Changes::all`].
    fn changes(&self, watched: &[String], since: Option<&str>) -> Result<Changes> {
        let _ = (watched, since);
        Ok(Changes::none(""))
    }
}
