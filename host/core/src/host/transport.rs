//! Calls for transports: the parts of a [`Host`] that protocol servers need in addition to the operations for every
//! application. The servers of this project use no others.
//!
//! | calls | for |
//! |---|---|
//! | [`Host::read_cached`], [`Host::list_cached`] | responses that are encoded once and served from the response cache |
//! | [`Host::list_bounded`] | pages for clients with less room |
//! | [`Host::is_uri`], [`Host::performed_operations`], [`Host::is_built_in`], [`Host::is_read_public`] | what a request is about, and whether its response may be shared between clients |
//! | [`Host::may_know_of_plugin`] | what a notification may name |
//! | [`Host::rates`], [`Host::record_listen`], [`Host::record_failed_login`] | limits and records over all transports |
//! | [`Host::transport_state`] | what the servers of a protocol share |
//! | [`Host::generations`], [`Host::stop_loading`] | what changes meanwhile |
//! | [`Host::nearest_mount`], [`Host::mount_of`], [`Host::is_listable`], [`Host::templates_at`], [`may_have_slash_hint`], [`slash_hint`] | hints after a failed request; they reveal no more than the principal may know, and are not recorded |

use std::any::Any;
use std::fmt::Display;
use std::sync::Arc;

use bytes::Bytes;
use mcp_host_config::Operation;
use mcp_host_model::resource::{Error, Listing, Resource, ResourceContents};
use mcp_host_model::uri::{RouteError, Uri};
use tokio::sync::watch;

use super::directory_index::split_cursor;
use super::resolve::not_found_if_empty;
use super::{Host, ListRequest, audit};
use crate::access::Principal;
use crate::access::rate::RequestRates;
use crate::audit::Facts;
use crate::catalog::{CachedEntries, PageRequest, may_see_listing};

pub use super::hint::{may_have_slash_hint, slash_hint};
use crate::response_cache::ViewId;
pub use crate::response_cache::{
    EncodedContents, EncodedResources, EncodedRun, EncodingForm, ListedResources, MAX_TTL, ReadResponse,
};

/// Bounds of a page in addition to the config's.
#[derive(Clone, Copy, Debug)]
pub struct PageBounds {
    /// The maximum number of items, at least 1.
    pub items: usize,
    /// The approximate maximum size of the items in bytes.
    pub bytes: usize,
}

impl PageBounds {
    /// Applies the bounds, if any, to a request with the config's bounds.
    pub(super) fn bound(bounds: Option<Self>, request: PageRequest<'_>) -> PageRequest<'_> {
        let Some(Self { items, bytes }) = bounds else { return request };
        PageRequest { size: request.size.min(items), max_bytes: request.max_bytes.min(bytes), ..request }
    }
}

impl Host {
    /// Reads a resource for a server, which encodes its contents in this form. Contents with a time to live are cached.
    pub async fn read_cached<E: Future<Output = Bytes>>(
        &self,
        principal: &Principal,
        uri: &str,
        form: EncodingForm,
        encode: impl FnOnce(Vec<ResourceContents>) -> E,
    ) -> Result<ReadResponse, Error> {
        let facts = Facts::default();
        self.audited(principal, Operation::Read, uri, &facts, async {
            let (uri, cursor) = split_cursor(uri);
            let now = self.generation_for(principal, Operation::Read, uri, &facts).await;
            let target = now.resolve(principal, Operation::Read, uri, &facts)?;
            if let Some(contents) = target.read_built_in(principal, &facts).await {
                return contents.map(ReadResponse::Contents);
            }
            let plugin = target.slot.loaded()?;
            let policy = target.policy.clone();
            // Access to the URI of the request has been decided already.
            let resolved = target.uri.clone();
            let is_visible = move |one: &Uri| *one == resolved || policy.allows(Operation::Read, one);
            let view = ViewId::of(&target.policy, plugin.mount());
            let response = plugin.read_cached(&target.path, form, view, is_visible, encode).await;
            match response.map_err(|fault| fault.into_client_error(plugin.name(), uri))? {
                ReadResponse::Contents(contents) => {
                    let contents = self.with_index(&now, principal, &target, cursor, contents).await?;
                    facts.set_contents(&target.uri, &contents);
                    not_found_if_empty(uri, contents).map(ReadResponse::Contents)
                }
                // Encoded contents are never a directory.
                ReadResponse::Encoded { .. } if cursor.is_some() => {
                    Err(Error::InvalidRequest { message: format!("{uri} has no index") })
                }
                ReadResponse::Encoded { contents, is_hit } => {
                    facts.set_bytes(contents.len);
                    facts.set_returned_with(&target.uri, contents.uris.iter());
                    facts.set_cached(is_hit);
                    Ok(ReadResponse::Encoded { contents, is_hit })
                }
            }
        })
        .await
    }

