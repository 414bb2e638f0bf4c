//! Children of a resource: listing them, and separating their contents from the contents of the resource itself.
//!
//! Providers declare which of their resources are listable, and the host enforces it: other resources have no listing,
//! and [`read_strict`](Host::read_strict) returns only their own contents.

use mcp_host_config::Operation;
use mcp_host_engine::plugin::Fault;
use mcp_host_model::resource::{Error, Listing, Resource, ResourceCapabilities, ResourceContents};

use super::directory_index::split_cursor;
use super::resolve::{ResolvedTarget, not_found_if_empty};
use super::{Host, PageBounds};
use crate::access::{CredentialScopes, Principal};
use crate::audit::Facts;
use crate::catalog::{Entries, PageRequest, PluginSlot, may_see_listing};

/// How the URI of a mount is treated if the provider has no listable resource there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mounts {
    /// As a directory with the plugin's default listing. A provider need not have a resource at its root, and some have
    /// one without children. A client that knows only the mount, from a template or an error, can list it nevertheless.
    /// This needs the operation `list` on the URI of the mount, as for any resource.
    Listed,
    /// As any other URI, with or without a resource.
    Resources,
}

impl Host {
    /// Lists one page of the direct children of a directory: a listable resource of the type `inode/directory`.
    ///
    /// A listable resource of another type has its own content; [`list`](Self::list) lists its children, too.
    #[doc(hidden)]
    pub async fn list_directory(
        &self,
        principal: &Principal,
        uri: &str,
        cursor: Option<&str>,
    ) -> Result<Listing<Resource>, Error> {
        self.list_children(principal, uri, cursor, None, Mounts::Resources, |entry| {
            if entry.is_directory() { Ok(()) } else { Err("is not a directory") }
        })
        .await
    }

    /// Reads a resource as [`read`](Self::read) does, but returns contents with other URIs only if the resource is
    /// listable for the principal (SEP-2093, "Multi-Content Semantics").
    ///
    /// A provider that returns other contents nevertheless breaks the contract: they are dropped, and the fault is
    /// counted.
    #[doc(hidden)]
    pub async fn read_strict(&self, principal: &Principal, uri: &str) -> Result<Vec<ResourceContents>, Error> {
        let facts = Facts::default();
        let reading = self.read_strict_inner(principal, uri, &facts);
        self.audited(principal, Operation::Read, uri, &facts, reading).await
    }

    async fn read_strict_inner(
        &self,
        principal: &Principal,
        uri: &str,
        facts: &Facts,
    ) -> Result<Vec<ResourceContents>, Error> {
        let (uri, cursor) = split_cursor(uri);
        let now = self.generation_for(principal, Operation::Read, uri, facts).await;
        let target = now.resolve(principal, Operation::Read, uri, facts)?;
        if let Some(contents) = target.read_built_in(principal, facts).await {
            return contents;
        }
        let plugin = target.slot.loaded()?;
        let answer = |fault: Fault| fault.into_client_error(plugin.name(), uri);
        let contents = plugin.read(&target.path, target.read_filter()).await.map_err(answer)?;
        let mut contents = not_found_if_empty(uri, contents)?;
        target.hide_denied_parts(&mut contents);
        let is_own = |one: &ResourceContents| one.entry.uri == target.uri;
        if contents.iter().all(is_own) {
            let contents = self.with_index(&now, principal, &target, cursor, contents).await?;
            facts.set_contents(&target.uri, &contents);
            return Ok(contents);
        }
        let listable = match contents.iter().find(|one| is_own(one)) {
            Some(own) => own.entry.listable,
            None => plugin.stat(&target.path).await.map_err(answer)?.listable,
        };
        if !listable {
            let path = &target.path;
            let fault = Fault::Contract(format!("reading `{path}`, which cannot be listed, gave contents of others"));
            plugin.record_fault("read", &fault);
            contents.retain(is_own);
            if contents.is_empty() {
                return Err(answer(fault));
            }
        } else if !(CredentialScopes::current_include(Operation::List)
            && target.policy.allows(Operation::List, &target.uri))
        {
            contents.retain(is_own);
        }
        let contents = self.with_index(&now, principal, &target, cursor, contents).await?;
        facts.set_contents(&target.uri, &contents);
        not_found_if_empty(uri, contents)
    }

