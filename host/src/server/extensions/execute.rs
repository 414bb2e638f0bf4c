//! The execution of requests of extensions.

use rmcp::ErrorData;

use super::encode::ResultEncoder;
use super::request::{ExtensionRequest, ListParams, PageParams, UriParams};
use crate::access::Principal;
use crate::config::Extension;
use crate::host::{Host, ListRequest};
use crate::resource::{Error, Footprint, MissingPlugin};
use crate::server::error::to_rpc;
use crate::server::json::Encoder;
use crate::server::methods;
use crate::server::revision::Revision;
use crate::server::slash;

/// The outcome of a request of an extension.
pub(in crate::server) struct ExtensionOutcome {
    /// The result.
    pub(in crate::server) result: Encoder,
    /// The approximate memory that it takes.
    pub(in crate::server) footprint: usize,
    /// The plugins that are missing from it.
    pub(in crate::server) missing: Vec<MissingPlugin>,
}

/// Executes a request for that principal, in that revision.
pub(in crate::server) async fn execute(
    host: &Host,
    principal: &Principal,
    request: ExtensionRequest,
    revision: Revision,
) -> Result<ExtensionOutcome, ErrorData> {
    let to_rpc = |error: Error| to_rpc(&error, revision);
    let with_capabilities = host.config().server.extensions.contains(&Extension::Sep2093);
    let encoder = ResultEncoder { host, principal, revision, with_capabilities };
    let (listing, is_first) = match request {
        ExtensionRequest::List(ListParams { uri, cursor }) => {
            let request = ListRequest { parent: uri.as_deref(), cursor: cursor.as_deref() };
            (host.list(principal, request).await.map_err(to_rpc)?, cursor.is_none())
        }
        ExtensionRequest::Directory(ListParams { uri, cursor }) => {
            (host.list_directory(principal, &uri, cursor.as_deref()).await.map_err(to_rpc)?, cursor.is_none())
        }
        ExtensionRequest::Read(UriParams { uri }) => {
            let contents = match host.read_strict(principal, &uri).await {
                Ok(contents) => contents,
                Err(error) => return Err(slash::to_rpc_with_hint(host, principal, error, revision).await),
            };
            let footprint = contents.footprint();
            // What is read of a listable resource depends on the scopes of the token, and has cursors for its principal only.
            let is_public = host.is_read_public(&uri) && !contents.iter().any(|one| one.entry.listable);
            return Ok(ExtensionOutcome {
                result: encoder.read_result(contents, is_public),
                footprint,
                missing: Vec::new(),
            });
        }
        ExtensionRequest::Metadata(UriParams { uri }) => {
            let entry = host.metadata(principal, &uri).await.map_err(to_rpc)?;
            let footprint = entry.footprint();
            return Ok(ExtensionOutcome { result: encoder.metadata_result(entry), footprint, missing: Vec::new() });
        }
        ExtensionRequest::Skills(PageParams { cursor: None }) => {
            return Ok(ExtensionOutcome { result: encoder.empty_skills_result(), footprint: 0, missing: Vec::new() });
        }
        ExtensionRequest::Unknown(method) => return Err(methods::method_not_found(host, revision, &method)),
        // The only page is the first, so no cursor is valid.
        ExtensionRequest::Skills(PageParams { cursor: Some(_) }) => return Err(to_rpc(Error::InvalidCursor)),
        ExtensionRequest::Skill(UriParams { uri }) => {
            return Err(to_rpc(Error::InvalidRequest { message: format!("there is no skill {uri}") }));
        }
    };
    let (footprint, missing) = (listing.items.footprint(), listing.missing.clone());
    Ok(ExtensionOutcome { result: encoder.list_result(listing, is_first), footprint, missing })
}
