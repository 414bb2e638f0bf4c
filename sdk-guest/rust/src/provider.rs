//! The trait that providers implement.

use crate::{Argument, Changes, Completion, Config, Contents, Entry, Failure, Info, Page, Result, Template};

/// The trait that a provider implements: a type that holds the state needed for its results.
///
/// # Lifetime
///
/// [`describe`](Self::describe) is a function of the type. Before the first other call to an instance of the
/// component, [`open`](Self::open) creates a value, which serves that call and all later ones. The host usually
/// creates a fresh instance for every call, and may drop one between any two: persistent state must be stored outside.
/// Calls never overlap. A panic fails only that call.
///
/// # Paths
///
/// Paths are percent-encoded and normalized, without dot segments, in both directions; [`path`](crate::path) and
/// [`PathTemplate`](crate::PathTemplate) decode and encode.
pub trait Provider: Sized {
    /// Returns the provider's description. It must work without config and grants.
    fn describe() -> Info;

    /// Opens the provider.
    ///
    /// # Errors
    ///
    /// A failure is returned to the caller, and `open` is retried at the next call.
    fn open(config: &Config) -> Result<Self>;

    /// Lists the direct children of `parent`, or without one the resources that are most useful at the top level.
    ///
    /// `cursor` is the `next_cursor` of the previous page. `limit`, at least 1, is the number of entries that the host
    /// can use; a page may have fewer.
    ///
    /// # Errors
    ///
    /// [`Failure::NotFound`] if the parent does not exist; [`Failure::InvalidRequest`] if it is not listable, or the
    /// cursor was not returned by this provider.
    fn list(&self, parent: Option<&str>, cursor: Option<&str>, limit: usize) -> Result<Page>;

    /// Reads a resource and returns at least one content. Several contents with the same path are alternative formats,
    /// preferred first.
    ///
    /// # Errors
    ///
    /// [`Failure::NotFound`] if the resource does not exist; [`Failure::InvalidRequest`] if the path has an unknown
    /// shape.
    fn read(&self, path: &str) -> Result<Vec<Contents>>;

    /// Returns the metadata of a resource. The default reads the resource, which can be expensive; override it if the
    /// metadata is available without the content.
    ///
    /// # Errors
    ///
    /// The errors of [`read`](Self::read).
    fn stat(&self, path: &str) -> Result<Entry> {
        let contents = self.read(path)?;
        contents.into_iter().map(|contents| contents.entry).find(|entry| entry.path == path).ok_or_else(|| {
            Failure::internal(format!("`read` returned no content with the path {path:?}; implement `stat`"))
        })
    }

    /// Returns the templates of the resources that can be read by building a path. None by default.
    fn templates(&self) -> Vec<Template> {
        Vec::new()
    }

    /// Completes a variable of one of the [`templates`](Self::templates). The SDK validates template and variable
    /// before the call. By default there are no candidates.
    ///
    /// # Errors
    ///
    /// Without matching candidates, return an empty completion, not a failure.
    fn complete(&self, template: &str, argument: &Argument, known: &[Argument]) -> Result<Completion> {
        let _ = (template, argument, known);
        Ok(Completion::default())
    }

    /// Returns which of the `watched` paths changed since a token, and whether the default listing changed. Without a
    /// token nothing has changed yet, and the returned token is the starting point. Called only if [`Info::watches`]
    /// is set. By default nothing ever changes.
    ///
    /// # Errors
    ///
    /// An unknown token is not a failure: see [`Changes::all`].
    fn changes(&self, watched: &[String], since: Option<&str>) -> Result<Changes> {
        let _ = (watched, since);
        Ok(Changes::none(""))
    }
}
