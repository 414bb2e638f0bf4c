//! Calls whose answers come as the provider gave them, for tests of providers (`conformance`).
//!
//! They run under the plugin's limits and grants as all calls do. Nothing is dropped from their answers, and the circuit
//! breaker is not asked: a test makes calls that fail.

use mcp_host_model::provider::{ChangeSet, Contents, Entry, Page, ProviderInfo, TemplatePage};
use mcp_host_model::resource::{Argument, Completion};

use super::function::{Changes, Complete, Describe, Function, ListEntries, ListTemplates, Read, Stat};
use super::{Fault, Plugin};
use crate::CallOrigin;

/// The calls of a plugin without validation.
#[derive(Clone, Copy)]
pub struct Unvalidated<'p>(&'p Plugin);

impl Plugin {
    /// Its calls without validation.
    pub fn unvalidated(&self) -> Unvalidated<'_> {
        Unvalidated(self)
    }
}

impl Unvalidated<'_> {
    /// Calls `describe`.
    pub async fn describe(self) -> Result<ProviderInfo, Fault> {
        self.call(Describe).await
    }

    /// Calls `list`.
    pub async fn list(self, parent: Option<&str>, cursor: Option<&str>, limit: u32) -> Result<Page, Fault> {
        self.call(ListEntries { parent: parent.map(Into::into), cursor: cursor.map(Into::into), limit }).await
    }

    /// Calls `templates`.
    pub async fn templates(self, cursor: Option<&str>) -> Result<TemplatePage, Fault> {
        self.call(ListTemplates { cursor: cursor.map(Into::into) }).await
    }

    /// Calls `read`.
    pub async fn read(self, path: &str) -> Result<Vec<Contents>, Fault> {
        self.call(Read { path: path.into() }).await
    }

    /// Calls `stat`.
    pub async fn stat(self, path: &str) -> Result<Entry, Fault> {
        self.call(Stat { path: path.into() }).await
    }

    /// Calls `complete`.
    pub async fn complete(
        self,
        template: &str,
        argument: Argument,
        context: Vec<Argument>,
    ) -> Result<Completion, Fault> {
        self.call(Complete { template: template.to_owned(), argument, context }).await
    }

    /// Calls `changes`.
    pub async fn changes(self, watched: &[String], since: Option<&str>) -> Result<ChangeSet, Fault> {
        self.call(Changes { watched: watched.into(), since: since.map(str::to_owned) }).await
    }

    async fn call<F: Function>(self, function: F) -> Result<F::Answer, Fault> {
        self.0.dispatch(CallOrigin::Client, None, function, |_, answer| async move { Ok(answer) }).await
    }
}
