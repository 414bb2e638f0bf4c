//! The contract in wasmtime's generated types, and their conversion to the types of
//! [`provider`](mcp_host_model::provider).
//!
//! No other crate sees the generated types. A conversion validates nothing: it moves strings, bodies and lists, without
//! copies or allocations. It runs in one piece with lifting, which `limits.response-size` bounds.

use std::time::Duration;

use mcp_host_sandbox::state::GuestState;
use wasmtime::Store;
use wasmtime::component::InstancePre;

use mcp_host_model::provider::{
    Body, ChangeSet, Contents, Entry, Failure, Icon, Page, ProviderInfo, Template, TemplatePage,
};
use mcp_host_model::resource::{Argument, Completion, Role, Theme};

mod generated {
    #![allow(missing_docs, unreachable_pub, reason = "generated; the WIT files are the documentation")]
    wasmtime::component::bindgen!({
        path: "contract",
        inline: "
            package mcp-host:host;
            world plugin {
                export mcp-host:provider/resource-provider@0.1.1;
            }
        ",
        exports: { default: async },
    });
}

mod generated_prepare {
    #![allow(missing_docs, unreachable_pub, reason = "generated; the WIT files are the documentation")]
    wasmtime::component::bindgen!({
        path: "contract",
        inline: "
            package mcp-host:host;
            world preparing {
                export mcp-host:provider/prepare@0.1.1;
            }
        ",
        exports: { default: async },
    });
}

/// The interface that every provider exports.
pub(super) const CONTRACT: &str = "mcp-host:provider/resource-provider@0.1.1";
/// The interface that a provider may export for work that takes longer than a call.
pub(super) const PREPARE: &str = "mcp-host:provider/prepare@0.1.1";

pub(super) use generated::exports::mcp_host::provider::resource_provider as contract;
pub(super) use generated::{Plugin as Provider, PluginPre as ProviderPre};
pub(super) use generated_prepare::exports::mcp_host::provider::prepare;
pub(super) use generated_prepare::{Preparing, PreparingPre};

/// The exports of an instance.
pub(super) struct Exports {
    pub(super) provider: Provider,
    /// Only in an instance that was made for a preparation.
    pub(super) preparing: Option<Preparing>,
}

impl Exports {
    /// Instantiates a component. If the instance is for a preparation, also finds `prepare`.
    pub(super) async fn instantiate(
        pre: &ProviderPre<GuestState>,
        store: &mut Store<GuestState>,
        is_for_preparation: bool,
    ) -> wasmtime::Result<Self> {
        if !is_for_preparation {
            return Ok(Self { provider: pre.instantiate_async(store).await?, preparing: None });
        }
        let instance = pre.instance_pre().instantiate_async(&mut *store).await?;
        let preparing = Some(Preparing::new(&mut *store, &instance)?);
        Ok(Self { provider: Provider::new(store, &instance)?, preparing })
    }
}

/// Returns whether a provider exports `prepare`. Fails if the export of this name is something else.
pub(super) fn prepares(pre: &InstancePre<GuestState>) -> wasmtime::Result<bool> {
    if pre.component().get_export_index(None, PREPARE).is_none() {
        return Ok(false);
    }
    PreparingPre::new(pre.clone()).map(|_| true)
}

impl From<contract::ProviderInfo> for ProviderInfo {
    fn from(given: contract::ProviderInfo) -> Self {
        let contract::ProviderInfo { name, version, title, description, watches } = given;
        let mut info = Self::new(name, version).watches(watches);
        (info.title, info.description) = (title, description);
        info
    }
}

impl From<contract::Page> for Page {
    fn from(given: contract::Page) -> Self {
        Self { entries: into_all(given.entries), next_cursor: given.next_cursor }
    }
}

impl From<contract::TemplatePage> for TemplatePage {
    fn from(given: contract::TemplatePage) -> Self {
        Self { templates: into_all(given.templates), next_cursor: given.next_cursor }
    }
}

impl From<contract::Entry> for Entry {
    fn from(given: contract::Entry) -> Self {
        let (audience, priority, last_modified) = split(given.annotations);
        let mut entry = Self::new(given.path, given.name);
        entry.title = given.title;
        entry.description = given.description;
        entry.mime_type = given.mime_type;
        entry.size = given.size;
        entry.audience = audience;
        entry.priority = priority;
        entry.last_modified = last_modified;
        entry.icons = into_all(given.icons);
        entry.listable = given.listable;
        entry.subscribable = given.subscribable;
        entry.ttl = given.ttl_ms.map(Duration::from_millis);
        entry.meta = given.meta;
        entry
    }
}

