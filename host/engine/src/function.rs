//! The functions of the contract with their arguments, each called in a component or in a native provider.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use mcp_host_model::provider::{self, ChangeSet, Contents, Entry, Failure, Page, Provider, ProviderInfo, TemplatePage};
use mcp_host_model::resource::{Argument, Completion};
use mcp_host_sandbox::state::GuestState;
use serde_json::{Value, json};
use wasmtime::Store;

pub use crate::bindings::Progress;
use crate::bindings::{contract, into_all, prepare};
use crate::recording::answer::{self, optional};

/// A function of the contract with its arguments. Only the types of this module implement it.
pub trait Function: Clone + Send + 'static {
    /// Its name in the contract.
    const NAME: FunctionName;
    /// Its answer, before it is validated.
    type Answer: Send + 'static;

    /// Hashes the arguments that a client chose.
    #[doc(hidden)]
    fn hash_input(&self, _hasher: &mut impl Hasher) {}

    /// Returns the path that the call is about, for the log.
    #[doc(hidden)]
    fn path(&self) -> Option<&Arc<str>> {
        None
    }

    /// Returns its arguments, for a recording.
    #[doc(hidden)]
    fn arguments(&self) -> Value;

    /// Converts an answer, for a recording.
    #[doc(hidden)]
    fn answer_to_json(answer: &Self::Answer) -> Value;

    /// Calls it in an instance of a component.
    #[doc(hidden)]
    fn call_guest(self, guest: Guest<'_>) -> impl Future<Output = GuestResult<Self::Answer>> + Send;

    /// Calls it in a native provider.
    #[doc(hidden)]
    fn call_native(self, provider: &dyn Provider) -> impl Future<Output = provider::Result<Self::Answer>> + Send;
}

/// An instance of a component, for one call.
#[doc(hidden)]
pub struct Guest<'a> {
    pub(crate) exports: &'a contract::Guest,
    /// `prepare`, only in an instance that was made for a preparation.
    pub(crate) prepare: Option<&'a prepare::Guest>,
    pub(crate) store: &'a mut Store<GuestState>,
}

/// The result of a call in an instance: the trap that ended it, or the provider's response.
#[doc(hidden)]
pub type GuestResult<T> = wasmtime::Result<Result<T, Failure>>;

/// Converts an answer from the generated types.
fn convert<T, U: From<T>>(answer: Result<T, contract::Failure>) -> Result<U, Failure> {
    answer.map(U::from).map_err(Failure::from)
}

/// The name of a function of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FunctionName {
    /// `describe`.
    Describe,
    /// `list-entries`.
    ListEntries,
    /// `list-templates`.
    ListTemplates,
    /// `read`.
    Read,
    /// `stat`.
    Stat,
    /// `complete`.
    Complete,
    /// `changes`.
    Changes,
    /// `prepare`, in a separate interface.
    Prepare,
}

impl FunctionName {
    /// All functions, in the order of their numbers.
    pub(crate) const ALL: [Self; 8] = [
        Self::Describe,
        Self::ListEntries,
        Self::ListTemplates,
        Self::Read,
        Self::Stat,
        Self::Complete,
        Self::Changes,
        Self::Prepare,
    ];

    /// The name in the contract.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Describe => "describe",
            Self::ListEntries => "list-entries",
            Self::ListTemplates => "list-templates",
            Self::Read => "read",
            Self::Stat => "stat",
            Self::Complete => "complete",
            Self::Changes => "changes",
            Self::Prepare => "prepare",
        }
    }
}

/// `describe`.
#[derive(Clone, Debug)]
pub struct Describe;

impl Function for Describe {
    const NAME: FunctionName = FunctionName::Describe;
    type Answer = ProviderInfo;

    fn arguments(&self) -> Value {
        json!({})
    }

    fn answer_to_json(answer: &Self::Answer) -> Value {
        answer::provider_info(answer)
    }

