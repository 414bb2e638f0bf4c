//! What is below a resource: listing it, and telling it apart from the resource itself.
//!
//! Providers say which of their resources can be listed. The host holds them to it: nothing is listed below any other, and
//! [`read_strict`](Host::read_strict) gives no contents of others with one.

use super::Host;
use super::resolve::not_found_if_empty;
use crate::access::Principal;
use crate::catalog::{Entries, PageRequest};
use crate::config::Operation;
use crate::plugin::Fault;
use crate::resource::{Contents, Entry, Error, Listing, ResourceCapabilities};

/// The type of a resource that only holds others.
const DIRECTORY_MIME_TYPE: &str = "inode/directory";

impl Host {
    /// One page of what is directly below a directory: a resource of the type `inode/directory` that can be listed.
    ///
    /// A resource that can be listed and is of another type has a content of its own; [`list`](Self::list) lists it too.
    pub async fn list_directory(
        &self,
        principal: &Principal,
        uri: &str,
        cursor: Option<&str>,
    ) -> Result<Listing<Entry>, Error> {
        self.list_children(principal, uri, cursor, |entry| {
            let is_directory = entry.listable && entry.mime_type.as_deref() == Some(DIRECTORY_MIME_TYPE);
            if is_directory { Ok(()) } else { Err("is not a directory") }
        })
        .await
    }

    /// Reads a resource as [`read`](Self::read) does, and nothing with it that is not below it: contents with other URIs
    /// come only with a resource that this principal can list (SEP-2093, "Multi-Content Semantics").
    ///
    /// A provider that gives others all the same breaks the contract: what is not of the resource is left out.
    pub async fn read_strict(&self, principal: &Principal, uri: &str) -> Result<Vec<Contents>, Error> {
        self.audited(principal, Operation::Read, uri, self.read_strict_inner(principal, uri)).await
    }

    async fn read_strict_inner(&self, principal: &Principal, uri: &str) -> Result<Vec<Contents>, Error> {
        let now = self.generation.load_full();
        let target = now.resolve(principal, Operation::Read, uri)?;
        let plugin = target.slot.loaded()?;
        let answer = |fault: Fault| fault.into_client_error(plugin.name(), uri);
        let contents = plugin.read(&target.path, now.read_filter(principal)).await.map_err(answer)?;
        let mut contents = not_found_if_empty(uri, contents)?;
        let is_own = |one: &Contents| one.entry.uri == target.uri;
        if contents.iter().all(is_own) {
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
        } else if !now.access.allows(principal, Operation::List, &target.uri) {
            contents.retain(is_own);
        }
        not_found_if_empty(uri, contents)
    }

    /// What a principal can do with a resource beside reading it.
    pub fn capabilities(&self, principal: &Principal, entry: &Entry) -> ResourceCapabilities {
        let now = self.generation.load();
        let may = |operation| now.access.allows(principal, operation, &entry.uri);
        ResourceCapabilities {
            list: entry.listable && may(Operation::List),
            subscribe: entry.subscribable && may(Operation::Subscribe) && may(Operation::Read),
        }
    }

    /// One page of what is directly below a resource, unless it is none whose children are listed, for that reason.
    pub(super) async fn list_children(
        &self,
        principal: &Principal,
        parent: &str,
        cursor: Option<&str>,
        check: impl FnOnce(&Entry) -> Result<(), &'static str>,
    ) -> Result<Listing<Entry>, Error> {
        self.audited(principal, Operation::List, parent, async {
            let now = self.generation.load_full();
            let target = now.resolve(principal, Operation::List, parent)?;
            let (entries, viewer) = (Entries { parent: Some(&target.path) }, now.viewer(principal));
            let page = PageRequest { scope: target.uri.as_str(), ..now.page_request(&viewer, cursor) };
            let listing = self.catalog.page(&entries, std::slice::from_ref(target.slot), page).await?;
            // Most providers refuse by themselves, and in words of their own: those come first.
            let entry = target.stat(parent).await?;
            match check(&entry) {
                Ok(()) => Ok(listing),
                Err(reason) => Err(Error::InvalidRequest { message: format!("{parent} {reason}") }),
            }
        })
        .await
    }
}
