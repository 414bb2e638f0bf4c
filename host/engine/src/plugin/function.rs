//! The functions of the contract with their arguments, each called in a component or in a native provider.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use mcp_host_model::provider::{self, ChangeSet, Contents, Entry, Page, Provider, ProviderInfo, TemplatePage};
use mcp_host_model::resource::{Argument, Completion};

use crate::guest::{Guest, GuestResult};

/// A function of the contract with its arguments.
pub(super) trait Function: Send + 'static {
    /// Its name in the contract.
    const NAME: FunctionName;
    /// Its answer, before it is validated.
    type Answer: Send + 'static;

    /// Hashes the arguments that a client chose.
    fn hash_input(&self, _hasher: &mut impl Hasher) {}

    /// Calls it in an instance of a component.
    fn call_guest(self, guest: Guest<'_>) -> impl Future<Output = GuestResult<Self::Answer>> + Send;

    /// Calls it in a native provider.
    fn call_native(self, provider: &dyn Provider) -> impl Future<Output = provider::Result<Self::Answer>> + Send;
}

/// The name of a function of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FunctionName {
    Describe,
    ListEntries,
    ListTemplates,
    Read,
    Stat,
    Complete,
    Changes,
}

impl FunctionName {
    /// All functions, in the order of their numbers.
    pub(super) const ALL: [Self; 7] =
        [Self::Describe, Self::ListEntries, Self::ListTemplates, Self::Read, Self::Stat, Self::Complete, Self::Changes];

    /// The name in the contract.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Describe => "describe",
            Self::ListEntries => "list-entries",
            Self::ListTemplates => "list-templates",
            Self::Read => "read",
            Self::Stat => "stat",
            Self::Complete => "complete",
            Self::Changes => "changes",
        }
    }
}

/// `describe`.
pub(super) struct Describe;

impl Function for Describe {
    const NAME: FunctionName = FunctionName::Describe;
    type Answer = ProviderInfo;

    async fn call_guest(self, guest: Guest<'_>) -> GuestResult<ProviderInfo> {
        guest.describe().await
    }

    async fn call_native(self, provider: &dyn Provider) -> provider::Result<ProviderInfo> {
        Ok(provider.describe())
    }
}

/// `list-entries`.
pub(super) struct ListEntries {
    pub(super) parent: Option<Arc<str>>,
    pub(super) cursor: Option<Arc<str>>,
    pub(super) limit: u32,
}

impl Function for ListEntries {
    const NAME: FunctionName = FunctionName::ListEntries;
    type Answer = Page;

    fn hash_input(&self, hasher: &mut impl Hasher) {
        (&self.parent, &self.cursor).hash(hasher);
    }

    async fn call_guest(self, guest: Guest<'_>) -> GuestResult<Page> {
        guest.list_entries(self.parent.as_deref(), self.cursor.as_deref(), self.limit).await
    }

    async fn call_native(self, provider: &dyn Provider) -> provider::Result<Page> {
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        provider.list(self.parent.as_deref(), self.cursor.as_deref(), limit).await
    }
}

/// `list-templates`.
pub(super) struct ListTemplates {
    pub(super) cursor: Option<Arc<str>>,
}

impl Function for ListTemplates {
    const NAME: FunctionName = FunctionName::ListTemplates;
    type Answer = TemplatePage;

    fn hash_input(&self, hasher: &mut impl Hasher) {
        self.cursor.hash(hasher);
    }

    async fn call_guest(self, guest: Guest<'_>) -> GuestResult<TemplatePage> {
        guest.list_templates(self.cursor.as_deref()).await
    }

    /// A native provider has one page of templates.
    async fn call_native(self, provider: &dyn Provider) -> provider::Result<TemplatePage> {
        Ok(TemplatePage { templates: provider.templates().await?, next_cursor: None })
    }
}

/// `read`.
pub(super) struct Read {
    pub(super) path: Arc<str>,
}

impl Function for Read {
    const NAME: FunctionName = FunctionName::Read;
    type Answer = Vec<Contents>;

    fn hash_input(&self, hasher: &mut impl Hasher) {
        self.path.hash(hasher);
    }

    async fn call_guest(self, guest: Guest<'_>) -> GuestResult<Vec<Contents>> {
        guest.read(&self.path).await
    }

    async fn call_native(self, provider: &dyn Provider) -> provider::Result<Vec<Contents>> {
        provider.read(&self.path).await
    }
}

/// `stat`.
pub(super) struct Stat {
    pub(super) path: Arc<str>,
}

impl Function for Stat {
    const NAME: FunctionName = FunctionName::Stat;
    type Answer = Entry;

    fn hash_input(&self, hasher: &mut impl Hasher) {
        self.path.hash(hasher);
    }

    async fn call_guest(self, guest: Guest<'_>) -> GuestResult<Entry> {
        guest.stat(&self.path).await
    }

    async fn call_native(self, provider: &dyn Provider) -> provider::Result<Entry> {
        provider.stat(&self.path).await
    }
}

/// `complete`.
pub(super) struct Complete {
    pub(super) template: String,
    pub(super) argument: Argument,
    pub(super) context: Vec<Argument>,
}

impl Function for Complete {
    const NAME: FunctionName = FunctionName::Complete;
    type Answer = Completion;

    fn hash_input(&self, hasher: &mut impl Hasher) {
        self.template.hash(hasher);
        for argument in std::iter::once(&self.argument).chain(&self.context) {
            (&argument.name, &argument.value).hash(hasher);
        }
    }

    async fn call_guest(self, guest: Guest<'_>) -> GuestResult<Completion> {
        guest.complete(&self.template, &self.argument, &self.context).await
    }

    async fn call_native(self, provider: &dyn Provider) -> provider::Result<Completion> {
        provider.complete(&self.template, &self.argument, &self.context).await
    }
}

/// `changes`.
pub(super) struct Changes {
    pub(super) watched: Arc<[String]>,
    pub(super) since: Option<String>,
}

impl Function for Changes {
    const NAME: FunctionName = FunctionName::Changes;
    type Answer = ChangeSet;

    async fn call_guest(self, guest: Guest<'_>) -> GuestResult<ChangeSet> {
        guest.changes(&self.watched, self.since.as_deref()).await
    }

    async fn call_native(self, provider: &dyn Provider) -> provider::Result<ChangeSet> {
        provider.changes(&self.watched, self.since.as_deref()).await
    }
}