    async fn call_guest(self, guest: Guest<'_>) -> GuestResult<ProviderInfo> {
        Ok(Ok(guest.exports.call_describe(guest.store).await?.into()))
    }

    async fn call_native(self, provider: &dyn Provider) -> provider::Result<ProviderInfo> {
        Ok(provider.describe())
    }
}

/// `list-entries`.
#[derive(Clone, Debug)]
pub struct ListEntries {
    /// The resource whose children are listed; none for the default listing.
    pub parent: Option<Arc<str>>,
    /// The cursor of the page; none for the first.
    pub cursor: Option<Arc<str>>,
    /// The maximum number of entries that the host can use.
    pub limit: u32,
}

impl Function for ListEntries {
    const NAME: FunctionName = FunctionName::ListEntries;
    type Answer = Page;

    fn hash_input(&self, hasher: &mut impl Hasher) {
        (&self.parent, &self.cursor).hash(hasher);
    }

    fn path(&self) -> Option<&Arc<str>> {
        self.parent.as_ref()
    }

    fn arguments(&self) -> Value {
        json!({ "parent": optional(self.parent.as_deref()), "cursor": optional(self.cursor.as_deref()), "limit": self.limit })
    }

    fn answer_to_json(answer: &Self::Answer) -> Value {
        answer::page(answer)
    }

    async fn call_guest(self, guest: Guest<'_>) -> GuestResult<Page> {
        let (parent, cursor) = (self.parent.as_deref(), self.cursor.as_deref());
        Ok(convert(guest.exports.call_list_entries(guest.store, parent, cursor, self.limit).await?))
    }

    async fn call_native(self, provider: &dyn Provider) -> provider::Result<Page> {
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        provider.list(self.parent.as_deref(), self.cursor.as_deref(), limit).await
    }
}

/// `list-templates`.
#[derive(Clone, Debug)]
pub struct ListTemplates {
    /// The cursor of the page; none for the first.
    pub cursor: Option<Arc<str>>,
}

impl Function for ListTemplates {
    const NAME: FunctionName = FunctionName::ListTemplates;
    type Answer = TemplatePage;

    fn hash_input(&self, hasher: &mut impl Hasher) {
        self.cursor.hash(hasher);
    }

    fn arguments(&self) -> Value {
        json!({ "cursor": optional(self.cursor.as_deref()) })
    }

    fn answer_to_json(answer: &Self::Answer) -> Value {
        answer::template_page(answer)
    }

    async fn call_guest(self, guest: Guest<'_>) -> GuestResult<TemplatePage> {
        Ok(convert(guest.exports.call_list_templates(guest.store, self.cursor.as_deref()).await?))
    }

    /// A native provider has one page of templates.
    async fn call_native(self, provider: &dyn Provider) -> provider::Result<TemplatePage> {
        Ok(TemplatePage { templates: provider.templates().await?, next_cursor: None })
    }
}

/// `read`.
#[derive(Clone, Debug)]
pub struct Read {
    /// The path of the resource.
    pub path: Arc<str>,
}

impl Function for Read {
    const NAME: FunctionName = FunctionName::Read;
    type Answer = Vec<Contents>;

    fn hash_input(&self, hasher: &mut impl Hasher) {
        self.path.hash(hasher);
    }

    fn path(&self) -> Option<&Arc<str>> {
        Some(&self.path)
    }

    fn arguments(&self) -> Value {
        json!({ "path": &*self.path })
    }

    fn answer_to_json(answer: &Self::Answer) -> Value {
        answer::contents(answer)
    }

    async fn call_guest(self, guest: Guest<'_>) -> GuestResult<Vec<Contents>> {
        let contents = guest.exports.call_read(guest.store, &self.path).await?;
        Ok(contents.map(into_all).map_err(Failure::from))
    }

    async fn call_native(self, provider: &dyn Provider) -> provider::Result<Vec<Contents>> {
        provider.read(&self.path).await
    }
}

/// `stat`.
#[derive(Clone, Debug)]
pub struct Stat {
    /// The path of the resource.
    pub path: Arc<str>,
}