impl From<contract::EntryTemplate> for Template {
    fn from(given: contract::EntryTemplate) -> Self {
        let (audience, priority, last_modified) = split(given.annotations);
        let mut template = Self::new(given.path_template, given.name);
        template.title = given.title;
        template.description = given.description;
        template.mime_type = given.mime_type;
        template.audience = audience;
        template.priority = priority;
        template.last_modified = last_modified;
        template.icons = into_all(given.icons);
        template.meta = given.meta;
        template
    }
}

impl From<contract::Icon> for Icon {
    fn from(given: contract::Icon) -> Self {
        let mut icon = Self::new(given.src);
        icon.mime_type = given.mime_type;
        icon.sizes = given.sizes;
        icon.theme = given.theme.map(|theme| match theme {
            contract::Theme::Light => Theme::Light,
            contract::Theme::Dark => Theme::Dark,
        });
        icon
    }
}

impl From<contract::Role> for Role {
    fn from(given: contract::Role) -> Self {
        match given {
            contract::Role::User => Self::User,
            contract::Role::Assistant => Self::Assistant,
        }
    }
}

impl From<contract::Contents> for Contents {
    fn from(given: contract::Contents) -> Self {
        let body = match given.body {
            contract::Body::Text(text) => Body::Text(text),
            contract::Body::TextBytes(bytes) => Body::TextBytes(bytes),
            contract::Body::Blob(bytes) => Body::Blob(bytes),
        };
        Self::from_parts(given.entry.into(), body)
    }
}

impl From<contract::Completion> for Completion {
    fn from(given: contract::Completion) -> Self {
        let contract::Completion { values, total, has_more } = given;
        Self { values, total, has_more }
    }
}

impl From<contract::ChangeSet> for ChangeSet {
    fn from(given: contract::ChangeSet) -> Self {
        let mut changes = Self::none(given.token);
        changes.changed = given.changed;
        changes.listing_changed = given.listing_changed;
        changes.poll_after = given.poll_after_ms.map(Duration::from_millis);
        changes
    }
}

/// The answer to `prepare`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The token of the next call; none when everything is prepared.
    pub next_token: Option<String>,
    /// The prepared part, in per cent.
    pub percent: Option<u8>,
    /// The progress so far, as text.
    pub message: Option<String>,
    /// The time after which everything must be prepared again.
    pub again_after: Option<Duration>,
}

impl From<prepare::Progress> for Progress {
    fn from(given: prepare::Progress) -> Self {
        let prepare::Progress { next_token, percent, message, again_after_ms } = given;
        Self { next_token, percent, message, again_after: again_after_ms.map(Duration::from_millis) }
    }
}

impl From<prepare::Failure> for Failure {
    fn from(given: prepare::Failure) -> Self {
        let prepare::Failure { reason, retry_after_ms } = given;
        Self::Unavailable { reason, retry_after: retry_after_ms.map(Duration::from_millis) }
    }
}

impl From<contract::Failure> for Failure {
    fn from(given: contract::Failure) -> Self {
        match given {
            contract::Failure::NotFound => Self::NotFound,
            contract::Failure::InvalidRequest(message) => Self::InvalidRequest(message),
            contract::Failure::Denied(message) => Self::Denied(message),
            contract::Failure::Unavailable(retry) => {
                Self::Unavailable { reason: retry.reason, retry_after: retry.after_ms.map(Duration::from_millis) }
            }
            contract::Failure::Internal(message) => Self::Internal(message),
        }
    }
}

impl From<&Argument> for contract::Argument {
    fn from(argument: &Argument) -> Self {
        Self { name: argument.name.clone(), value: argument.value.clone() }
    }
}

fn split(annotations: Option<contract::Annotations>) -> (Vec<Role>, Option<f64>, Option<String>) {
    annotations.map_or_else(Default::default, |given| (into_all(given.audience), given.priority, given.last_modified))
}

/// Converts a list in its own memory: the converted items are not larger.
pub(super) fn into_all<T, U: From<T>>(items: Vec<T>) -> Vec<U> {
    const { assert!(size_of::<U>() <= size_of::<T>() && align_of::<U>() == align_of::<T>()) };
    items.into_iter().map(U::from).collect()
}
