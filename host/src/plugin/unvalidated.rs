//! Calls whose answers come as the provider gave them, for tests of providers (`conformance`).
//!
//! They run under the plugin's limits and grants as all calls do. Nothing is dropped from their answers, and the circuit
//! breaker is not asked: a test makes calls that fail.

use super::function::{Changes, Complete, Describe, Function, ListEntries, ListTemplates, Read, Stat};
use super::{Fault, Plugin};
use crate::engine::CallOrigin;
use crate::provider::{ChangeSet, Contents, Entry, Page, ProviderInfo, TemplatePage};
use crate::resource::{Argument, Completion};

/// The calls of a plugin without validation.
#[derive(Clone, Copy)]
pub(crate) struct Unvalidated<'p>(&'p Plugin);

impl Plugin {
    /// Its calls without validation.
    pub(crate) fn unvalidated(&self) -> Unvalidated<'_> {
        Unvalidated(self)
    }
}

impl Unvalidated<'_> {
    pub(crate) async fn describe(self) -> Result<ProviderInfo, Fault> {
        self.call(Describe).await
    }

    pub(crate) async fn list(self, parent: Option<&str>, cursor: Option<&str>, limit: u32) -> Result<Page, Fault> {
        self.call(ListEntries { parent: parent.map(Into::into), cursor: cursor.map(Into::into), limit }).await
    }

    pub(crate) async fn templates(self, cursor: Option<&str>) -> Result<TemplatePage, Fault> {
        self.call(ListTemplates { cursor: cursor.map(Into::into) }).await
    }

    pub(crate) async fn read(self, path: &str) -> Result<Vec<Contents>, Fault> {
        self.call(Read { path: path.into() }).await
    }

    pub(crate) async fn stat(self, path: &str) -> Result<Entry, Fault> {
        self.call(Stat { path: path.into() }).await
    }

    pub(crate) async fn complete(
        self,
        template: &str,
        argument: Argument,
        context: Vec<Argument>,
    ) -> Result<Completion, Fault> {
        self.call(Complete { template: template.to_owned(), argument, context }).await
    }

    pub(crate) async fn changes(self, watched: &[String], since: Option<&str>) -> Result<ChangeSet, Fault> {
        self.call(Changes { watched: watched.into(), since: since.map(str::to_owned) }).await
    }

    async fn call<F: Function>(self, function: F) -> Result<F::Answer, Fault> {
        self.0.dispatch(CallOrigin::Client, function, |_, answer| async move { Ok(answer) }).await
    }
}