impl Function for Stat {
    const NAME: FunctionName = FunctionName::Stat;
    type Answer = Entry;

    fn hash_input(&self, hasher: &mut impl Hasher) {
        self.path.hash(hasher);
    }

    fn path(&self) -> Option<&Arc<str>> {
        Some(&self.path)
    }

    fn arguments(&self) -> Value {
        json!({ "path": &*self.path })
    }

    fn answer_to_json(answer: &Self::Answer) -> Value {
        answer::entry(answer)
    }

    async fn call_guest(self, guest: Guest<'_>) -> GuestResult<Entry> {
        Ok(convert(guest.exports.call_stat(guest.store, &self.path).await?))
    }

    async fn call_native(self, provider: &dyn Provider) -> provider::Result<Entry> {
        provider.stat(&self.path).await
    }
}

/// `complete`.
#[derive(Clone, Debug)]
pub struct Complete {
    /// The path template.
    pub template: String,
    /// The variable and the text typed so far.
    pub argument: Argument,
    /// The values of other variables.
    pub context: Vec<Argument>,
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

    fn arguments(&self) -> Value {
        let pair = |argument: &Argument| json!([argument.name, argument.value]);
        let known: Vec<_> = self.context.iter().map(pair).collect();
        json!({ "template": self.template, "argument": pair(&self.argument), "known": known })
    }

    fn answer_to_json(answer: &Self::Answer) -> Value {
        answer::completion(answer)
    }

    async fn call_guest(self, guest: Guest<'_>) -> GuestResult<Completion> {
        let (argument, context) = ((&self.argument).into(), self.context.iter().map(Into::into).collect::<Vec<_>>());
        Ok(convert(guest.exports.call_complete(guest.store, &self.template, &argument, &context).await?))
    }

    async fn call_native(self, provider: &dyn Provider) -> provider::Result<Completion> {
        provider.complete(&self.template, &self.argument, &self.context).await
    }
}

/// `changes`.
#[derive(Clone, Debug)]
pub struct Changes {
    /// The paths.
    pub watched: Arc<[String]>,
    /// The token of an earlier answer.
    pub since: Option<String>,
}

impl Function for Changes {
    const NAME: FunctionName = FunctionName::Changes;
    type Answer = ChangeSet;

    fn arguments(&self) -> Value {
        json!({ "watched": *self.watched, "since": self.since })
    }

    fn answer_to_json(answer: &Self::Answer) -> Value {
        answer::change_set(answer)
    }

    async fn call_guest(self, guest: Guest<'_>) -> GuestResult<ChangeSet> {
        let since = self.since.as_deref();
        Ok(convert(guest.exports.call_changes(guest.store, &self.watched, since).await?))
    }

    async fn call_native(self, provider: &dyn Provider) -> provider::Result<ChangeSet> {
        provider.changes(&self.watched, self.since.as_deref()).await
    }
}

/// `prepare`.
#[derive(Clone, Debug)]
pub struct Prepare {
    /// The token of an earlier answer.
    pub token: Option<String>,
}

impl Function for Prepare {
    const NAME: FunctionName = FunctionName::Prepare;
    type Answer = Progress;

    fn arguments(&self) -> Value {
        json!({ "token": self.token })
    }

    fn answer_to_json(answer: &Self::Answer) -> Value {
        answer::progress(answer)
    }

    async fn call_guest(self, guest: Guest<'_>) -> GuestResult<Progress> {
        let prepare = guest.prepare.ok_or_else(|| wasmtime::Error::msg("it does not export `prepare`"))?;
        let answer = prepare.call_prepare(guest.store, self.token.as_deref()).await?;
        Ok(answer.map(Progress::from).map_err(Failure::from))
    }

    /// No native provider has this function.
    async fn call_native(self, _: &dyn Provider) -> provider::Result<Progress> {
        Ok(Progress { next_token: None, percent: None, message: None, again_after: None })
    }
}