    /// Returns what a principal can do with a resource besides reading it.
    #[doc(hidden)]
    pub fn capabilities(&self, principal: &Principal, entry: &Resource) -> ResourceCapabilities {
        let policy = self.policy(principal);
        ResourceCapabilities {
            list: entry.listable && policy.allows(Operation::List, &entry.uri),
            subscribe: entry.subscribable && policy.allows_updates(&entry.uri),
        }
    }

    /// Lists one page of the plugin that is mounted at the prefix `text` (`NAME+`), which is not a URI. `None` if there
    /// is no such mount, or the principal may see nothing of it.
    pub(super) async fn list_prefix_mount(
        &self,
        principal: &Principal,
        text: &str,
        cursor: Option<&str>,
        bounds: Option<PageBounds>,
    ) -> Option<Result<Listing<Resource>, Error>> {
        let now = self.generation.load_full();
        let is_meant = |slot: &&PluginSlot| slot.mount.is_prefix() && slot.mount.as_str() == text;
        let visible = |slot: &&PluginSlot| may_see_listing(&now.viewer(principal).policy, &slot.mount);
        let name = now.slots.iter().find(is_meant).filter(visible)?.name.clone();
        let facts = Facts::default();
        let listing = self.audited(principal, Operation::List, text, &facts, async {
            let now = if now.is_loading { self.generation_with(&name).await } else { now };
            facts.set_generation(now.number);
            let viewer = now.viewer(principal);
            let visible = |slot: &&PluginSlot| may_see_listing(&viewer.policy, &slot.mount);
            let not_found = || Error::NotFound { uri: text.to_owned() };
            let slot = now.slots.iter().find(is_meant).filter(visible).ok_or_else(not_found)?;
            facts.set_plugin(&slot.name);
            let page = PageRequest { scope: text, ..now.page_request(&viewer, cursor) };
            self.catalog
                .page(&Entries { parent: None }, std::slice::from_ref(slot), PageBounds::bound(bounds, page))
                .await
        });
        Some(listing.await)
    }

    /// Lists one page of the direct children of a resource, unless `check` rejects the resource with a reason.
    pub(super) async fn list_children(
        &self,
        principal: &Principal,
        parent: &str,
        cursor: Option<&str>,
        bounds: Option<PageBounds>,
        mounts: Mounts,
        check: impl FnOnce(&Resource) -> Result<(), &'static str>,
    ) -> Result<Listing<Resource>, Error> {
        let facts = Facts::default();
        self.audited(principal, Operation::List, parent, &facts, async {
            let now = self.generation_for(principal, Operation::List, parent, &facts).await;
            let target = now.resolve(principal, Operation::List, parent, &facts)?;
            let (entries, viewer) = (Entries { parent: Some(&target.path) }, now.viewer(principal));
            let page = PageRequest { scope: target.uri.as_str(), ..now.page_request(&viewer, cursor) };
            let page = PageBounds::bound(bounds, page);
            if mounts == Mounts::Listed && target.is_bare_mount(parent).await? {
                return self.catalog.page(&Entries { parent: None }, std::slice::from_ref(target.slot), page).await;
            }
            let listing = self.catalog.page(&entries, std::slice::from_ref(target.slot), page).await?;
            // Most providers reject the resource themselves; their message takes precedence.
            let entry = target.stat(parent).await?;
            match check(&entry) {
                Ok(()) => Ok(listing),
                Err(reason) => Err(Error::InvalidRequest { message: format!("{parent} {reason}") }),
            }
        })
        .await
    }
}

impl ResolvedTarget<'_> {
    /// Returns whether this is the URI of a mount without children of its own. Errors name `requested_uri`, the URI in
    /// the client's spelling.
    async fn is_bare_mount(&self, requested_uri: &str) -> Result<bool, Error> {
        if !self.path.as_str().is_empty() {
            return Ok(false);
        }
        let plugin = self.slot.loaded()?;
        match plugin.stat(&self.path).await {
            Ok(entry) => Ok(!entry.listable),
            Err(Fault::NotFound | Fault::InvalidRequest(_)) => Ok(true),
            Err(fault) => Err(fault.into_client_error(plugin.name(), requested_uri)),
        }
    }
}