    /// Lists one page of the catalog for a server, which encodes resources in this form. Plugins' pages are cached if
    /// all resources on them have a time to live.
    pub async fn list_cached<E: Future<Output = EncodedResources>>(
        &self,
        principal: &Principal,
        cursor: Option<&str>,
        form: EncodingForm,
        encode: impl Fn(Vec<Resource>) -> E,
    ) -> Result<Listing<ListedResources>, Error> {
        let facts = Facts::default();
        self.audited(principal, Operation::List, "", &facts, async {
            let now = self.generation.load_full();
            facts.set_generation(now.number);
            let viewer = now.viewer(principal);
            let page_size = u32::try_from(now.config.server.page_size.get()).unwrap_or(u32::MAX);
            let source = CachedEntries::new(page_size, form, encode);
            let listing = self.catalog.page(&source, &now.slots, now.page_request(&viewer, cursor)).await?;
            facts.set_cached(!listing.items.is_empty() && !source.has_called());
            Ok(listing)
        })
        .await
    }

    /// Lists one page, as [`list`](Self::list) does, within tighter bounds than the config's.
    pub async fn list_bounded(
        &self,
        principal: &Principal,
        request: ListRequest<'_>,
        bounds: PageBounds,
    ) -> Result<Listing<Resource>, Error> {
        self.list_within(principal, request, Some(bounds)).await
    }

    /// Returns whether a text is a URI, whether or not a mount owns it.
    pub fn is_uri(&self, text: &str) -> bool {
        match self.generation.load().router.route(text) {
            Ok(_) | Err(RouteError::NoMount | RouteError::Path { .. }) => true,
            Err(_) => false,
        }
    }

    /// Returns the operations that a request for a URI or a template performs in addition to its own, because a
    /// built-in provider owns it. An access token needs their scopes, too.
    pub fn performed_operations(&self, uri: &str) -> &'static [Operation] {
        self.generation.load().built_in_of_scheme(uri).map_or(&[], |built_in| built_in.performed_operations())
    }

    /// Returns whether a built-in provider owns a URI.
    pub fn is_built_in(&self, uri: &str) -> bool {
        let now = self.generation.load();
        let slot = now.router.route(uri).ok().and_then(|routed| now.slots.get(*routed.target));
        slot.is_some_and(|slot| slot.built_in().is_some())
    }

    /// Returns whether the rules give every principal the same response to a read of this URI.
    pub fn is_read_public(&self, uri: &str) -> bool {
        self.is_public(Operation::Read) && self.generation.load().built_in_of_scheme(uri).is_none()
    }

    /// Returns whether a principal may know that a plugin exists: it may see something of the plugin's listing.
    pub fn may_know_of_plugin(&self, principal: &Principal, plugin: &str) -> bool {
        let now = self.generation.load();
        let policy = now.access.policy(principal);
        now.slots.iter().any(|slot| slot.name == plugin && may_see_listing(&policy, &slot.mount))
    }

    /// Returns state that protocol servers keep with this host: one value of each type, created by `Default`.
    pub fn transport_state<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        self.transport_state.get()
    }

    /// The rate limits of clients, over all transports.
    pub fn rates(&self) -> &RequestRates {
        &self.rates
    }

    /// Records that credentials of a client were not accepted, for this kind of reason.
    pub fn record_failed_login(&self, client: &dyn Display, reason: &'static str) {
        self.counters.record_failed_login(reason);
        self.audit.record_failed_login(&client.to_string(), reason);
    }

    /// Records that a client listens for notifications.
    ///
    /// # Errors
    ///
    /// The audit log has no space, and its config refuses requests then.
    pub fn record_listen(&self, principal: &Principal) -> Result<(), Error> {
        let facts = Facts::default();
        facts.set_generation(self.generation());
        self.begin_record(principal, audit::LISTEN, "", &facts)?.end(&Ok(()));
        Ok(())
    }

    /// Returns a receiver that is notified of each new generation: by a reload, or by a plugin that was loaded in the
    /// background.
    pub fn generations(&self) -> watch::Receiver<u64> {
        self.generation_store.subscribe()
    }

    /// Stops loading plugins: plugins that are being loaded count as failed, and requests that wait for them end.
    pub fn stop_loading(&self) {
        self.background_loader.stop();
    }
}
