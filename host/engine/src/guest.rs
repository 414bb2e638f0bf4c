//! Typed calls into one instance, in the types of [`provider`](mcp_host_model::provider).

use mcp_host_model::provider::{ChangeSet, Contents, Entry, Failure, Page, ProviderInfo, TemplatePage};
use mcp_host_model::resource::{Argument, Completion};
use mcp_host_sandbox::state::GuestState;
use wasmtime::Store;

use super::bindings::contract;
use super::convert::into_all;

/// The result of a call: the trap that ended it, or the provider's answer.
pub(crate) type GuestResult<T> = wasmtime::Result<Result<T, Failure>>;

/// The exported functions of an instance, for one call.
pub(crate) struct Guest<'a> {
    exports: &'a contract::Guest,
    store: &'a mut Store<GuestState>,
}

impl<'a> Guest<'a> {
    pub(super) fn new(exports: &'a contract::Guest, store: &'a mut Store<GuestState>) -> Self {
        Self { exports, store }
    }

    pub(crate) async fn describe(self) -> GuestResult<ProviderInfo> {
        Ok(Ok(self.exports.call_describe(self.store).await?.into()))
    }

    pub(crate) async fn list_entries(
        self,
        parent: Option<&str>,
        cursor: Option<&str>,
        limit: u32,
    ) -> GuestResult<Page> {
        Ok(convert(self.exports.call_list_entries(self.store, parent, cursor, limit).await?))
    }

    pub(crate) async fn list_templates(self, cursor: Option<&str>) -> GuestResult<TemplatePage> {
        Ok(convert(self.exports.call_list_templates(self.store, cursor).await?))
    }

    pub(crate) async fn read(self, path: &str) -> GuestResult<Vec<Contents>> {
        let contents = self.exports.call_read(self.store, path).await?;
        Ok(contents.map(into_all).map_err(Failure::from))
    }

    pub(crate) async fn stat(self, path: &str) -> GuestResult<Entry> {
        Ok(convert(self.exports.call_stat(self.store, path).await?))
    }

    pub(crate) async fn complete(
        self,
        template: &str,
        argument: &Argument,
        known: &[Argument],
    ) -> GuestResult<Completion> {
        let known: Vec<_> = known.iter().map(contract::Argument::from).collect();
        Ok(convert(self.exports.call_complete(self.store, template, &argument.into(), &known).await?))
    }

    pub(crate) async fn changes(self, watched: &[String], since: Option<&str>) -> GuestResult<ChangeSet> {
        Ok(convert(self.exports.call_changes(self.store, watched, since).await?))
    }
}

fn convert<T, U: From<T>>(answer: Result<T, contract::Failure>) -> Result<U, Failure> {
    answer.map(U::from).map_err(Failure::from)
}
